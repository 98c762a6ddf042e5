//! A group's machine: it executes commands on the rows of slots that the group has, and hands slots over.
//!
//! ```text
//!  'o' 'u' 'k' → `used`                                whether the group has a slot, and in which life
//!  't'         → time u64                              the last time at which a reader took a key for expired
//!  's' life …  → kv's rows
//!  'D' 'd' 'i' → `changes`                             of slots that another group copies
//!  'p' slot    → how far the copy of a piece has come  of slots that come here: `handover`
//! ```

pub mod changes;
pub mod handover;
pub mod used;

use std::sync::Arc;

use host::{Machine, State, Stop};
use kv::{
    Bounds, Context, Executed, Halt, Life, Prepared, Rows as _, SLOTS, count_keys, keys_of, lookup,
    slot_of, some_keys, take_expired,
};
use paxos::mutation::{self, Mutation};
use resp::{Protocol, Value, encode};

use crate::arrived::Arrived;
use crate::moving::words::{self, Step as MoveStep, Told};
use crate::order::{self, ByMap, Order, Step};
use crate::pressed::Pressed;
use crate::rows::{OfGroup, OfSlots};
use crate::watched::{Changed, Watched};
use used::{Token, Used, served_from, used};

const TIME: &[u8] = b"t";
/// Where its commands have read so much into their replies, a transaction executes no further one.
const TRANSACTION_READS_MAX: usize = 16 << 20;
const READS_TOO_MUCH: &str = "ERR the commands before it read more than 16 MiB, as much as a transaction may: it was not executed";

/// The keys whose deadline has passed that are taken away at a time, and the slots where they are looked for.
pub const EXPIRED_MAX: usize = 100;
const EXPIRED_SLOTS: usize = 64;

/// The machine of all groups of this node.
#[derive(Clone, Default)]
pub struct Slots {
    pub watched: Arc<Watched>,
    pub arrived: Arc<Arrived>,
    pub pressed: Arc<Pressed>,
}

