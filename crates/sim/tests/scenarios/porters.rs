//! Clients of keys whose slots move: each asks one thing at a time, follows `MOVED`, and knows what its own keys may hold.
//!
//! ```text
//!  list of a tag, written by all     RPUSH of tokens, LRANGE       an answered token is in every later list, in its place, once
//!  counter of a client, in a session ONCE … INCR, sent again       each is done once, and the sum is exact
//!  hash of a client                  HSET, DEL, HGETALL            what it last knew, or what an unanswered command would have made of it
//!  string of a client with deadline  SET PX, GET                   gone is gone, and it is one of its values as a whole
//! ```

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use ops::{Buffer, Completion, ConnId, Machine, Op, Slice, Time};
use resp::{Decoder, Value};
use sim::Random;

use crate::patrons::{Words, is_refusal, request};

const RECEIVE_BYTES: usize = 16 << 10;
/// A line that says nothing for so long is given up.
const PATIENCE: Duration = Duration::from_secs(3);

type Hash = BTreeMap<String, String>;

/// What is known of the list of a tag.
#[derive(Default)]
struct Known {
    answered: Vec<String>,
    never: BTreeSet<String>,
    /// The longest that anybody was shown.
    shown: Vec<String>,
}

/// What all clients know together.
#[derive(Default)]
pub struct Book {
    lists: BTreeMap<&'static str, Known>,
    pub answered: u64,
    pub unknown: u64,
    pub moved: u64,
    pub down: u64,
    /// Clients ask nothing new.
    pub ends: bool,
    /// The longest that a command waited for its answer, redirects and all.
    pub longest: Duration,
}

enum Kind {
    Push(String),
    /// The answered tokens, and the list that was shown, when it was asked.
    List(usize, Vec<String>),
    Open,
    Add,
    Set(String, String),
    Clear,
    Hash,
    Keep(String),
    Get,
}

struct Doing {
    tag: &'static str,
    kind: Kind,
    words: Words,
    since: Time,
    was_sent: bool,
}

/// What one client knows of its keys at a tag.
struct Own {
    session: Option<i64>,
    sequence: u64,
    sum: i64,
    /// The hash is one of these.
    hashes: Vec<Hash>,
    /// The string may be this, or gone.
    kept: Vec<Option<String>>,
}

pub struct Porter {
    name: u64,
    random: Random,
    doors: Vec<String>,
    tags: Vec<&'static str>,
    book: Rc<RefCell<Book>>,
    own: BTreeMap<&'static str, Own>,
    /// The door of each tag, as far as it was told.
    map: BTreeMap<&'static str, usize>,
    conns: u64,
    line: Option<(ConnId, usize)>,
    heard: Vec<u8>,
    doing: Option<Doing>,
    next_at: Time,
    until: Time,
    tokens: u64,
    left: u32,
    ops: VecDeque<Op>,
}

fn words(text: &str) -> Words {
    text.split(' ')
        .map(|word| word.as_bytes().to_vec())
        .collect()
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Bulk(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    }
}

fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) => items.iter().filter_map(text).collect(),
        _ => Vec::new(),
    }
}

impl Porter {
    pub fn new(
        name: u64,
        seed: u64,
        left: u32,
        doors: Vec<String>,
        tags: &[&'static str],
        book: &Rc<RefCell<Book>>,
    ) -> Porter {
        let own = |tag: &&'static str| {
            let own = Own {
                session: None,
                sequence: 0,
                sum: 0,
                hashes: vec![Hash::new()],
                kept: vec![None],
            };
            (*tag, own)
        };
        Porter {
            name,
            random: Random::new(seed),
            doors,
            tags: tags.to_vec(),
            book: book.clone(),
            own: tags.iter().map(own).collect(),
            map: BTreeMap::new(),
            conns: 0,
            line: None,
            heard: Vec::new(),
            doing: None,
            next_at: Time::ZERO,
            until: Time::ZERO,
            tokens: 0,
            left,
            ops: VecDeque::new(),
        }
    }

    fn below(&mut self, end: u64) -> u64 {
        self.random.below(end)
    }

