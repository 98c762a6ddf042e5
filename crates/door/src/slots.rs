//! A group's machine: it executes commands on the rows of slots. Which slots are its group's its door knows.
//!
//! ```text
//!  'u' slot    → round u64, has had keys u8            slot u16 big-endian; others little-endian
//!  't'         → time u64                              the last time at which a reader took a key for expired
//!  's' life …  → kv's rows
//! ```

use std::sync::Arc;

use host::{Machine, State, Stop};
use kv::{
    Context, Executed, Halt, Life, count_keys, keys_of, lookup, slot_of, some_keys, take_expired,
};
use resp::{Protocol, Value, encode};

use crate::order::Order;
use crate::rows::OfSlots;
use crate::watched::Watched;

const USED: u8 = b'u';
const TIME: &[u8] = b"t";

/// Slots stay where they were given.
const EPOCH: u32 = 1;
/// The keys whose deadline has passed that are taken away at a time.
const EXPIRED_MAX: usize = 100;
const PAGE: usize = 4_096;

/// The things that a group keeps of one of its slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Used {
    round: u64,
    /// A key was put there in this round.
    has_keys: bool,
}

impl Used {
    fn key(slot: u16) -> [u8; 3] {
        let [high, low] = slot.to_be_bytes();
        [USED, high, low]
    }

    fn decode(row: &[u8]) -> Used {
        let round = row
            .first_chunk()
            .map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let has_keys = row.get(8) == Some(&1);
        Used { round, has_keys }
    }

    fn encode(&self) -> Vec<u8> {
        let mut row = self.round.to_le_bytes().to_vec();
        row.push(u8::from(self.has_keys));
        row
    }

    fn life(&self, slot: u16) -> Life {
        Life {
            slot,
            epoch: EPOCH,
            round: self.round,
        }
    }
}

/// The machine of all groups of this node.
#[derive(Clone, Default)]
pub struct Slots {
    pub watched: Arc<Watched>,
}

impl Machine for Slots {
    fn execute(&self, state: &mut State<'_>, command: &[u8]) -> Result<Vec<u8>, Stop> {
        let Some(order) = Order::decode(command) else {
            return Err(Stop::refused("this is no order of a door"));
        };
        let (protocol, reply) = match order {
            Order::Run { protocol, words } => {
                let mut changed = Vec::new();
                let reply = run(state, protocol, &words, &mut changed)?;
                self.watched.on_changed(&changed);
                (protocol, reply)
            }
            Order::Exec {
                protocol,
                client,
                commands,
            } => (protocol, self.exec(state, protocol, client, &commands)?),
            Order::Keys { slot, count } => (Protocol::Resp2, keys(state, slot, count)?),
            Order::Expire { slot } => (Protocol::Resp2, self.expire(state, slot)?),
        };
        let mut out = Vec::new();
        encode(&reply, protocol, &mut out);
        Ok(out)
    }

    /// An id of a slot never comes back, and a life of a slot neither.
    fn forgets(&self) -> bool {
        true
    }

    /// ‡ Others led, and changed what nobody here was told of.
    fn begins(&self) {
        self.watched.on_all_changed();
    }
}

fn used(state: &mut State<'_>, slot: u16) -> Result<Used, Stop> {
    let row = state.get(&Used::key(slot))?;
    Ok(row.as_deref().map_or(Used::default(), Used::decode))
}

/// The slots from this one on that have had keys.
fn used_from(state: &mut State<'_>, slot: u16) -> Result<Vec<Life>, Stop> {
    let (mut from, mut lives) = (Used::key(slot).to_vec(), Vec::new());
    loop {
        let page = state.range(&from, &[USED + 1], PAGE)?;
        for (key, row) in &page.rows {
            let (Some(slot), used) = (key.last_chunk(), Used::decode(row)) else {
                continue;
            };
            if used.has_keys {
                lives.push(used.life(u16::from_be_bytes(*slot)));
            }
            from = [key, &[0][..]].concat();
        }
        if page.is_last {
            return Ok(lives);
        }
    }
}

