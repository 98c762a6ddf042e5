//! Segments that hold nothing but what was trimmed are removed, oldest first.

use std::collections::VecDeque;
use std::io;

use paxos::{StreamName, StreamPosition};

use super::{Awaiting, Store};
use crate::op::Op;

#[derive(Default)]
pub(super) struct Trimmer {
    /// Out of memory already; removed one after the other, so that a crash leaves no hole.
    removing: VecDeque<u64>,
    busy: bool,
}

impl Trimmer {
    pub fn is_busy(&self) -> bool {
        self.busy
    }
}

impl Store {
    /// `trimmed` says, of each stream, below which position its bytes are forgotten
    /// (`StreamPosition(u64::MAX)` for a stream that is forgotten altogether).
    ///
    /// A segment goes once it holds no other byte and the checkpoint of the next one is durable: no
    /// acceptance in it matters then. To be called again after a recovery.
    pub fn trim(&mut self, trimmed: &dyn Fn(StreamName) -> StreamPosition) {
        let held: Vec<_> = self.holdings.iter().collect();
        for (stream, range) in held {
            let below = trimmed(stream).0.min(range.end.0);
            self.holdings.remove(stream, range.start.0..below);
        }
        while let Some((&number, segment)) = self.segments.first_key_value() {
            let durable = self.writer.durable_number;
            let is_sealed = segment.index_stands.is_some_and(|s| s.number <= durable)
                && self.segments.contains_key(&(number + 1));
            let mut extents = segment.extents.iter();
            let is_trimmed = extents.all(|(stream, extent)| extent.end <= trimmed(*stream).0);
            if !is_sealed || !is_trimmed || self.is_being_read(number) {
                break;
            }
            self.segments.remove(&number);
            self.forget_file(number);
            self.trimmer.removing.push_back(number);
        }
        self.remove_next();
    }

    fn remove_next(&mut self) {
        if self.trimmer.busy {
            return;
        }
        let Some(number) = self.trimmer.removing.pop_front() else {
            return;
        };
        self.trimmer.busy = true;
        let token = self.token(Awaiting::Removed);
        let path = self.path(number);
        self.ops.push_back(Op::Remove { token, path });
    }

    pub(super) fn on_removed(&mut self, result: io::Result<()>) {
        self.trimmer.busy = false;
        match result {
            Ok(()) => self.remove_next(),
            // The files stay: the next start finds them, and the next trim removes them.
            Err(_) => self.trimmer.removing.clear(),
        }
    }
}
