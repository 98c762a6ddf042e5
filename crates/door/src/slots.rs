//! A group's machine: it executes commands on the rows of slots. Which slots are its group's its door knows.
//!
//! ```text
//!  'u' slot    → round u64, has had keys u8            slot u16 big-endian; others little-endian
//!  'k' slot    → round u64                             of slots that have had keys in this round
//!  't'         → time u64                              the last time at which a reader took a key for expired
//!  's' life …  → kv's rows
//! ```

use std::sync::Arc;

use host::{Machine, State, Stop};
use kv::{
    Bounds, Context, Executed, Halt, Life, Rows as _, SLOTS, count_keys, keys_of, lookup, slot_of,
    some_keys, take_expired,
};
use paxos::mutation::{self, Mutation};
use resp::{Protocol, Value, encode};

use crate::order::{self, Order, Step};
use crate::rows::OfSlots;
use crate::watched::{Changed, Watched};

const USED: u8 = b'u';
const WITH_KEYS: u8 = b'k';
const TIME: &[u8] = b"t";

/// Slots stay where they were given.
const EPOCH: u32 = 1;
/// The keys whose deadline has passed that are taken away at a time, and the slots where they are looked for.
pub const EXPIRED_MAX: usize = 100;
const EXPIRED_SLOTS: usize = 64;

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

    /// ‡ The slots with keys stand in rows of their own: who looks for them does not go through all those that were emptied.
    fn save(&self, state: &mut State<'_>, slot: u16) -> Result<(), Stop> {
        state.put(&Used::key(slot), &self.encode())?;
        match self.has_keys {
            true => state.put(&with_keys(slot), &self.round.to_le_bytes()),
            false => state.delete(&with_keys(slot)),
        }
    }

    fn life(&self, slot: u16) -> Life {
        Life {
            slot,
            epoch: EPOCH,
            round: self.round,
        }
    }
}

fn with_keys(slot: u16) -> [u8; 3] {
    let [high, low] = slot.to_be_bytes();
    [WITH_KEYS, high, low]
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
                let mut changed = Changed::default();
                let mut left = Bounds::default().reply_bytes_max;
                let reply = run(state, protocol, &words, &mut changed, &mut left)?;
                if !mutation::is(Mutation::WatchedChangesUnseen) {
                    self.watched.on_changed(&changed);
                }
                (protocol, reply)
            }
            Order::Watch {
                protocol,
                client,
                keys,
            } => (protocol, self.watch(state, client, &keys)?),
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

    fn foresee(&self, state: &mut State<'_>, command: &[u8]) {
        match Order::decode(command) {
            Some(Order::Run { words, .. }) => foresee(state, &words),
            Some(Order::Exec { commands, .. }) => {
                for step in &commands {
                    if let Step::Command(words) = step {
                        foresee(state, words);
                    }
                }
            }
            _ => {}
        }
    }

    /// An id of a slot never comes back, and a life of a slot neither.
    fn forgets(&self) -> bool {
        true
    }

    /// ‡ Others led, and changed what nobody here was told of.
    fn begins(&self) {
        if mutation::is(Mutation::WatchesOutliveReigns) {
            return;
        }
        self.watched.on_all_changed();
    }
}

/// Asks for the rows that a command reads first.
fn foresee(state: &mut State<'_>, words: &[&[u8]]) {
    let spec = words.first().and_then(|name| lookup(name));
    let Some((spec, keys)) = spec.and_then(|spec| Some((spec, keys_of(spec, words).ok()?))) else {
        return;
    };
    for key in keys {
        let slot = slot_of(key);
        // Few slots are in another life than their first.
        let life = used(state, slot).unwrap_or_default().life(slot);
        for row in kv::first_rows(life, key, spec.writes()) {
            _ = OfSlots(state).get(&row);
        }
    }
}

/// All of them, or the first reason why one is not here. ‡ The others are executed all the same: what they lack is fetched together with it, and
/// not one after the other.
fn all_of<T>(tried: impl Iterator<Item = Result<T, Stop>>) -> Result<Vec<T>, Stop> {
    let (mut all, mut stopped) = (Vec::new(), None);
    for one in tried {
        match one {
            Ok(one) => all.push(one),
            Err(stop) => stopped = stopped.or(Some(stop)),
        }
    }
    match stopped {
        Some(stop) => Err(stop),
        None => Ok(all),
    }
}

fn used(state: &mut State<'_>, slot: u16) -> Result<Used, Stop> {
    let row = state.get(&Used::key(slot))?;
    Ok(row.as_deref().map_or(Used::default(), Used::decode))
}

/// The first slots from this one on that have had keys, so many at most.
fn used_from(state: &mut State<'_>, slot: u16, slots_max: usize) -> Result<Vec<Life>, Stop> {
    let (mut from, mut lives) = (with_keys(slot).to_vec(), Vec::new());
    loop {
        let page = state.range(&from, &[WITH_KEYS + 1], slots_max)?;
        for (key, row) in &page.rows {
            if let Some(slot) = key.last_chunk() {
                lives.push(Used::decode(row).life(u16::from_be_bytes(*slot)));
            }
            from = [key, &[0][..]].concat();
        }
        if page.is_last || lives.len() >= slots_max {
            lives.truncate(slots_max);
            return Ok(lives);
        }
    }
}

