//! The bytes that each of a node's files holds: to see that a file that goes takes nothing with it that is
//! not trimmed.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use ops::Op;
use paxos::{NodeId, StreamName};

use super::Witness;
use super::ranges::Ranges;
use super::replica::Whose;
use crate::host::HostId;

#[derive(Clone, Default)]
pub(super) struct Files {
    by_path: BTreeMap<PathBuf, BTreeMap<StreamName, Ranges<()>>>,
}

impl Files {
    pub fn hold(&mut self, path: &Path, stream: StreamName, bytes: Range<u64>) {
        let file = match self.by_path.get_mut(path) {
            Some(file) => file,
            None => self.by_path.entry(path.to_owned()).or_default(),
        };
        file.entry(stream).or_default().assign(bytes, ());
    }

    pub fn lose(&mut self, stream: StreamName, bytes: Range<u64>) {
        for file in self.by_path.values_mut() {
            if let Some(held) = file.get_mut(&stream) {
                held.remove(bytes.clone());
            }
        }
    }

    /// Returns what no other file holds.
    pub fn forget(&mut self, path: &Path) -> Vec<(StreamName, Range<u64>)> {
        let mut only_there = self.by_path.remove(path).unwrap_or_default();
        for (stream, gone) in &mut only_there {
            let others = self.by_path.values().filter_map(|file| file.get(stream));
            for (range, ()) in others.flat_map(|held| held.over(0..u64::MAX)) {
                gone.remove(range);
            }
        }
        let parts = only_there.iter().flat_map(|(stream, gone)| {
            let ranges = gone.over(0..u64::MAX);
            ranges.map(|(range, ())| (*stream, range))
        });
        parts.collect()
    }
}

impl Witness {
    /// A file is about to be removed or to become another's.
    pub(super) fn on_file_op(&mut self, host: HostId, op: &Op) {
        let (Op::Remove { path, .. } | Op::Rename { from: path, .. }) = op else {
            return;
        };
        let Some(seen) = self.hosts.get(&host) else {
            return;
        };
        let (node, damaged): (NodeId, bool) = (seen.node, seen.damaged);
        for ((log, owner), replica) in &mut self.replicas {
            if *owner != node {
                continue;
            }
            let Some(history) = self.logs.get(log) else {
                continue;
            };
            let whose = Whose { node, log: *log };
            for (stream, bytes) in replica.forget_file(path) {
                let released = replica.released.get(&stream).copied().unwrap_or(0);
                let known = replica.known_chosen;
                let trimmed = history.trimmed_below(stream, known.max(replica.released_below));
                let end = bytes.end.min(history.output_end(stream));
                assert!(
                    damaged || end <= bytes.start || end <= trimmed.max(released),
                    "I5: {whose} gives up {bytes:?} of {stream}, of which its disk knows only those below {trimmed} to be trimmed (all below slot {known} is chosen), and below {released} released: {op:?}"
                );
            }
        }
    }
}
