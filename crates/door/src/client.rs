//! One connection: what came, what is to be answered, in which order.
//!
//! ```text
//!  received ─ parser ─▶ requests ─▶ a place in `replies` each ─▶ answered in any order ─▶ sent in their order
//! ```

mod replies;
mod transaction;

use std::collections::BTreeSet;

use letters::{Fate, Shown};
use ops::{LENT_BYTES_MAX, Slice, Time};
use resp::{Limits, Parser, Protocol, Value, encode};

use crate::bounds::Bounds;
use crate::counts::fate_of_value;
use crate::large::{Large, VALUE_BYTES_MAX};
use crate::unanswered::Unanswered;
use replies::{Replies, Settled};

pub use replies::{Most, Sized, UnderWay, Unread};
pub use transaction::Transaction;

/// The longest argument of a command whose value does not go ahead: all that it writes has room in one frame.
pub const BULK_BYTES_MAX: usize = 6 << 20;
/// An input that took more room than this gives it back once it is empty.
const KEPT_BYTES: usize = 4 << 10;

pub fn limits() -> Limits {
    Limits {
        bulk_bytes_max: VALUE_BYTES_MAX,
        ..Limits::default()
    }
}

/// The fate of the request that was taken last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// It has its answer.
    Now(Fate),
    /// The reply of this number is to come.
    Later(u64),
}

/// The reason why the next request of a client waits. Nothing is received meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// All that was asked before it is to be answered.
    Answers,
    /// Its group is to have room. The client stands in line.
    Room,
    /// This node is to know who may do what.
    Rights,
}

/// The one thing that a door waits for, and that only this client can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    Nothing,
    /// More bytes of requests.
    Sends,
    /// It has so many replies unread that nothing more is received.
    Reads,
}

/// Which replies a client wants (CLIENT REPLY).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wants {
    #[default]
    All,
    None,
    AllButNext,
}

pub struct Client {
    pub id: u64,
    pub peer: String,
    /// The token that it showed; else what its handshake did.
    pub shown: Shown,
    /// Shown by its handshake: it is that again after RESET.
    pub by_handshake: Shown,
    pub name: Vec<u8>,
    pub library: [Vec<u8>; 2],
    pub protocol: Protocol,
    pub transaction: Option<Transaction>,
    pub watches: bool,
    /// ‡ Its watched keys are forgotten with this answer, that of its transaction, and not before: a later command may be answered earlier.
    pub unwatches: Option<u64>,
    /// Nothing is watched if this answer, that of its first WATCH, says so.
    pub first_watch: Option<u64>,
    /// The group of the keys that it watches.
    pub watches_in: Option<String>,
    /// The slots of those keys.
    pub watched_slots: BTreeSet<u16>,
    pub wants: Wants,
    /// ‡ The next command is refused. Its reply would be kept, and nobody would say when it is old.
    pub refuses_next: bool,
    pub unanswered: Unanswered,
    pub said: Option<Said>,
    /// The group of the commands that are not answered.
    pub group: Option<String>,
    /// Its large value that is on its way. Nothing further is taken meanwhile.
    pub large: Option<Large>,
    input: Vec<u8>,
    /// The bytes of the input that are done with.
    done: usize,
    /// The bytes of its unfinished requests that its door has counted.
    pub counted: usize,
    /// The bytes that it claims, and were granted.
    pub claimed: usize,
    /// It stands in line with a larger claim: nothing is received until that is granted.
    pub is_in_line: bool,
    pub waits_for: Option<WaitsFor>,
    /// All bytes that came, and when the last of them did.
    pub received_bytes: u64,
    pub received_at: Time,
    /// The bytes that it had sent and taken when slow clients were looked for last, if it claimed something then.
    pub had_moved: Option<u64>,
    /// The bytes of replies that its door has counted.
    pub counted_unsent: usize,
    /// The time when it took some of its replies last, or had none.
    pub taken_at: Time,
    pub counted_sized: Sized,
    /// Its door looks whether it takes the replies that it holds, if these are many: since when, and the bytes that it has taken once it took enough.
    pub takes_since: Option<(Time, u64)>,
    parser: Option<Parser>,
    replies: Replies,
    is_receiving: bool,
    awaited: Awaited,
    /// More of its requests are here than were taken at once. ‡ Nothing is received before they are taken: else what waits has no bound.
    pub has_more: bool,
    /// Nothing more is read; it is closed when all is answered and sent.
    is_ending: bool,
}

