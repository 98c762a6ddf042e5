//! Forgetting: the requests for it, and the bytes that leave this node once it is agreed.
//!
//! ```text
//! trim LOG before=… ─▶ a slot ─▶ Action::Trim, proposed ─ chosen ─▶ applied on every node alike
//!                                                                   └▶ store, catch-up, readers
//! ```
//!
//! Units:  slots; forgotten and remaining bytes are counted in bytes of output.
//! Errors: asked of another node than the leader `not-leader`; a stream that never was
//!         `unknown-stream`; a position beyond its end `past-end`. A trim of bytes that are gone already is
//!         no error: it may be asked for again when its answer was lost.

use std::collections::BTreeMap;

use formats::version::WISHES;
use ops::ConnId;
use paxos::{
    Action, By, LogState, ReadId, Slot, SlotRange, StreamName, StreamPosition, Time, Value,
};
use serde::Serialize;
use wire::{LineError, NoPlace, Refusal, Request};

use crate::env::Env;
use crate::lent::{Core, no_quorum};

#[derive(Default)]
pub(crate) struct Trims {
    asked: Vec<Asked>,
}

/// `trim LOG before=@POSITION|NAME|NAME@POSITION|slot:N [plan=1]`
pub(crate) struct Asked {
    conn: ConnId,
    before: Before,
    plan: bool,
    since: Time,
    /// The barrier. Once it passed, the state holds all that was chosen when this was asked.
    barrier: ReadId,
    proposed: Option<Proposed>,
}

struct Proposed {
    slot: Slot,
    /// The sum of all trims by then.
    forgotten: Forgotten,
}

#[derive(Clone, Copy)]
pub(crate) enum Before {
    Slot(Slot),
    /// A position in the log's output.
    Output(u64),
    Stream(StreamName, StreamPosition),
}

/// The sum of all trims so far.
#[derive(Clone, Copy)]
struct Forgotten {
    bytes: u64,
    streams: u64,
}

/// The outcome of a trim, done or planned.
#[derive(Serialize)]
struct Trimmed {
    /// All slots below are forgotten.
    before: u64,
    bytes: u64,
    /// The streams that left the table.
    streams: u64,
    left_bytes: u64,
    /// The position in the log's output at which the rest begins.
    left_from: u64,
}

impl Forgotten {
    fn by(state: &LogState) -> Forgotten {
        Forgotten {
            bytes: forgotten_bytes(state),
            streams: state.streams_trimmed.count,
        }
    }
}

impl Trimmed {
    fn since(earlier: Forgotten, state: &LogState) -> Trimmed {
        let now = Forgotten::by(state);
        Trimmed {
            before: state.trimmed.0,
            bytes: now.bytes - earlier.bytes,
            streams: now.streams - earlier.streams,
            left_bytes: output_bytes(state),
            left_from: now.bytes,
        }
    }

    fn line(&self) -> Vec<u8> {
        let json = serde_json::to_string(self).expect("numbers are always JSON");
        format!("ok {json}\n").into_bytes()
    }
}

/// The bytes of output that are chosen and not trimmed.
pub fn output_bytes(state: &LogState) -> u64 {
    state.streams.iter().map(|s| s.length.0 - s.trimmed.0).sum()
}

/// The bytes of output that were chosen and trimmed since.
pub fn forgotten_bytes(state: &LogState) -> u64 {
    let trimmed: u64 = state.streams.iter().map(|s| s.trimmed.0).sum();
    state.streams_trimmed.bytes + trimmed
}

/// The slot before which all output up to this position stands. `None`: the output is shorter.
fn output_point(state: &LogState, position: u64) -> Option<Slot> {
    let mut left = match position.checked_sub(state.streams_trimmed.bytes) {
        Some(left) => left,
        // Forgotten already.
        None => return Some(state.trimmed),
    };
    for stream in &state.streams {
        if left <= stream.length.0 {
            return state.trim_point(stream.name, StreamPosition(left));
        }
        left -= stream.length.0;
    }
    (left == 0).then_some(state.trimmed)
}

