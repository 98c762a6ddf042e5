//! Commands, where their log is led: executed, written in frames, answered once all they depend on is chosen.
//!
//! ```text
//!  waiting ─ execute ─┬─ wrote ─▶ sent: answered once the stream is chosen to its frame's end
//!     ▲               ├─ wrote nothing ─▶ seen: answered once what it read is chosen, and a barrier begun since has passed
//!     │               └─ missed rows ─▶ fetching ─▶ executed anew
//!     └── its stream is over below its frame, or its barrier passed in another reign: it was not done
//! ```

mod clock;
mod fetching;
mod running;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use letters::{Leader, Wish};
use paxos::mutation::{self, Mutation};
use paxos::{StreamName, Time};
use shelf::Applied;

use super::looking::number_of_commands;
use super::{Call, Core, Keeping, Out};
use crate::bounds::Bounds;
use crate::filling;
use crate::frame::Frame;
use crate::machine::{Command, Outcome};
use crate::overlay::Overlay;
use crate::state::writes_of;
use clock::LogClock;
use fetching::{Pending, Waiting};
use running::Ran;

/// Answers that wait until they may be given, in bytes: with more no command is executed.
const ANSWERS_BYTES_MAX: usize = 32 << 20;
/// A command whose machine said "later" is executed again as often.
const LATER: Duration = Duration::from_millis(2);
/// So many of these are kept, and so many bytes.
const PARKED_MAX: usize = 4_096;
const PARKED_BYTES_MAX: usize = 16 << 20;
/// A command waits so long for somebody to lead.
const HOLD: Duration = Duration::from_millis(1_800);
/// After so long without a word what a deposed leader sent is unknown.
const UNKNOWN_AFTER: Duration = Duration::from_secs(5);
/// The reign of this node over the log.
struct Reign {
    stream: StreamName,
    /// ‡ The frame that the shelf must have applied before anything is executed: the last one before the stream.
    after: u64,
    /// The number of the last frame, and its time.
    frame: u64,
    time_ms: u64,
    clock: LogClock,
    /// Bytes submitted of the stream.
    end: u64,
    /// Bytes chosen of it.
    chosen: u64,
}

/// A command that wrote.
struct Sent {
    number: u64,
    stream: StreamName,
    /// Where its frame ends in the stream.
    end: u64,
    call: Call,
    outcome: Outcome,
    /// After its reign ended: when that is given up.
    until: Option<Time>,
    /// Whoever asked is gone.
    is_forgotten: bool,
}

/// A command that wrote nothing.
struct Seen {
    number: u64,
    stream: StreamName,
    /// The last frame of which it read something.
    frame: u64,
    /// The first frame of its stream that was sent behind it.
    next: u64,
    barrier: u64,
    has_passed: bool,
    call: Call,
    outcome: Outcome,
}

/// Disks are full.
pub struct Full {
    pub why: String,
    /// Commands that free room are executed all the same.
    pub frees: bool,
}

pub struct Leading {
    reign: Option<Reign>,
    overlay: Overlay,
    /// The share of what is kept in the overlay although the shelf has it.
    kept_bytes: usize,
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    /// By number: the commands that a fetch is for, and the first frame that nothing they were given may be older than.
    fetching: BTreeMap<u64, (u64, Vec<Waiting>)>,
    /// Their rows are here.
    fetched: VecDeque<Waiting>,
    /// A large one of them was executed, and others may be at once.
    goes_on: bool,
    /// Their rows are not being fetched yet.
    pending: Pending,
    pub(super) fetches: u64,
    /// They need many rows, as others do that go on.
    deep: VecDeque<Waiting>,
    /// Their machine said: later. And when they are executed again.
    parked: Vec<Waiting>,
    again_at: Time,
    sent: VecDeque<Sent>,
    seen: Vec<Seen>,
    barriers: u64,
    /// The last frame that is chosen, as far as this node was handed the log.
    chosen_frame: u64,
    random: u64,
    /// Another node that leads.
    pub leader: Option<Leader>,
    /// ‡ By order: the calls behind one of it that rows are fetched for.
    held: BTreeMap<u64, Vec<Waiting>>,
    calls: u64,
    pub full: Option<Full>,
}