impl Client {
    pub fn new(id: u64, peer: String, by_handshake: Shown) -> Client {
        Client {
            id,
            peer,
            shown: by_handshake.clone(),
            by_handshake,
            name: Vec::new(),
            library: Default::default(),
            protocol: Protocol::Resp2,
            transaction: None,
            watches: false,
            unwatches: None,
            first_watch: None,
            watches_in: None,
            watched_slots: BTreeSet::new(),
            wants: Wants::All,
            refuses_next: false,
            unanswered: Unanswered::default(),
            said: None,
            group: None,
            large: None,
            input: Vec::new(),
            done: 0,
            counted: 0,
            claimed: 0,
            is_in_line: false,
            waits_for: None,
            received_bytes: 0,
            received_at: Time::ZERO,
            had_moved: None,
            counted_unsent: 0,
            taken_at: Time::ZERO,
            counted_sized: [0; 2],
            takes_since: None,
            parser: Some(Parser::new(limits())),
            replies: Replies::default(),
            is_receiving: false,
            awaited: Awaited::Nothing,
            has_more: false,
            is_ending: false,
        }
    }

    pub fn on_received(&mut self, now: Time, bytes: &[u8]) {
        self.is_receiving = false;
        self.received_bytes += bytes.len() as u64;
        self.received_at = now;
        if self.is_ending {
            return;
        }
        // Requests that are done with are let go of now, and not one by one: the bytes behind them would be moved each time.
        self.input.drain(..self.done);
        self.done = 0;
        if let Some(parser) = self.parser.as_ref().filter(|_| !self.is_in_line) {
            self.input.reserve_exact(parser.missing(self.input.len()));
        }
        self.input.extend_from_slice(bytes);
    }

    /// The memory that its unfinished requests take, those of a transaction among them.
    pub fn input_bytes(&self) -> usize {
        let held = self.parser.as_ref().map_or(0, Parser::held_bytes);
        let queued = self.transaction.as_ref().map_or(0, Transaction::held_bytes);
        let large = self.large.as_ref().map_or(0, Large::held_bytes);
        self.input.len() + held + queued + large
    }

    /// The memory that its unfinished requests will take, as far as they say. A transaction does not say how many commands are to come: a large one is taken to
    /// fill a small claim.
    pub fn foreseen_bytes(&self, bounds: &Bounds) -> usize {
        let expected = self.parser.as_ref().map_or(0, Parser::expected);
        let queued = self.transaction.as_ref().map_or(0, Transaction::held_bytes);
        let foreseen = self.input_bytes().max(queued + expected);
        match queued > 0 && foreseen >= bounds.claim_bytes_min {
            true => foreseen.max(bounds.small_claim_bytes),
            false => foreseen,
        }
    }

    /// Lends what came, how to read it, and the bytes of it that are done with, until [`Client::give_back`].
    pub fn take_input(&mut self) -> Option<(Parser, Vec<u8>, usize)> {
        let parser = self.parser.take()?;
        Some((parser, std::mem::take(&mut self.input), self.done))
    }

    /// Takes back what was lent, with the bytes that are done with now.
    pub fn give_back(&mut self, mut parser: Parser, mut input: Vec<u8>, mut done: usize) {
        parser.rest();
        self.parser = Some(parser);
        if self.is_ending {
            return;
        }
        if done >= input.len() {
            done = 0;
            input.clear();
            if input.capacity() > KEPT_BYTES {
                input = Vec::new();
            }
        }
        self.input = input;
        self.done = done;
    }

    /// The bytes of replies that it has not taken.
    pub fn unsent_bytes(&self) -> usize {
        self.replies.unsent_bytes()
    }

    /// … of middling replies, and of large ones.
    pub fn unsent_sized(&self) -> Sized {
        self.replies.unsent_sized()
    }

    /// … that it could take now: no other reply is before them.
    pub fn due_bytes(&self) -> usize {
        self.replies.due_bytes()
    }

    /// Whether a further request is taken.
    pub fn takes_more(&self, most: Most) -> bool {
        self.goes_on() && self.replies.have_room(most)
    }

    fn goes_on(&self) -> bool {
        let goes_on = match self.waits_for {
            None | Some(WaitsFor::Rights) => true,
            // A small command of whoever has nothing under way always has room.
            Some(WaitsFor::Answers | WaitsFor::Room) => self.is_idle(),
        };
        goes_on && !self.is_ending && self.large.is_none()
    }

