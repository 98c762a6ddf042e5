//! The machine that performs a script on whatever kernel drives it, and writes down what came of
//! every line.
//!
//! What two kernels may do differently is taken out here, and nothing else:
//!
//! - A stream's bytes may arrive in any pieces. `drain` adds them up; a receive that is not `whole`
//!   has as many as there were. Every byte is compared with what was sent at its position.
//! - A lent buffer may be of any size; what a receive without one says came is in it.
//! - An end may come with the last bytes or behind them.
//! - A connection that the other side broke is `reset`, whether an op hears ECONNRESET or EPIPE:
//!   which of both depends on which direction heard of it first. Errors without a kind of their own
//!   are `other`.
//! - Completions come in any order but for one connection and direction, and for the writes of one
//!   file, the work of one lane, and the letters from one machine: there the order is checked.

mod disk;
pub mod errands;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ops::{Buffer, Completion, ConnId, FileId, Lane, Machine, MachineId, Op, Slice, Time, Token};

use crate::outcome::{byte_at, kind, letters};
use crate::script::{Line, Script};

/// So long without any completion, and what is outstanding counts as pending: it waits for the other
/// end of its connection. What a disk, a lane or another machine does comes to an end, however slow it is.
const QUIET: Duration = Duration::from_millis(150);
/// An op that is waited for and does not complete is pending after this.
const PATIENCE: Duration = Duration::from_secs(10);
const FILL_BYTES: usize = 256 << 10;

pub struct Performer {
    script: Script,
    root: PathBuf,
    /// More bytes than this kernel's buffers hold.
    much: usize,
    /// What the script's words for addresses mean to this kernel.
    address: Box<dyn Fn(&str) -> String>,
    pub outcomes: Vec<String>,
    at: usize,
    ops: VecDeque<Op>,
    waiting: Waiting,
    now: Time,
    heard: Time,
    conns: BTreeMap<ConnId, End>,
    names: BTreeMap<String, ConnId>,
    accepted: VecDeque<ConnId>,
    /// Lines whose pair has one end so far.
    halves: BTreeSet<usize>,
    tokens: BTreeMap<Token, usize>,
    /// Writes outstanding, by file, oldest first.
    writes: BTreeMap<FileId, VecDeque<Token>>,
    files: BTreeMap<String, FileId>,
    /// Letters not answered, by whom they went to, oldest first.
    posts: BTreeMap<MachineId, VecDeque<usize>>,
    /// Machines that were asked to end.
    gone: BTreeSet<MachineId>,
    /// Work not done, oldest first.
    lanes: BTreeMap<Lane, VecDeque<Token>>,
    next_conn: u64,
    next_number: u64,
    /// Letters given to writes so far.
    letters: u8,
    filled: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Waiting {
    No,
    For { line: usize, until: Time },
    ForQuiet,
    Until(Time),
}

#[derive(Default)]
struct End {
    name: String,
    peer: String,
    given: u64,
    taken: u64,
    sends: VecDeque<usize>,
    receives: VecDeque<usize>,
    closed: bool,
    /// Given after the close: answered at once, whatever is still being flushed.
    late_sends: VecDeque<usize>,
}

const NONE: &str = "";
const PENDING: &str = "pending";

impl Performer {
    pub fn new(
        script: &Script,
        root: &Path,
        much: usize,
        address: impl Fn(&str) -> String + 'static,
    ) -> Performer {
        Performer {
            outcomes: vec![NONE.to_string(); script.lines.len()],
            script: script.clone(),
            root: root.to_path_buf(),
            much,
            address: Box::new(address),
            at: 0,
            ops: VecDeque::new(),
            waiting: Waiting::No,
            now: Time::ZERO,
            heard: Time::ZERO,
            conns: BTreeMap::new(),
            names: BTreeMap::new(),
            accepted: VecDeque::new(),
            halves: BTreeSet::new(),
            tokens: BTreeMap::new(),
            writes: BTreeMap::new(),
            files: BTreeMap::new(),
            posts: BTreeMap::new(),
            gone: BTreeSet::new(),
            lanes: BTreeMap::new(),
            next_conn: 0,
            next_number: 0,
            letters: 0,
            filled: 0,
        }
    }

