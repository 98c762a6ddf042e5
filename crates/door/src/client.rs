//! One connection: what came, what is to be answered, in which order.
//!
//! ```text
//!  received ─ parser ─▶ requests ─▶ a place in `replies` each ─▶ answered in any order ─▶ sent in their order
//! ```

use std::collections::{BTreeSet, VecDeque};

use letters::{Fate, Shown};
use paxos::mutation::{self, Mutation};
use resp::{Limits, Parser, Protocol, Value, encode};

use crate::counts::fate_of_value;
use crate::large::{Large, VALUE_BYTES_MAX};
use crate::unanswered::Unanswered;

/// A connection is not read while so many of its commands are unanswered …
const UNANSWERED_MAX: usize = 1_024;
/// … or so many bytes unsent, those of the replies to come among them.
const UNSENT_MAX: usize = 1 << 20;
/// A new connection has so many commands under way, and one more with each reply: nobody knows yet how large its replies are.
const UNANSWERED_FIRST: usize = 16;
/// The longest argument of a command whose value does not go ahead: all that it writes has room in one frame.
pub const BULK_BYTES_MAX: usize = 6 << 20;
/// The commands of one transaction, in bytes.
const QUEUED_BYTES_MAX: usize = BULK_BYTES_MAX;
/// The memory of a command beside its words, and of a word beside its bytes.
const COMMAND_BYTES: usize = 48;
const WORD_BYTES: usize = 40;
/// An input that took more room than this gives it back once it is empty.
const KEPT_BYTES: usize = 4 << 10;

pub fn limits() -> Limits {
    Limits {
        bulk_bytes_max: VALUE_BYTES_MAX,
        ..Limits::default()
    }
}

/// A reply that is to come.
enum Reply {
    /// `is_wanted`: its client asked for it, when he asked.
    Awaited {
        is_wanted: bool,
    },
    Here(Vec<u8>),
    /// Nobody knows what became of the command: the connection ends without a word.
    Never,
}

/// MULTI, and what was queued since.
#[derive(Default)]
pub struct Transaction {
    pub commands: Vec<Vec<Vec<u8>>>,
    pub bytes: usize,
    /// A command was refused when it was to be queued.
    pub has_failed: bool,
    is_too_large: bool,
}

impl Transaction {
    /// False if there is no room. ‡ A transaction that will not be executed keeps nothing: a client that goes on sending would fill the memory.
    pub fn queue(&mut self, words: &[&[u8]]) -> bool {
        if self.is_too_large {
            return false;
        }
        self.bytes += COMMAND_BYTES;
        self.bytes += words
            .iter()
            .map(|word| word.len() + WORD_BYTES)
            .sum::<usize>();
        self.is_too_large = self.bytes > QUEUED_BYTES_MAX;
        self.has_failed |= self.is_too_large;
        if self.has_failed {
            self.commands = Vec::new();
        } else {
            self.commands
                .push(words.iter().map(|word| word.to_vec()).collect());
        }
        !self.is_too_large
    }