impl Leading {
    pub fn new(seed: u64) -> Leading {
        Leading {
            reign: None,
            overlay: Overlay::default(),
            kept_bytes: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            fetching: BTreeMap::new(),
            fetched: VecDeque::new(),
            goes_on: false,
            pending: Pending::default(),
            fetches: 0,
            deep: VecDeque::new(),
            parked: Vec::new(),
            again_at: Time::ZERO,
            sent: VecDeque::new(),
            seen: Vec::new(),
            barriers: 0,
            chosen_frame: 0,
            random: seed,
            leader: None,
            held: BTreeMap::new(),
            calls: 0,
            full: None,
        }
    }

    pub fn call(&mut self, call: Call, bounds: &Bounds) {
        if self.waiting.len() >= bounds.waiting_max || self.waiting_bytes > bounds.waiting_bytes_max
        {
            let why = "too many commands wait already: ask again in a moment";
            return call.replier.reply(Outcome::NotNow(why.to_owned()));
        }
        self.waiting_bytes += call.command.bytes();
        self.calls += 1;
        self.waiting.push_back(Waiting::new(self.calls, call));
    }

    /// Drops what waits of this order: whoever asked is gone, and what he asks again would be done twice. ‡ What was executed is not put back
    /// either, should its stream end without it.
    pub fn forget_order(&mut self, order: u64) {
        if mutation::is(Mutation::CallsOfTheGoneKept) {
            return;
        }
        for sent in &mut self.sent {
            sent.is_forgotten |= sent.call.order == Some(order);
        }
        self.seen.retain(|seen| seen.call.order != Some(order));
        let is_other = |waiting: &Waiting| waiting.call.order != Some(order);
        self.waiting.retain(is_other);
        self.waiting_bytes = self.waiting.iter().map(|w| w.call.command.bytes()).sum();
        for (_, fetching) in self.fetching.values_mut() {
            fetching.retain(is_other);
        }
        self.fetched.retain(is_other);
        self.pending.calls.retain(is_other);
        self.deep.retain(is_other);
        self.parked.retain(is_other);
        self.held.remove(&order);
    }

    pub fn reign(&self) -> Option<StreamName> {
        self.reign.as_ref().map(|reign| reign.stream)
    }

    pub fn is_ready(&self, keeping: &Keeping) -> bool {
        let reign = self.reign.as_ref();
        reign.is_some_and(|reign| keeping.applied().frame >= reign.after)
    }

    /// From now on commands are executed here, once the shelf has all before the stream.
    pub fn begin(&mut self, now: Time, stream: StreamName, decoded: Applied) {
        if !mutation::is(Mutation::HostKeepsOverlay) {
            self.overlay = Overlay::default();
        }
        self.overlay.begin(decoded.frame);
        // A state that stands at the log's end is handed nothing more, and all that it has was chosen.
        self.chosen_frame = self.chosen_frame.max(decoded.frame);
        let after = match mutation::is(Mutation::HostLeadsBeforeApplied) {
            true => 0,
            false => decoded.frame,
        };
        self.reign = Some(Reign {
            stream,
            after,
            frame: decoded.frame,
            time_ms: decoded.time_ms,
            clock: LogClock::at(now, decoded.time_ms),
            end: 0,
            chosen: 0,
        });
    }

    /// ‡ The overlay goes with the reign. What was executed waits for its stream's end. What wrote nothing is executed again, but not
    /// behind what its order asked for later: it waits for that.
    pub fn on_deposed(&mut self, now: Time, stream: StreamName) {
        if self
            .reign
            .as_ref()
            .is_none_or(|reign| reign.stream != stream)
        {
            return;
        }
        self.reign = None;
        if !mutation::is(Mutation::HostKeepsOverlay) {
            self.overlay = Overlay::default();
        }
        if mutation::is(Mutation::SentPutBackAtOnce) {
            let sent = std::mem::take(&mut self.sent);
            self.again(sent.into_iter().map(|sent| (sent.number, sent.call)));
        }
        for sent in &mut self.sent {
            sent.until.get_or_insert(now + UNKNOWN_AFTER);
        }
        if !mutation::is(Mutation::HostAnswersOfOlderReign) {
            let (before_a_write, others): (Vec<Seen>, Vec<Seen>) = std::mem::take(&mut self.seen)
                .into_iter()
                .partition(|seen| self.is_before_a_write(seen));
            self.seen = before_a_write;
            self.again(others.into_iter().map(|seen| (seen.number, seen.call)));
        }
        self.give_fetches_up();
    }