/// Takes out of the store what the state says is trimmed, and what an auxiliary is released from. Acceptances
/// that are not known chosen keep their bytes, whatever became of their stream: a later leader may have to
/// propose them again.
pub(crate) fn trim_store(core: &mut Core, released: &BTreeMap<StreamName, StreamPosition>) {
    let state = core.engine.state();
    if state.trimmed == Slot(0) && released.is_empty() {
        return;
    }
    let mut unchosen: BTreeMap<StreamName, u64> = BTreeMap::new();
    for run in core.engine.accepted() {
        if let Value::Content { stream, offset } = &run.value {
            let position = run.slots.start.0.saturating_sub(offset.0);
            let lowest = unchosen.entry(*stream).or_insert(position);
            *lowest = position.min(*lowest);
        }
    }
    let table: BTreeMap<_, _> = state.streams.iter().map(|s| (s.name, s.trimmed)).collect();
    let some_left_it = state.streams_trimmed.count > 0;
    core.store.trim(state.next, &|stream| {
        let below = match table.get(&stream) {
            Some(trimmed) => *trimmed,
            None if some_left_it && !state.is_new(stream) => StreamPosition(u64::MAX),
            None => StreamPosition(0),
        };
        let below = below.max(released.get(&stream).copied().unwrap_or_default());
        match unchosen.get(&stream) {
            Some(position) => below.min(StreamPosition(*position)),
            None => below,
        }
    });
}

/// The position of a stream below which everything is forgotten.
pub(crate) fn trimmed_below(state: &LogState, stream: StreamName) -> StreamPosition {
    match state.stream(stream) {
        Some(stream) => stream.trimmed,
        None if state.is_forgotten(stream) => StreamPosition(u64::MAX),
        None => StreamPosition(0),
    }
}

impl Asked {
    pub fn new(
        conn: ConnId,
        (before, plan): (Before, bool),
        since: Time,
        barrier: ReadId,
    ) -> Asked {
        Asked {
            conn,
            before,
            plan,
            since,
            barrier,
            proposed: None,
        }
    }
}

impl Before {
    fn parse(text: &str) -> Option<Before> {
        if let Some(slot) = text.strip_prefix("slot:") {
            return Some(Before::Slot(Slot(slot.parse().ok()?)));
        }
        if let Some(position) = text.strip_prefix('@') {
            return Some(Before::Output(position.parse().ok()?));
        }
        let name = wire::parse_stream(text).map(|name| (name, 0));
        let (name, position) = name.or_else(|| wire::parse_place(text))?;
        Some(Before::Stream(name, StreamPosition(position)))
    }

    /// Returns `None` if there is no such place.
    fn slot(self, state: &LogState) -> Option<Slot> {
        match self {
            Before::Slot(slot) => Some(slot).filter(|slot| *slot <= state.next),
            Before::Output(position) => output_point(state, position),
            Before::Stream(name, _) if state.is_forgotten(name) => Some(state.trimmed),
            Before::Stream(name, position) => state.trim_point(name, position),
        }
    }
}