/// The slots that a command without a key looks at. ‡ Each step of a scan looks at some only: else a scan of many slots would go through all of
/// them at each step.
fn lives_of(state: &mut State<'_>, words: &[&[u8]]) -> Result<Vec<Life>, Stop> {
    match kv::scans_from(words) {
        Some(slot) => used_from(state, slot, kv::SCANNED_SLOTS_MAX + 1),
        None => used_from(state, 0, usize::from(SLOTS)),
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

/// Executes a command, and adds what it changed. `left`: the bytes that may be read into replies still.
fn run(
    state: &mut State<'_>,
    protocol: Protocol,
    words: &[&[u8]],
    changed: &mut Changed,
    left: &mut usize,
) -> Result<Value, Stop> {
    let words = match words {
        [name, _, _, _, plain @ ..]
            if mutation::is(Mutation::OnceDoneAgain) && name.eq_ignore_ascii_case(b"once") =>
        {
            plain
        }
        words => words,
    };
    let slot = slot_of_words(words);
    // A row that is away does not end the command here: what it needs besides is fetched together with it.
    let of_slot = slot.map(|slot| (slot, used(state, slot)));
    let lives = match &of_slot {
        Some((slot, used)) => vec![used.as_ref().copied().unwrap_or_default().life(*slot)],
        None => lives_of(state, words)?,
    };
    let mut context = Context::new(protocol, &lives);
    context.bounds.reply_bytes_max = *left;
    let Executed {
        reply,
        wrote,
        changed: keys,
        saw_expired,
        flushed,
        read_bytes,
    } = kv::execute(&mut OfSlots(state), &context, words)?;
    *left = left.saturating_sub(read_bytes);
    let of_slot = of_slot.map(|(slot, used)| used.map(|used| (slot, used)));
    let of_slot = of_slot.transpose()?;
    for life in &flushed {
        let used = Used {
            round: life.round,
            has_keys: false,
        };
        used.save(state, life.slot)?;
        changed.slots.insert(life.slot);
    }
    if let Some((slot, used)) = of_slot
        && wrote
        && flushed.is_empty()
        && !used.has_keys
    {
        let has_keys = true;
        Used { has_keys, ..used }.save(state, slot)?;
    }
    if saw_expired && !wrote && !mutation::is(Mutation::ExpiryNotNoted) {
        // ‡ The next leader's clock may be behind: the time at which the key was gone stands in a frame before anybody hears of it.
        let time = state.time_ms().to_le_bytes();
        state.put(TIME, &time)?;
    }
    changed.keys.extend(keys);
    Ok(reply)
}

/// Whether a key is there. `None`: its deadline has passed.
fn is_there(state: &mut State<'_>, key: &[u8]) -> Result<Option<bool>, Stop> {
    let words: [&[u8]; 2] = [b"EXISTS", key];
    let slot = slot_of(key);
    let lives = [used(state, slot)?.life(slot)];
    let context = Context::new(Protocol::Resp2, &lives);
    let executed = kv::execute(&mut OfSlots(state), &context, &words)?;
    Ok(match executed.saw_expired {
        true => None,
        false => Some(executed.reply == Value::Integer(1)),
    })
}

impl Slots {
    fn watch(&self, state: &mut State<'_>, client: u64, keys: &[&[u8]]) -> Result<Value, Stop> {
        let there = all_of(keys.iter().map(|key| is_there(state, key)))?;
        for (key, is_there) in keys.iter().zip(there) {
            self.watched.watch(client, key, is_there.unwrap_or(false));
        }
        Ok(Value::OK)
    }

    fn exec(
        &self,
        state: &mut State<'_>,
        protocol: Protocol,
        client: u64,
        commands: &[Step<'_>],
    ) -> Result<Value, Stop> {
        if self.watched.has_changed(client) {
            return Ok(Value::NullArray);
        }
        let watched = self.watched.were_there(client);
        let there = all_of(watched.iter().map(|key| is_there(state, key)))?;
        if there.contains(&None) {
            let time = state.time_ms().to_le_bytes();
            state.put(TIME, &time)?;
            return Ok(Value::NullArray);
        }
        let mut changed = Changed::default();
        // ‡ One bound for all: a transaction of a hundred commands would else read a hundred times as much.
        let mut left = Bounds::default().reply_bytes_max;
        let replies = all_of(commands.iter().map(|step| match step {
            Step::Command(words) => run(state, protocol, words, &mut changed, &mut left),
            Step::Answered(bytes) => Ok(order::value_of(bytes)),
        }))?;
        self.watched.on_changed(&changed);
        Ok(Value::Array(replies))
    }

    /// Takes keys away whose deadline has passed, in the first slots from this one on that have keys. Answers where to go on: 0 after the
    /// last one.
    fn expire(&self, state: &mut State<'_>, from: u16) -> Result<Value, Stop> {
        let lives = used_from(state, from, EXPIRED_SLOTS + 1)?;
        let mut next = lives.get(EXPIRED_SLOTS).map_or(0, |life| life.slot);
        let (mut expired, mut stopped) = (Vec::new(), None);
        for life in lives.iter().take(EXPIRED_SLOTS) {
            let left = EXPIRED_MAX - expired.len();
            match take_expired(&mut OfSlots(state), *life, left) {
                Ok(some) => expired.extend(some),
                // The others ask for their rows, too: they are fetched together.
                Err(halt) => stopped = stopped.or(Some(stop(halt))),
            }
            if expired.len() >= EXPIRED_MAX {
                next = life.slot;
                break;
            }
        }
        if let Some(stop) = stopped {
            return Err(stop);
        }
        self.watched.on_expired(&expired);
        Ok(order::expired(next, expired.len()))
    }
}
