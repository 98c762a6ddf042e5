//! Commands, where their log is led: executed, written in frames, answered once all they depend on is chosen.
//!
//! ```text
//!  waiting ─ execute ─┬─ wrote ─▶ sent: answered once the stream is chosen to its frame's end
//!     ▲               ├─ wrote nothing ─▶ seen: answered once what it read is chosen, and a barrier begun since has passed
//!     │               └─ missed rows ─▶ fetching ─▶ executed anew
//!     └── its stream is over below its frame, or its barrier passed in another reign: it was not done
//! ```

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
use crate::frame::Frame;
use crate::jobs::{self, Rows};
use crate::machine::Outcome;
use crate::overlay::Overlay;
use crate::state::{Key, Missing, Pinned, writes_of};
use running::Ran;

/// A command waits so long for somebody to lead.
const HOLD: Duration = Duration::from_millis(1_800);
/// After so long without a word what a deposed leader sent is unknown.
const UNKNOWN_AFTER: Duration = Duration::from_secs(5);
/// A command that needs more rows than these at a time is refused.
const PINNED_BYTES_MAX: usize = 64 << 20;
/// A command that asks for rows so often is refused.
const ROUNDS_MAX: u32 = 1_000;

/// The reign of this node over the log.
struct Reign {
    stream: StreamName,
    /// ‡ The frame that the shelf must have applied before anything is executed: the last one before the stream.
    after: u64,
    /// The number of the last frame, and its time.
    frame: u64,
    time_ms: u64,
    /// Bytes submitted of the stream.
    end: u64,
    /// Bytes chosen of it.
    chosen: u64,
}

struct Waiting {
    /// Counts calls, so that those that are put back come to their places again.
    number: u64,
    call: Call,
    /// The rows that were fetched for it, and those that are being fetched.
    pinned: Pinned,
    asked: Vec<Key>,
    asked_rows: Vec<Vec<u8>>,
    /// ‡ The frame that was applied when the first of it was asked for: what was written since is overlaid.
    from: Option<u64>,
    rounds: u32,
    /// ‡ The same each time that it is executed: a command that looks at a place which it drew would else miss another each time.
    random: Option<u64>,
}

impl Waiting {
    fn new(number: u64, call: Call) -> Waiting {
        Waiting {
            number,
            call,
            pinned: Pinned::default(),
            asked: Vec::new(),
            asked_rows: Vec::new(),
            from: None,
            rounds: 0,
            random: None,
        }
    }
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
}

/// A command that wrote nothing.
struct Seen {
    number: u64,
    stream: StreamName,
    /// The last frame of which it read something.
    frame: u64,
    barrier: u64,
    has_passed: bool,
    call: Call,
    outcome: Outcome,
}

pub struct Leading {
    reign: Option<Reign>,
    overlay: Overlay,
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    /// By number: the commands that a fetch is for, and the first frame that nothing they were given may be older than.
    fetching: BTreeMap<u64, (u64, Vec<Waiting>)>,
    /// Their rows are here.
    fetched: Vec<Waiting>,
    fetches: u64,
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
    /// Why nothing is written now.
    pub full: Option<String>,
}