    /// It waits for whoever runs the kernel to break the disk.
    pub fn wants_a_broken_disk(&self) -> bool {
        let line = self.at.checked_sub(1).map(|at| &self.script.lines[at]);
        self.waiting != Waiting::No && line.is_some_and(|line| line.word(0) == "break-disk")
    }

    pub fn is_over(&self) -> bool {
        self.at == self.script.lines.len() && self.waiting == Waiting::No
    }

    /// From when on what is outstanding counts as pending.
    fn quiet_at(&self) -> Time {
        let patience = match self.tokens.is_empty() && !self.awaits_letters() {
            true => QUIET,
            false => PATIENCE,
        };
        self.heard + patience
    }

    /// Gives as many lines as need no waiting.
    fn go_on(&mut self) {
        loop {
            match self.waiting {
                Waiting::No => {}
                Waiting::For { line, until } => {
                    if self.outcomes[line] == PENDING && self.now < until {
                        return;
                    }
                }
                Waiting::ForQuiet => {
                    let pending = self.outcomes.iter().any(|o| o == PENDING);
                    if pending && self.now < self.quiet_at() {
                        return;
                    }
                }
                Waiting::Until(until) => {
                    if self.now < until {
                        return;
                    }
                    let late = self.now > until + PATIENCE;
                    let outcome = if late { "late" } else { "in time" };
                    self.outcomes[self.at - 1] = outcome.to_string();
                }
            }
            self.waiting = Waiting::No;
            let Some(line) = self.script.lines.get(self.at).cloned() else {
                return;
            };
            self.at += 1;
            self.heard = self.now;
            self.give(&line);
            if self.waiting == Waiting::No
                && self.outcomes[self.at - 1] == PENDING
                && !line.outstanding
            {
                self.waiting = Waiting::For {
                    line: self.at - 1,
                    until: self.now + PATIENCE,
                };
            }
        }
    }

    fn give(&mut self, line: &Line) {
        let number = self.at - 1;
        let word = |at: usize| line.word(at).to_string();
        // What has a completion is pending until it comes.
        let silent = [
            "listen",
            "shutdown",
            "close",
            "reset",
            "settle",
            "pause",
            "end",
            "break-disk",
            "look",
        ];
        if !silent.contains(&line.word(0)) {
            self.outcomes[number] = PENDING.to_string();
        }
        match line.word(0) {
            "listen" => {
                let address = (self.address)(line.word(1));
                self.outcomes[number] = "listening".to_string();
                self.put(Op::Listen { address });
            }
            "connect" | "pair" => {
                let peer = match line.word(0) {
                    "pair" => word(2),
                    _ => String::new(),
                };
                let address = match line.word(0) {
                    "pair" => (self.address)(line.word(3)),
                    _ => (self.address)(line.word(2)),
                };
                let conn = ConnId(self.next_conn);
                self.next_conn += 2;
                self.meet(conn, word(1), peer);
                self.put(Op::Connect { conn, address });
            }
            "accept" => {
                self.take_accepted();
            }
            "send" => self.send(line.word(1), line.number(2, self.much), number),
            "receive" => {
                let whole = line.word(3) == "whole";
                match line.word(3) {
                    "there" => self.receive_when_there(line, number),
                    _ => self.receive(line.word(1), line.number(2, self.much), whole, number),
                }
            }
            "drain" => self.drain(line, number),
            "shutdown" => {
                let conn = self.conn(line.word(1));
                self.put(Op::ShutdownWrite { conn });
            }
            "close" => {
                let conn = self.conn(line.word(1));
                let flush = line.word(2) == "flush";
                if let Some(end) = self.conns.get_mut(&conn) {
                    end.closed = true;
                }
                self.put(Op::Close { conn, flush });
            }
            "reset" => {
                let conn = self.conn(line.word(1));
                if let Some(end) = self.conns.get_mut(&conn) {
                    end.closed = true;
                }
                self.put(Op::Reset { conn });
            }
            "post" => self.post(line, number),
            "end" => self.end_other(line),
            "run" => self.run_in_lane(line, number),
            "clock" => self.ask_the_clock(number),
            "settle" => self.waiting = Waiting::ForQuiet,
            "pause" => {
                let time = Duration::from_millis(line.number(1, self.much) as u64);
                self.waiting = Waiting::Until(self.now + time);
            }
            // Done by whoever runs the kernel, as is `look` at the end.
            "break-disk" => self.waiting = Waiting::Until(self.now + QUIET),
            "look" => {}
            _ => self.give_to_disk(line, number),
        }
    }