impl Trims {
    pub(crate) fn are_waiting(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Proposes anew the trims that were proposed and not answered, which will have no outcome any more. (To
    /// trim twice is to trim once.)
    pub(crate) fn propose_again(&mut self) {
        for asked in &mut self.asked {
            asked.proposed = None;
        }
    }
}

impl Trims {
    /// Takes `trim LOG …`; it waits for this barrier.
    pub fn on_request(&mut self, asked: Asked) {
        self.asked.push(asked);
    }

    pub fn parse(core: &Core, env: &Env, request: &Request) -> Result<(Before, bool), Refusal> {
        request.check()?;
        core.check_bytes()?;
        let text = request.require("before")?;
        let bad = || LineError::Value(NoPlace.to_string());
        let before = Before::parse(text).ok_or_else(bad)?;
        let plan = request.flag("plan")?;
        core.check_leading(env)?;
        Ok((before, plan))
    }

    /// Proposes or answers the trims that are ready. Barriers up to `passed` have passed.
    pub fn pump(&mut self, core: &mut Core, env: &mut Env, passed: Option<ReadId>) {
        for mut asked in std::mem::take(&mut self.asked) {
            if !env.conns.is_open(asked.conn) {
                continue;
            }
            if asked.proposed.is_some() {
                self.asked.push(asked);
                continue;
            }
            let late = env.now > asked.since + env.limits.leader_wait;
            let state = core.engine.state();
            let settled = passed.is_some_and(|passed| asked.barrier <= passed);
            let Some(before) = asked.before.slot(state) else {
                match (settled, late) {
                    (true, _) => env.refuse(asked.conn, self.no_such_place(core, asked.before)),
                    (false, true) => env.refuse(asked.conn, no_quorum()),
                    (false, false) => self.asked.push(asked),
                }
                continue;
            };
            let forgotten = Forgotten::by(state);
            if asked.plan && settled {
                let mut planned = state.clone();
                let slots = SlotRange::new(planned.next, Slot(planned.next.0 + 1));
                let by = By::Hand;
                planned.apply(slots, &Value::Action(Action::Trim { before, by }.into()));
                env.part(asked.conn, &Trimmed::since(forgotten, &planned).line());
                continue;
            }
            let slot = match asked.plan {
                true => None,
                false => {
                    let by = self.by_hand(core, env);
                    let trim = Action::Trim { before, by };
                    core.engine.propose(env.now, trim).ok()
                }
            };
            match slot {
                None if late => env.refuse(asked.conn, no_quorum()),
                slot => {
                    asked.proposed = slot.map(|slot| Proposed { slot, forgotten });
                    self.asked.push(asked);
                }
            }
        }
    }

    fn no_such_place(&self, core: &Core, before: Before) -> Refusal {
        let state = core.engine.state();
        let (name, position) = match before {
            Before::Stream(name, position) => (name, position),
            Before::Slot(slot) => {
                let (name, next) = (&core.name, state.next.0);
                let sentence = format!(
                    "slot {} is past the end of {name}, which is slot {next}",
                    slot.0
                );
                return Refusal::new("past-end", sentence);
            }
            Before::Output(position) => {
                let (name, length) = (&core.name, forgotten_bytes(state) + output_bytes(state));
                let sentence =
                    format!("{name} has {length} bytes of output, fewer than {position}");
                return Refusal::new("past-end", sentence).key("length", length);
            }
        };
        match state.stream(name) {
            Some(stream) => {
                let length = stream.length;
                let sentence = format!("{name} is {length} bytes long, shorter than {position}");
                Refusal::new("past-end", sentence).key("length", length)
            }
            None => {
                let sentence = format!("{} has no stream {name}", core.name);
                Refusal::new("unknown-stream", sentence)
            }
        }
    }

    /// Answers a trim that was chosen, whoever asked for it.
    pub fn on_trimmed(&mut self, core: &Core, env: &mut Env, slot: Slot) {
        let is_ours = |asked: &Asked| asked.proposed.as_ref().is_some_and(|p| p.slot == slot);
        let Some(at) = self.asked.iter().position(is_ours) else {
            return;
        };
        let asked = self.asked.remove(at);
        if let Some(proposed) = asked.proposed {
            let answer = Trimmed::since(proposed.forgotten, core.engine.state());
            env.part(asked.conn, &answer.line());
        }
    }

    /// Proposes anew, as an operator's, a trim proposed before this log had a wish of the directory's.
    pub fn on_not_trimmed(&mut self, slot: Slot) {
        let is_ours = |asked: &&mut Asked| asked.proposed.as_ref().is_some_and(|p| p.slot == slot);
        if let Some(asked) = self.asked.iter_mut().find(is_ours) {
            asked.proposed = None;
        }
    }

    /// The author of a trim that an operator asks for. Programs that know no wishes do not say so.
    fn by_hand(&self, core: &Core, env: &Env) -> By {
        match env.version.logs >= WISHES || core.engine.state().wish.is_some() {
            true => By::Hand,
            false => By::Unsaid,
        }
    }

    /// Refuses the trims of a leader that no longer leads: the next leader knows whether they were chosen.
    pub fn refuse(&mut self, env: &mut Env, refusal: &Refusal) {
        for asked in std::mem::take(&mut self.asked) {
            env.refuse(asked.conn, refusal.clone());
        }
    }
}
