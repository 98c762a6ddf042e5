//! Rounds of commands: what they write goes into frames, and what they read is noted.

use std::collections::BTreeMap;
use std::time::Duration;

use letters::Wish;
use paxos::Time;
use paxos::mutation::{self, Mutation};

use super::super::looking::number_of_commands;
use super::super::{Call, Core, Keeping, Out};
use super::deep::Deep;
use super::fetching::{Pending, Waiting};
use super::running::{self, Ran};
use super::{HOLD, Leading, Seen, Sent};
use crate::filling;
use crate::frame::Frame;
use crate::machine::{Command, Outcome};
use crate::room::{Answer, bytes_of};
use crate::state::writes_of;

/// Answers that wait until they may be given, in bytes: with more no command is executed.
const ANSWERS_BYTES_MAX: usize = 32 << 20;
/// A command whose machine said "later" is executed again as often.
const LATER: Duration = Duration::from_millis(2);
/// So many of these are kept, and so many bytes.
const PARKED_MAX: usize = 4_096;
const PARKED_BYTES_MAX: usize = 16 << 20;

/// The commands that one round executes.
#[derive(Default)]
pub(super) struct Round {
    /// The frame that the shelf had applied when the round began.
    pub(super) applied: u64,
    /// The time of the log now.
    time_ms: u64,
    pub(super) deep: Deep,
    /// The rows of the frame that is not ended.
    writes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    forgotten: Vec<Vec<u8>>,
    bytes: usize,
    written: Vec<(u64, Call, Answer)>,
    /// Frames.
    submits: Vec<u8>,
    seen: Vec<Seen>,
    seen_bytes: usize,
    /// The bytes of answers that had no room.
    thrown_away_bytes: usize,
    pub(super) pending: Pending,
}

impl Round {
    /// Whether nothing is written that is in no frame.
    fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.forgotten.is_empty()
    }

    /// An answer of so many bytes was made, and had no room.
    pub(super) fn on_thrown_away(&mut self, bytes: usize) {
        self.thrown_away_bytes += bytes;
    }

    /// The bytes of answers that were made.
    fn made_bytes(&self) -> usize {
        self.seen_bytes + self.thrown_away_bytes
    }
}

impl Leading {
    pub(super) fn execute(
        &mut self,
        now: Time,
        wall_ms: Option<u64>,
        core: &Core,
        keeping: &Keeping,
        out: &mut Out,
    ) {
        if let Some(why) = keeping.trouble() {
            return self.refuse_all(&Outcome::NotNow(why.to_owned()));
        }
        let time_ms = match &mut self.reign {
            Some(reign) if !mutation::is(Mutation::TimeGoesBack) => {
                reign.clock.now(now, wall_ms, reign.time_ms)
            }
            _ => wall_ms.unwrap_or(0),
        };
        let mut round = Round {
            time_ms,
            applied: keeping.applied().frame,
            pending: std::mem::take(&mut self.pending),
            ..Round::default()
        };
        self.try_parked(now, wall_ms, core, &mut round);
        self.go_on(wall_ms, core, &mut round);
        let answers = match self.waiting.is_empty() && self.fetched.is_empty() {
            true => 0,
            false => self.answers_bytes(),
        };
        while self.has_room(core)
            && answers + round.made_bytes() < ANSWERS_BYTES_MAX
            && self.may_fetch(&round)
            && let Some(waiting) = self.waiting.pop_front()
        {
            self.waiting_bytes -= waiting.call.command.bytes();
            let order = waiting.call.order;
            if order.is_some_and(|order| self.held.contains_key(&order)) {
                self.foresee(&waiting, core, &mut round);
            }
            match order.filter(|order| self.held.contains_key(order)) {
                Some(order) => self.hold_behind(order, waiting),
                None => self.execute_one(waiting, wall_ms, core, &mut round),
            }
        }
        // ‡ Also with an overlay that is full of what came since one of them began to read: nothing of it may leave until that one is done. Where it is full
        // since the shelf takes nothing, they wait as others do.
        let is_held = self
            .read_from(&round.pending)
            .is_some_and(|from| from < round.applied);
        let is_held = is_held && !mutation::is(Mutation::LargeWaitsForItself);
        let has_room = self.has_room(core) || (is_held && self.has_room_in_log(core));
        if has_room && answers + round.made_bytes() < ANSWERS_BYTES_MAX {
            self.go_on_with_large(wall_ms, core, &mut round);
        }
        // No answer will be given that lets those go on that wait behind answers which were thrown away.
        self.goes_on |=
            round.thrown_away_bytes > 0 && !(self.waiting.is_empty() && self.fetched.is_empty());
        self.end_frame(&mut round);
        self.end_round(round, core, out);
    }

