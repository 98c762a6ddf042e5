//! Log 0 as it is chosen: what the cluster agreed to want of each log, and what has which name, at each
//! point of it.
//!
//! ```text
//! chosen bytes of log 0 ─▶ commands ─▶ point 1, 2, 3 …     wanted of a log: [⟨point, retention, weights⟩ …]
//!                                                          a name: [⟨point, the log or none⟩ …]
//! ```
//!
//! No node is asked: a point is there as soon as a quorum of disks holds it.

use std::collections::{BTreeMap, BTreeSet};

use commands::{Replica, SessionBounds};
use formats::{LogId, Speaks};
use node::directory::{DIRECTORY, Directory};
use paxos::{LogState, StreamName, Wish};
use wire::Retention;

/// A point: so many commands of log 0 are applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Point(pub u64);

const KEPT_FROM_VERSION: u8 = formats::version::WISHES;

pub(super) struct Said {
    replica: Replica<Directory>,
    /// The stream that is read, and how far.
    read: Option<(StreamName, u64)>,
    /// All that were read so far.
    begun: BTreeSet<StreamName>,
    pub point: Point,
    wanted: BTreeMap<LogId, Vec<(Point, Wanted)>>,
    names: BTreeMap<String, Vec<(Point, Option<LogId>)>>,
}

/// The wanted state of a log, by everything up to a point.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    pub retention: Retention,
    /// ⟨node, weight⟩
    pub weights: Vec<(u32, u32)>,
    /// All of it, as the log is to choose it; none before the cluster speaks of wishes.
    pub wish: Option<Wish>,
}

type Bytes = BTreeMap<StreamName, BTreeMap<u64, u8>>;

impl Default for Said {
    fn default() -> Said {
        let directory = Directory {
            speaks: Speaks::ALL,
            ..Directory::default()
        };
        let mut said = Said {
            replica: Replica::new(directory, SessionBounds::default()),
            read: None,
            begun: BTreeSet::new(),
            point: Point(0),
            wanted: BTreeMap::new(),
            names: BTreeMap::new(),
        };
        said.note();
        said
    }
}