impl Leading {
    pub fn new(seed: u64) -> Leading {
        Leading {
            reign: None,
            overlay: Overlay::default(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            fetching: BTreeMap::new(),
            fetched: Vec::new(),
            fetches: 0,
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

    /// Drops what waits of this order: whoever asked is gone, and what he asks again would be done twice.
    pub fn forget_order(&mut self, order: u64) {
        let is_other = |waiting: &Waiting| waiting.call.order != Some(order);
        self.waiting.retain(is_other);
        self.waiting_bytes = self.waiting.iter().map(|w| w.call.command.bytes()).sum();
        for (_, fetching) in self.fetching.values_mut() {
            fetching.retain(is_other);
        }
        self.fetched.retain(is_other);
        self.held.remove(&order);
    }

    pub fn is_ready(&self, keeping: &Keeping) -> bool {
        let reign = self.reign.as_ref();
        reign.is_some_and(|reign| keeping.applied().frame >= reign.after)
    }

    /// From now on commands are executed here, once the shelf has all before the stream.
    pub fn begin(&mut self, stream: StreamName, decoded: Applied) {
        if !mutation::is(Mutation::HostKeepsOverlay) {
            self.overlay = Overlay::default();
        }
        self.overlay.begin(decoded.frame);
        let after = match mutation::is(Mutation::HostLeadsBeforeApplied) {
            true => 0,
            false => decoded.frame,
        };
        self.reign = Some(Reign {
            stream,
            after,
            frame: decoded.frame,
            time_ms: decoded.time_ms,
            end: 0,
            chosen: 0,
        });
    }

    /// ‡ The overlay goes with the reign. What was executed waits for its stream's end; what wrote nothing is executed again.
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
        for sent in &mut self.sent {
            sent.until.get_or_insert(now + UNKNOWN_AFTER);
        }
        if !mutation::is(Mutation::HostAnswersOfOlderReign) {
            let seen = std::mem::take(&mut self.seen);
            self.again(seen.into_iter().map(|seen| (seen.number, seen.call)));
        }
        self.give_fetches_up();
    }

    /// Puts calls into their places again: they were not done.
    fn again(&mut self, calls: impl IntoIterator<Item = (u64, Call)>) {
        for (number, call) in calls {
            self.waiting_bytes += call.command.bytes();
            self.waiting.push_back(Waiting::new(number, call));
        }
        let waiting = self.waiting.make_contiguous();
        waiting.sort_by_key(|waiting| waiting.number);
    }

    /// Commands that rows were fetched for, and those behind them, are executed again from their beginning.
    fn give_fetches_up(&mut self) {
        let fetching = std::mem::take(&mut self.fetching).into_values();
        let fetching = fetching.flat_map(|(_, waiting)| waiting);
        let held = std::mem::take(&mut self.held).into_values().flatten();
        let fetched = std::mem::take(&mut self.fetched);
        let all = fetching.chain(held).chain(fetched);
        self.again(all.map(|waiting| (waiting.number, waiting.call)));
    }

    /// The stream is chosen so far; `frame` is the last whole one.
    pub fn on_chosen(&mut self, stream: StreamName, chosen: u64, frame: u64) {
        self.chosen_frame = frame;
        if let Some(reign) = &mut self.reign
            && reign.stream == stream
        {
            reign.chosen = chosen;
        }
        while let Some(sent) = self
            .sent
            .pop_front_if(|sent| sent.stream == stream && sent.end <= chosen)
        {
            sent.call.replier.reply(sent.outcome);
        }
        self.answer_seen();
    }

    /// ‡ Only the end of its stream tells what never will be chosen.
    pub fn on_ended(&mut self, stream: StreamName, length: Option<u64>) {
        let (of_it, others): (VecDeque<Sent>, VecDeque<Sent>) = std::mem::take(&mut self.sent)
            .into_iter()
            .partition(|sent| sent.stream == stream);
        self.sent = others;
        match length {
            // All below it was handed over, and answered.
            Some(_) => self.again(of_it.into_iter().map(|sent| (sent.number, sent.call))),
            None => of_it
                .into_iter()
                .for_each(|sent| sent.call.replier.reply(Outcome::Unknown)),
        }
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

    pub fn on_fetched(&mut self, fetch: u64, rows: Rows) {
        let Some((_, mut waiting)) = self.fetching.remove(&fetch) else {
            return; // The reign in which it was asked for is over.
        };
        for waiting in &mut waiting {
            for asked in waiting.asked.drain(..) {
                if let Some(page) = rows.pages.get(&asked) {
                    waiting.pinned.pages.insert(asked, page.clone());
                }
            }
            for asked in waiting.asked_rows.drain(..) {
                if let Some(value) = rows.rows.get(&asked) {
                    waiting.pinned.rows.insert(asked, value.clone());
                }
            }
        }
        for (key, value) in rows.rows {
            self.overlay.learn(rows.applied.frame, &key, value);
        }
        self.fetched.append(&mut waiting);
    }

    pub fn on_fetch_failed(&mut self, fetch: u64) {
        if self.fetching.contains_key(&fetch) {
            self.give_fetches_up();
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
        match core.is_whole() && self.is_ready(keeping) {
            true => self.execute(wall_ms, core, keeping, out),
            false => self.turn_away(now),
        }
    }

    fn give_up(&mut self, now: Time) {
        while let Some(sent) = self
            .sent
            .pop_front_if(|sent| sent.until.is_some_and(|until| until <= now))
        {
            sent.call.replier.reply(Outcome::Unknown);
        }
    }

    /// Nothing is executed here now.
    fn turn_away(&mut self, now: Time) {
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

    fn execute(&mut self, wall_ms: Option<u64>, core: &Core, keeping: &Keeping, out: &mut Out) {
        let why = self.full.as_deref().or(keeping.trouble());
        if let Some(why) = why {
            return self.refuse_all(&Outcome::NotNow(why.to_owned()));
        }
        let mut round = Round::default();
        let applied = keeping.applied().frame;
        for waiting in std::mem::take(&mut self.fetched) {
            self.execute_one(waiting, wall_ms, applied, core, &mut round);
        }
        while self.has_room(core)
            && let Some(waiting) = self.waiting.pop_front()
        {
            self.waiting_bytes -= waiting.call.command.bytes();
            let order = waiting.call.order;
            match order.and_then(|order| self.held.get_mut(&order)) {
                Some(held) => held.push(waiting),
                None => self.execute_one(waiting, wall_ms, applied, core, &mut round),
            }
        }
        self.end_frame(&mut round);
        self.end_round(round, core, out);
    }

    fn has_room(&self, core: &Core) -> bool {
        let reign = self.reign.as_ref();
        let unchosen = reign.map_or(0, |reign| reign.end - reign.chosen);
        unchosen < core.bounds.unchosen_bytes_max
            && self.overlay.bytes() < core.bounds.overlay_bytes_max
    }

    /// Executes a command, unless rows have to be fetched first. ‡ What follows it in its order waits for it.
    fn execute_one(
        &mut self,
        waiting: Waiting,
        wall_ms: Option<u64>,
        applied: u64,
        core: &Core,
        round: &mut Round,
    ) {
        let order = waiting.call.order;
        let fetching = round.fetching.len();
        self.try_one(waiting, wall_ms, applied, core, round);
        let Some(order) = order else { return };
        if round.fetching.len() > fetching {
            self.held.entry(order).or_default();
        } else if let Some(held) = self.held.remove(&order) {
            for waiting in held.into_iter().rev() {
                self.waiting_bytes += waiting.call.command.bytes();
                self.waiting.push_front(waiting);
            }
        }
    }

    fn try_one(
        &mut self,
        mut waiting: Waiting,
        wall_ms: Option<u64>,
        applied: u64,
        core: &Core,
        round: &mut Round,
    ) {
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
            reign.time_ms = reign.time_ms.max(wall_ms.unwrap_or(0)).max(time_ms);
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
            Ran::Missing(_) if waiting.pinned.bytes() > PINNED_BYTES_MAX => {
                let why = format!(
                    "the command reads more than {PINNED_BYTES_MAX} bytes of rows: do it in several"
                );
                return waiting.call.replier.reply(Outcome::Refused(why));
            }
            Ran::Missing(missing) if waiting.rounds < ROUNDS_MAX => {
                waiting.rounds += 1;
                waiting.from.get_or_insert(applied);
                let asked = missing.ranges.iter().map(|(key, _)| key.clone());
                waiting.asked = asked.collect();
                waiting.asked_rows.clone_from(&missing.keys);
                round.missing.keys.extend(missing.keys);
                round.missing.ranges.extend(missing.ranges);
                round.fetching.push(waiting);
                return;
            }
            Ran::Missing(_) => {
                let why = "the command asks for rows without end";
                let outcome = Outcome::Refused(why.to_owned());
                return waiting.call.replier.reply(outcome);
            }
            Ran::Done(outcome, done) => (outcome, done),
        };
        if done.writes.is_empty() && done.forgotten.is_empty() {
            round.seen.push(Seen {
                number: waiting.number,
                stream: reign.stream,
                frame: done.seen,
                barrier: 0,
                has_passed: false,
                call: waiting.call,
                outcome,
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
            });
        }
    }

    fn end_round(&mut self, round: Round, core: &Core, out: &mut Out) {
        let Some(reign) = &self.reign else { return };
        if !round.submits.is_empty() {
            let (stream, bytes) = (reign.stream, round.submits);
            core.wish(out, Wish::Submit { stream, bytes });
        }
        if !round.seen.is_empty() {
            self.barriers += 1;
            let barrier = number_of_commands(self.barriers);
            core.wish(out, Wish::Barrier { barrier });
            self.seen
                .extend(round.seen.into_iter().map(|seen| Seen { barrier, ..seen }));
        }
        if let Some(shelf) = &core.shelf
            && !round.fetching.is_empty()
        {
            self.fetches += 1;
            let from = match mutation::is(Mutation::HostForgetsLaterWrites) {
                true => u64::MAX,
                false => round
                    .fetching
                    .iter()
                    .filter_map(|w| w.from)
                    .min()
                    .unwrap_or(0),
            };
            self.fetching.insert(self.fetches, (from, round.fetching));
            let lane = jobs::READERS[self.fetches as usize % jobs::READERS.len()];
            core.run(out, lane, jobs::fetch(shelf, self.fetches, round.missing));
        }
    }

    /// Lets rows go that the shelf has, and no read that is under way may have missed.
    pub fn shrink(&mut self, applied: u64, bounds: &Bounds) {
        let oldest = self.fetching.values().map(|(from, _)| *from).min();
        let until = oldest.unwrap_or(u64::MAX).min(applied);
        self.overlay.shrink(until, bounds.kept_bytes_max);
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
        let held = self.waiting.iter().map(|waiting| waiting.call.since + HOLD);
        let held = held.min().filter(|_| self.reign.is_none());
        until.into_iter().chain(held).min()
    }
}

/// The commands that one round executes.
#[derive(Default)]
struct Round {
    /// The rows of the frame that is not ended.
    writes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    forgotten: Vec<Vec<u8>>,
    bytes: usize,
    written: Vec<(u64, Call, Outcome)>,
    /// Frames.
    submits: Vec<u8>,
    seen: Vec<Seen>,
    missing: Missing,
    fetching: Vec<Waiting>,
}

impl Round {
    /// Whether nothing is written that is in no frame.
    fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.forgotten.is_empty()
    }
}