    /// Executes those again whose machine said: later.
    fn try_parked(&mut self, now: Time, wall_ms: Option<u64>, core: &Core, round: &mut Round) {
        if self.parked.is_empty() || now < self.again_at {
            return;
        }
        self.again_at = now + LATER;
        let parked = std::mem::take(&mut self.parked);
        let (over, others): (Vec<Waiting>, Vec<Waiting>) = parked
            .into_iter()
            .partition(|waiting| now >= waiting.call.since + HOLD);
        for waiting in over {
            let why = "what the command asks for is being moved, or made: ask again in a moment";
            let order = waiting.call.order;
            waiting.call.replier.reply(Outcome::NotNow(why.to_owned()));
            self.let_follow(order);
        }
        for waiting in others {
            self.execute_one(waiting, wall_ms, core, round);
        }
    }

    /// Keeps a command whose machine said: later.
    fn park(&mut self, waiting: Waiting) {
        let bytes = self.parked.iter().map(|parked| parked.call.command.bytes());
        if self.parked.len() >= PARKED_MAX || bytes.sum::<usize>() >= PARKED_BYTES_MAX {
            let why = "too many commands wait for what is being moved: ask again in a moment";
            return waiting.call.replier.reply(Outcome::NotNow(why.to_owned()));
        }
        self.parked.push(waiting.later());
    }

    /// Commands that wait for one of this order go on.
    pub(super) fn let_follow(&mut self, order: Option<u64>) {
        if let Some(held) = order.and_then(|order| self.held.remove(&order)) {
            for waiting in held.behind.into_iter().rev() {
                self.waiting_bytes += waiting.call.command.bytes();
                self.waiting.push_front(waiting);
            }
        }
    }

    pub(super) fn has_room(&self, core: &Core) -> bool {
        self.has_room_in_log(core)
            && self.overlay.bytes() < core.bounds.overlay_bytes_max + self.kept_bytes
    }

    fn has_room_in_log(&self, core: &Core) -> bool {
        let reign = self.reign.as_ref();
        let unchosen = reign.map_or(0, |reign| reign.end - reign.chosen);
        unchosen < core.bounds.unchosen_bytes_max
    }

    /// Executes a command, unless rows have to be fetched first. ‡ What follows it in its order waits for it.
    pub(super) fn execute_one(
        &mut self,
        waiting: Waiting,
        wall_ms: Option<u64>,
        core: &Core,
        round: &mut Round,
    ) {
        let order = waiting.call.order;
        let unfinished = |leading: &Leading, round: &Round| {
            round.pending.calls.len()
                + leading.deep.len()
                + leading.parked.len()
                + leading.roomless.len()
        };
        let before = unfinished(self, round);
        self.try_one(waiting, wall_ms, core, round);
        let Some(order) = order else { return };
        if mutation::is(Mutation::OrderOvertaken) {
            return;
        }
        match unfinished(self, round) > before {
            true => _ = self.held.entry(order).or_default(),
            false => self.let_follow(Some(order)),
        }
    }

