//! The times of this node's heartbeats: all nodes say them together, so that none is woken more often than it
//! has to be.
//!
//! ```text
//!             each at its own time           together
//!  node 1   ──●────────○──○──────●──       ──●○○────────────●○○──      ● says its own
//!  node 2   ──○────────●──○──────○──       ──○●○────────────○●○──      ○ hears another's
//!  node 3   ──○────────○──●──────○──       ──○○●────────────○○●──
//! ```
//!
//! The cost of an idle node is that it wakes, with nothing of it in any cache. So a node that hears the
//! heartbeat of the node with the smallest id says its own in the same moment, instead of at a time of its
//! own. As each follows one node only, and a smaller one, none hurries another: all go at the pace of the
//! smallest that is heard, and of the next one when that falls silent.

use std::time::Duration;

use paxos::{NodeId, Time};

#[derive(Clone, Copy, Default)]
pub struct Beat {
    interval: Duration,
    next: Time,
    said_at: Time,
    /// The node that is followed, and when it was heard last.
    led: Option<(NodeId, Time)>,
}

impl Beat {
    /// Beats at once, and then so often.
    pub fn every(interval: Duration) -> Beat {
        Beat {
            interval,
            ..Beat::default()
        }
    }

    pub fn next(&self) -> Time {
        self.next
    }

    pub fn is_due(&self, now: Time) -> bool {
        now >= self.next
    }

    pub fn on_said(&mut self, now: Time) {
        self.said_at = now;
        let is_led = self.led.is_some_and(|(_, at)| now < at + self.interval);
        self.next = match is_led {
            true => self.unless_led(now),
            false => now + self.interval,
        };
    }

    /// Notes a heartbeat of another node.
    pub fn on_heard(&mut self, now: Time, own: NodeId, peer: NodeId) {
        let leads = |(leader, at): (NodeId, Time)| peer <= leader || self.is_silent_since(at, now);
        if peer > own || !self.led.is_none_or(leads) {
            return;
        }
        self.led = Some((peer, now));
        self.next = match now >= self.said_at + self.interval * 3 / 5 {
            true => now,
            // This node's own was just said: its next one comes with the other's next.
            false => self.next.max(self.unless_led(now)),
        };
    }

    fn is_silent_since(&self, at: Time, now: Time) -> bool {
        now > at + self.interval * 2
    }

    /// The time a little later than the other's next heartbeat is to be heard.
    fn unless_led(&self, now: Time) -> Time {
        now + self.interval + self.interval / 5
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: u64 = 50_000;

    fn id(index: usize) -> NodeId {
        NodeId(index as u32 + 1)
    }

    /// Runs nodes that start at some time each and hear each other after `delay`. Returns when each said something.
    fn run(starts: &[u64], delay: u64, until: u64, silent_from: Option<u64>) -> Vec<Vec<u64>> {
        let mut beats: Vec<Beat> = starts
            .iter()
            .map(|_| Beat::every(Duration::from_micros(INTERVAL)))
            .collect();
        let mut said = vec![Vec::new(); starts.len()];
        let mut heard: Vec<(u64, usize, usize)> = Vec::new();
        for now in (0..until).step_by(100) {
            let (due, later) = heard.into_iter().partition(|(at, ..)| *at <= now);
            heard = later;
            let due: Vec<_> = due;
            for (_, from, to) in due {
                if now >= starts[to] {
                    beats[to].on_heard(Time::from_micros(now), id(to), id(from));
                }
            }
            for (node, beat) in beats.iter_mut().enumerate() {
                let runs =
                    now >= starts[node] && !(node == 0 && silent_from.is_some_and(|t| now >= t));
                if runs && beat.is_due(Time::from_micros(now)) {
                    beat.on_said(Time::from_micros(now));
                    said[node].push(now);
                    let others = (0..starts.len()).filter(|other| *other != node);
                    heard.extend(others.map(|other| (now + delay, node, other)));
                }
            }
        }
        said
    }

    fn longest(said: &[u64]) -> u64 {
        said.windows(2).map(|two| two[1] - two[0]).max().unwrap()
    }

    #[test]
    fn whenever_they_start_nodes_soon_speak_in_the_same_moment_at_the_pace_of_one() {
        for first in (0..50_000).step_by(7_000) {
            for second in (0..50_000).step_by(3_000) {
                let said = run(&[20_000, first, second], 200, 2_000_000, None);
                for node in &said {
                    assert!((38..=44).contains(&node.len()), "{} said", node.len());
                    assert!(longest(node) < 2 * INTERVAL, "{}", longest(node));
                    let last = node.last().unwrap();
                    assert!(said[0].last().unwrap().abs_diff(*last) < 1_000);
                }
            }
        }
    }

    #[test]
    fn when_the_smallest_falls_silent_the_others_go_on_without_a_pause() {
        let said = run(&[0, 10_000, 30_000], 200, 2_000_000, Some(1_010_000));
        for node in &said[1..] {
            assert!(longest(node) < 2 * INTERVAL, "{}", longest(node));
            assert!(node.len() >= 38, "{} said", node.len());
        }
        let (last, other) = (said[1].last().unwrap(), said[2].last().unwrap());
        assert!(last.abs_diff(*other) < 1_000);
    }

    #[test]
    fn far_away_nodes_do_not_hurry_each_other() {
        for delay in (1_000..120_000).step_by(3_000) {
            let said = run(&[0, 10_000, 30_000, 35_000], delay, 3_000_000, None);
            for node in &said {
                assert!(
                    (48..=64).contains(&node.len()),
                    "{delay}: {} said",
                    node.len()
                );
                assert!(longest(node) < 2 * INTERVAL, "{delay}: {}", longest(node));
            }
        }
    }
}
