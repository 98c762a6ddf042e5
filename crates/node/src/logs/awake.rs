//! The logs that a tick and a heartbeat look at.
//!
//! ```text
//!   a log is settled ─▶ awake ─▶ the next tick looks at it ──┬─▶ more is to come: it stays awake
//!                         ▲                                  └─▶ at rest: it sleeps
//!                         └── once a second, and when the directory says something else: all
//! ```
//!
//! All means a thousand at a time: a look at more goes on with the next tick. So it is with those that are awake:
//! after the loss of a peer that may be all.
//!
//! A node may host thousands of logs of which a few are busy. Every change of a log settles it, so a log that
//! was not settled since it was last looked at is as it was. A change that depends on time alone, such as the
//! age of bytes, waits for the next look at all.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

use paxos::{NodeId, Time};

use formats::LogId;

/// The interval at which all logs are looked at.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// The logs that one tick or heartbeat looks at for that reason: a node of thousands has other things to do in between.
const SLICE: usize = 1000;

/// A look at all logs, in slices.
#[derive(Default)]
struct Sweep {
    begun_at: Option<Time>,
    /// The log behind which the next slice begins, while it is under way.
    under_way: Option<Bound<LogId>>,
}

impl Sweep {
    /// Begins anew as soon as possible: after one that is under way, so that its last slice comes, too.
    fn again(&mut self) {
        self.begun_at = None;
    }

    /// The next slice; and whether it is the last.
    fn slice<'a, I>(
        &mut self,
        now: Time,
        from: impl FnOnce(Bound<LogId>) -> I,
    ) -> (Vec<LogId>, bool)
    where
        I: Iterator<Item = &'a LogId>,
    {
        if self.under_way.is_none() && self.begun_at.is_none_or(|at| now >= at + SWEEP_EVERY) {
            self.begun_at = Some(now);
            self.under_way = Some(Bound::Unbounded);
        }
        let Some(behind) = self.under_way else {
            return (Vec::new(), false);
        };
        let slice: Vec<LogId> = from(behind).take(SLICE).copied().collect();
        self.under_way = slice
            .last()
            .filter(|_| slice.len() == SLICE)
            .map(|last| Bound::Excluded(*last));
        let is_last = self.under_way.is_none();
        (slice, is_last)
    }
}

/// Logs that are looked at in turn: none that comes again at once keeps others from theirs.
#[derive(Default)]
struct Rota {
    logs: BTreeSet<LogId>,
    /// The log behind which the next turn begins.
    behind: Option<LogId>,
}

impl Rota {
    /// Takes the next ones, so many at most.
    fn take(&mut self, most: usize) -> BTreeSet<LogId> {
        if self.logs.len() <= most {
            self.behind = None;
            return std::mem::take(&mut self.logs);
        }
        let behind = self.behind.map_or(Bound::Unbounded, Bound::Excluded);
        let later = self.logs.range((behind, Bound::Unbounded));
        let in_turn: Vec<LogId> = later.chain(&self.logs).take(most).copied().collect();
        self.behind = in_turn.last().copied();
        for log in &in_turn {
            self.logs.remove(log);
        }
        BTreeSet::from_iter(in_turn)
    }
}

#[derive(Default)]
pub struct Awake {
    /// The log woken last, which is in both sets: a busy log is settled many times between two looks.
    woken: Option<LogId>,
    for_tick: Rota,
    ticks: Sweep,
    for_beat: BTreeSet<LogId>,
    /// Logs that each peer is still to be told of, besides.
    for_peers: BTreeMap<NodeId, Rota>,
    beats: Sweep,
    /// The leader of log 0 at the last heartbeat.
    director: Option<NodeId>,
}

/// The logs that a tick looks at.
pub struct Look {
    pub logs: Vec<LogId>,
    /// Whether with these all logs were looked at.
    pub ends_sweep: bool,
}

impl Awake {
    pub fn wake(&mut self, log: LogId) {
        if self.woken.replace(log) == Some(log) {
            return;
        }
        self.for_tick.logs.insert(log);
        self.for_beat.insert(log);
    }

    /// The logs that the next tick looks at, if it is no sweep.
    pub fn logs(&self) -> &BTreeSet<LogId> {
        &self.for_tick.logs
    }

    /// Wakes all logs, after a change that all go by.
    pub fn wake_all(&mut self) {
        self.ticks.again();
        self.beats.again();
    }

    /// Tells all peers of all logs: a peer may have forgotten what it was told.
    pub fn wake_all_for_peers(&mut self) {
        self.beats.again();
    }

    /// Notes the leader of log 0 before a heartbeat: a new one is told of all logs.
    pub fn on_director(&mut self, director: Option<NodeId>) {
        if std::mem::replace(&mut self.director, director) != director {
            self.wake_all_for_peers();
        }
    }

    /// The logs that this tick looks at. They sleep until they are woken. `from`: the logs behind this one.
    pub fn for_tick<'a, I>(&mut self, now: Time, from: impl FnOnce(Bound<LogId>) -> I) -> Look
    where
        I: Iterator<Item = &'a LogId>,
    {
        self.woken = None;
        let mut awake = self.for_tick.take(SLICE);
        let (slice, ends_sweep) = self.ticks.slice(now, from);
        for log in &slice {
            self.for_tick.logs.remove(log);
        }
        awake.extend(slice);
        Look {
            logs: awake.into_iter().collect(),
            ends_sweep,
        }
    }

    /// Keeps this log awake: more is to come of it.
    pub fn stays(&mut self, log: LogId) {
        self.for_tick.logs.insert(log);
    }