    fn put(&mut self, op: Op) {
        self.ops.push_back(op);
    }

    fn conn(&self, name: &str) -> ConnId {
        self.names.get(name).copied().unwrap_or(ConnId(1 << 40))
    }

    fn meet(&mut self, conn: ConnId, name: String, peer: String) {
        self.names.insert(name.clone(), conn);
        let end = End {
            name,
            peer,
            ..End::default()
        };
        self.conns.insert(conn, end);
    }

    /// The oldest `accept` or `pair` that waits for it gets the oldest connection.
    fn take_accepted(&mut self) {
        for at in 0..self.at {
            let line = self.script.lines[at].clone();
            let is_pair = self.halves.contains(&at);
            let is_accept = line.word(0) == "accept" && self.outcomes[at] == PENDING;
            if !is_pair && !is_accept {
                continue;
            }
            let Some(conn) = self.accepted.pop_front() else {
                return;
            };
            let (name, peer) = match is_pair {
                true => (line.word(2), line.word(1)),
                false => (line.word(1), line.word(2)),
            };
            self.meet(conn, name.to_string(), peer.to_string());
            let near = self.conn(peer);
            if let Some(near) = self.conns.get_mut(&near) {
                near.peer = name.to_string();
            }
            self.outcomes[at] = match is_pair {
                true => "connected".to_string(),
                false => "accepted".to_string(),
            };
            self.halves.remove(&at);
        }
    }

    fn send(&mut self, name: &str, length: usize, number: usize) {
        let conn = self.conn(name);
        let end = self.conns.entry(conn).or_default();
        let from = end.given;
        end.given += length as u64;
        match end.closed {
            true => end.late_sends.push_back(number),
            false => end.sends.push_back(number),
        }
        let bytes: Vec<u8> = (from..end.given).map(|at| byte_at(name, at)).collect();
        let slices = bytes.chunks(1 << 20).map(Slice::copied_from).collect();
        self.put(Op::Send { conn, slices });
    }

    fn receive(&mut self, name: &str, length: usize, whole: bool, number: usize) {
        let conn = self.conn(name);
        let end = self.conns.entry(conn).or_default();
        end.receives.push_back(number);
        // Its start tells which receive a completion answers.
        let range = number..number + length;
        let buffer = Buffer::new(range.end);
        self.put(Op::Receive {
            conn,
            buffer,
            range,
            whole,
        });
    }

    fn receive_when_there(&mut self, line: &Line, number: usize) {
        let conn = self.conn(line.word(1));
        let end = self.conns.entry(conn).or_default();
        end.receives.push_back(number);
        let bytes_max = line.number(2, self.much);
        self.put(Op::ReceiveWhenThere { conn, bytes_max });
    }

    fn drain(&mut self, line: &Line, number: usize) {
        match line.word(3) {
            "there" => self.receive_when_there(line, number),
            _ => self.receive(line.word(1), 1 << 16, false, number),
        }
    }

    fn on_received(&mut self, conn: ConnId, start: usize, bytes: &[u8], result: io::Result<bool>) {
        let end = self.conns.entry(conn).or_default();
        let number = end
            .receives
            .pop_front()
            .expect("one answer for each receive");
        let line = self.script.lines[number].clone();
        let in_order = match line.word(3) {
            "there" => start == 0 && bytes.len() <= line.number(2, self.much),
            _ => start == number,
        };
        if !in_order {
            self.outcomes[number] = "out of order".to_string();
            return;
        }
        let from = end.taken;
        end.taken += bytes.len() as u64;
        let right = (from..)
            .zip(bytes)
            .all(|(at, b)| *b == byte_at(&end.peer, at));
        if !right {
            self.outcomes[number] = format!("wrong bytes behind {from}");
            return;
        }
        let before = end.taken;
        let drains = line.word(0) == "drain";
        match result {
            Ok(false) if drains => self.drain(&line, number),
            Ok(ended) => {
                let count = match drains {
                    true => self.amount(before),
                    false => self.amount(bytes.len() as u64),
                };
                let mark = if ended { " end" } else { "" };
                self.outcomes[number] = format!("{count}{mark}");
            }
            Err(error) if drains => {
                self.outcomes[number] = format!("{} {}", self.amount(before), kind(&error));
            }
            Err(error) => self.outcomes[number] = kind(&error),
        }
    }

