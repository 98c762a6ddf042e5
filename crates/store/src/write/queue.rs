//! Records on their way to the disk, in order.
//!
//! ```text
//!   push ──▶ pending ── take_write ──▶ in flight ── done, and all before it ──▶ take_done
//! ```

use std::collections::VecDeque;

use formats::past::End;
use ops::{Slice, Token};
use paxos::{Slot, Time};

/// Kernels take 1024 slices in one call.
const WRITE_SLICES_MAX: usize = 1_000;

#[derive(Default)]
pub(crate) struct Queue {
    pending: VecDeque<Pending>,
    pending_bytes: u64,
    in_flight: VecDeque<InFlight>,
    /// The time since which records wait for their file to be made, and no write is in flight.
    held_since: Option<Time>,
}

/// A record, or a segment's first block, that no write carries yet.
pub(crate) struct Pending {
    pub segment: u64,
    pub slice: Slice,
    /// The record's number; 0 for a segment's first block.
    pub number: u64,
    pub first_unchosen: Slot,
    pub end: End,
    pub tag: Option<u64>,
}

/// The facts that the records of one write say together.
#[derive(Default)]
pub(crate) struct Carried {
    pub bytes: u64,
    pub last_number: u64,
    pub first_unchosen: Slot,
    pub end: End,
    pub last_tag: Option<u64>,
}

pub(crate) struct InFlight {
    token: Token,
    pub carried: Carried,
    pub since: Time,
    done: bool,
}

impl Queue {
    pub fn push(&mut self, record: Pending) {
        self.pending_bytes += record.slice.len() as u64;
        self.pending.push_back(record);
    }

    pub fn first(&self) -> Option<&Pending> {
        self.pending.front()
    }

    pub fn pending_in(&self, segment: u64) -> u64 {
        let pending = self.pending.iter();
        let pending = pending.filter(|record| record.segment == segment);
        pending.map(|record| record.slice.len() as u64).sum()
    }

    pub fn is_busy(&self) -> bool {
        !self.pending.is_empty() || !self.in_flight.is_empty()
    }

    pub fn writes_in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Pending and in flight.
    pub fn bytes(&self) -> u64 {
        let in_flight: u64 = self.in_flight.iter().map(|write| write.carried.bytes).sum();
        self.pending_bytes + in_flight
    }

    /// Since when the oldest write is in flight, or waits for its file.
    pub fn oldest_since(&self) -> Option<Time> {
        let oldest = self.in_flight.front();
        oldest.map(|write| write.since).or(self.held_since)
    }

    /// The first record's file is not there.
    pub fn hold(&mut self, now: Time) {
        if self.in_flight.is_empty() {
            self.held_since.get_or_insert(now);
        }
    }

    /// Records of that segment for one write, which begins now; there is one.
    pub fn take_write(&mut self, segment: u64, bytes_max: usize) -> (Vec<Slice>, Carried) {
        self.held_since = None;
        let mut slices = Vec::new();
        let mut bytes = 0;
        let mut carried = Carried::default();
        while let Some(next) = self.pending.front() {
            let fits = bytes + next.slice.len() <= bytes_max;
            if next.segment != segment
                || !(slices.is_empty() || fits && slices.len() < WRITE_SLICES_MAX)
            {
                break;
            }
            let Some(next) = self.pending.pop_front() else {
                break;
            };
            bytes += next.slice.len();
            carried.last_number = next.number.max(carried.last_number);
            carried.first_unchosen = next.first_unchosen.max(carried.first_unchosen);
            carried.end = next.end.and(carried.end);
            carried.last_tag = next.tag.or(carried.last_tag);
            slices.push(next.slice);
        }
        carried.bytes = bytes as u64;
        self.pending_bytes -= carried.bytes;
        (slices, carried)
    }

    pub fn begin(&mut self, token: Token, carried: Carried, now: Time) {
        self.in_flight.push_back(InFlight {
            token,
            carried,
            since: now,
            done: false,
        });
    }

    pub fn finish(&mut self, token: Token) {
        for write in &mut self.in_flight {
            write.done |= write.token == token;
        }
    }

    /// The oldest write, if it is done.
    pub fn take_done(&mut self) -> Option<InFlight> {
        self.in_flight.pop_front_if(|write| write.done)
    }

    /// A write has failed: nothing is tried any more.
    pub fn give_up(&mut self) {
        self.pending.clear();
        self.pending_bytes = 0;
        self.in_flight.clear();
    }
}
