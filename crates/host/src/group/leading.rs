//! Commands, where their log is led: executed, written in frames, answered once all they depend on is chosen.
//!
//! ```text
//!  waiting ─ execute ─┬─ wrote ─▶ sent: answered once the stream is chosen to its frame's end
//!     ▲               ├─ wrote nothing ─▶ seen: answered once what it read is chosen, and a barrier begun since has passed
//!     │               ├─ missed rows ─▶ fetching ─▶ executed anew
//!     │               └─ has a large answer, and that no room ─▶ roomless ─▶ executed anew
//!     └── its stream is over below its frame, or its barrier passed in another reign: it was not done
//! ```

mod answering;
mod clock;
mod deep;
mod executing;
mod fetching;
mod room;
mod running;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use letters::Leader;
use paxos::mutation::{self, Mutation};
use paxos::{StreamName, Time};
use shelf::Applied;

use super::{Call, Core, Keeping, Out};
use crate::bounds::Bounds;
use crate::machine::Outcome;
use crate::overlay::Overlay;
use crate::room::{Answer, Room};
use clock::LogClock;
use fetching::{Pending, Waiting};
use room::{Behind, Roomless};

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
    answer: Answer,
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
    answer: Answer,
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
    /// Their answers had no room.
    roomless: Roomless,
    /// That of the host.
    room: Room,
    sent: VecDeque<Sent>,
    seen: Vec<Seen>,
    barriers: u64,
    /// The last frame that is chosen, as far as this node was handed the log.
    chosen_frame: u64,
    random: u64,
    /// Another node that leads.
    pub leader: Option<Leader>,
    /// ‡ By order: the calls behind one of it that is not executed yet.
    held: BTreeMap<u64, Behind>,
    calls: u64,
    pub full: Option<Full>,
}

impl Leading {
    pub fn new(seed: u64, room: Room) -> Leading {
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
            roomless: Roomless::default(),
            room,
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
        self.roomless.retain(is_other);
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
        self.roomless.begin_anew(now);
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

    /// Nothing is executed here now.
    fn turn_away(&mut self, now: Time) {
        // Commands that were to be executed again soon, or once there is room, are not now: they wait as others do, or their moment would stay in the past.
        if !self.parked.is_empty() || self.has_let_in() {
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
            aside: None,
        }
    }

    fn answer(leading: &Leading) -> Answer {
        Answer::new(Outcome::Chosen(Vec::new()), leading.room.hold(0))
    }

    /// Leads, has executed a command that wrote and one that read of each of two orders, and nothing of it is chosen.
    fn leading(tell: &mpsc::Sender<u64>) -> Leading {
        let mut leading = Leading::new(0, Room::new(&Bounds::default()));
        leading.begin(Time::ZERO, STREAM, Applied::default());
        for order in [1, 2] {
            let (wrote, read) = (answer(&leading), answer(&leading));
            leading.sent.push_back(Sent {
                number: 2 * order,
                stream: STREAM,
                end: 10 * order,
                call: call(order, tell),
                answer: wrote,
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
                answer: read,
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
