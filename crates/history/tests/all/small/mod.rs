//! Small histories by number: of a log that behaves, and then perhaps with one thing changed.

use history::{Action, Extent, Operation};

/// splitmix64: the same number makes the same history everywhere.
pub struct Chance(pub u64);

impl Chance {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// Every operation happens at a moment of its own and is seen to last a little longer.
pub fn history(number: u64, steps: u64) -> Vec<Operation> {
    let mut chance = Chance(number);
    let mut history = Vec::new();
    let mut output: Vec<(u32, u64)> = Vec::new();
    let mut held = [0u64; 2];
    for step in 1..=steps {
        let moment = 10 * step;
        let mut times = || {
            let before = chance.below(16);
            (moment.saturating_sub(before), moment + chance.below(16))
        };
        let (invoked, completed) = times();
        let client = step as u32;
        let action = match chance.below(5) {
            0..=1 => {
                let chain = chance.below(2) as usize;
                let (from, count) = (held[chain], 1 + chance.below(2));
                held[chain] += count;
                let to = held[chain];
                // The last ones of a chain may never have taken effect.
                let lost = step + 2 > steps && chance.one_in(3);
                if !lost {
                    output.extend((from..to).map(|position| (chain as u32 + 1, position)));
                }
                let completed = (!lost && !chance.one_in(5)).then_some(completed);
                let chain = chain as u32 + 1;
                history.push(Operation {
                    client,
                    action: Action::Append { chain, from, to },
                    invoked,
                    completed,
                });
                if lost {
                    break;
                }
                continue;
            }
            2..=3 => {
                let length = output.len() as u64;
                let from = match chance.one_in(3) {
                    true => chance.below(3).min(length),
                    false => 0,
                };
                let seen = extents(&output[from as usize..]);
                Action::Read { from, length, seen }
            }
            _ => {
                let length = chance.below(output.len() as u64 + 1) as usize;
                let from = chance.below(length as u64 + 1) as usize;
                let seen = extents(&output[from..length]);
                let from = from as u64;
                Action::Peek { from, seen }
            }
        };
        history.push(Operation {
            client,
            action,
            invoked,
            completed: Some(completed),
        });
    }
    if !chance.one_in(3) {
        spoil(&mut history, &mut chance);
    }
    history
}

fn extents(bytes: &[(u32, u64)]) -> Vec<Extent> {
    let mut extents: Vec<Extent> = Vec::new();
    for (chain, position) in bytes {
        match extents.last_mut() {
            Some(last) if last.chain == *chain && last.to == *position => last.to += 1,
            _ => extents.push(Extent {
                chain: *chain,
                from: *position,
                to: position + 1,
            }),
        }
    }
    extents
}

/// Changes one thing, which may make the history impossible or not.
fn spoil(history: &mut [Operation], chance: &mut Chance) {
    if history.is_empty() {
        return;
    }
    let index = chance.below(history.len() as u64) as usize;
    let operation = &mut history[index];
    match (chance.below(4), &mut operation.action) {
        (0, _) => {
            let later = 10 + chance.below(50);
            operation.invoked += later;
            if let Some(completed) = &mut operation.completed {
                *completed += later;
            }
        }
        (1, _) => {
            let earlier = (10 + chance.below(50)).min(operation.invoked);
            operation.invoked -= earlier;
            if let Some(completed) = &mut operation.completed {
                *completed -= earlier;
            }
        }
        (2, Action::Read { length, seen, .. }) => {
            if let Some(last) = seen.last_mut() {
                last.to -= 1;
                *length -= 1;
                seen.retain(|extent| extent.from < extent.to);
            }
        }
        (_, Action::Read { seen, .. } | Action::Peek { seen, .. }) => {
            if let Some(first) = seen.first_mut() {
                first.chain = 3 - first.chain;
            }
        }
        (_, Action::Append { .. }) => operation.completed = None,
    }
}