/// Some keys of a slot, or how many there are.
fn keys(state: &mut State<'_>, slot: u16, count: Option<u32>) -> Result<Value, Stop> {
    let life = used(state, slot)?.life(slot);
    let rows = &mut OfSlots(state);
    let value = match count {
        None => count_keys(rows, life).map(|count| Value::Integer(count as i64)),
        Some(count) => some_keys(rows, life, count as usize).map(Value::bulks),
    };
    value.map_err(stop)
}

fn stop(halt: Halt<Stop>) -> Stop {
    match halt {
        Halt::Stop(stop) => stop,
        Halt::Unknown(why) => Stop::refused(why),
    }
}

/// The one slot of a command's keys; other errors are told when it is executed.
fn slot_of_words(words: &[&[u8]]) -> Option<u16> {
    let spec = lookup(words.first()?)?;
    let keys = keys_of(spec, words).ok()?;
    keys.first().map(|key| slot_of(key))
}

/// Executes a command, and adds the keys that it changed.
fn run(
    state: &mut State<'_>,
    protocol: Protocol,
    words: &[&[u8]],
    changed: &mut Vec<Vec<u8>>,
) -> Result<Value, Stop> {
    let slot = slot_of_words(words);
    // A row that is away does not end the command here: what it needs besides is fetched together with it.
    let of_slot = slot.map(|slot| (slot, used(state, slot)));
    let lives = match &of_slot {
        Some((slot, used)) => vec![used.as_ref().copied().unwrap_or_default().life(*slot)],
        None => used_from(state, 0)?,
    };
    let context = Context::new(protocol, &lives);
    let Executed {
        reply,
        wrote,
        changed: keys,
        saw_expired,
        flushed,
    } = kv::execute(&mut OfSlots(state), &context, words)?;
    let of_slot = of_slot.map(|(slot, used)| used.map(|used| (slot, used)));
    let of_slot = of_slot.transpose()?;
    for life in &flushed {
        let used = Used {
            round: life.round,
            has_keys: false,
        };
        state.put(&Used::key(life.slot), &used.encode())?;
    }
    if let Some((slot, used)) = of_slot
        && wrote
        && flushed.is_empty()
        && !used.has_keys
    {
        let has_keys = true;
        state.put(&Used::key(slot), &Used { has_keys, ..used }.encode())?;
    }
    if saw_expired && !wrote {
        // ‡ The next leader's clock may be behind: the time at which the key was gone stands in a frame before anybody hears of it.
        let time = state.time_ms().to_le_bytes();
        state.put(TIME, &time)?;
    }
    changed.extend(keys);
    Ok(reply)
}

impl Slots {
    fn exec(
        &self,
        state: &mut State<'_>,
        protocol: Protocol,
        client: u64,
        commands: &[Vec<&[u8]>],
    ) -> Result<Value, Stop> {
        if self.watched.has_changed(client) {
            return Ok(Value::NullArray);
        }
        let mut changed = Vec::new();
        let replies = commands
            .iter()
            .map(|words| run(state, protocol, words, &mut changed));
        let replies = replies.collect::<Result<_, _>>()?;
        self.watched.on_changed(&changed);
        Ok(Value::Array(replies))
    }

    /// Takes keys away whose deadline has passed, in the first slot from this one on that has keys. Answers where to go on: 0 after the
    /// last one.
    fn expire(&self, state: &mut State<'_>, from: u16) -> Result<Value, Stop> {
        let lives = used_from(state, from)?;
        let Some(life) = lives.first() else {
            return Ok(Value::Integer(0));
        };
        let expired = take_expired(&mut OfSlots(state), *life, EXPIRED_MAX).map_err(stop)?;
        self.watched.on_changed(&expired);
        let goes_on_here = expired.len() >= EXPIRED_MAX;
        let next = match lives.get(1) {
            _ if goes_on_here => life.slot,
            Some(next) => next.slot,
            None => 0,
        };
        Ok(Value::Integer(i64::from(next)))
    }
}