    /// Whether something that its order asked for behind it wrote, and may be chosen.
    fn is_before_a_write(&self, seen: &Seen) -> bool {
        let is_behind = |sent: &Sent| {
            sent.stream == seen.stream
                && sent.number > seen.number
                && sent.call.order == seen.call.order
        };
        seen.call.order.is_some()
            && self.sent.iter().any(is_behind)
            && !mutation::is(Mutation::ReadsOvertaken)
    }

    /// Puts calls into their places again: they were not done.
    fn again(&mut self, calls: impl IntoIterator<Item = (u64, Call)>) {
        for (number, call) in calls {
            self.waiting_bytes += call.command.bytes();
            self.waiting.push_back(Waiting::new(number, call));
        }
        if mutation::is(Mutation::PutBackInAnyPlace) {
            return;
        }
        let waiting = self.waiting.make_contiguous();
        waiting.sort_by_key(|waiting| waiting.number);
    }

    /// The stream is chosen so far; `frame` is the last whole one.
    pub fn on_chosen(&mut self, stream: StreamName, chosen: u64, frame: u64) {
        self.chosen_frame = frame;
        if let Some(reign) = &mut self.reign
            && reign.stream == stream
        {
            reign.chosen = chosen;
        }
        // ‡ A frame that is made after a read and chosen in its stream proves what a barrier does: nobody led in between.
        for seen in &mut self.seen {
            seen.has_passed |= seen.stream == stream
                && seen.next <= frame
                && !mutation::is(Mutation::ReadsOvertaken);
        }
        self.answer_seen();
        while let Some(sent) = self
            .sent
            .pop_front_if(|sent| sent.stream == stream && sent.end <= chosen)
        {
            sent.call.replier.reply(sent.outcome);
        }
    }

    /// ‡ Only the end of its stream tells what never will be chosen.
    pub fn on_ended(&mut self, stream: StreamName, length: Option<u64>) {
        let (of_it, others): (VecDeque<Sent>, VecDeque<Sent>) = std::mem::take(&mut self.sent)
            .into_iter()
            .partition(|sent| sent.stream == stream);
        self.sent = others;
        let seen = self.seen_of(stream);
        match length {
            // All below it was handed over, and answered.
            Some(_) => {
                let asked = of_it.into_iter().filter(|sent| !sent.is_forgotten);
                let asked = asked.map(|sent| (sent.number, sent.call));
                let seen = seen.into_iter().map(|seen| (seen.number, seen.call));
                self.again(asked.chain(seen));
            }
            None => {
                let sent = of_it.into_iter().map(|sent| sent.call);
                sent.chain(seen.into_iter().map(|seen| seen.call))
                    .for_each(|call| call.replier.reply(Outcome::Unknown));
            }
        }
    }

    /// Takes the commands away that wrote nothing in this stream, and wait for no reign of it.
    fn seen_of(&mut self, stream: StreamName) -> Vec<Seen> {
        if mutation::is(Mutation::HostAnswersOfOlderReign) {
            return Vec::new();
        }
        let reigns = self.reign.as_ref().map(|reign| reign.stream);
        let is_of_it = |seen: &mut Seen| seen.stream == stream && reigns != Some(stream);
        self.seen.extract_if(.., is_of_it).collect()
    }

    /// ‡ An answer that wrote nothing stands only if the reign in which it was found is still there when its barrier passes.
    pub fn on_passed(&mut self, barrier: u64, stream: Option<StreamName>) {
        for seen in &mut self.seen {
            let stands = stream == Some(seen.stream);
            let stands = stands || mutation::is(Mutation::HostAnswersOfOlderReign);
            seen.has_passed |= seen.barrier == barrier && stands;
        }
        self.answer_seen();
    }