    /// Marks the logs that were settled since the last heartbeat to be looked at for every peer, and gives
    /// them back.
    pub fn on_beat<'a, I>(
        &mut self,
        now: Time,
        peers: &[NodeId],
        from: impl FnOnce(Bound<LogId>) -> I,
    ) -> BTreeSet<LogId>
    where
        I: Iterator<Item = &'a LogId>,
    {
        self.woken = None;
        let mut awake = std::mem::take(&mut self.for_beat);
        awake.extend(self.beats.slice(now, from).0);
        self.for_peers.retain(|peer, _| peers.contains(peer));
        for peer in peers {
            let of_peer = self.for_peers.entry(*peer).or_default();
            of_peer.logs.extend(&awake);
        }
        awake
    }

    /// The logs that the heartbeat to this peer looks at. They sleep, for this peer, until they are woken.
    pub fn for_peer(&mut self, peer: NodeId) -> BTreeSet<LogId> {
        let of_peer = self.for_peers.get_mut(&peer);
        of_peer
            .map(|of_peer| of_peer.take(SLICE))
            .unwrap_or_default()
    }

    /// Lets the next heartbeat to this peer look at these logs, too.
    pub fn stay_for_peer(&mut self, peer: NodeId, logs: BTreeSet<LogId>) {
        self.for_peers.entry(peer).or_default().logs.extend(logs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [LogId; 3] = [LogId(0), LogId(1), LogId(2)];

    fn at_tick(awake: &mut Awake, ms: u64) -> Vec<u32> {
        let look = awake.for_tick(Time::from_micros(ms * 1000), |_| ALL.iter());
        look.logs.iter().map(|log| log.0).collect()
    }

    #[test]
    fn a_tick_looks_at_those_that_were_settled_and_now_and_then_at_all() {
        let mut awake = Awake::default();
        assert_eq!(at_tick(&mut awake, 0), [0, 1, 2], "the first looks at all");
        assert!(at_tick(&mut awake, 100).is_empty());
        awake.wake(LogId(2));
        assert_eq!(at_tick(&mut awake, 200), [2]);
        assert!(at_tick(&mut awake, 300).is_empty());
        awake.stays(LogId(1));
        assert_eq!(at_tick(&mut awake, 400), [1]);
        assert_eq!(at_tick(&mut awake, 1_000), [0, 1, 2]);
        awake.wake_all();
        assert_eq!(at_tick(&mut awake, 1_100), [0, 1, 2]);
    }

    #[test]
    fn each_peer_is_told_of_what_it_has_not_been_told_yet() {
        let mut awake = Awake::default();
        let peers = [NodeId(2), NodeId(3)];
        let of = |logs: &[u32]| logs.iter().map(|log| LogId(*log)).collect::<BTreeSet<_>>();
        awake.on_beat(Time::ZERO, &peers, |_| ALL.iter());
        assert_eq!(awake.for_peer(NodeId(2)), of(&[0, 1, 2]));
        assert_eq!(awake.for_peer(NodeId(2)), of(&[]));
        awake.stay_for_peer(NodeId(2), of(&[1]));
        awake.wake(LogId(0));
        awake.on_beat(Time::from_micros(50_000), &peers, |_| ALL.iter());
        assert_eq!(awake.for_peer(NodeId(2)), of(&[0, 1]));
        assert_eq!(
            awake.for_peer(NodeId(3)),
            of(&[0, 1, 2]),
            "it was not told yet"
        );
        awake.on_beat(Time::from_micros(100_000), &peers[..1], |_| ALL.iter());
        assert_eq!(awake.for_peer(NodeId(3)), of(&[]), "it is no peer any more");
        awake.on_beat(Time::from_micros(1_000_000), &peers, |_| ALL.iter());
        assert_eq!(awake.for_peer(NodeId(3)), of(&[0, 1, 2]));
    }

    #[test]
    fn of_thousands_that_are_awake_each_has_its_turn_though_some_stay_awake() {
        let mut awake = Awake::default();
        (0..2_500).for_each(|log| awake.wake(LogId(log)));
        let mut seen = BTreeSet::new();
        for _ in 0..3 {
            let look = awake.for_tick(Time::ZERO, |_| ALL[..0].iter());
            assert!(look.logs.len() <= SLICE);
            look.logs.iter().for_each(|log| awake.stays(*log));
            seen.extend(look.logs);
        }
        assert_eq!(seen.len(), 2_500);
    }

    #[test]
    fn thousands_of_logs_are_looked_at_a_slice_at_a_time_and_each_once() {
        let all: BTreeSet<LogId> = (0..2_500).map(LogId).collect();
        let mut awake = Awake::default();
        let mut at = |ms: u64| {
            let look = awake.for_tick(Time::from_micros(ms * 1000), |from| {
                all.range((from, Bound::Unbounded))
            });
            (look.logs, look.ends_sweep)
        };
        let seen = [at(0), at(100), at(200)];
        let lengths: Vec<(usize, bool)> =
            seen.iter().map(|(logs, end)| (logs.len(), *end)).collect();
        assert_eq!(lengths, [(1000, false), (1000, false), (500, true)]);
        let each: Vec<LogId> = seen.into_iter().flat_map(|(logs, _)| logs).collect();
        assert!(each.iter().eq(all.iter()));
        assert_eq!(at(900), (Vec::new(), false));
        assert_eq!(at(1_000).0.len(), 1000, "the next look begins");
    }
}
