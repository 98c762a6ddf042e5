//! Fan-out: readers of events on one stream, at all nodes, on one thread; and how long each message takes to each of them.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hdrhistogram::Histogram;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use serde::Serialize;

use bench::latency::{histogram, quantile_ms, rounded};
use testbed::scratch::go_on;
use testbed::watch::sleep_until;

use super::target::Target;

/// Messages, and how often one is sent: a reader's connection ends by itself after 45 s.
const MESSAGES: u64 = 1_000;
const EVERY: Duration = Duration::from_millis(10);
const MESSAGE_BYTES: usize = 256;
/// Behind the last message, for those who are late.
const LATE_MAX: Duration = Duration::from_secs(15);
const HEAD_WITHIN: Duration = Duration::from_secs(10);
const EVENTS_MAX: usize = 1_024;
const PIECE_BYTES: usize = 64 << 10;
/// Before a message's number in its text, which has eight digits.
const MARK: &[u8] = b"#m";
const DIGITS: usize = 8;
const NAME: &str = "fanout";

#[derive(Debug, Serialize)]
pub struct Fanout {
    pub readers: u32,
    pub messages: u64,
    /// As they were sent: one after the other, and each waited for.
    pub messages_per_s: f64,
    /// Until all had their answers' heads.
    pub connected_s: f64,
    /// From the moment before a message's append to a reader's having it.
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
    /// Readers at the node that leads, and at the others: these hear of what is chosen with the next batch, or heartbeat.
    pub at_leader_p50_ms: f64,
    pub at_followers_p50_ms: f64,
    pub append_p50_ms: f64,
    pub delivered: u64,
    /// Messages that a reader should have had, and had not; and connections that ended.
    pub missing: u64,
    pub ended: u64,
    /// There twice, or in another order.
    pub wrong: u64,
    pub cpu_us_per_event: f64,
    /// Memory that the nodes took for each reader, from before the first until the last was answered.
    pub kib_per_reader: f64,
}

struct Reader {
    stream: TcpStream,
    /// The number that comes next.
    next: u64,
    marks: Marks,
    is_over: bool,
}

/// When each message was sent, in microseconds since the beginning; 0: not yet.
struct Sent {
    began: Instant,
    at_us: Vec<AtomicU64>,
}

struct Readers {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
    all: Vec<Reader>,
    piece: Vec<u8>,
    found: Vec<u64>,
    /// The place of the leader's among the addresses.
    leader: usize,
    places: usize,
    at_leader: Histogram<u64>,
    at_followers: Histogram<u64>,
    delivered: u64,
    ended: u64,
    wrong: u64,
}

impl Reader {
    /// Asks for events, and waits for the head of the answer.
    fn connect(url: &str) -> Result<Reader> {
        let (door, path) = url
            .strip_prefix("http://")
            .and_then(|rest| rest.split_once('/'))
            .context("an address without a path")?;
        let mut stream = TcpStream::connect(door).with_context(|| format!("no way to {door}"))?;
        stream.set_read_timeout(Some(HEAD_WITHIN))?;
        let ask =
            format!("GET /{path}/{NAME}-0?offset=now&live=sse HTTP/1.1\r\nHost: {door}\r\n\r\n");
        stream.write_all(ask.as_bytes())?;
        let mut head = Vec::new();
        let mut byte = [0; 512];
        // The first event stands behind the head.
        while !head.windows(4).any(|end| end == b"\r\n\r\n") {
            match stream.read(&mut byte)? {
                0 => bail!("{door} ended the connection before it answered"),
                count => head.extend_from_slice(&byte[..count]),
            }
        }
        if !head.starts_with(b"HTTP/1.1 200") {
            let line = String::from_utf8_lossy(&head);
            bail!(
                "{door} answered {}",
                line.lines().next().unwrap_or_default()
            );
        }
        stream.set_nonblocking(true)?;
        Ok(Reader {
            stream,
            next: 0,
            marks: Marks::default(),
            is_over: false,
        })
    }
}

