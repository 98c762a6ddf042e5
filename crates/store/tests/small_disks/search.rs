//! Every combination of the possible words of the blocks.

use std::fmt;

use store::Replay;
use store::recovery::{Depth, Stop, Verdict, decide};

use super::blocks::{Kind, World};
use super::judge::{Judge, Witness};
use super::writer::{Moment, Script, Truth, live};

/// The number of states of one moment: with all blocks damaged at once if they are so few, else with as many
/// at once as there is room for.
#[derive(Clone, Copy)]
pub struct Budget {
    pub states_per_moment: u64,
    /// The number of blocks up to which all are damaged in every way.
    pub blocks_in_every_way: usize,
}

impl Budget {
    pub const TEST: Budget = Budget {
        states_per_moment: 100_000,
        blocks_in_every_way: 6,
    };
    #[allow(
        dead_code,
        reason = "for rules that are broken on purpose, one after the other"
    )]
    pub const SMALL: Budget = Budget {
        states_per_moment: 40_000,
        ..Budget::TEST
    };
}

#[derive(Clone, Copy, Default)]
pub struct Counts {
    pub moments: u64,
    pub states: u64,
    pub refused: u64,
    pub doubts: u64,
    pub set_aside: u64,
    /// Verdicts by which the log would go on in its last segment.
    pub resting: u64,
    /// States of a crash alone.
    pub honest: u64,
}

impl Counts {
    pub fn add(&mut self, other: &Counts) {
        self.moments += other.moments;
        self.states += other.states;
        self.refused += other.refused;
        self.doubts += other.doubts;
        self.set_aside += other.set_aside;
        self.resting += other.resting;
        self.honest += other.honest;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} states of {} moments: {} crashes alone, {} refused, {} in doubt, {} with a segment put aside, {} at rest",
            self.states,
            self.moments,
            self.honest,
            self.refused,
            self.doubts,
            self.set_aside,
            self.resting
        )
    }
}

/// Searches for a disk whose verdict is wrong.
pub fn search(script: &Script, budget: Budget) -> Result<Counts, String> {
    search_life(script, &live(script), budget).map_err(|(_, found)| found)
}

/// As `search`; with the number of states it took.
pub fn search_life(
    script: &Script,
    life: &(Vec<Moment>, Truth),
    budget: Budget,
) -> Result<Counts, (u64, String)> {
    let (moments, truth) = life;
    let mut counts = Counts::default();
    let mut before: Option<&Moment> = None;
    for moment in moments {
        let is_same = before.is_some_and(|before| {
            before.files == moment.files
                && before.in_flight == moment.in_flight
                && before.told.len() == moment.told.len()
        });
        before = Some(moment);
        if is_same || moment.files.is_empty() {
            continue;
        }
        counts.moments += 1;
        let mut search = Search {
            world: World::of(moment),
            judge: Judge { moment, truth },
            counts: &mut counts,
        };
        let damaged_max = search.damaged_max(budget);
        let found = search.choose(0, damaged_max);
        if let Err((what, disk)) = found {
            let found = format!(
                "{}, in act {} of {:?}: {what}\n{disk}",
                script.name, moment.after, script.acts
            );
            return Err((counts.states, found));
        }
    }
    Ok(counts)
}

struct Search<'a> {
    world: World,
    judge: Judge<'a>,
    counts: &'a mut Counts,
}

