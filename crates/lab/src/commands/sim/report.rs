//! The result of a search, for people and for machines.

use std::collections::BTreeMap;
use std::time::Instant;

use ::sim::workload::{Coverage, Report, Violation};
use serde::Serialize;

use terminal::show;
use wire::quantity;

/// The sum of all runs; it does not depend on the order in which they ended.
pub struct Summary {
    began: Instant,
    seconds: f64,
    seeds: u64,
    steps: u64,
    events: u64,
    simulated_us: u64,
    acknowledged_bytes: u64,
    faults: BTreeMap<&'static str, u64>,
    coverage: Coverage,
    /// By seed.
    violations: BTreeMap<u64, Violation>,
    /// The hash of all traces: two searches with the same one did the same.
    trace_hash: u64,
}

#[derive(Serialize)]
pub struct Json<'a> {
    seeds: u64,
    steps: u64,
    events: u64,
    violations: usize,
    violating: Vec<&'a Violation>,
    simulated_hours: f64,
    faults: &'a BTreeMap<&'static str, u64>,
    acked_bytes: u64,
    acked_bytes_per_million_steps: u64,
    seconds: f64,
    steps_per_second: u64,
    coverage: &'a Coverage,
    never: Vec<&'static str>,
    trace_hash: String,
}

impl Summary {
    pub fn begin() -> Summary {
        Summary {
            began: Instant::now(),
            seconds: 0.0,
            seeds: 0,
            steps: 0,
            events: 0,
            simulated_us: 0,
            acknowledged_bytes: 0,
            faults: BTreeMap::new(),
            coverage: Coverage::default(),
            violations: BTreeMap::new(),
            trace_hash: 0,
        }
    }

    pub fn add(&mut self, outcome: Result<Report, Violation>) {
        self.seeds += 1;
        match outcome {
            Ok(report) => {
                self.steps += report.steps;
                self.events += report.events;
                self.simulated_us += report.simulated_us;
                self.acknowledged_bytes += report.acknowledged_bytes;
                for (fault, count) in report.faults {
                    *self.faults.entry(fault).or_default() += count;
                }
                self.coverage.merge(&report.coverage);
                self.trace_hash ^= report.trace_hash;
            }
            Err(violation) => {
                self.steps += violation.step;
                self.simulated_us += violation.simulated_us;
                self.violations.insert(violation.seed, violation);
            }
        }
    }

    pub fn end(mut self) -> Summary {
        self.seconds = self.began.elapsed().as_secs_f64();
        self
    }

    pub fn seeds(&self) -> u64 {
        self.seeds
    }

    pub fn violations(&self) -> usize {
        self.violations.len()
    }

    pub fn first_violation(&self) -> Option<&Violation> {
        self.violations.values().next()
    }

    fn per_second(&self) -> u64 {
        (self.steps as f64 / self.seconds.max(1e-9)) as u64
    }

    fn bytes_per_million_steps(&self) -> u64 {
        let bytes = u128::from(self.acknowledged_bytes) * 1_000_000;
        (bytes / u128::from(self.steps.max(1))) as u64
    }

    fn hours(&self) -> f64 {
        self.simulated_us as f64 / 3_600_000_000.0
    }

    pub fn json(&self) -> Json<'_> {
        Json {
            seeds: self.seeds,
            steps: self.steps,
            events: self.events,
            violations: self.violations.len(),
            violating: self.violations.values().collect(),
            simulated_hours: self.hours(),
            faults: &self.faults,
            acked_bytes: self.acknowledged_bytes,
            acked_bytes_per_million_steps: self.bytes_per_million_steps(),
            seconds: self.seconds,
            steps_per_second: self.per_second(),
            coverage: &self.coverage,
            never: self.coverage.never(),
            trace_hash: format!("{:016x}", self.trace_hash),
        }
    }

    pub fn text(&self) -> String {
        let mut parts = Vec::new();
        let mut table = show::table(&[
            "SEEDS",
            "STEPS",
            "PER SECOND",
            "SIMULATED",
            "ACKED",
            "VIOLATIONS",
        ]);
        table.add_row([
            show::number(self.seeds),
            show::number(self.steps),
            show::number(self.per_second()),
            show::number(format!("{:.1} h", self.hours())),
            show::number(quantity::shown(self.acknowledged_bytes)),
            show::number(self.violations.len()),
        ]);
        parts.push(show::lines(&table));
        parts.push(counts(
            "FAULT",
            self.faults.iter().map(|(name, count)| (*name, *count)),
        ));
        parts.push(counts("HAPPENED", self.coverage.iter()));
        let never = self.coverage.never();
        if !never.is_empty() {
            parts.push(format!("Never happened: {}.", never.join(", ")));
        }
        for violation in self.violations.values() {
            parts.push(format!("VIOLATION {violation}"));
        }
        parts.join("\n\n")
    }
}

fn counts(heading: &str, rows: impl Iterator<Item = (&'static str, u64)>) -> String {
    let mut table = show::table(&[heading, "TIMES"]);
    for (name, count) in rows {
        table.add_row([name.into(), show::number(count)]);
    }
    show::lines(&table)
}