impl Sent {
    fn now_us(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

impl Readers {
    fn connect((urls, leader): (&[String], usize), count: u32) -> Result<Readers> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).context("there is no epoll")?;
        let mut all = Vec::new();
        for number in 0..count as usize {
            if number % 256 == 0 {
                go_on()?;
            }
            let reader = Reader::connect(&urls[number % urls.len()])?;
            let data = epoll::EventData::new_u64(number as u64);
            epoll::add(&epoll, &reader.stream, data, epoll::EventFlags::IN)?;
            all.push(reader);
        }
        Ok(Readers {
            epoll,
            events: Vec::with_capacity(EVENTS_MAX),
            all,
            piece: vec![0; PIECE_BYTES],
            found: Vec::new(),
            leader,
            places: urls.len(),
            at_leader: histogram(),
            at_followers: histogram(),
            delivered: 0,
            ended: 0,
            wrong: 0,
        })
    }

    fn is_done(&self) -> bool {
        self.all
            .iter()
            .all(|reader| reader.is_over || reader.next == MESSAGES)
    }

    /// Reads what has come, or waits a moment for it.
    fn turn(&mut self, sent: &Sent) -> Result<()> {
        self.events.clear();
        let wait = Timespec {
            tv_sec: 0,
            tv_nsec: 20_000_000,
        };
        let came = epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&wait));
        match came {
            Err(rustix::io::Errno::INTR) => return Ok(()),
            came => came?,
        };
        let numbers: Vec<usize> = self
            .events
            .iter()
            .map(|event| event.data.u64() as usize)
            .collect();
        for number in numbers {
            self.read(number, sent)?;
        }
        Ok(())
    }

    fn read(&mut self, number: usize, sent: &Sent) -> Result<()> {
        let reader = &mut self.all[number];
        let count = match reader.stream.read(&mut self.piece) {
            Ok(count) => count,
            Err(error) if is_later(&error) => return Ok(()),
            Err(_) => 0,
        };
        if count == 0 {
            reader.is_over = true;
            self.ended += 1;
            epoll::delete(&self.epoll, &reader.stream)?;
            return Ok(());
        }
        let now_us = sent.now_us();
        reader.marks.find(&self.piece[..count], &mut self.found);
        for found in self.found.drain(..) {
            // One that is missing is told by what comes behind it.
            if found != reader.next {
                self.wrong += 1;
            }
            reader.next = reader.next.max(found + 1);
            self.delivered += 1;
            if let Some(at) = sent.at_us.get(found as usize) {
                let took = now_us.saturating_sub(at.load(Ordering::Acquire));
                let micros = match number % self.places == self.leader {
                    true => &mut self.at_leader,
                    false => &mut self.at_followers,
                };
                micros.saturating_record(took.max(1));
            }
        }
        Ok(())
    }
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Finds the numbers of messages in bytes that come in pieces. ‡ It passes over what stands behind a number without a look: ten thousand
/// readers on one thread are to cost little beside the nodes that they measure.
#[derive(Default)]
struct Marks {
    /// Bytes of a message that are still to come, and not looked at.
    skip: usize,
    /// So much of a mark and its number have come.
    seen: usize,
    number: u64,
}

impl Marks {
    fn find(&mut self, bytes: &[u8], found: &mut Vec<u64>) {
        let mut at = 0;
        loop {
            let skipped = self.skip.min(bytes.len() - at);
            self.skip -= skipped;
            at += skipped;
            let Some(byte) = bytes.get(at) else { return };
            at += 1;
            self.take(*byte, found);
        }
    }

    fn take(&mut self, byte: u8, found: &mut Vec<u64>) {
        let is_next = match MARK.get(self.seen) {
            Some(mark) => byte == *mark,
            None => byte.is_ascii_digit(),
        };
        if !is_next {
            // A mark's first byte stands nowhere else in it.
            (self.seen, self.number) = (usize::from(byte == MARK[0]), 0);
            return;
        }
        if self.seen >= MARK.len() {
            self.number = self.number * 10 + u64::from(byte - b'0');
        }
        self.seen += 1;
        if self.seen == MARK.len() + DIGITS {
            found.push(self.number);
            (self.seen, self.number) = (0, 0);
            self.skip = MESSAGE_BYTES - MARK.len() - DIGITS - 1;
        }
    }
}