impl Said {
    /// Log 0 grew, perhaps. All its bytes are among these.
    pub fn follow(&mut self, state: &LogState, bytes: &Bytes) {
        loop {
            let at = self.read.and_then(|(stream, _)| {
                let mut streams = state.streams.iter();
                streams.position(|other| other.name == stream)
            });
            if let (Some(at), Some((name, from))) = (at, self.read) {
                let stream = &state.streams[at];
                if from < stream.length.0 {
                    let of_stream = bytes.get(&name);
                    let news = of_stream
                        .into_iter()
                        .flat_map(|b| b.range(from..stream.length.0));
                    let news: Vec<u8> = news.map(|(_, byte)| *byte).collect();
                    assert!(
                        news.len() as u64 == stream.length.0 - from,
                        "I5: some of {from}..{} of {name} of log 0 is chosen and stands nowhere",
                        stream.length
                    );
                    self.read = Some((name, stream.length.0));
                    self.push(&news);
                }
            }
            let next = at.map_or(0, |at| at + 1);
            let Some(next) = state.streams.get(next) else {
                return;
            };
            if self.read.is_some() {
                // A leader may be lost within a command.
                let _ = self.replica.end_of_stream();
            }
            assert!(
                self.begun.insert(next.name),
                "I6: log 0 has two streams of the name {}",
                next.name
            );
            self.read = Some((next.name, next.trimmed.0));
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.replica.push(bytes);
        loop {
            match self.replica.apply_next() {
                Ok(Some(_)) => {}
                Ok(None) => return,
                Err(halted) => panic!("intent: log 0 holds what is no command: {halted}"),
            }
            self.point.0 += 1;
            self.note();
        }
    }

    /// Notes the changes since the last point.
    fn note(&mut self) {
        let point = self.point;
        let directory = &*self.replica;
        let logs = directory.logs.keys().chain([&DIRECTORY]);
        for log in logs {
            let weights = directory.members.wanted.get(&log.0).into_iter();
            let weights = weights.flat_map(|wanted| &wanted.weights);
            let entry = directory.logs.get(log);
            let wanted = Wanted {
                retention: entry.map_or(Retention::default(), |entry| entry.retention),
                weights: weights.map(|(node, weight)| (*node, *weight)).collect(),
                wish: directory.wish_of(*log),
            };
            let of_log = self.wanted.entry(*log).or_default();
            if of_log.last().is_none_or(|(_, last)| *last != wanted) {
                of_log.push((point, wanted));
            }
        }
        for (log, entry) in &directory.logs {
            let of_name = self.names.entry(entry.name.clone());
            let of_name = of_name.or_insert_with(|| vec![(Point(0), None)]);
            if of_name.last().is_none_or(|(_, last)| *last != Some(*log)) {
                of_name.push((point, Some(*log)));
            }
        }
        for (name, of_name) in &mut self.names {
            let is_free = directory.logs.values().all(|entry| entry.name != *name);
            if is_free && of_name.last().is_some_and(|(_, last)| last.is_some()) {
                of_name.push((point, None));
            }
        }
    }

    /// The wishes for the log at any point from `from` on.
    pub fn wanted_since(&self, log: LogId, from: Point) -> &[(Point, Wanted)] {
        let of_log = self.wanted.get(&log).map_or(&[][..], |of_log| &of_log[..]);
        since(of_log, from)
    }

    pub fn logs(&self) -> Vec<LogId> {
        let logs = self.replica.logs.keys().copied();
        logs.chain([DIRECTORY]).collect()
    }

    /// The logs that had this name at any point from `from` on. No log ever had a name that is not known.
    pub fn named_since(&self, name: &str, from: Point) -> &[(Point, Option<LogId>)] {
        let of_name = self.names.get(name).map_or(&[][..], |of_name| &of_name[..]);
        since(of_name, from)
    }

    /// The log that has this name now.
    pub fn named(&self, name: &str) -> Option<LogId> {
        self.replica.log_by_name(name)
    }

    /// The one that it had last.
    pub fn name_of(&self, log: LogId) -> Option<&str> {
        let mut names = self.names.iter();
        let had = |all: &[(Point, Option<LogId>)]| all.iter().any(|(_, had)| *had == Some(log));
        let found = names.find(|(_, all)| had(all));
        found.map(|(name, _)| name.as_str())
    }

    /// Not every node hosts it.
    pub fn is_on_some(&self, log: LogId) -> bool {
        let entry = self.replica.logs.get(&log);
        entry.is_some_and(|entry| !entry.hosts.is_empty())
    }

    /// It is to end: its name is neither its own nor free.
    pub fn is_ending(&self, log: LogId) -> bool {
        let entry = self.replica.logs.get(&log);
        entry.is_some_and(|entry| entry.sealing)
    }

    /// It was created, and has no name any more.
    pub fn is_deleted(&self, log: LogId) -> bool {
        self.replica.is_deleted(log)
    }

    /// Logs that are to end, or have, and the names that they had.
    pub fn ended(&self) -> impl Iterator<Item = (LogId, &str)> {
        let all = self.names.iter().flat_map(|(name, of_name)| {
            let logs = of_name.iter().filter_map(|(_, log)| *log);
            logs.map(move |log| (log, name.as_str()))
        });
        all.filter(|(log, _)| self.is_ending(*log) || self.is_deleted(*log))
    }

    /// The nodes keep to what is wanted: the version in which a log hears of it is agreed on.
    pub fn is_kept(&self) -> bool {
        self.replica.versions.agreed >= KEPT_FROM_VERSION
    }
}

/// The last one at or before `from`, and all that follow.
fn since<T>(all: &[(Point, T)], from: Point) -> &[(Point, T)] {
    let later = all.partition_point(|(point, _)| *point <= from);
    &all[later.saturating_sub(1)..]
}

impl Wanted {
    pub fn weight(&self, node: u32) -> u32 {
        let found = self.weights.iter().find(|(other, _)| *other == node);
        found.map_or(0, |(_, weight)| *weight)
    }
}
