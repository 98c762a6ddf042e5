//! A reader that knows what it must see: an initial part of what was sent, with everything that
//! was acknowledged before it asked.

use std::ops::Range;

use ops::{Completion, Machine, Op, Time};

use super::chain::SharedChain;
use super::content;
use super::conversation::{Conversation, News};
use super::line::Line;
use crate::random::Random;

#[derive(Clone, Debug)]
pub struct ReaderConfig {
    pub log: String,
    pub nodes: Vec<String>,
    /// Per million reads: answered by any node from what it knows.
    pub stale_ppm: u64,
    pub follow_ppm: u64,
    pub rest_us: Range<u64>,
    pub patience_us: u64,
    /// Asks any node whether what is known is there, and never for bytes, until the chain is closed.
    pub probes: bool,
    /// Finish after a read from 0 to the end of a closed chain.
    pub until_closed: bool,
}

pub struct Reader {
    config: ReaderConfig,
    chain: SharedChain,
    random: Random,
    conversation: Conversation,
    state: State,
    node: usize,
    leader: Option<String>,
    read: Read,
    /// Where to go on if the connection is lost.
    resume_at: Option<u64>,
    patient_until: Time,
    bytes_checked: u64,
    counts: ReaderCounts,
}

/// Reads that came to their end; `resumed` counts those that went on after a lost connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReaderCounts {
    pub linearizable: u64,
    pub stale: u64,
    pub followed: u64,
    pub resumed: u64,
    /// Were told that what they asked for is trimmed.
    pub trimmed: u64,
}

/// What was asked, and when.
#[derive(Clone, Debug, Default)]
struct Read {
    from: u64,
    /// Only where all up to it must be there.
    to: Option<u64>,
    stale: bool,
    follow: bool,
    /// Acknowledged or seen before the request was sent.
    known: u64,
    /// Known to be trimmed by then.
    trimmed: u64,
    /// Of the answer.
    length: u64,
    at: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Resting { until: Time },
    Connecting,
    Asked,
    Reading,
    Data { count: usize, checksum: u32 },
    Finished,
}

impl Default for ReaderConfig {
    fn default() -> ReaderConfig {
        ReaderConfig {
            log: "1".to_owned(),
            nodes: Vec::new(),
            stale_ppm: 200_000,
            follow_ppm: 200_000,
            rest_us: 1_000..300_000,
            patience_us: 10_000_000,
            probes: false,
            until_closed: true,
        }
    }
}

impl Reader {
    pub fn new(seed: u64, config: ReaderConfig, chain: SharedChain) -> Reader {
        Reader {
            random: Random::new(seed ^ 0x7265_6164),
            config,
            chain,
            conversation: Conversation::default(),
            state: State::Resting { until: Time(0) },
            node: 0,
            leader: None,
            read: Read::default(),
            resume_at: None,
            patient_until: Time(0),
            bytes_checked: 0,
            counts: ReaderCounts::default(),
        }
    }

    pub fn bytes_checked(&self) -> u64 {
        self.bytes_checked
    }

    pub fn log(&self) -> &str {
        &self.config.log
    }

    pub fn chain(&self) -> &SharedChain {
        &self.chain
    }

    pub fn counts(&self) -> ReaderCounts {
        self.counts
    }

    fn begin(&mut self, now: Time) {
        let chain = self.chain.borrow();
        let too_early = chain.first.is_none() || self.config.probes && chain.known() == 0;
        let too_late = self.config.probes && chain.closed;
        drop(chain);
        if too_late {
            self.state = State::Finished;
            return;
        }
        if too_early {
            return self.rest(now);
        }
        let address = match self.leader.take() {
            Some(leader) => leader,
            None => {
                self.node = self.random.below(self.config.nodes.len() as u64) as usize;
                self.config.nodes[self.node].clone()
            }
        };
        self.conversation.connect(&address);
        self.state = State::Connecting;
        self.patient_until = Time(now.0 + self.config.patience_us);
    }