    fn amount(&self, bytes: u64) -> String {
        match bytes == self.much as u64 {
            true => "much".to_string(),
            false => bytes.to_string(),
        }
    }
}

impl Machine for Performer {
    fn handle(&mut self, now: Time, completion: Completion) {
        (self.now, self.heard) = (now, now);
        let text = |result: io::Result<()>, good: &str| match result {
            Ok(()) => good.to_string(),
            Err(error) => kind(&error),
        };
        match completion {
            Completion::Accepted { conn, .. } => {
                self.accepted.push_back(conn);
                self.take_accepted();
            }
            Completion::ListenFailed { address, error } => {
                let lines = self.script.lines.iter().enumerate();
                let mut listens = lines.filter(|(_, line)| line.word(0) == "listen").rev();
                let failed = listens.find(|(_, line)| (self.address)(line.word(1)) == address);
                let (number, _) = failed.expect("an address of the script");
                self.outcomes[number] = kind(&error);
            }
            Completion::Connected { conn, result, .. } => {
                let name = self.conns[&conn].name.clone();
                let lines = self.script.lines.iter().enumerate();
                let mut opens = lines.filter(|(at, line)| {
                    ["connect", "pair"].contains(&line.word(0))
                        && line.word(1) == name
                        && self.outcomes[*at] == PENDING
                        && !self.halves.contains(at)
                });
                let (number, line) = opens.next().expect("one answer for each connect");
                if line.word(0) == "pair" && result.is_ok() {
                    self.halves.insert(number);
                } else {
                    self.outcomes[number] = text(result, "connected");
                }
                self.take_accepted();
            }
            Completion::Received {
                conn,
                buffer,
                range,
                result,
            } => {
                let count = result.as_ref().map_or(0, |received| received.count);
                let bytes = &buffer[range.start..range.start + count];
                let result = result.map(|received| received.end);
                self.on_received(conn, range.start, bytes, result);
            }
            Completion::Sent { conn, result } => {
                let end = self.conns.entry(conn).or_default();
                let late = match &result {
                    Ok(()) => None,
                    Err(_) => end.late_sends.pop_front(),
                };
                let number = late.or_else(|| end.sends.pop_front());
                let number = number.expect("one answer for each send");
                self.outcomes[number] = text(result, "sent");
            }
            Completion::Read {
                token,
                buffer,
                range,
                result,
            } => {
                let outcome = match result {
                    Ok(count) => letters(&buffer[range.start..range.start + count]),
                    Err(error) => kind(&error),
                };
                self.on_done(token, outcome);
            }
            Completion::Done { token, result } => self.on_done(token, text(result, "done")),
            Completion::Space { token, result } => {
                let outcome = match result {
                    Ok(bytes) if bytes > 0 => "some".to_string(),
                    Ok(_) => "none".to_string(),
                    Err(error) => kind(&error),
                };
                self.on_done(token, outcome);
            }
            Completion::StopRequested => panic!("nobody asked"),
            Completion::Delivered { from, letter } => self.on_delivered(from, letter),
            Completion::Ran { token, result } => self.on_ran(token, result),
            Completion::WallClock { token, since_1970 } => {
                // No kernel runs in the first year.
                let year = Duration::from_secs(365 * 24 * 3600);
                let outcome = match since_1970 {
                    Some(since) if since > year => "some time",
                    Some(_) => "too early",
                    None => "no time",
                };
                self.on_done(token, outcome.to_string());
            }
        }
    }

    fn on_time(&mut self, now: Time) {
        self.now = now;
        self.go_on();
    }

    fn poll_op(&mut self) -> Option<Op> {
        self.ops.pop_front()
    }

    fn deadline(&self) -> Option<Time> {
        match self.waiting {
            Waiting::No => Some(self.now),
            Waiting::For { until, .. } | Waiting::Until(until) => Some(until),
            Waiting::ForQuiet => Some(self.quiet_at()),
        }
    }

    fn is_finished(&self) -> bool {
        self.is_over() && self.ops.is_empty()
    }
}