    /// The memory that it takes.
    fn held_bytes(&self) -> usize {
        match self.commands.is_empty() {
            true => 0,
            false => self.bytes,
        }
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
    /// The bytes of it that its door has counted.
    pub counted: usize,
    /// The bytes of replies that its door has counted.
    pub counted_unsent: usize,
    parser: Option<Parser>,
    replies: VecDeque<Reply>,
    /// The bytes of those that are here.
    replies_bytes: usize,
    /// So many of its commands may be unanswered at present.
    window: usize,
    /// Its latest replies had about so many bytes at most. Those to come are taken to be as large.
    expected_bytes: usize,
    /// The number of the first of them.
    first: u64,
    out: Vec<u8>,
    /// The lengths of what is being sent.
    sending: VecDeque<usize>,
    is_receiving: bool,
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
            counted: 0,
            counted_unsent: 0,
            parser: Some(Parser::new(limits())),
            replies: VecDeque::new(),
            replies_bytes: 0,
            window: UNANSWERED_FIRST,
            expected_bytes: 0,
            first: 0,
            out: Vec::new(),
            sending: VecDeque::new(),
            is_receiving: false,
            has_more: false,
            is_ending: false,
        }
    }

    pub fn on_received(&mut self, bytes: &[u8]) {
        self.is_receiving = false;
        if !self.is_ending {
            self.input.extend_from_slice(bytes);
        }
    }

    /// The memory that its unfinished requests take, those of a transaction among them.
    pub fn input_bytes(&self) -> usize {
        let held = self.parser.as_ref().map_or(0, Parser::held_bytes);
        let queued = self.transaction.as_ref().map_or(0, Transaction::held_bytes);
        let large = self.large.as_ref().map_or(0, Large::held_bytes);
        self.input.len() + held + queued + large
    }

    /// Lends what came, and how to read it, until [`Client::give_back`].
    pub fn take_input(&mut self) -> Option<(Parser, Vec<u8>)> {
        let parser = self.parser.take()?;
        Some((parser, std::mem::take(&mut self.input)))
    }

    /// Takes back what was lent, without the bytes that are done with.
    pub fn give_back(&mut self, mut parser: Parser, mut input: Vec<u8>, done: usize) {
        parser.rest();
        self.parser = Some(parser);
        if self.is_ending {
            return;
        }
        if done >= input.len() {
            input.clear();
            if input.capacity() > KEPT_BYTES {
                input = Vec::new();
            }
        } else if done > 0 {
            input.drain(..done);
        }
        self.input = input;
    }

    /// The bytes of replies that it has not taken.
    pub fn unsent_bytes(&self) -> usize {
        self.out.len() + self.sending.iter().sum::<usize>() + self.replies_bytes
    }

    /// Whether a further request is taken. Replies take memory until their client has taken them, so few are made ahead where they are large.
    pub fn takes_more(&self) -> bool {
        let to_come = self.replies.len() * self.expected_bytes;
        !self.is_ending
            && self.large.is_none()
            && self.replies.len() < self.window
            && self.unsent_bytes() + to_come < UNSENT_MAX
    }

    /// Takes note of how large a reply was.
    fn expect(&mut self, bytes: usize) {
        let before = self.expected_bytes;
        self.expected_bytes = bytes.max(before - before.div_ceil(8));
    }

    /// Whether more is to be received, and is not yet asked for.
    pub fn begins_to_receive(&mut self) -> bool {
        let begins = !self.is_receiving && !self.has_more && self.takes_more();
        self.is_receiving |= begins;
        begins
    }

    /// Whether all that was asked is answered.
    pub fn is_idle(&self) -> bool {
        self.replies.is_empty()
    }

    pub fn answer(&mut self, value: &Value) {
        self.said = Some(Said::Now(fate_of_value(value)));
        let mut bytes = Vec::new();
        encode(value, self.protocol, &mut bytes);
        if self.wants_next() {
            self.expect(bytes.len());
            self.replies_bytes += bytes.len();
            self.replies.push_back(Reply::Here(bytes));
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

    /// A reply that is to come: its number.
    pub fn await_answer(&mut self) -> u64 {
        let is_wanted = self.wants_next();
        self.replies.push_back(Reply::Awaited { is_wanted });
        let number = self.first + self.replies.len() as u64 - 1;
        self.said = Some(Said::Later(number));
        number
    }

    /// The number of the last request, if it is not answered.
    pub fn last_awaited(&self) -> Option<u64> {
        let last = self.replies.len().checked_sub(1)?;
        Some(self.first + last as u64)
    }

    /// The reply of that number; `None` if there will be none.
    pub fn on_answer(&mut self, number: u64, bytes: Option<Vec<u8>>) {
        self.expect(bytes.as_ref().map_or(0, Vec::len));
        let at = number.wrapping_sub(self.first) as usize;
        if let Some(reply) = self.replies.get_mut(at) {
            let is_wanted = !matches!(reply, Reply::Awaited { is_wanted: false });
            *reply = match bytes {
                None => Reply::Never,
                Some(bytes) if is_wanted => {
                    self.replies_bytes += bytes.len();
                    Reply::Here(bytes)
                }
                Some(_) => Reply::Here(Vec::new()),
            };
        }
        self.settle();
    }

    /// Moves what is answered, in its order, to what is sent.
    fn settle(&mut self) {
        if mutation::is(Mutation::RepliesOutOfOrder) {
            for reply in &mut self.replies {
                if let Reply::Here(bytes) = reply {
                    self.replies_bytes -= bytes.len();
                    self.out.append(bytes);
                }
            }
        }
        while let Some(reply) = self.replies.front_mut() {
            match reply {
                Reply::Awaited { .. } => return,
                Reply::Here(bytes) => {
                    self.replies_bytes -= bytes.len();
                    match self.out.is_empty() {
                        true => self.out = std::mem::take(bytes),
                        false => self.out.append(bytes),
                    }
                }
                Reply::Never => {
                    self.replies.clear();
                    self.replies_bytes = 0;
                    self.end();
                    return;
                }
            }
            self.replies.pop_front();
            self.first += 1;
            self.window = UNANSWERED_MAX.min(self.window + 1);
        }
        self.group = None;
    }

    pub fn take_output(&mut self) -> Option<Vec<u8>> {
        if self.out.is_empty() {
            return None;
        }
        self.sending.push_back(self.out.len());
        Some(std::mem::take(&mut self.out))
    }

    pub fn on_sent(&mut self) {
        self.sending.pop_front();
    }

    /// Nothing more of it is read.
    pub fn end(&mut self) {
        self.is_ending = true;
        self.input = Vec::new();
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
        self.is_ending && self.replies.is_empty() && self.out.is_empty() && self.sending.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client() -> Client {
        Client::new(1, "somebody".to_owned(), Shown::Nothing)
    }

    #[test]
    fn replies_are_sent_in_the_order_of_their_requests() {
        let mut client = client();
        let first = client.await_answer();
        client.answer(&Value::OK);
        let last = client.await_answer();
        client.on_answer(last, Some(b"3".to_vec()));
        assert_eq!(client.take_output(), None);
        client.on_answer(first, Some(b"1".to_vec()));
        assert_eq!(client.take_output().as_deref(), Some(&b"1+OK\r\n3"[..]));
        assert!(client.is_idle() && !client.is_over());
    }

    #[test]
    fn whether_a_reply_is_wanted_is_decided_when_it_is_asked_for() {
        let mut client = client();
        let before = client.await_answer();
        client.wants = Wants::AllButNext;
        let skipped = client.await_answer();
        let after = client.await_answer();
        client.wants = Wants::None;
        for (number, bytes) in [(after, b"3"), (skipped, b"2"), (before, b"1")] {
            client.on_answer(number, Some(bytes.to_vec()));
        }
        assert_eq!(client.take_output().as_deref(), Some(&b"13"[..]));
    }

    #[test]
    fn what_nobody_knows_ends_the_connection_behind_what_is_known() {
        let mut client = client();
        let known = client.await_answer();
        let unknown = client.await_answer();
        client.answer(&Value::OK);
        client.on_answer(unknown, None);
        assert!(!client.is_over());
        client.on_answer(known, Some(b"1".to_vec()));
        assert_eq!(client.take_output().as_deref(), Some(&b"1"[..]));
        assert!(!client.is_over() && client.unsent_bytes() == 1);
        client.on_sent();
        assert!(client.is_over());
    }

    #[test]
    fn a_transaction_that_will_not_be_executed_keeps_nothing() {
        let mut client = client();
        let held = |client: &Client| client.input_bytes();
        client.transaction = Some(Transaction::default());
        let queue = |client: &mut Client, words: &[&[u8]]| {
            client
                .transaction
                .as_mut()
                .is_some_and(|one| one.queue(words))
        };
        assert!(queue(&mut client, &[b"PING"]));
        assert_eq!(held(&client), 4 + COMMAND_BYTES + WORD_BYTES);
        let large = vec![b'x'; QUEUED_BYTES_MAX / 2];
        assert!(queue(&mut client, &[b"SET", b"a", &large]));
        assert!(held(&client) > QUEUED_BYTES_MAX / 2);
        for _ in 0..100 {
            assert!(!queue(&mut client, &[b"SET", b"a", &large]));
            assert!(!queue(&mut client, &[b"PING"]));
            assert_eq!(held(&client), 0);
        }
        // One that failed otherwise goes on, and keeps nothing either.
        let has_failed = true;
        client.transaction = Some(Transaction {
            has_failed,
            ..Transaction::default()
        });
        assert!(queue(&mut client, &[b"PING"]));
        assert_eq!(held(&client), 0);
    }

    #[test]
    fn few_commands_with_large_replies_are_under_way() {
        let mut client = client();
        let under_way = |client: &mut Client| {
            let numbers: Vec<u64> = std::iter::from_fn(|| {
                let takes = client.takes_more();
                takes.then(|| client.await_answer())
            })
            .collect();
            numbers
        };
        let answered = |client: &mut Client, numbers: Vec<u64>, bytes: usize| {
            for number in numbers {
                client.on_answer(number, Some(vec![0; bytes]));
            }
            _ = client.take_output();
        };
        let first = under_way(&mut client);
        assert_eq!(first.len(), UNANSWERED_FIRST);
        answered(&mut client, first, 100 << 10);
        assert!(!client.takes_more(), "1.6 MiB are not taken");
        client.on_sent();
        let second = under_way(&mut client);
        assert_eq!(second.len(), 11, "1.1 MiB");
        answered(&mut client, second, 1);
        client.on_sent();
        // Small replies let it go on as before, and further.
        for _ in 0..20 {
            let some = under_way(&mut client);
            assert!(!some.is_empty());
            answered(&mut client, some, 5);
            client.on_sent();
        }
        assert_eq!(under_way(&mut client).len(), UNANSWERED_MAX);
    }

    #[test]
    fn a_client_that_never_reads_is_not_read() {
        let mut client = client();
        while client.takes_more() {
            client.answer(&Value::bulk(vec![0; 1000]));
            _ = client.take_output();
        }
        assert_eq!(client.sending.iter().sum::<usize>() >> 20, 1);
        while !client.sending.is_empty() {
            client.on_sent();
        }
        assert!(client.takes_more());
    }
}
