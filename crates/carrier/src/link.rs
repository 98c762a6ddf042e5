//! One connection, and what waits there.

use std::collections::VecDeque;

use ops::{Op, Time};

/// The words with which a node begins each connection to another.
const GREETING: &[u8] = b"logberg/1 peer ";
/// The bytes that wait on a connection while the node takes them for sent: a long way, not a narrow one.
pub(crate) const UNDER_WAY_MAX: usize = 16 << 20;

/// The other end of a connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Other {
    Node,
    /// It has said so much of the greeting.
    Greets(usize),
    Client,
}

/// An op that waits until it is due.
#[derive(Debug)]
pub(crate) struct Held {
    pub due: Time,
    pub op: Op,
    pub bytes: usize,
    /// The node was told that it is sent.
    pub is_told: bool,
}

#[derive(Debug)]
pub(crate) struct Link {
    pub other: Other,
    /// In the order in which they are due.
    pub held: VecDeque<Held>,
    pub held_bytes: usize,
    /// Sends at the kernel of which the node was told before.
    pub told_before: usize,
    /// The node has closed it.
    pub is_closed: bool,
}

impl Link {
    pub fn to(other: Other) -> Link {
        Link {
            other,
            held: VecDeque::new(),
            held_bytes: 0,
            told_before: 0,
            is_closed: false,
        }
    }

    /// Hears the first bytes of whoever connected.
    pub fn hear(&mut self, bytes: &[u8]) {
        let Other::Greets(said) = self.other else {
            return;
        };
        let rest = &GREETING[said..];
        let length = rest.len().min(bytes.len());
        self.other = match () {
            () if bytes[..length] != rest[..length] => Other::Client,
            () if length == rest.len() => Other::Node,
            () => Other::Greets(said + length),
        };
    }

    /// ‡ Nothing is due before what was given earlier.
    pub fn hold(&mut self, due: Time, op: Op, bytes: usize, is_told: bool) {
        let last = self.held.back().map_or(Time::ZERO, |held| held.due);
        self.held_bytes += bytes;
        self.held.push_back(Held {
            due: due.max(last),
            op,
            bytes,
            is_told,
        });
    }

    pub fn take_due(&mut self, now: Time) -> Option<Held> {
        let held = self.held.pop_front_if(|held| held.due <= now)?;
        self.held_bytes -= held.bytes;
        Some(held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_told_from_clients_by_their_first_words() {
        let heard = |parts: &[&[u8]]| {
            let mut link = Link::to(Other::Greets(0));
            parts.iter().for_each(|part| link.hear(part));
            link.other
        };
        assert_eq!(heard(&[b"logberg/1 peer kind=control"]), Other::Node);
        assert_eq!(
            heard(&[b"logberg", b"/1 pe", b"er x", b"junk"]),
            Other::Node
        );
        assert_eq!(heard(&[b"logberg/1 append main"]), Other::Client);
        assert_eq!(heard(&[b"GET /"]), Other::Client);
        assert_eq!(heard(&[b"logberg/1 p"]), Other::Greets(11));
        assert_eq!(heard(&[b""]), Other::Greets(0));
    }
}
