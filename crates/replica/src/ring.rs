//! A leader's recent proposals, in memory, from which every follower is sent.
//!
//! ```text
//! evicted | chosen, kept for slower followers and tail readers | unchosen | → new proposals
//!         base                                          first_unchosen      end
//! ```
//!
//! All unchosen proposals are here, so that any follower can be sent any of them at any time. Chosen ones may
//! go: a follower that still lacks them catches up by state and bytes.

use std::collections::VecDeque;

use ops::Slice;
use paxos::{Proposal, Slot, SlotRange, StreamName, StreamPosition, Term, Value};

pub struct Entry {
    pub proposal: Proposal,
    pub payload: Option<Slice>,
}

#[derive(Default)]
pub struct Ring {
    /// The term of all entries, or one that took over from theirs.
    term: Term,
    entries: VecDeque<Entry>,
    /// The number of entries that were pushed before the first one here. It never goes back.
    base: u64,
    /// Memory pinned by payloads, counted as whole buffers' content.
    bytes: u64,
}

/// A rough size of an entry without payload, so that those are bounded too.
const ENTRY_BYTES: u64 = 256;

impl Entry {
    fn cost(&self) -> u64 {
        // A small batch pins a whole buffer: count that, not its bytes.
        match &self.payload {
            Some(payload) => payload.pinned_bytes() as u64 + ENTRY_BYTES,
            None => ENTRY_BYTES,
        }
    }
}

impl Ring {
    /// Adds an entry. The first one of a term drops those of the term before: their slots are proposed again.
    pub fn push(&mut self, entry: Entry) {
        self.begin(entry.proposal.term);
        if let Some(last) = self.entries.back() {
            paxos::invariant!(
                last.proposal.slots.end <= entry.proposal.slots.start,
                "proposals come in the order of slots"
            );
        }
        self.bytes += entry.cost();
        self.entries.push_back(entry);
    }

    /// As `begin`, where the term takes over from the one before: its proposals stay.
    pub fn go_on(&mut self, term: Term) {
        self.term = term;
    }

    /// Keeps only proposals of this term from here on. Those that came already stay: the engine proposes what
    /// phase 1 reported before it says that it leads.
    pub fn begin(&mut self, term: Term) {
        if self.term != term {
            self.clear();
            self.term = term;
        }
    }

    pub fn term(&self) -> Term {
        self.term
    }

    pub fn clear(&mut self) {
        self.base += self.entries.len() as u64;
        self.entries.clear();
        self.bytes = 0;
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn base(&self) -> u64 {
        self.base
    }

    pub fn end(&self) -> u64 {
        self.base + self.entries.len() as u64
    }

    /// The slots from the first entry's first to the last one's end.
    pub fn covers(&self) -> SlotRange {
        match (self.entries.front(), self.entries.back()) {
            (Some(first), Some(last)) => {
                SlotRange::new(first.proposal.slots.start, last.proposal.slots.end)
            }
            _ => SlotRange::default(),
        }
    }

    /// The entry with that number; `None` at the end. A number before the base was evicted.
    pub fn get(&self, number: u64) -> Option<&Entry> {
        self.entries.get(number.checked_sub(self.base)? as usize)
    }

    /// The number of the first entry that reaches beyond `slot`.
    pub fn first_beyond(&self, slot: Slot) -> u64 {
        self.base
            + self
                .entries
                .partition_point(|e| e.proposal.slots.end <= slot) as u64
    }

    /// Drops chosen entries from the front while more than `bytes_max` are held, or those that all
    /// followers were sent (`sent_to_all` is the least cursor).
    pub fn evict(
        &mut self,
        first_unchosen: Slot,
        bytes_max: u64,
        sent_to_all: u64,
        sent_bytes_max: u64,
    ) {
        while let Some(first) = self.entries.front() {
            let sent = self.base < sent_to_all && self.bytes > sent_bytes_max;
            if first.proposal.slots.end > first_unchosen || !(self.bytes > bytes_max || sent) {
                break;
            }
            self.bytes -= first.cost();
            self.entries.pop_front();
            self.base += 1;
        }
    }

    /// The bytes of `stream` from `position` on, as far as one entry has them.
    pub fn find(&self, stream: StreamName, position: StreamPosition) -> Option<Slice> {
        // Consecutive bytes share an offset, so the newest entry of the stream tells the slot.
        let offset = self
            .entries
            .iter()
            .rev()
            .take(16)
            .find_map(|e| match &e.proposal.value {
                Value::Content { stream: s, offset } if *s == stream => Some(*offset),
                _ => None,
            })?;
        let slot = Slot(offset.0.checked_add(position.0)?);
        let entry = self.get(self.first_beyond(slot))?;
        match &entry.proposal.value {
            Value::Content {
                stream: s,
                offset: o,
            } if *s == stream && *o == offset => {
                let into = slot.0.checked_sub(entry.proposal.slots.start.0)?;
                Some(entry.payload.as_ref()?.after(into as usize))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paxos::{Digest, Offset};

    fn content(start: u64, bytes: &[u8], stream: StreamName, offset: u64) -> Entry {
        Entry {
            proposal: Proposal {
                term: Term::default(),
                slots: SlotRange::new(Slot(start), Slot(start + bytes.len() as u64)),
                value: Value::Content {
                    stream,
                    offset: Offset(offset),
                },
                digest: Digest(0),
                chosen_up_to: Slot(0),
            },
            payload: Some(Slice::copied_from(bytes)),
        }
    }

    #[test]
    fn unchosen_entries_are_never_evicted() {
        let stream = StreamName::default();
        let mut ring = Ring::default();
        ring.push(content(10, b"abc", stream, 10));
        ring.push(content(13, b"def", stream, 10));
        ring.evict(Slot(12), 0, 2, 0);
        assert_eq!(ring.base(), 0, "slot 12 is not chosen");
        ring.evict(Slot(13), 0, 2, 0);
        assert_eq!((ring.base(), ring.end()), (1, 2));
        assert!(ring.get(0).is_none());
    }

    #[test]
    fn a_new_term_drops_the_proposals_of_the_one_before_and_keeps_its_own() {
        let stream = StreamName::default();
        let mut ring = Ring::default();
        ring.push(content(10, b"abc", stream, 10));
        ring.push(content(13, b"def", stream, 10));
        let term = Term {
            number: 1,
            ..Term::default()
        };
        let mut again = content(10, b"abc", stream, 10);
        again.proposal.term = term;
        ring.push(again);
        assert_eq!((ring.base(), ring.end()), (2, 3), "slot 10 begins again");
        ring.begin(term);
        assert_eq!((ring.base(), ring.end()), (2, 3), "what was proposed stays");
    }

    #[test]
    fn bytes_are_found_by_stream_and_position() {
        let stream = StreamName::default();
        let mut ring = Ring::default();
        ring.push(content(10, b"abc", stream, 10));
        ring.push(content(13, b"def", stream, 10));
        assert_eq!(&ring.find(stream, StreamPosition(4)).unwrap()[..], b"ef");
        assert_eq!(&ring.find(stream, StreamPosition(0)).unwrap()[..], b"abc");
        assert!(ring.find(stream, StreamPosition(6)).is_none());
    }
}