    fn plan(&mut self, now: Time) -> Doing {
        let at = self.random.below(self.tags.len() as u64) as usize;
        let tag = self.tags[at];
        let name = self.name;
        self.tokens += 1;
        let pad = "v".repeat(self.below(90) as usize);
        let token = format!("{name}.{}{pad}", self.tokens);
        let draw = self.below(14);
        let own = self.own.get_mut(tag).expect("its tag");
        let (kind, line) = match (draw, own.session) {
            (0..=2, _) => (
                Kind::Push(token.clone()),
                format!("RPUSH {{{tag}}}l {token}"),
            ),
            (3 | 4, _) => {
                let mut book = self.book.borrow_mut();
                let known = book.lists.entry(tag).or_default();
                let kind = Kind::List(known.answered.len(), known.shown.clone());
                (kind, format!("LRANGE {{{tag}}}l 0 -1"))
            }
            (5 | 6, None) => (Kind::Open, format!("ONCE.OPEN {{{tag}}}l")),
            (5 | 6, Some(session)) => {
                own.sequence += 1;
                let sequence = own.sequence;
                let line = format!("ONCE {{{tag}}}l {session} {sequence} INCR {{{tag}}}c{name}");
                (Kind::Add, line)
            }
            (7..=9, _) => {
                let field = format!("f{}", draw + token.len() as u64 % 9);
                let line = format!("HSET {{{tag}}}h{name} {field} {token}{}", "w".repeat(700));
                (
                    Kind::Set(field, format!("{token}{}", "w".repeat(700))),
                    line,
                )
            }
            (10, _) => (Kind::Clear, format!("DEL {{{tag}}}h{name}")),
            (11, _) => (Kind::Hash, format!("HGETALL {{{tag}}}h{name}")),
            (12, _) => {
                let ms = 100 + self.random.below(900);
                // Every other one goes ahead of its command, in up to five pieces.
                let copies = match self.random.below(2) {
                    0 => 1,
                    _ => (2_000 + self.random.below(16_000)) as usize / token.len() + 1,
                };
                let value = token.repeat(copies);
                let line = format!("SET {{{tag}}}x{name} {value} PX {ms}");
                (Kind::Keep(value), line)
            }
            _ => (Kind::Get, format!("GET {{{tag}}}x{name}")),
        };
        Doing {
            tag,
            kind,
            words: words(&line),
            since: now,
            was_sent: false,
        }
    }

    fn send(&mut self, now: Time) {
        let Some(doing) = &mut self.doing else { return };
        doing.was_sent = true;
        let bytes = request(&doing.words);
        let drawn = self.random.below(self.doors.len() as u64) as usize;
        let door = *self.map.entry(doing.tag).or_insert(drawn);
        if self.line.is_none_or(|(_, at)| at != door) {
            self.part();
            self.conns += 1;
            let conn = ConnId(2 * self.conns);
            let address = self.doors[door].clone();
            self.ops.push_back(Op::Connect { conn, address });
            self.line = Some((conn, door));
            self.receive(conn);
        }
        let Some((conn, _)) = self.line else { return };
        let slices = vec![Slice::copied_from(&bytes)];
        self.ops.push_back(Op::Send { conn, slices });
        self.until = now + PATIENCE;
    }

    fn receive(&mut self, conn: ConnId) {
        self.ops.push_back(Op::Receive {
            conn,
            buffer: Buffer::new(RECEIVE_BYTES),
            range: 0..RECEIVE_BYTES,
            whole: false,
        });
    }

    fn part(&mut self) {
        if let Some((conn, _)) = self.line.take() {
            self.ops.push_back(Op::Close { conn, flush: false });
        }
        self.heard.clear();
    }

    /// The line ended: nobody says what became of it. A session's command is sent again.
    fn on_unknown(&mut self, now: Time) {
        self.part();
        let Some(doing) = self.doing.take_if(|doing| doing.was_sent) else {
            return;
        };
        self.book.borrow_mut().unknown += 1;
        let drawn = self.random.below(self.doors.len() as u64) as usize;
        self.map.insert(doing.tag, drawn);
        self.next_at = now + Duration::from_millis(20);
        if let Kind::Add = doing.kind {
            let was_sent = false;
            self.doing = Some(Doing { was_sent, ..doing });
            return;
        }
        let own = self.own.get_mut(doing.tag).expect("its tag");
        match doing.kind {
            Kind::Set(field, value) => {
                let mut more = own.hashes.clone();
                for hash in &mut more {
                    hash.insert(field.clone(), value.clone());
                }
                own.hashes.extend(more);
            }
            Kind::Clear => own.hashes.push(Hash::new()),
            Kind::Keep(value) => own.kept.push(Some(value)),
            _ => {}
        }
    }