impl Search<'_> {
    /// The number of blocks damaged at once.
    fn damaged_max(&self, budget: Budget) -> usize {
        let places = &self.world.places;
        if places.len() <= budget.blocks_in_every_way {
            return places.len();
        }
        // The states, by the number of damaged blocks.
        let mut states = vec![1u64];
        for place in places {
            let damaged = place.variants.iter().filter(|v| v.kind.is_damage()).count() as u64;
            let others = place.variants.len() as u64 - damaged;
            let mut next = vec![0u64; states.len() + 1];
            for (count, of) in states.iter().enumerate() {
                next[count] = next[count].saturating_add(of.saturating_mul(others));
                next[count + 1] = next[count + 1].saturating_add(of.saturating_mul(damaged));
            }
            states = next;
        }
        let mut sum = 0u64;
        let fits = states.iter().take_while(|of| {
            sum = sum.saturating_add(**of);
            sum <= budget.states_per_moment
        });
        fits.count().saturating_sub(1).max(1)
    }

    fn choose(&mut self, place: usize, damaged_left: usize) -> Result<(), (String, String)> {
        if place == self.world.places.len() {
            return self
                .judge(damaged_left)
                .map_err(|what| (what, self.world.shown()));
        }
        for choice in 0..self.world.places[place].variants.len() {
            let kind = self.world.places[place].variants[choice].kind;
            if kind.is_damage() && damaged_left == 0 {
                continue;
            }
            self.world.choice[place] = choice;
            let left = damaged_left - usize::from(kind.is_damage());
            self.choose(place + 1, left)?;
        }
        self.world.choice[place] = 0;
        Ok(())
    }

    fn chosen(&self) -> impl Iterator<Item = (Kind, u64, Option<u64>)> + '_ {
        let places = self.world.places.iter().zip(&self.world.choice);
        places.map(|(place, choice)| {
            let variant = &place.variants[*choice];
            (variant.kind, variant.testifies, place.record)
        })
    }

    fn witness(&self) -> Witness {
        let durable = self
            .chosen()
            .filter(|(kind, _, _)| !kind.is_silent_damage());
        let durable = durable
            .map(|(_, testifies, _)| testifies)
            .max()
            .unwrap_or(0);
        let lost = self.chosen().filter(|(kind, _, _)| kind.is_silent_damage());
        let lost = lost.filter_map(|(_, _, record)| record.filter(|number| *number > durable));
        let written = self.chosen().filter_map(|(_, _, record)| record);
        Witness {
            durable,
            oldest: written.min().unwrap_or(0),
            lost: lost.min(),
        }
    }

    fn judge(&mut self, _: usize) -> Result<(), String> {
        self.counts.states += 1;
        let is_honest = !self.chosen().any(|(kind, _, _)| kind.is_damage());
        self.counts.honest += u64::from(is_honest);
        let numbers = self.world.numbers.clone();
        let first = self.decide(&numbers)?;
        let (verdict, checkpoint) = match first {
            Ok(found) => found,
            Err(refusal) => {
                self.counts.refused += 1;
                // Nothing was told before the first record was durable.
                return match is_honest && !self.judge.moment.told.is_empty() {
                    true => Err(format!("a crash alone is refused: {refusal}")),
                    false => Ok(()),
                };
            }
        };
        self.judge.denies(&verdict, &checkpoint, self.witness())?;
        if is_honest {
            self.judge.calls_damage(&verdict)?;
        }
        if verdict.resting().is_some() {
            self.counts.resting += 1;
            self.goes_on_behind_all(&verdict)?;
        }
        self.counts.doubts += u64::from(verdict.learn_past.0 > 0);
        if verdict.aside.is_empty() {
            return Ok(());
        }
        // This is a crash behind the renaming: the same is found without those that were put aside.
        self.counts.set_aside += 1;
        // Nobody was told of a late write that lands between two starts: each start finds what there is.
        if self.judge.moment.has_late_writes {
            return Ok(());
        }
        let kept = &numbers[..verdict.segments.len()];
        match self.decide(kept)? {
            Ok((again, with)) if again.promised == verdict.promised && same(&with, &checkpoint) => {
                Ok(())
            }
            Ok((again, _)) => Err(format!("{verdict:?}, and the next start finds {again:?}")),
            // The next record may be looked for where nothing can be read.
            Err(_) if !is_honest => Ok(()),
            Err(refusal) => Err(format!("the next start is refused: {refusal}")),
        }
    }

    /// Checks that a log goes on where nothing stands: otherwise the remains of a crash or damage would be
    /// written over.
    fn goes_on_behind_all(&self, verdict: &Verdict) -> Result<(), String> {
        let last = verdict.segments.len() - 1;
        match self.world.is_empty_from(last, verdict.next.offset) && verdict.lost.is_empty() {
            true => Ok(()),
            false => Err(format!("the log would go on over something: {verdict:?}")),
        }
    }

    #[allow(clippy::type_complexity, reason = "it is one answer of two kinds")]
    fn decide(
        &mut self,
        numbers: &[u64],
    ) -> Result<Result<(Verdict, paxos::Checkpoint), String>, String> {
        self.world.replay = Replay::default();
        let verdict = match decide(&mut self.world, numbers, Depth::Start) {
            Ok(verdict) => verdict,
            Err(Stop::Refused(refusal)) => return Ok(Err(refusal.to_string())),
            Err(Stop::Failed(never)) => match never {},
        };
        match std::mem::take(&mut self.world.replay).finish() {
            Ok(Some(checkpoint)) => Ok(Ok((verdict, checkpoint))),
            Ok(None) => Err("a verdict without a checkpoint".to_owned()),
            Err(error) => Ok(Err(error.to_string())),
        }
    }
}

fn same(one: &paxos::Checkpoint, other: &paxos::Checkpoint) -> bool {
    (one.promised, &one.state, &one.accepted) == (other.promised, &other.state, &other.accepted)
}