    /// The bytes that are to be received now, if that is not asked for yet. ‡ A few are received of whoever waits, too: else nobody would hear that it left.
    pub fn begins_to_receive(&mut self, most: Most) -> Option<usize> {
        let waits = self.has_more || self.is_in_line || self.waits_for.is_some();
        // A word that has memory is received to its end, whatever its client has to read before it is done.
        let rest = self.input.len() - self.done;
        let missing = |parser: &Parser| parser.missing(rest);
        let is_begun = !self.is_in_line && self.parser.as_ref().is_some_and(|one| missing(one) > 0);
        let may_send = !waits && (is_begun || self.takes_more(most));
        let is_to_read = !may_send
            && self.goes_on()
            && self.replies.are_few_under_way(most.under_way)
            && !self.replies.have_room(most);
        self.awaited = match (may_send, is_to_read) {
            (true, _) => Awaited::Sends,
            (_, true) => Awaited::Reads,
            _ => Awaited::Nothing,
        };
        if self.awaited == Awaited::Nothing {
            // It is not judged by what it did before.
            self.had_moved = None;
        }
        let bytes_max = match may_send {
            true => LENT_BYTES_MAX,
            false => most.ahead_bytes.saturating_sub(rest),
        };
        let begins = !self.is_receiving && !self.is_ending && bytes_max > 0;
        self.is_receiving |= begins;
        begins.then_some(bytes_max)
    }

    /// The thing that its door waits for.
    pub fn awaited(&self) -> Awaited {
        self.awaited
    }

    /// The bytes that it has sent and taken.
    pub fn moved_bytes(&self) -> u64 {
        self.received_bytes + self.taken_bytes()
    }

    /// Whether all that was asked is answered.
    pub fn is_idle(&self) -> bool {
        self.replies.is_idle()
    }

    pub fn answer(&mut self, value: &Value) {
        self.said = Some(Said::Now(fate_of_value(value)));
        let mut bytes = Vec::new();
        encode(value, self.protocol, &mut bytes);
        if self.wants_next() {
            self.replies.put(bytes);
        }
        self.settle();
    }

    /// Whether the reply to the request that is taken now is wanted.
    fn wants_next(&mut self) -> bool {
        match self.wants {
            Wants::All => return true,
            Wants::AllButNext => self.wants = Wants::All,
            Wants::None => {}
        }
        false
    }

    /// A reply that is to come, to a command of so many bytes: its number.
    pub fn await_answer(&mut self, bytes: usize) -> u64 {
        let is_wanted = self.wants_next();
        let number = self.replies.wait(is_wanted, bytes);
        self.said = Some(Said::Later(number));
        number
    }

    /// The number of the last request, if it is not answered.
    pub fn last_awaited(&self) -> Option<u64> {
        self.replies.last()
    }

    /// The reply of that number; `None` if there will be none.
    pub fn on_answer(&mut self, number: u64, bytes: Option<Vec<u8>>) {
        self.replies.take(number, bytes);
        self.settle();
    }

    fn settle(&mut self) {
        match self.replies.settle() {
            Settled::Waits => {}
            Settled::All => self.group = None,
            Settled::Never => self.end(),
        }
    }

    /// The bytes of replies that it has taken.
    pub fn taken_bytes(&self) -> u64 {
        self.replies.taken_bytes()
    }

    pub fn take_output(&mut self) -> Option<Vec<Slice>> {
        self.replies.take_output()
    }

    pub fn on_sent(&mut self, now: Time) {
        self.taken_at = now;
        self.replies.on_sent();
    }

    /// Nothing more of it is read.
    pub fn end(&mut self) {
        self.is_ending = true;
        self.input = Vec::new();
        self.done = 0;
        self.transaction = None;
    }

    /// Lets go of a large value that is not named yet: its command is not executed. The number of its reply.
    pub fn give_large_up(&mut self) -> Option<u64> {
        let large = self.large.take_if(|large| !large.is_named())?;
        Some(large.number)
    }

    pub fn is_ending(&self) -> bool {
        self.is_ending
    }