    fn on_reply(&mut self, now: Time, value: Value) {
        let Some(mut doing) = self.doing.take() else {
            panic!("{} asked nothing, and hears {value:?}", self.name);
        };
        let (name, tag) = (self.name, doing.tag);
        if let Value::Error(why) = &value {
            assert!(is_refusal(why), "{name}: {why}");
            let mut parts = why.split(' ');
            let mut book = self.book.borrow_mut();
            match (parts.next(), parts.nth(1)) {
                (Some("MOVED"), Some(address)) => {
                    book.moved += 1;
                    let door = self.doors.iter().position(|door| door == address);
                    self.map.insert(tag, door.expect("MOVED names a door"));
                }
                _ => {
                    book.down += 1;
                    let drawn = self.random.below(self.doors.len() as u64) as usize;
                    self.map.insert(tag, drawn);
                }
            }
            if !matches!(doing.kind, Kind::Push(_)) || self.random.below(3) > 0 {
                doing.was_sent = false;
                self.doing = Some(doing);
                self.next_at = now + Duration::from_millis(1);
            } else if let Kind::Push(token) = doing.kind {
                book.lists.entry(tag).or_default().never.insert(token);
            }
            return;
        }
        let mut book = self.book.borrow_mut();
        book.answered += 1;
        book.longest = book.longest.max(now - doing.since);
        let known = book.lists.entry(tag).or_default();
        let own = self.own.get_mut(tag).expect("its tag");
        match doing.kind {
            Kind::Push(token) => known.answered.push(token),
            Kind::List(answered, shown) => {
                let list = texts(&value);
                assert!(
                    list.starts_with(&shown),
                    "{tag}: a list went back, from {shown:?} to {list:?}"
                );
                let all: BTreeSet<&String> = list.iter().collect();
                assert_eq!(
                    all.len(),
                    list.len(),
                    "{tag}: a token was pushed twice: {list:?}"
                );
                for token in &known.answered[..answered] {
                    assert!(all.contains(token), "{tag}: {token} is lost: {list:?}");
                }
                for token in &known.never {
                    assert!(!all.contains(token), "{tag}: {token} was refused, and done");
                }
                if list.len() > known.shown.len() {
                    known.shown = list;
                }
            }
            Kind::Open => {
                let Value::Integer(session) = value else {
                    panic!("{name}: {value:?}")
                };
                own.session = Some(session);
                own.sequence = 0;
            }
            Kind::Add => {
                own.sum += 1;
                assert_eq!(value, Value::Integer(own.sum), "{name} at {tag}: a sum");
            }
            Kind::Set(field, token) => {
                for hash in &mut own.hashes {
                    hash.insert(field.clone(), token.clone());
                }
            }
            Kind::Clear => own.hashes = vec![Hash::new()],
            Kind::Hash => {
                let flat = texts(&value);
                let pairs = flat
                    .chunks(2)
                    .map(|pair| (pair[0].clone(), pair[1].clone()));
                let hash: Hash = pairs.collect();
                assert!(
                    own.hashes.contains(&hash),
                    "{name} at {tag}: {hash:?} is none of {:?}",
                    own.hashes
                );
                own.hashes = vec![hash];
            }
            Kind::Keep(token) => own.kept = vec![Some(token)],
            Kind::Get => {
                let shown = text(&value);
                let is_one = shown.is_none() || own.kept.contains(&shown);
                assert!(
                    is_one,
                    "{name} at {tag}: {shown:?} is none of {:?}",
                    own.kept
                );
                own.kept = vec![shown];
            }
        }
        drop(book);
        let pause = 1 + self.below(9_000);
        self.next_at = now + Duration::from_micros(pause);
    }

    fn on_heard(&mut self, now: Time, bytes: &[u8]) {
        self.heard.extend_from_slice(bytes);
        loop {
            let found = Decoder::new(64 << 20).next(&self.heard).expect("a reply");
            let Some((value, length)) = found else { return };
            self.heard.drain(..length);
            self.on_reply(now, value);
        }
    }
}

impl Machine for Porter {
    fn handle(&mut self, now: Time, completion: Completion) {
        let is_own =
            |conn: ConnId, line: &Option<(ConnId, usize)>| line.is_some_and(|(own, _)| own == conn);
        match completion {
            Completion::Received {
                conn,
                buffer,
                result,
                ..
            } if is_own(conn, &self.line) => match result {
                Ok(received) => {
                    self.on_heard(now, &buffer[..received.count]);
                    match received.end {
                        true => self.on_unknown(now),
                        false => self.receive(conn),
                    }
                }
                Err(_) => self.on_unknown(now),
            },
            Completion::Connected { conn, result, .. } | Completion::Sent { conn, result }
                if is_own(conn, &self.line) && result.is_err() =>
            {
                self.on_unknown(now);
            }
            _ => {}
        }
    }

    fn on_time(&mut self, now: Time) {
        let waits = self.doing.as_ref().is_some_and(|doing| doing.was_sent);
        if waits && now >= self.until {
            self.on_unknown(now);
        }
        if now < self.next_at || self.doing.as_ref().is_some_and(|doing| doing.was_sent) {
            return;
        }
        let ends = self.book.borrow().ends || self.left == 0;
        if self.doing.is_none() && !ends {
            self.left -= 1;
            self.doing = Some(self.plan(now));
        }
        self.send(now);
    }

    fn poll_op(&mut self) -> Option<Op> {
        self.ops.pop_front()
    }

    fn deadline(&self) -> Option<Time> {
        let waits = self.doing.as_ref().is_some_and(|doing| doing.was_sent);
        match waits {
            true => Some(self.until),
            false if self.doing.is_none() && (self.left == 0 || self.book.borrow().ends) => None,
            false => Some(self.next_at),
        }
    }

    fn is_finished(&self) -> bool {
        let ends = self.book.borrow().ends || self.left == 0;
        self.doing.is_none() && ends && self.ops.is_empty()
    }
}
