//! Connections as a machine sees them: numbers, and lines of bytes.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::time::Duration;

use wire::{Answer, LINE_BYTES_MAX, LineError};

use crate::said::Said;

/// `ok` lines carry tables; a node that sends more than this is not answering but flooding.
const OK_BYTES_MAX: usize = 64 << 20;

/// One connection of one machine. No number is used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Link(pub u64);

/// The news for a machine.
#[derive(Clone, Debug)]
pub enum Input<'a> {
    Connected(Link),
    Received(Link, Cow<'a, [u8]>),
    /// The connection could not be made, ended or broke. Nothing more comes of it.
    Lost(Link, Said),
    /// Nothing but that time has passed, or that the caller gave or took bytes.
    Time,
}

/// A machine's output: what it wants done. There is nothing to answer to `Send` and `Close`: a connection that broke
/// meanwhile is told as lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// To any address of this server (`HOST:PORT`), of which each is tried for so long; then it is connected
    /// or lost.
    Connect(Link, String, Duration),
    Send(Link, Vec<u8>),
    /// Nothing of it is heard any more, and what it still tells is passed over.
    Close(Link),
}

/// A machine's connections, and what it wants done with them.
#[derive(Debug, Default)]
pub(crate) struct Links {
    next: u64,
    outputs: VecDeque<Output>,
}

impl Links {
    pub fn connect(&mut self, server: &str, within: Duration) -> Link {
        self.next += 1;
        let link = Link(self.next);
        let connect = Output::Connect(link, server.to_owned(), within);
        self.outputs.push_back(connect);
        link
    }

    pub fn send(&mut self, link: Link, bytes: Vec<u8>) {
        self.outputs.push_back(Output::Send(link, bytes));
    }

    pub fn close(&mut self, link: Link) {
        self.outputs.push_back(Output::Close(link));
    }

    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }
}

/// Bytes received and not yet taken.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    bytes: Vec<u8>,
    taken: usize,
    /// No line ends in `bytes[taken..searched]`: a long line is searched once, not once per piece.
    searched: usize,
}

impl Lines {
    pub fn push(&mut self, bytes: &[u8]) {
        if self.taken == self.bytes.len() {
            self.bytes.clear();
            (self.taken, self.searched) = (0, 0);
        } else if self.taken > self.bytes.len() / 2 {
            self.bytes.drain(..self.taken);
            self.searched = self.searched.saturating_sub(self.taken);
            self.taken = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The next answer, if a whole one was received.
    pub fn answer(&mut self) -> Result<Option<Answer>, LineError> {
        let from = self.searched.max(self.taken);
        let found = self.bytes[from..].iter().position(|byte| *byte == b'\n');
        let received = &self.bytes[self.taken..];
        let Some(length) = found.map(|index| from - self.taken + index) else {
            let limit = match received.starts_with(b"ok ") {
                true => OK_BYTES_MAX,
                false => LINE_BYTES_MAX,
            };
            if received.len() >= limit {
                return Err(LineError::TooLong);
            }
            self.searched = self.bytes.len();
            return Ok(None);
        };
        let answer = Answer::parse(&received[..length])?;
        self.taken += length + 1;
        Ok(Some(answer))
    }

    /// Moves what follows the last line to `room`; how much that was.
    pub fn take_into(&mut self, room: &mut [u8]) -> usize {
        let rest = &self.bytes[self.taken..];
        let count = rest.len().min(room.len());
        room[..count].copy_from_slice(&rest[..count]);
        self.taken += count;
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_bytes_come_out_as_they_went_in() {
        let json = "x".repeat(50_000);
        let body: Vec<u8> = (0..3_000).map(|i| (i * 7 / 3) as u8).collect();
        let mut sent = format!("ack 1\nok {json}\nack 2\n").into_bytes();
        sent.extend_from_slice(&body);
        sent.extend_from_slice(b"ack 3\n");
        for piece in [1, 7, 4096, sent.len()] {
            let mut lines = Lines::default();
            let (mut heard, mut taken) = (Vec::new(), Vec::new());
            for bytes in sent.chunks(piece) {
                lines.push(bytes);
                loop {
                    if heard.len() == 3 && taken.len() < body.len() {
                        let mut room = vec![0; body.len() - taken.len()];
                        let count = lines.take_into(&mut room);
                        taken.extend_from_slice(&room[..count]);
                        if taken.len() < body.len() {
                            break;
                        }
                    }
                    match lines.answer().expect("lines") {
                        Some(answer) => heard.push(answer),
                        None => break,
                    }
                }
            }
            let expected = [
                Answer::Ack(1),
                Answer::Ok(json.clone()),
                Answer::Ack(2),
                Answer::Ack(3),
            ];
            assert!(heard == expected && taken == body, "in pieces of {piece}");
        }
    }

    #[test]
    fn a_line_without_an_end_is_not_kept_for_ever() {
        let mut lines = Lines::default();
        let mut refused = false;
        for _ in 0..100 {
            lines.push(&[b'a'; 1000]);
            refused |= lines.answer().is_err();
        }
        assert!(refused);
    }
}
