//! The duration of a leader's proposals: until they are chosen, and until each follower accepted them.
//!
//! A quorum hides a slow minority from every client; here it is seen. Not every proposal is timed: at
//! most one a millisecond, and so many at a time.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use paxos::{NodeId, Slot, Time};
use store::Histogram;

/// Timed proposals that some follower has not accepted.
const MARKS_MAX: usize = 256;
/// The least time between two that are timed.
const APART: Duration = Duration::from_millis(1);
/// The time after which a follower that has not accepted is counted with so much, once.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(10);
/// A follower is slow when it needs more than this …
const SLOW_AFTER: Duration = Duration::from_millis(250);
/// … and so many times as long as the quorum did.
const SLOW_FACTOR: u32 = 4;

#[derive(Debug, Default)]
pub struct Pulse {
    marks: VecDeque<Mark>,
    /// The number of the first mark, counted from the first ever.
    first: u64,
    /// The number of marks that each follower has passed.
    passed: BTreeMap<NodeId, u64>,
    pub chosen: Histogram,
    pub accepted: BTreeMap<NodeId, Histogram>,
    /// The time when a follower was last seen to be slow, and how slow.
    slow: BTreeMap<NodeId, (Time, Duration)>,
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    /// The slot below which all is meant.
    end: Slot,
    at: Time,
    /// The time it took.
    chosen_in: Option<Duration>,
}

impl Pulse {
    /// Notes that everything below `end` was proposed.
    pub fn on_proposed(&mut self, now: Time, end: Slot) {
        let due = |last: &Mark| now >= last.at + APART;
        if self.marks.len() < MARKS_MAX && self.marks.back().is_none_or(due) {
            self.marks.push_back(Mark {
                end,
                at: now,
                chosen_in: None,
            });
        }
    }

    pub fn is_idle(&self) -> bool {
        self.marks.is_empty()
    }

    /// Looks how far all are. `followers` are those that are to accept, with how far they did.
    pub fn on_progress(
        &mut self,
        now: Time,
        first_unchosen: Slot,
        followers: impl Iterator<Item = (NodeId, Option<Slot>)>,
    ) {
        for mark in &mut self.marks {
            if mark.chosen_in.is_none() && mark.end <= first_unchosen {
                let took = now - mark.at;
                mark.chosen_in = Some(took);
                self.chosen.record(took);
            }
        }
        let end = self.first + self.marks.len() as u64;
        let mut least = end;
        for (node, accepted) in followers {
            let passed = self.passed.entry(node).or_insert(self.first);
            *passed = (*passed).max(self.first);
            let ahead = self.marks.iter().skip((*passed - self.first) as usize);
            for mark in ahead {
                let took = now - mark.at;
                let late = mark.chosen_in.is_some_and(|chosen_in| {
                    took > SLOW_AFTER && took > chosen_in.saturating_mul(SLOW_FACTOR)
                });
                if late {
                    self.slow.insert(node, (now, took));
                }
                if accepted.is_none_or(|slot| slot < mark.end) && took < GIVEN_UP_AFTER {
                    break;
                }
                self.accepted.entry(node).or_default().record(took);
                *passed += 1;
            }
            least = least.min(*passed);
        }
        let old = |mark: &Mark| now >= mark.at + GIVEN_UP_AFTER;
        while let Some(mark) = self.marks.front()
            && self.first < least
            && (mark.chosen_in.is_some() || old(mark))
        {
            self.marks.pop_front();
            self.first += 1;
        }
    }

    /// Stops timing: this node no longer leads, and proposals under way are another's to time.
    pub fn stop(&mut self) {
        self.first += self.marks.len() as u64;
        self.marks.clear();
        self.passed.clear();
        self.slow.clear();
    }

    /// Followers that were slow within so long, and by how much.
    pub fn slow(&self, now: Time, within: Duration) -> impl Iterator<Item = (NodeId, Duration)> {
        let recent = move |at: &Time| now <= *at + within;
        let slow = self.slow.iter().filter(move |(_, (at, _))| recent(at));
        slow.map(|(node, (_, took))| (*node, *took))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAST: NodeId = NodeId(2);
    const SLOW: NodeId = NodeId(3);
    const SECOND: Duration = Duration::from_secs(1);

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    fn progress(pulse: &mut Pulse, ms: u64, chosen: u64, fast: u64, slow: u64) {
        let followers = [(FAST, Some(Slot(fast))), (SLOW, Some(Slot(slow)))];
        pulse.on_progress(at(ms), Slot(chosen), followers.into_iter());
    }

    #[test]
    fn who_is_slower_than_the_quorum_is_seen_also_before_it_is_done() {
        let mut pulse = Pulse::default();
        pulse.on_proposed(at(10), Slot(100));
        progress(&mut pulse, 12, 100, 100, 0);
        assert_eq!(pulse.slow(at(12), SECOND).count(), 0);
        progress(&mut pulse, 400, 100, 100, 0);
        let slow: Vec<_> = pulse.slow(at(400), SECOND).collect();
        assert_eq!(slow, [(SLOW, Duration::from_millis(390))]);
        progress(&mut pulse, 500, 100, 100, 100);
        assert!(pulse.is_idle());
        assert_eq!(pulse.accepted[&SLOW].sum_us, 490_000);
        assert_eq!(pulse.accepted[&FAST].sum_us, 2_000);
        assert_eq!(pulse.chosen.sum_us, 2_000);
        assert_eq!(pulse.slow(at(3_000), SECOND).count(), 0, "it passes");
    }

    #[test]
    fn when_all_are_slow_nobody_is() {
        let mut pulse = Pulse::default();
        pulse.on_proposed(at(0), Slot(100));
        progress(&mut pulse, 900, 100, 100, 0);
        progress(&mut pulse, 1_000, 100, 100, 100);
        assert_eq!(pulse.slow(at(1_000), SECOND).count(), 0);
    }

    #[test]
    fn what_nobody_accepts_is_not_kept_for_ever() {
        let mut pulse = Pulse::default();
        for ms in 0..10_000 {
            pulse.on_proposed(at(ms), Slot(ms));
        }
        assert_eq!(pulse.marks.len(), MARKS_MAX);
        progress(&mut pulse, 20_000, 0, 0, 0);
        assert!(pulse.is_idle());
        pulse.on_proposed(at(20_001), Slot(1));
        pulse.stop();
        assert!(pulse.is_idle());
        pulse.on_proposed(at(20_002), Slot(2));
        progress(&mut pulse, 20_003, 2, 2, 2);
        assert!(pulse.is_idle());
    }
}
