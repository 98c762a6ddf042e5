//! A machine whose time goes slower.

use ops::{Completion, Machine, Op, Time};

/// A node whose timers all take longer, by the same factor: it is told that less time has passed.
///
/// Where very many nodes share a machine they are busy with each other's heartbeats; so they say them more seldom. What they say, and to whom, is
/// the same.
pub struct Slow<'a> {
    node: &'a mut dyn Machine,
    pace: u32,
    start: Time,
}

impl<'a> Slow<'a> {
    /// `pace`: so many times as long, 1 at least.
    pub fn new(node: &'a mut dyn Machine, pace: u32, start: Time) -> Slow<'a> {
        Slow {
            node,
            pace: pace.max(1),
            start,
        }
    }

    fn its(&self, now: Time) -> Time {
        let passed = now.max(self.start) - self.start;
        self.start + passed / self.pace
    }
}

impl Machine for Slow<'_> {
    fn handle(&mut self, now: Time, completion: Completion) {
        self.node.handle(self.its(now), completion);
    }

    fn on_time(&mut self, now: Time) {
        self.node.on_time(self.its(now));
    }

    fn poll_op(&mut self) -> Option<Op> {
        self.node.poll_op()
    }

    /// At which the node is told of its own deadline exactly.
    fn deadline(&self) -> Option<Time> {
        let its = self.node.deadline()?;
        let passed = its.max(self.start) - self.start;
        Some(self.start + passed * self.pace)
    }

    fn is_finished(&self) -> bool {
        self.node.is_finished()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Wants to be called each 50 ms of its own time.
    struct Beats(Time, Vec<Time>);

    impl Machine for Beats {
        fn handle(&mut self, _: Time, _: Completion) {}

        fn on_time(&mut self, now: Time) {
            if now >= self.0 {
                self.1.push(now);
                self.0 = now + Duration::from_millis(50);
            }
        }

        fn poll_op(&mut self) -> Option<Op> {
            None
        }

        fn deadline(&self) -> Option<Time> {
            Some(self.0)
        }

        fn is_finished(&self) -> bool {
            false
        }
    }

    #[test]
    fn a_timer_takes_as_many_times_as_long_and_is_met_at_its_deadline() {
        let start = Time::ZERO + Duration::from_micros(1_234_567);
        let mut beats = Beats(start + Duration::from_millis(50), Vec::new());
        let mut slow = Slow::new(&mut beats, 7, start);
        for count in 1..=10 {
            let deadline = slow.deadline().expect("one");
            assert_eq!(deadline, start + Duration::from_millis(350 * count));
            slow.on_time(deadline);
        }
        assert_eq!(beats.1.len(), 10, "each deadline was late enough");
    }
}