    fn answer_seen(&mut self) {
        let chosen = match mutation::is(Mutation::HostShowsUnchosen) {
            true => u64::MAX,
            false => self.chosen_frame,
        };
        let is_due = |seen: &mut Seen| seen.has_passed && seen.frame <= chosen;
        for seen in self.seen.extract_if(.., is_due) {
            seen.call.replier.reply(seen.outcome);
        }
    }

    pub fn settle(
        &mut self,
        now: Time,
        wall_ms: Option<u64>,
        core: &Core,
        keeping: &Keeping,
        out: &mut Out,
    ) {
        self.give_up(now);
        self.goes_on = false;
        match core.is_whole() && self.is_ready(keeping) {
            true => self.execute(now, wall_ms, core, keeping, out),
            false => self.turn_away(now),
        }
    }

    fn give_up(&mut self, now: Time) {
        while let Some(sent) = self
            .sent
            .pop_front_if(|sent| sent.until.is_some_and(|until| until <= now))
        {
            sent.call.replier.reply(Outcome::Unknown);
            // The rest of that stream is given up in the same loop.
            for seen in self.seen_of(sent.stream) {
                seen.call.replier.reply(Outcome::Unknown);
            }
        }
    }

    /// Nothing is executed here now.
    fn turn_away(&mut self, now: Time) {
        // Commands that were to be executed again soon are not now: they wait as others do, or their moment would stay in the past.
        if !self.parked.is_empty() {
            self.give_fetches_up();
        }
        let leader = self.leader.as_ref().map(|leader| leader.address.clone());
        let reigns = self.reign.is_some();
        let is_over = |waiting: &Waiting| {
            let knows_better = leader.is_some() && !reigns;
            knows_better || now >= waiting.call.since + HOLD
        };
        let mut kept = VecDeque::new();
        for waiting in std::mem::take(&mut self.waiting) {
            if is_over(&waiting) {
                self.waiting_bytes -= waiting.call.command.bytes();
                let leader = leader.clone();
                waiting.call.replier.reply(Outcome::NotLeader { leader });
            } else {
                kept.push_back(waiting);
            }
        }
        self.waiting = kept;
    }