impl Machine for Slots {
    fn execute(&self, state: &mut State<'_>, command: &[u8]) -> Result<Vec<u8>, Stop> {
        let Some(order) = Order::decode(command) else {
            return Err(Stop::refused("this is no order of a door"));
        };
        let (protocol, reply) = match order {
            Order::Piece {
                by_map,
                ticket,
                at,
                key,
                bytes,
            } => {
                let place = (ticket, at, key);
                let is_there = put_piece(state, self.beside(by_map), place, bytes)?;
                (Protocol::Resp2, Value::Integer(i64::from(is_there)))
            }
            Order::Run {
                protocol,
                by_map,
                words,
                prepared,
            } => {
                let mut changed = Changed::default();
                let mut left = Bounds::default().reply_bytes_max;
                let reply = run(
                    state,
                    (protocol, self.beside(by_map)),
                    (&words, prepared),
                    &mut changed,
                    &mut left,
                )?;
                if !mutation::is(Mutation::WatchedChangesUnseen) {
                    self.tell_changed(state, changed);
                }
                (protocol, reply)
            }
            Order::Watch {
                protocol,
                by_map,
                client,
                keys,
            } => (protocol, self.watch(state, by_map, client, &keys)?),
            Order::Exec {
                protocol,
                by_map,
                client,
                commands,
            } => {
                let reply = self.exec(state, (protocol, by_map), client, &commands)?;
                (protocol, reply)
            }
            Order::Keys {
                slot,
                by_map,
                count,
            } => (
                Protocol::Resp2,
                keys(state, slot, self.beside(by_map), count)?,
            ),
            Order::Expire { slot } => (Protocol::Resp2, self.expire(state, slot)?),
            Order::Move(step) => return self.step(state, *step),
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
        let rows = &mut OfGroup(state);
        let life = used(rows, slot).unwrap_or_default().life(slot);
        for row in kv::first_rows(life, key, spec.writes()) {
            _ = OfSlots::new(rows, &[]).get(&row);
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

/// The things that a door knows beside its group's log.
#[derive(Clone, Copy)]
struct Beside<'a> {
    by_map: ByMap,
    arrived: &'a Arrived,
    pressed: &'a Pressed,
}

/// The row of a slot that is served here. ‡ On another one nothing is executed: whoever asks waits, or goes where it is.
///
/// ‡ A group has a slot of which its log says nothing only if it is the founder by the map (`ByMap::founds`): whoever lets a slot go writes that down first.
fn serving(state: &mut State<'_>, slot: u16, beside: Beside<'_>) -> Result<Used, Stop> {
    let used = used(&mut OfGroup(state), slot)?;
    match used.holding.token {
        Token::Owned | Token::Leaving { .. } => Ok(used),
        Token::None if beside.by_map.founds && used.holding.noted == 0 => Ok(used),
        _ if mutation::is(Mutation::ServedWithoutToken) => Ok(used),
        Token::Frozen { to, wish, .. } if beside.arrived.has(slot, wish) => {
            Err(Stop::answered(order::elsewhere(to)))
        }
        // It does not come yet, or only begins to: whoever asks here would wait as long as all that comes before it takes.
        Token::None if beside.by_map.is_elsewhere => {
            Err(Stop::answered(order::elsewhere(order::BY_THE_MAP)))
        }
        Token::None | Token::Frozen { .. } => Err(Stop::later()),
        Token::Gone { to: group, .. } | Token::Coming { from: group, .. } => {
            Err(Stop::answered(order::elsewhere(group)))
        }
    }
}

/// The number under which changes of the slot are noted, if they are.
fn noted_under(used: &Used) -> Option<u64> {
    match used.holding.token {
        Token::Leaving { changes, .. } if !mutation::is(Mutation::ChangesNotNoted) => Some(changes),
        _ => None,
    }
}

/// The slots that a command without a key looks at. ‡ Each step of a scan looks at some only: else a scan of many slots would go through all of
/// them at each step.
fn slots_of(state: &mut State<'_>, words: &[&[u8]]) -> Result<Vec<(u16, Used)>, Stop> {
    match kv::scans_from(words) {
        Some(slot) => served_from(&mut OfGroup(state), slot, kv::SCANNED_SLOTS_MAX + 1),
        None => served_from(&mut OfGroup(state), 0, usize::from(SLOTS)),
    }
}

/// Some keys of a slot, or how many there are.
fn keys(
    state: &mut State<'_>,
    slot: u16,
    beside: Beside<'_>,
    count: Option<u32>,
) -> Result<Value, Stop> {
    let life = serving(state, slot, beside)?.life(slot);
    let rows = &mut OfGroup(state);
    let rows = &mut OfSlots::new(rows, &[]);
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
    (protocol, beside): (Protocol, Beside<'_>),
    (words, prepared): (&[&[u8]], Option<Prepared>),
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
    let is_here = slot.map(|slot| used(&mut OfGroup(state), slot).is_ok());
    let of_slot = match slot {
        None => None,
        Some(slot) if is_here == Some(true) => Some((slot, Ok(serving(state, slot, beside)?))),
        Some(slot) => Some((slot, used(&mut OfGroup(state), slot))),
    };
    if let Some((slot, Ok(used))) = &of_slot
        && let Token::Leaving { .. } = used.holding.token
        && lookup(words.first().copied().unwrap_or_default()).is_some_and(|spec| spec.writes())
        && beside.pressed.holds(*slot, state.time_ms())
    {
        return Err(Stop::later());
    }
    let slots = match &of_slot {
        Some((slot, used)) => vec![(*slot, used.as_ref().copied().unwrap_or_default())],
        None => slots_of(state, words)?,
    };
    let lives: Vec<Life> = slots.iter().map(|(slot, used)| used.life(*slot)).collect();
    let leaving = slots.iter();
    let leaving = leaving.filter_map(|(slot, used)| Some((*slot, noted_under(used)?)));
    let leaving: Vec<(u16, u64)> = leaving.collect();
    let mut context = Context::new(protocol, &lives);
    context.bounds.reply_bytes_max = *left;
    context.prepared = prepared;
    let Executed {
        reply,
        wrote,
        changed: keys,
        saw_expired,
        flushed,
        read_bytes,
    } = kv::execute(
        &mut OfSlots::new(&mut OfGroup(state), &leaving),
        &context,
        words,
    )?;
    *left = left.saturating_sub(read_bytes);
    let of_slot = of_slot.map(|(slot, used)| used.map(|used| (slot, used)));
    let of_slot = of_slot.transpose()?;
    for life in &flushed {
        let before = slots.iter().find(|(slot, _)| *slot == life.slot);
        let used = Used {
            round: life.round,
            has_keys: false,
            ..before.map(|(_, used)| *used).unwrap_or_default()
        };
        used.save(&mut OfGroup(state), life.slot)?;
        changed.slots.insert(life.slot);
    }
    if let Some((slot, used)) = of_slot
        && wrote
        && flushed.is_empty()
    {
        note_keys(state, slot, used)?;
    }
    if saw_expired && !wrote && !mutation::is(Mutation::ExpiryNotNoted) {
        // ‡ The next leader's clock may be behind: the time at which the key was gone stands in a frame before anybody hears of it.
        let time = state.time_ms().to_le_bytes();
        state.put(TIME, &time)?;
    }
    changed.keys.extend(keys);
    Ok(reply)
}

/// Takes note that a slot has something, so that it is looked at when time passes.
fn note_keys(state: &mut State<'_>, slot: u16, used: Used) -> Result<(), Stop> {
    if used.has_keys {
        return Ok(());
    }
    let has_keys = true;
    Used { has_keys, ..used }.save(&mut OfGroup(state), slot)
}

/// Writes a piece of a value that a later command names. False: what came before it is gone.
fn put_piece(
    state: &mut State<'_>,
    beside: Beside<'_>,
    (ticket, at, key): (u64, u64, &[u8]),
    bytes: &[u8],
) -> Result<bool, Stop> {
    let slot = slot_of(key);
    let used = serving(state, slot, beside)?;
    let leaving = noted_under(&used).map(|number| (slot, number));
    let leaving: Vec<(u16, u64)> = leaving.into_iter().collect();
    let rows = &mut OfGroup(state);
    let rows = &mut OfSlots::new(rows, &leaving);
    let is_there = kv::put_piece(rows, used.life(slot), ticket, at, bytes).map_err(stop)?;
    note_keys(state, slot, used)?;
    Ok(is_there)
}

/// Whether a key is there. `None`: its deadline has passed.
fn is_there(state: &mut State<'_>, beside: Beside<'_>, key: &[u8]) -> Result<Option<bool>, Stop> {
    let words: [&[u8]; 2] = [b"EXISTS", key];
    let slot = slot_of(key);
    let lives = [serving(state, slot, beside)?.life(slot)];
    let context = Context::new(Protocol::Resp2, &lives);
    let rows = &mut OfGroup(state);
    let executed = kv::execute(&mut OfSlots::new(rows, &[]), &context, &words)?;
    Ok(match executed.saw_expired {
        true => None,
        false => Some(executed.reply == Value::Integer(1)),
    })
}

impl Slots {
    fn beside(&self, by_map: ByMap) -> Beside<'_> {
        Beside {
            by_map,
            arrived: &self.arrived,
            pressed: &self.pressed,
        }
    }

    /// Tells those who watch something what a command changed, once it is done. ‡ Not before: it may be executed again since its answer had no room, and a
    /// transaction would then have changed itself what it watches.
    fn tell_changed(&self, state: &mut State<'_>, changed: Changed) {
        if self.watched.is_nothing() {
            return;
        }
        let watched = self.watched.clone();
        state.once_done(move || watched.on_changed(&changed));
    }

    /// A step of handing slots over. ‡ Who watches a key that leaves, or comes, has to look again: nobody here sees what becomes of it elsewhere.
    fn step(&self, state: &mut State<'_>, step: MoveStep) -> Result<Vec<u8>, Stop> {
        let moved = match &step {
            MoveStep::Freeze { piece, .. } | MoveStep::Own { piece, .. } => Some(piece.span),
            _ => None,
        };
        let asked = match &step {
            MoveStep::Tail {
                piece, to, changes, ..
            } => Some(((*to, *changes), piece.span)),
            _ => None,
        };
        let told = handover::take(&mut OfGroup(state), step)?;
        if let (Some((way, span)), Told::Tail { is_all, .. }) = (asked, &told) {
            self.pressed.on_asked(way, span, *is_all, state.time_ms());
        }
        let is_done = matches!(told, Told::Done | Told::Tail { .. });
        if let Some(span) = moved.filter(|_| is_done) {
            let slots = span.slots().collect();
            let keys = Vec::new();
            self.watched.on_changed(&Changed { keys, slots });
        }
        Ok(words::encode(&told))
    }

    fn watch(
        &self,
        state: &mut State<'_>,
        by_map: ByMap,
        client: u64,
        keys: &[&[u8]],
    ) -> Result<Value, Stop> {
        let there = all_of(
            keys.iter()
                .map(|key| is_there(state, self.beside(by_map), key)),
        )?;
        for (key, is_there) in keys.iter().zip(there) {
            self.watched.watch(client, key, is_there.unwrap_or(false));
        }
        Ok(Value::OK)
    }

    fn exec(
        &self,
        state: &mut State<'_>,
        (protocol, by_map): (Protocol, ByMap),
        client: u64,
        commands: &[Step<'_>],
    ) -> Result<Value, Stop> {
        if self.watched.has_changed(client) {
            return Ok(Value::NullArray);
        }
        let watched = self.watched.were_there(client);
        // ‡ A watched slot of which the log says nothing is the founder's, whatever the map says of the commands' slot: it was so when the client began
        // to watch, in this reign, and all that takes a slot from its founder is a change of what is watched there.
        let of_watched = ByMap {
            founds: true,
            ..by_map
        };
        let there = all_of(
            watched
                .iter()
                .map(|key| is_there(state, self.beside(of_watched), key)),
        )?;
        if there.contains(&None) {
            let time = state.time_ms().to_le_bytes();
            state.put(TIME, &time)?;
            return Ok(Value::NullArray);
        }
        let mut changed = Changed::default();
        // ‡ One bound for all: a transaction of a hundred commands would else read a hundred times as much.
        let mut left = Bounds::default().reply_bytes_max;
        let left_at_least = left.saturating_sub(TRANSACTION_READS_MAX);
        let replies = all_of(commands.iter().map(|step| match step {
            // A transaction is one step for all others, who wait for it. ‡ What was executed has its reply: no further command is, and each says so.
            Step::Command(_) if left < left_at_least => Ok(Value::error(READS_TOO_MUCH)),
            Step::Command(words) => run(
                state,
                (protocol, self.beside(by_map)),
                (words, None),
                &mut changed,
                &mut left,
            ),
            Step::Answered(bytes) => Ok(order::value_of(bytes)),
        }))?;
        self.tell_changed(state, changed);
        Ok(Value::Array(replies))
    }

    /// Takes keys away whose deadline has passed, in the first slots from this one on that have keys. Answers where to go on: 0 after the
    /// last one.
    fn expire(&self, state: &mut State<'_>, from: u16) -> Result<Value, Stop> {
        let slots = served_from(&mut OfGroup(state), from, EXPIRED_SLOTS + 1)?;
        let mut next = slots.get(EXPIRED_SLOTS).map_or(0, |(slot, _)| *slot);
        let (mut expired, mut stopped) = (Vec::new(), None);
        for (slot, used) in slots.iter().take(EXPIRED_SLOTS) {
            let left = EXPIRED_MAX - expired.len();
            let leaving: Vec<(u16, u64)> = noted_under(used)
                .map(|changes| (*slot, changes))
                .into_iter()
                .collect();
            let rows = &mut OfGroup(state);
            match take_expired(&mut OfSlots::new(rows, &leaving), used.life(*slot), left) {
                Ok(some) => expired.extend(some),
                // The others ask for their rows, too: they are fetched together.
                Err(halt) => stopped = stopped.or(Some(stop(halt))),
            }
            if expired.len() >= EXPIRED_MAX {
                next = *slot;
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
