//! The events of a run, as a hash of everything and as lines for people.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;

use ops::{Completion, Op, Time};

/// A rolling hash of every event, op and completion with its bytes: two runs with the same hash
/// did the same. Lines are only made when somebody asked for them.
pub struct Trace {
    hash: u64,
    lines: RefCell<VecDeque<String>>,
    lines_max: usize,
    printing: bool,
}

impl Trace {
    pub(crate) fn new() -> Trace {
        Trace {
            hash: 0xcbf2_9ce4_8422_2325,
            lines: RefCell::default(),
            lines_max: 0,
            printing: false,
        }
    }

    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Keep the last `lines_max` lines.
    pub fn keep(&mut self, lines_max: usize) {
        self.lines_max = lines_max;
    }

    /// Print every line to stderr.
    pub fn print(&mut self, printing: bool) {
        self.printing = printing;
    }

    pub fn lines(&self) -> Vec<String> {
        self.lines.borrow().iter().cloned().collect()
    }

    pub(crate) fn number(&mut self, number: u64) {
        self.hash = (self.hash.rotate_left(5) ^ number).wrapping_mul(0x9fb2_1c65_1e98_df25);
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            let word = word.try_into().expect("chunks_exact gives 8 bytes");
            self.number(u64::from_le_bytes(word));
        }
        for &byte in words.remainder() {
            self.number(u64::from(byte));
        }
    }

    pub(crate) fn op(&mut self, op: &Op) {
        match op {
            Op::Send { conn, slices } => {
                self.number(conn.0);
                slices.iter().for_each(|slice| self.bytes(slice));
            }
            Op::Write {
                token,
                offset,
                slices,
                ..
            } => {
                self.number(token.0);
                self.number(*offset);
                slices.iter().for_each(|slice| self.bytes(slice));
            }
            Op::WriteFile {
                token, contents, ..
            } => {
                self.number(token.0);
                self.bytes(contents);
            }
            Op::Connect { conn, .. } => self.number(conn.0 ^ 1 << 60),
            Op::Receive { conn, range, .. } => {
                self.number(conn.0 ^ 2 << 60);
                self.number(range.len() as u64);
            }
            Op::ReceiveWhenThere { conn, bytes_max } => {
                self.number(conn.0 ^ 9 << 60);
                self.number(*bytes_max as u64);
            }
            Op::Close { conn, flush } => self.number(conn.0 ^ 3 << 60 ^ u64::from(*flush) << 59),
            Op::ShutdownWrite { conn } => self.number(conn.0 ^ 4 << 60),
            Op::Reset { conn } => self.number(conn.0 ^ 6 << 60),
            Op::Post { to, .. } => self.number(u64::from(to.0) ^ 7 << 60),
            Op::Run { token, lane, .. } => {
                self.number(token.0 ^ 8 << 60);
                self.number(u64::from(lane.0));
            }
            _ => self.number(5 << 60),
        }
    }

    pub(crate) fn completion(&mut self, completion: &Completion) {
        match completion {
            Completion::Accepted { conn, .. } => self.number(conn.0 ^ 6 << 60),
            Completion::Connected { conn, result, .. } => {
                self.number(conn.0 ^ 7 << 60 ^ u64::from(result.is_ok()) << 59);
            }
            Completion::Received {
                conn,
                buffer,
                range,
                result,
            } => {
                self.number(conn.0 ^ 8 << 60);
                let count = result.as_ref().map_or(0, |received| received.count);
                self.bytes(&buffer[range.start..range.start + count]);
            }
            Completion::Sent { conn, result } => {
                self.number(conn.0 ^ 9 << 60 ^ u64::from(result.is_ok()) << 59);
            }
            Completion::Read {
                token,
                buffer,
                range,
                result,
            } => {
                self.number(token.0 ^ 10 << 60);
                let count = *result.as_ref().unwrap_or(&0);
                self.bytes(&buffer[range.start..range.start + count]);
            }
            Completion::Done { token, result } => {
                self.number(token.0 ^ 11 << 60 ^ u64::from(result.is_ok()) << 59);
            }
            Completion::Space { token, result } => {
                self.number(token.0 ^ 12 << 60);
                self.number(*result.as_ref().unwrap_or(&0));
            }
            Completion::ListenFailed { .. } => self.number(13 << 60),
            Completion::StopRequested => self.number(14 << 60),
            Completion::Delivered { from, .. } => self.number(u64::from(from.0) ^ 15 << 60),
            Completion::Ran { token, result } => {
                self.number(token.0 ^ 3 << 60 ^ u64::from(result.is_ok()) << 59);
            }
            Completion::WallClock { token, .. } => self.number(token.0 ^ 4 << 60),
        }
    }

    /// `line` is only formatted when somebody reads it.
    pub(crate) fn line(&self, now: Time, line: fmt::Arguments<'_>) {
        if self.lines_max == 0 && !self.printing {
            return;
        }
        let line = format!("{:>12} {line}", now.as_micros());
        if self.printing {
            eprintln!("{line}");
        }
        if self.lines_max == 0 {
            return;
        }
        let mut lines = self.lines.borrow_mut();
        if lines.len() == self.lines_max {
            lines.pop_front();
        }
        lines.push_back(line);
    }
}