    fn execute(
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
            && answers + round.seen_bytes < ANSWERS_BYTES_MAX
            && self.may_fetch(&round)
            && let Some(waiting) = self.waiting.pop_front()
        {
            self.waiting_bytes -= waiting.call.command.bytes();
            let order = waiting.call.order;
            if order.is_some_and(|order| self.held.contains_key(&order)) {
                self.foresee(&waiting, core, &mut round);
            }
            match order.and_then(|order| self.held.get_mut(&order)) {
                Some(held) => held.push(waiting),
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
        if has_room && answers + round.seen_bytes < ANSWERS_BYTES_MAX {
            self.go_on_with_large(wall_ms, core, &mut round);
        }
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

    /// What waits for a command of this order goes on.
    fn let_follow(&mut self, order: Option<u64>) {
        if let Some(held) = order.and_then(|order| self.held.remove(&order)) {
            for waiting in held.into_iter().rev() {
                self.waiting_bytes += waiting.call.command.bytes();
                self.waiting.push_front(waiting);
            }
        }
    }

    /// The bytes of answers that wait.
    fn answers_bytes(&self) -> usize {
        let seen = self.seen.iter().map(|seen| &seen.outcome);
        let sent = self.sent.iter().map(|sent| &sent.outcome);
        seen.chain(sent).map(bytes_of).sum()
    }

    fn has_room(&self, core: &Core) -> bool {
        self.has_room_in_log(core)
            && self.overlay.bytes() < core.bounds.overlay_bytes_max + self.kept_bytes
    }

    fn has_room_in_log(&self, core: &Core) -> bool {
        let reign = self.reign.as_ref();
        let unchosen = reign.map_or(0, |reign| reign.end - reign.chosen);
        unchosen < core.bounds.unchosen_bytes_max
    }

    /// Executes a command, unless rows have to be fetched first. ‡ What follows it in its order waits for it.
    fn execute_one(
        &mut self,
        waiting: Waiting,
        wall_ms: Option<u64>,
        core: &Core,
        round: &mut Round,
    ) {
        let order = waiting.call.order;
        let unfinished = |leading: &Leading, round: &Round| {
            round.pending.calls.len() + leading.deep.len() + leading.parked.len()
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
        if done.writes.is_empty() && done.forgotten.is_empty() {
            round.seen_bytes += bytes_of(&outcome);
            round.seen.push(Seen {
                number: waiting.number,
                stream: reign.stream,
                frame: done.seen,
                next: reign.frame + 1,
                barrier: 0,
                has_passed: false,
                call: waiting.call,
                outcome,
            });
            return;
        }
        // Commands that only read are answered though disks are full, and those that free room are done.
        if let Some(full) = &self.full
            && !(full.frees && done.frees())
        {
            let why = full.why.clone();
            return waiting.call.replier.reply(Outcome::NotNow(why));
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
        round.written.push((waiting.number, waiting.call, outcome));
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
        for (number, call, outcome) in round.written.drain(..) {
            if mutation::is(Mutation::HostAnswersBeforeChosen) {
                call.replier.reply(outcome);
                continue;
            }
            self.sent.push_back(Sent {
                number,
                stream: reign.stream,
                end: reign.end,
                call,
                outcome,
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

    /// Turns away what was not executed.
    pub fn refuse_all(&mut self, outcome: &Outcome) {
        self.give_fetches_up();
        self.waiting_bytes = 0;
        for waiting in self.waiting.drain(..) {
            waiting.call.replier.reply(outcome.clone());
        }
    }

    /// Nobody will ever know what became of the rest.
    pub fn end(&mut self, outcome: &Outcome) {
        for sent in self.sent.drain(..) {
            sent.call.replier.reply(outcome.clone());
        }
        self.reign = None;
        self.overlay = Overlay::default();
        let seen = std::mem::take(&mut self.seen).into_iter();
        self.again(seen.map(|seen| (seen.number, seen.call)));
        self.give_fetches_up();
    }

    pub fn deadline(&self) -> Option<Time> {
        let until = self.sent.front().and_then(|sent| sent.until);
        let waiting = self.waiting.iter().filter(|_| self.reign.is_none());
        let held = waiting.map(|waiting| waiting.call.since + HOLD);
        let soon = self.goes_on.then_some(Time::ZERO);
        let parked = (!self.parked.is_empty()).then_some(self.again_at);
        let all = until.into_iter().chain(held).chain(soon);
        all.chain(parked).min()
    }
}

/// The commands that one round executes.
#[derive(Default)]
struct Round {
    /// The frame that the shelf had applied when the round began.
    applied: u64,
    /// The time of the log now.
    time_ms: u64,
    /// The commands that need many rows and go on.
    deep: usize,
    /// The rows of the frame that is not ended.
    writes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    forgotten: Vec<Vec<u8>>,
    bytes: usize,
    written: Vec<(u64, Call, Outcome)>,
    /// Frames.
    submits: Vec<u8>,
    seen: Vec<Seen>,
    seen_bytes: usize,
    pending: Pending,
}

fn bytes_of(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Chosen(answer) => answer.len(),
        _ => 0,
    }
}

impl Round {
    /// Whether nothing is written that is in no frame.
    fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.forgotten.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use paxos::{NodeId, StreamSequence};

    use super::*;
    use crate::group::Replier;
    use crate::machine::Command;

    const STREAM: StreamName = StreamName {
        owner: NodeId(1),
        sequence: StreamSequence {
            incarnation: 1,
            counter: 1,
        },
    };

    fn call(order: u64, tell: &mpsc::Sender<u64>) -> Call {
        let tell = tell.clone();
        Call {
            command: Command::Plain(Vec::new()),
            replier: Replier::new(move |_| _ = tell.send(order)),
            since: Time::ZERO,
            order: Some(order),
        }
    }

    /// Leads, has executed a command that wrote and one that read of each of two orders, and nothing of it is chosen.
    fn leading(tell: &mpsc::Sender<u64>) -> Leading {
        let mut leading = Leading::new(0);
        leading.begin(Time::ZERO, STREAM, Applied::default());
        for order in [1, 2] {
            leading.sent.push_back(Sent {
                number: 2 * order,
                stream: STREAM,
                end: 10 * order,
                call: call(order, tell),
                outcome: Outcome::Chosen(Vec::new()),
                until: None,
                is_forgotten: false,
            });
            leading.seen.push(Seen {
                number: 2 * order + 1,
                stream: STREAM,
                frame: 1,
                next: 2,
                barrier: 0,
                has_passed: false,
                call: call(order, tell),
                outcome: Outcome::Chosen(Vec::new()),
            });
        }
        leading
    }

    #[test]
    fn what_the_gone_asked_for_is_not_executed_again_when_its_stream_ends() {
        let (tell, _told) = mpsc::channel();
        let mut leading = leading(&tell);
        leading.forget_order(1);
        leading.on_deposed(Time::ZERO, STREAM);
        leading.on_ended(STREAM, Some(0));
        let waiting: Vec<u64> = leading
            .waiting
            .iter()
            .map(|waiting| waiting.number)
            .collect();
        assert_eq!(waiting, [4, 5]);
    }

    /// A read and, behind it, a write of one order, both executed and not answered.
    fn read_then_wrote(tell: &mpsc::Sender<u64>) -> Leading {
        let mut leading = leading(tell);
        leading.forget_order(2);
        leading.sent[0].number = 4;
        leading.seen[0].frame = 0;
        leading.seen[0].next = 1;
        leading.sent.truncate(1);
        leading
    }

    #[test]
    fn a_read_is_not_executed_again_behind_what_its_order_wrote() {
        let numbers = |leading: &Leading| -> Vec<u64> {
            leading
                .waiting
                .iter()
                .map(|waiting| waiting.number)
                .collect()
        };
        // Chosen, though its leader was deposed: the read stands where it was executed.
        let (tell, told) = mpsc::channel();
        let mut one = read_then_wrote(&tell);
        one.on_deposed(Time::ZERO, STREAM);
        assert!(numbers(&one).is_empty());
        one.on_passed(0, None);
        assert_eq!(told.try_iter().count(), 0);
        one.on_chosen(STREAM, 10, 1);
        one.on_ended(STREAM, Some(10));
        assert_eq!((numbers(&one), told.try_iter().count()), (vec![], 2));
        // Chosen before its leader was deposed.
        let mut one = read_then_wrote(&tell);
        one.on_chosen(STREAM, 10, 1);
        one.on_deposed(Time::ZERO, STREAM);
        assert_eq!((numbers(&one), told.try_iter().count()), (vec![], 2));
        // Never chosen: both are executed again.
        let mut one = read_then_wrote(&tell);
        one.on_deposed(Time::ZERO, STREAM);
        one.on_ended(STREAM, Some(0));
        assert_eq!((numbers(&one), told.try_iter().count()), (vec![3, 4], 0));
        // Nobody can say what became of the write.
        for is_told in [true, false] {
            let mut one = read_then_wrote(&tell);
            one.on_deposed(Time::ZERO, STREAM);
            match is_told {
                true => one.on_ended(STREAM, None),
                false => one.give_up(Time::ZERO + UNKNOWN_AFTER),
            }
            assert_eq!((numbers(&one), told.try_iter().count()), (vec![], 2));
        }
        // A frame of another stream proves nothing.
        let mut one = read_then_wrote(&tell);
        let other = StreamName {
            owner: NodeId(2),
            ..STREAM
        };
        one.on_chosen(other, 10, 1);
        assert_eq!(told.try_iter().count(), 0);
    }

    #[test]
    fn what_was_not_done_comes_back_to_its_place() {
        let (tell, told) = mpsc::channel();
        let mut leading = leading(&tell);
        leading.on_deposed(Time::ZERO, STREAM);
        leading.on_chosen(STREAM, 10, 1);
        leading.on_ended(STREAM, Some(10));
        let waiting: Vec<u64> = leading
            .waiting
            .iter()
            .map(|waiting| waiting.number)
            .collect();
        assert_eq!(
            (waiting, told.try_iter().collect()),
            (vec![3, 4, 5], vec![1])
        );
    }
}
