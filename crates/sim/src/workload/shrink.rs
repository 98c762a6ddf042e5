//! Less of a run that still shows the same: fewer turns of the nemesis, fewer faults, less traffic.
//!
//! A run is chaotic: with anything left out, everything behind it happens otherwise. A smaller run that still
//! fails with the same checker is taken, whatever its text.

use std::collections::BTreeSet;

use super::{Violation, run_scenario};
use crate::random::PerMillion;
use crate::scenario::Scenario;
use crate::swarm::Swarm;

/// The rest of a scenario, and what it shows.
#[derive(Clone, Debug)]
pub struct Shrunk {
    pub scenario: Scenario,
    pub violation: Violation,
    /// The number of runs it took.
    pub runs: u32,
}

/// `violation` is what `scenario` shows. At most `runs_max` runs; the same every time.
pub fn shrink(scenario: &Scenario, violation: &Violation, runs_max: u32) -> Shrunk {
    let mut shrinking = Shrinking {
        best: Shrunk {
            scenario: scenario.clone(),
            violation: violation.clone(),
            runs: 0,
        },
        runs_max,
    };
    shrinking.fewer_turns();
    shrinking.fewer_faults();
    shrinking.less_traffic();
    shrinking.fewer_turns();
    shrinking.best
}

struct Shrinking {
    best: Shrunk,
    runs_max: u32,
}

impl Shrinking {
    /// Takes the change if what is left still fails.
    fn attempt(&mut self, change: impl FnOnce(&mut Scenario)) -> bool {
        let mut scenario = self.best.scenario.clone();
        change(&mut scenario);
        if self.best.runs >= self.runs_max || scenario == self.best.scenario {
            return false;
        }
        self.best.runs += 1;
        match run_scenario(&scenario) {
            Err(violation) if violation.checker == self.best.violation.checker => {
                self.best.scenario = scenario;
                self.best.violation = violation;
                true
            }
            _ => false,
        }
    }

    /// Leaves out ever smaller parts of the turns (Zeller's delta debugging).
    fn fewer_turns(&mut self) {
        if self.attempt(|scenario| scenario.swarm.only_turns = Some(BTreeSet::new())) {
            return;
        }
        let scenario = &self.best.scenario;
        let mut turns: Vec<u64> = match &scenario.swarm.only_turns {
            Some(only) => only.iter().copied().collect(),
            None => (0..self.best.violation.turns).collect(),
        };
        let mut parts = 2.min(turns.len());
        while !turns.is_empty() && self.best.runs < self.runs_max {
            let size = turns.len().div_ceil(parts);
            let smaller = (0..turns.len()).step_by(size).find_map(|at| {
                let mut left = turns.clone();
                left.drain(at..(at + size).min(turns.len()));
                let only: BTreeSet<u64> = left.iter().copied().collect();
                let failed = self.attempt(|scenario| scenario.swarm.only_turns = Some(only));
                failed.then_some(left)
            });
            match smaller {
                Some(left) => {
                    turns = left;
                    parts = parts.saturating_sub(1).clamp(1, turns.len().max(1));
                }
                None if size == 1 => return,
                None => parts = (parts * 2).min(turns.len()),
            }
        }
    }

    fn fewer_faults(&mut self) {
        let calm = Swarm::calm();
        let none = PerMillion(0);
        self.attempt(|scenario| scenario.dark_us = 0);
        self.attempt(|scenario| scenario.swarm.leaves_dead = false);
        self.attempt(|scenario| scenario.swarm.network.losses = none);
        self.attempt(|scenario| scenario.swarm.network.resets = none);
        self.attempt(|scenario| scenario.swarm.network.flips = none);
        self.attempt(|scenario| scenario.swarm.write_errors = none);
        self.attempt(|scenario| scenario.swarm.read_errors = none);
        self.attempt(|scenario| scenario.swarm.clock_drift_ppm_max = 0);
        self.attempt(|scenario| scenario.swarm.network = calm.network);
        self.attempt(|scenario| scenario.swarm.disk = calm.disk);
    }

    fn less_traffic(&mut self) {
        self.attempt(|scenario| scenario.probes = false);
        self.attempt(|scenario| scenario.churns = 0);
        self.attempt(|scenario| scenario.retentions = 0);
        self.attempt(|scenario| scenario.long_directory = false);
        self.attempt(|scenario| scenario.readers_per_writer = 0);
        self.attempt(|scenario| scenario.readers_per_writer = 1);
        while self.best.scenario.logs.len() > 1
            && self.attempt(|scenario| {
                scenario.logs.pop();
            })
        {}
        while self.attempt(|scenario| scenario.churns /= 2) {}
        while self.attempt(|scenario| scenario.retentions /= 2) {}
        self.attempt(|scenario| scenario.nodes = 3);
        self.attempt(|scenario| scenario.begin_well = true);
        while self.attempt(|scenario| {
            scenario.bytes_per_writer = (scenario.bytes_per_writer / 2).max(1_000)
        }) {}
        while self.attempt(|scenario| scenario.harm_us = (scenario.harm_us / 2).max(100_000)) {}
    }
}