fn message(number: u64) -> Vec<u8> {
    let mut text = format!("#m{number:0DIGITS$}").into_bytes();
    text.resize(MESSAGE_BYTES - 1, b'.');
    text.push(b'\n');
    text
}

/// The CPU that all nodes have used so far, and the memory that they hold now.
pub struct Cost {
    pub cpu: Duration,
    pub rss_bytes: u64,
}

/// `leader`: which of the addresses its is.
pub fn measure(
    target: &Target,
    (urls, leader): (&[String], usize),
    count: u32,
    cost: impl Fn() -> Result<Cost>,
) -> Result<Fanout> {
    target.make_text(NAME)?;
    let without = cost()?;
    let since = Instant::now();
    let mut readers = Readers::connect((urls, leader), count)?;
    let connected_s = rounded(since.elapsed().as_secs_f64());
    let sent = Arc::new(Sent {
        began: Instant::now(),
        at_us: (0..MESSAGES).map(|_| AtomicU64::new(0)).collect(),
    });
    let before = cost()?;
    let (writer, told) = (target.clone(), sent.clone());
    let write = move || -> Result<(Histogram<u64>, f64)> {
        let mut micros = histogram();
        for number in 0..MESSAGES {
            go_on()?;
            let at = told.now_us().max(1);
            told.at_us[number as usize].store(at, Ordering::Release);
            writer.append_text(NAME, &message(number))?;
            micros.saturating_record(told.now_us() - at);
            sleep_until(told.began + EVERY * (number as u32 + 1))?;
        }
        Ok((micros, told.began.elapsed().as_secs_f64()))
    };
    let writer = thread::spawn(write);
    while !writer.is_finished() {
        readers.turn(&sent)?;
        go_on()?;
    }
    let written = writer.join();
    let (appends, sent_s) = written.unwrap_or_else(|_| bail!("the writer panicked"))?;
    let late = Instant::now() + LATE_MAX;
    while !readers.is_done() && Instant::now() < late {
        readers.turn(&sent)?;
        go_on()?;
    }
    let mut micros = readers.at_leader.clone();
    micros.add(&readers.at_followers)?;
    let used = cost()?.cpu.saturating_sub(before.cpu);
    let grown = before.rss_bytes.saturating_sub(without.rss_bytes);
    let all = u64::from(count) * MESSAGES;
    let events = readers.delivered.max(1) as f64;
    Ok(Fanout {
        readers: count,
        messages: MESSAGES,
        messages_per_s: rounded(MESSAGES as f64 / sent_s),
        connected_s,
        p50_ms: quantile_ms(&micros, 0.5),
        p99_ms: quantile_ms(&micros, 0.99),
        at_leader_p50_ms: quantile_ms(&readers.at_leader, 0.5),
        at_followers_p50_ms: quantile_ms(&readers.at_followers, 0.5),
        max_ms: rounded(micros.max() as f64 / 1e3),
        append_p50_ms: quantile_ms(&appends, 0.5),
        delivered: readers.delivered,
        missing: all.saturating_sub(readers.delivered),
        ended: readers.ended,
        wrong: readers.wrong,
        cpu_us_per_event: rounded(used.as_micros() as f64 / events),
        kib_per_reader: rounded(grown as f64 / 1024.0 / f64::from(count)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_however_the_bytes_come() {
        let other = b"event: data\ndata:##m#m1#".to_vec();
        let events = [message(0), other, message(1), message(12_345_678)].concat();
        for piece in [1, 3, 7, 300, 1_000] {
            let (mut marks, mut found) = (Marks::default(), Vec::new());
            for bytes in events.chunks(piece) {
                marks.find(bytes, &mut found);
            }
            assert_eq!(found, [0, 1, 12_345_678], "{piece}");
        }
        assert_eq!(message(7).len(), MESSAGE_BYTES);
    }
}