    fn rest(&mut self, now: Time) {
        self.conversation.close();
        let rest_us = self.random.within(&self.config.rest_us);
        let until = Time(now.0 + rest_us.max(1));
        self.state = State::Resting { until };
    }

    fn request(&mut self) {
        let chain = self.chain.borrow();
        let first = chain.first.as_ref().expect("it was looked at before");
        let from = match self.resume_at.take() {
            Some(position) => {
                self.counts.resumed += 1;
                position
            }
            None if self.config.probes => chain.known(),
            None if chain.closed || self.random.coin() => 0,
            None => self.random.below(chain.acknowledged + 1),
        };
        let stale = self.random.below(1_000_000) < self.config.stale_ppm;
        let bounded = !stale && from > 0 && self.random.below(4) == 0;
        let to = match self.config.probes {
            true => Some(from),
            false => bounded.then(|| self.random.within(&(from..chain.known().max(from) + 1))),
        };
        self.read = Read {
            from,
            to,
            stale,
            follow: self.random.below(1_000_000) < self.config.follow_ppm,
            known: chain.known(),
            trimmed: chain.trimmed,
            length: 0,
            at: from,
        };
        let mut line = format!(
            "logberg/1 read {} stream={first} from={from} format=framed",
            self.config.log
        );
        if self.read.stale {
            line += " stale=1";
        }
        if self.read.follow {
            line += " follow=1";
        }
        if let Some(to) = self.read.to {
            line += &format!(" to={to}");
        }
        line.push('\n');
        drop(chain);
        self.conversation.send(line.as_bytes());
        self.state = State::Asked;
    }

    fn hear(&mut self, now: Time, line: &Line) {
        if line.is_error() {
            return self.refused(now, line);
        }
        match (line.word.as_str(), self.state) {
            ("reading", State::Asked) => {
                let length = line.number("length");
                let mut chain = self.chain.borrow_mut();
                assert_eq!(line.number("from"), self.read.from, "{line:?}");
                chain.observe(length);
                assert!(
                    self.read.stale || length >= self.read.known,
                    "acknowledged bytes are missing: {line:?} of {:?}",
                    self.read
                );
                self.read.length = length;
                self.state = State::Reading;
            }
            ("data", State::Reading) => {
                assert_eq!(
                    line.position(0),
                    self.read.at,
                    "a gap or a repeat: {line:?}"
                );
                let count = line.position(1) as usize;
                assert!(
                    self.read.stale || count == 0 || self.read.at >= self.read.trimmed,
                    "trimmed bytes are back: {line:?} of {:?}",
                    self.read
                );
                let checksum = line
                    .arguments
                    .get(2)
                    .map(|hex| u32::from_str_radix(hex, 16));
                let checksum = checksum.expect("a checksum").expect("in hex");
                self.state = State::Data { count, checksum };
            }
            ("end", State::Reading) => self.end(now, line),
            _ => panic!("{line:?} while {:?}", self.state),
        }
    }

    fn check(&mut self, bytes: &[u8], checksum: u32) {
        let mut chain = self.chain.borrow_mut();
        let at = self.read.at;
        assert_eq!(
            content::crc32c(bytes),
            checksum,
            "damaged on the way at {at}"
        );
        let mut expected = vec![0; bytes.len()];
        content::fill(chain.client, at, &mut expected);
        let wrong = bytes.iter().zip(&expected).position(|(a, b)| a != b);
        if let Some(wrong) = wrong {
            let position = at + wrong as u64;
            panic!("another byte at {position} than was sent: {chain:?}");
        }
        self.read.at += bytes.len() as u64;
        chain.observe(self.read.at);
        self.bytes_checked += bytes.len() as u64;
        self.state = State::Reading;
    }