    fn try_one(
        &mut self,
        mut waiting: Waiting,
        wall_ms: Option<u64>,
        core: &Core,
        round: &mut Round,
    ) {
        if let Command::Fill(fill) = &waiting.call.command
            && let Err(why) = filling::check(&fill.step, wall_ms)
        {
            return waiting.call.replier.reply(Outcome::Refused(why));
        }
        let time_ms = waiting.call.command.time_ms();
        if self
            .reign
            .as_ref()
            .is_some_and(|reign| reign.time_ms < time_ms)
        {
            self.end_frame(round);
        }
        let Some(reign) = &mut self.reign else {
            return self.again([(waiting.number, waiting.call)]);
        };
        if round.is_empty() {
            // A frame has one time. It never goes back.
            let least = match mutation::is(Mutation::TimeGoesBack) {
                true => 0,
                false => reign.time_ms,
            };
            reign.time_ms = least.max(round.time_ms).max(time_ms);
        }
        let random = *waiting.random.get_or_insert_with(|| {
            self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
            self.random
        });
        let ran = running::run(
            &*core.machine,
            &waiting.call.command,
            &self.overlay,
            &waiting.pinned,
            reign.time_ms,
            random,
        );
        let (outcome, done) = match ran {
            Ran::Missing(missing) => return self.ask_for(waiting, missing, round),
            Ran::Later => return self.park(waiting),
            Ran::Done(outcome, done) => (outcome, done),
        };
        let is_read = done.writes.is_empty() && done.forgotten.is_empty();
        // Commands that only read are answered though disks are full, and those that free room are done.
        if let Some(full) = &self.full
            && !(is_read || full.frees && done.frees())
        {
            let why = full.why.clone();
            return waiting.call.replier.reply(Outcome::NotNow(why));
        }
        // ‡ Nothing of a command is done whose answer has no room.
        let bytes = bytes_of(&outcome);
        let Some(held) = self.room.take(bytes, waiting.asks.set_aside.take()) else {
            return self.wait_for_room(waiting, bytes, &core.bounds, round);
        };
        let answer = Answer::new(outcome, held);
        done.then.into_iter().for_each(|then| then());
        if is_read {
            round.seen_bytes += bytes;
            round.seen.push(Seen {
                number: waiting.number,
                stream: reign.stream,
                frame: done.seen,
                next: reign.frame + 1,
                barrier: 0,
                has_passed: false,
                call: waiting.call,
                answer,
            });
            return;
        }
        let frame = reign.frame + 1;
        for (key, value) in &done.writes {
            self.overlay.write(frame, key, value.as_deref());
        }
        for prefix in &done.forgotten {
            self.overlay.forget(frame, prefix);
        }
        round.bytes += done.bytes;
        round.writes.extend(done.writes);
        round.forgotten.extend(done.forgotten);
        round.written.push((waiting.number, waiting.call, answer));
        if round.bytes >= core.bounds.frame_bytes {
            self.end_frame(round);
        }
    }

    /// Makes a frame of all that the round has written so far.
    fn end_frame(&mut self, round: &mut Round) {
        let Some(reign) = &mut self.reign else { return };
        if round.is_empty() {
            return;
        }
        reign.frame += 1;
        let frame = Frame {
            number: reign.frame,
            time_ms: reign.time_ms,
            writes: writes_of(
                std::mem::take(&mut round.writes),
                std::mem::take(&mut round.forgotten),
            ),
        };
        let bytes = frame.encode();
        reign.end += bytes.len() as u64;
        round.submits.extend_from_slice(&bytes);
        round.bytes = 0;
        for (number, call, answer) in round.written.drain(..) {
            if mutation::is(Mutation::HostAnswersBeforeChosen) {
                call.replier.reply(answer.give());
                continue;
            }
            self.sent.push_back(Sent {
                number,
                stream: reign.stream,
                end: reign.end,
                call,
                answer,
                until: None,
                is_forgotten: false,
            });
        }
    }

    fn end_round(&mut self, mut round: Round, core: &Core, out: &mut Out) {
        self.pending = std::mem::take(&mut round.pending);
        self.fetch(round.applied, core, out);
        let Some(reign) = &self.reign else { return };
        if !round.submits.is_empty() {
            let (stream, bytes) = (reign.stream, round.submits);
            core.wish(out, Wish::Submit { stream, bytes });
        }
        if !round.seen.is_empty() {
            self.barriers += 1;
            let barrier = number_of_commands(self.barriers);
            core.wish(out, Wish::Barrier { barrier });
            let has_passed = mutation::is(Mutation::CommandsReadWithoutBarrier);
            self.seen.extend(round.seen.into_iter().map(|seen| Seen {
                barrier,
                has_passed,
                ..seen
            }));
            if has_passed {
                self.answer_seen();
            }
        }
    }
}
