//! Unreadable bytes: those that are to come from a peer, for a while or for good.

use std::io;
use std::ops::Range;
use std::time::Duration;

use paxos::{StreamName, StreamPosition, Time};

use super::super::extents::{Extent, Extents};
use super::super::holdings::without;
use super::super::{Store, StoreEvent};
use super::files::is_want_of_descriptors;
use super::{Reading, Step};

/// Bytes of a record that the device did not give.
pub(crate) struct Distrusted {
    pub(crate) stream: StreamName,
    bytes: Range<u64>,
    until: Time,
}

impl Distrusted {
    /// Forgets trimmed bytes. False if nothing is left.
    pub(crate) fn forget_below(&mut self, position: StreamPosition) -> bool {
        self.bytes.start = self.bytes.start.max(position.0);
        !self.bytes.is_empty()
    }

    /// The rest without those bytes.
    fn without(self, stream: StreamName, bytes: &Range<u64>) -> Vec<Distrusted> {
        if self.stream != stream {
            return vec![self];
        }
        let rest = without(&self.bytes, bytes);
        rest.map(|bytes| Distrusted { bytes, ..self }).collect()
    }
}

/// The least time for which bytes that are to come from a peer do not count as held here.
const DISTRUSTED_FOR: Duration = Duration::from_secs(5);
/// The rate of fetching them: by the time that takes the least time is prolonged.
const FETCHED_BYTES_PER_US: u64 = 4;

/// The pieces in which bytes of an unreadable segment that others may hold too are fetched, as they are asked for.
const ASKED_BYTES: u64 = 1 << 20;

impl Store {
    /// Handles a segment whose file, or index, the device does not give: nothing in it can be read.
    pub(super) fn on_unreadable_segment(&mut self, segment: u64, error: &io::Error) {
        // The error is one of this process, and not of the device.
        if is_want_of_descriptors(error) || error.kind() == io::ErrorKind::OutOfMemory {
            return;
        }
        // Bytes of it that are not held any more are not to count as held after a while.
        let searchable = self.segments.get(&segment).filter(|s| !s.unsearchable);
        let extents = searchable.map(|s| &s.extents);
        let mut lost = Vec::new();
        for (stream, extent) in extents.into_iter().flat_map(Extents::iter) {
            // Bytes that another segment may hold are left to the read that wants them.
            let others = self.segments.iter().filter(|(other, _)| **other != segment);
            let others = others.filter_map(|(_, other)| other.extents.get(stream));
            let mut parts = extent.ranges();
            for theirs in others.flat_map(Extent::ranges) {
                parts = parts.iter().flat_map(|p| without(p, &theirs)).collect();
            }
            lost.extend(parts.into_iter().map(|part| (stream, part)));
        }
        let needs = |step: &Step| match step {
            Step::NeedsIndex(index) => *index == segment,
            Step::NeedsFile(reading) => reading.segment == segment,
            Step::Queued | Step::Reading(_) => false,
        };
        for id in self.reader.jobs_that(needs) {
            let job = &self.reader.jobs[&id];
            lost.push((
                job.stream,
                job.position..job.position.saturating_add(ASKED_BYTES),
            ));
        }
        for (stream, bytes) in lost {
            self.say_unreadable(stream, bytes);
        }
    }

    /// Says that bytes are unreadable. Nobody need hear of bytes that are not held any more.
    pub(super) fn say_unreadable(&mut self, stream: StreamName, bytes: Range<u64>) {
        let range = StreamPosition(bytes.start)..StreamPosition(bytes.end);
        let held = self.holdings.held(stream, range);
        let events = held.map(|range| StoreEvent::Unreadable { stream, range });
        self.events.extend(events);
    }

    /// Distrusts bytes that are to come from a peer: for a while they do not count as held here. Nothing says
    /// so on disk.
    pub fn distrust(&mut self, stream: StreamName, range: Range<StreamPosition>) {
        let bytes = range.start.0..range.end.0;
        self.holdings.remove(stream, bytes.clone());
        let length = bytes.end - bytes.start;
        // The bytes come one after the other.
        let missing = |d: &&Distrusted| {
            let bytes = StreamPosition(d.bytes.start)..StreamPosition(d.bytes.end);
            !self.holdings.holds(d.stream, bytes)
        };
        let others = self.distrusted.iter().filter(missing);
        let others = others.map(|d| d.until).max();
        let from = others.unwrap_or_default().max(self.now + DISTRUSTED_FOR);
        let until = from + Duration::from_micros(length / FETCHED_BYTES_PER_US);
        self.distrusted.push(Distrusted {
            stream,
            bytes,
            until,
        });
    }

    /// Counts bytes that did not come from a peer in time as held again: perhaps no peer has them, and the
    /// device gives them now. True if there were any.
    pub fn trust_again(&mut self) -> bool {
        let now = self.now;
        let over = self.distrusted.extract_if(.., |d| d.until <= now);
        let over: Vec<_> = over.collect();
        for Distrusted { stream, bytes, .. } in &over {
            self.holdings.add(*stream, bytes.clone());
        }
        !over.is_empty()
    }

    /// Gives up a segment whose index is corrupt, so that nothing in it can be found: as long as this process
    /// runs, none of its bytes are held. They may be sound, and the only copy, so the disk is told nothing:
    /// the next start reads a segment without an index itself.
    pub(super) fn give_up_segment(&mut self, segment: u64) {
        let Some(sealed) = self.segments.get_mut(&segment) else {
            return;
        };
        sealed.unsearchable = true;
        let held = sealed.extents.iter();
        let held = held.flat_map(|(stream, extent)| {
            let ranges = extent.ranges().into_iter();
            ranges.map(move |range| (stream, range))
        });
        let held: Vec<_> = held.collect();
        tracing::error!(
            file = %self.path(segment).display(),
            "the index of a segment is corrupt; what no peer has is found again by the next start of this node"
        );
        for (stream, bytes) in held {
            self.let_go(stream, bytes);
        }
    }

    /// Gives up a corrupt record: none of the bytes it held are held any more.
    pub(super) fn give_up(&mut self, stream: StreamName, reading: &Reading) {
        let index = self
            .segments
            .get(&reading.segment)
            .and_then(|s| s.index.as_ref());
        let mut pieces = index
            .map(|index| index.pieces_in(reading.first.place))
            .unwrap_or_default();
        if pieces.is_empty() {
            pieces.push((stream, reading.first.piece.clone()));
        }
        for (stream, bytes) in pieces {
            self.lose(stream, bytes);
        }
    }

    /// Loses these bytes: they are not held any more, durably so.
    fn lose(&mut self, stream: StreamName, bytes: Range<u64>) {
        if self.let_go(stream, bytes.clone()) {
            self.append_lost(stream, bytes);
        }
    }

    /// Lets go of these bytes, which are not held any more, so that all who want them hear of it. False if
    /// none was: two reads may meet the same record.
    fn let_go(&mut self, stream: StreamName, bytes: Range<u64>) -> bool {
        // The bytes are not to count as held again after a while.
        let distrusted = std::mem::take(&mut self.distrusted).into_iter();
        self.distrusted = distrusted.flat_map(|d| d.without(stream, &bytes)).collect();
        let range = StreamPosition(bytes.start)..StreamPosition(bytes.end);
        if self.holdings.missing(stream, range.clone()).next() == Some(range.clone()) {
            return false;
        }
        self.holdings.remove(stream, bytes.clone());
        self.events.push_back(StoreEvent::Lost { stream, range });
        true
    }
}