    fn end(&mut self, now: Time, line: &Line) {
        let chain = self.chain.borrow();
        let read = &self.read;
        assert_eq!(line.position(0), read.at, "{line:?} of {read:?}");
        let least = read.to.unwrap_or(read.length);
        let complete = read.at >= least && read.to.is_none_or(|to| read.at == to);
        assert!(
            complete,
            "bytes are missing or too many: {line:?} of {read:?}"
        );
        let kind = line.arguments.get(1).map(String::as_str);
        let closed = match kind {
            Some("closed") => {
                assert!(chain.close_asked, "{line:?} of {chain:?}");
                assert_eq!(read.at, chain.total, "closed too early: {chain:?}");
                true
            }
            Some("to") if read.to.is_some() => false,
            Some("cut" | "open") if !read.follow => false,
            _ => panic!("{line:?} in answer to {read:?}"),
        };
        drop(chain);
        let kind = match read.stale {
            true => &mut self.counts.stale,
            false => &mut self.counts.linearizable,
        };
        *kind += 1;
        self.counts.followed += u64::from(self.read.follow);
        self.resume_at = None;
        // From its beginning, or from what is left of it.
        let all = self.read.from <= self.chain.borrow().trimmed;
        if closed && all && self.config.until_closed {
            self.conversation.close();
            self.state = State::Finished;
            return;
        }
        self.rest(now);
    }

    fn refused(&mut self, now: Time, line: &Line) {
        match line.word.as_str() {
            "not-leader" if self.config.probes => {}
            "not-leader" => {
                self.leader = line.key("leader").map(str::to_owned);
            }
            "no-quorum" | "shutting-down" | "unknown-log" | "not-here" => {}
            "trimmed" => {
                let from = line.number("from");
                assert!(from > self.read.at, "{line:?} in answer to {:?}", self.read);
                self.chain.borrow_mut().left_from(from);
                self.counts.trimmed += 1;
                self.rest(now);
                self.resume_at = Some(from);
                return;
            }
            "past-end" | "unknown-stream" if self.read.stale => {}
            "bad-request" if line.came_too_late() => {}
            _ => panic!("{line:?} in answer to {:?}", self.read),
        }
        self.lost(now);
    }

    fn lost(&mut self, now: Time) {
        let reads = !self.config.probes;
        if reads && matches!(self.state, State::Reading | State::Data { .. }) && self.random.coin()
        {
            self.resume_at = Some(self.read.at);
        }
        self.rest(now);
    }

    /// What was heard so far, as far as it is whole.
    fn take(&mut self, now: Time) {
        while self.conversation.is_open() {
            if let State::Data { count, checksum } = self.state {
                let Some(bytes) = self.conversation.bytes(count) else {
                    return;
                };
                self.check(&bytes, checksum);
            } else {
                let Some(line) = self.conversation.line() else {
                    return;
                };
                self.hear(now, &Line::parse(&line));
            }
        }
    }
}

impl Machine for Reader {
    fn handle(&mut self, now: Time, completion: Completion) {
        let Some(news) = self.conversation.handle(completion) else {
            return;
        };
        self.patient_until = Time(now.0 + self.config.patience_us);
        if news == News::Connected {
            return self.request();
        }
        self.take(now);
        if news == News::Over && self.conversation.is_open() {
            self.lost(now);
        }
    }

    fn on_time(&mut self, now: Time) {
        match self.state {
            State::Resting { until } if until <= now => self.begin(now),
            State::Resting { .. } | State::Finished => {}
            _ if self.patient_until <= now => self.lost(now),
            _ => {}
        }
    }

    fn poll_op(&mut self) -> Option<Op> {
        self.conversation.poll_op()
    }

    fn deadline(&self) -> Option<Time> {
        match self.state {
            State::Finished => None,
            State::Resting { until } => Some(until),
            _ => Some(self.patient_until),
        }
    }

    fn is_finished(&self) -> bool {
        self.state == State::Finished
    }
}