    /// Whether it is to be closed: all that was asked before its end is answered. ‡ Until it has taken that, it counts as others do whose replies are not
    /// read.
    pub fn is_over(&self) -> bool {
        self.is_ending && self.replies.are_over()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client() -> Client {
        Client::new(1, "somebody".to_owned(), Shown::Nothing)
    }

    const AHEAD: usize = 100;

    fn most() -> Most {
        Most {
            under_way: crate::Bounds::default().alone,
            unread: Unread::default(),
            ahead_bytes: AHEAD,
        }
    }

    fn sent(client: &mut Client) -> Option<Vec<u8>> {
        let slices = client.take_output()?;
        Some(slices.iter().flat_map(|s| s.iter().copied()).collect())
    }

    #[test]
    fn replies_are_sent_in_the_order_of_their_requests() {
        let mut client = client();
        let first = client.await_answer(0);
        client.answer(&Value::OK);
        let last = client.await_answer(0);
        client.on_answer(last, Some(b"3".to_vec()));
        assert_eq!(sent(&mut client), None);
        client.on_answer(first, Some(b"1".to_vec()));
        assert_eq!(sent(&mut client).as_deref(), Some(&b"1+OK\r\n3"[..]));
        assert!(client.is_idle() && !client.is_over());
    }

    #[test]
    fn whether_a_reply_is_wanted_is_decided_when_it_is_asked_for() {
        let mut client = client();
        let before = client.await_answer(0);
        client.wants = Wants::AllButNext;
        let skipped = client.await_answer(0);
        let after = client.await_answer(0);
        client.wants = Wants::None;
        for (number, bytes) in [(after, b"3"), (skipped, b"2"), (before, b"1")] {
            client.on_answer(number, Some(bytes.to_vec()));
        }
        assert_eq!(sent(&mut client).as_deref(), Some(&b"13"[..]));
    }

    #[test]
    fn what_nobody_knows_ends_the_connection_behind_what_is_known() {
        let mut client = client();
        let known = client.await_answer(0);
        let unknown = client.await_answer(0);
        client.answer(&Value::OK);
        client.on_answer(unknown, None);
        assert!(!client.is_over());
        client.on_answer(known, Some(b"1".to_vec()));
        assert_eq!(sent(&mut client).as_deref(), Some(&b"1"[..]));
        assert!(!client.is_over() && client.unsent_bytes() == 1);
        client.on_sent(Time::ZERO);
        assert!(client.is_over());
    }

    #[test]
    fn little_is_read_of_a_client_whose_next_request_waits() {
        let mut client = client();
        let most = most();
        assert_eq!(client.begins_to_receive(most), Some(LENT_BYTES_MAX));
        assert_eq!(client.begins_to_receive(most), None, "it is asked for");
        client.on_received(Time::ZERO, b"1234567890");
        let (parser, input, done) = client.take_input().expect("it is here");
        assert_eq!((input.as_slice(), done), (&b"1234567890"[..], 0));
        client.give_back(parser, input, 4);
        let first = client.await_answer(0);
        client.waits_for = Some(WaitsFor::Answers);
        assert!(!client.takes_more(most));
        assert_eq!(client.begins_to_receive(most), Some(AHEAD - 6));
        assert_eq!(client.awaited(), Awaited::Nothing);
        client.on_received(Time::ZERO, &[b'a'; AHEAD - 6]);
        assert_eq!(client.begins_to_receive(most), None, "there is enough");
        client.on_answer(first, Some(b"1".to_vec()));
        assert!(client.takes_more(most) && client.begins_to_receive(most).is_none());
        client.waits_for = None;
        assert_eq!(client.begins_to_receive(most), Some(LENT_BYTES_MAX));
        assert_eq!(client.awaited(), Awaited::Sends);
        client.on_received(Time::ZERO, b"abc");
        let (_, input, done) = client.take_input().expect("it is here");
        assert_eq!((input.len(), done), (AHEAD + 3, 0));
        assert!(input.starts_with(b"567890a") && input.ends_with(b"aabc"));
    }

    #[test]
    fn who_is_to_read_before_more_is_received_is_waited_for() {
        let mut client = client();
        let most = most();
        assert!(client.begins_to_receive(most).is_some());
        client.on_received(Time::ZERO, b"1");
        client.had_moved = Some(1);
        client.answer(&Value::Bulk(vec![0; 2 << 20]));
        assert_eq!(client.begins_to_receive(most), Some(AHEAD - 1));
        assert_eq!(client.awaited(), Awaited::Reads);
        assert_eq!(client.had_moved, Some(1));
        // A word has begun: it is received, and nothing behind it.
        let begun = b"*2\r\n$4\r\nECHO\r\n$9\r\n12345";
        client.on_received(Time::ZERO, begun);
        let (mut parser, input, _) = client.take_input().expect("it is here");
        assert!(matches!(parser.next(begun), Ok(resp::Found::More)));
        client.give_back(parser, input, 1);
        assert_eq!(client.begins_to_receive(most), Some(LENT_BYTES_MAX));
        assert_eq!(client.awaited(), Awaited::Sends);
        client.on_received(Time::ZERO, b"6789\r\nPING");
        let here = begun.len() + 10;
        assert_eq!(client.begins_to_receive(most), Some(AHEAD - here));
        assert_eq!(client.awaited(), Awaited::Reads);
        client.waits_for = Some(WaitsFor::Room);
        client.await_answer(0);
        _ = client.begins_to_receive(most);
        assert_eq!(client.awaited(), Awaited::Nothing);
        assert_eq!(client.had_moved, None);
    }
}
