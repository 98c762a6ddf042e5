//! The result, for people and for machines.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use super::book::{Counts, Judged};
use crate::Arguments;
use crate::conduct::Conducted;
use crate::report::{NotDone, VIOLATIONS_MAX, print_violations};
use terminal::exit::{Failure, Kind as Exit};
use terminal::show;
use testbed::environment::Machine;

#[derive(Debug, Serialize)]
pub struct Report {
    pub minutes: f64,
    pub seed: u64,
    pub nodes: u32,
    pub clients: u32,
    /// The verdict on every stream.
    #[serde(flatten)]
    pub judged: Judged,
    /// What came of the clients' requests, the last reads included.
    pub requests: Counts,
    /// The number of faults done of each kind.
    pub faults: BTreeMap<String, u64>,
    pub not_done: Vec<NotDone>,
    /// The way in which each kind was done.
    pub how: BTreeMap<String, String>,
    /// Moves of the leader that an operator asked for, and that were done.
    pub moves: u64,
    pub moves_refused: u64,
    /// The number of times that a log got another leader.
    pub failovers: u64,
    /// The time that the cluster took to become whole at the end.
    pub whole_after_ms: u64,
    /// At most a hundred sentences; `violations_count` says how many there were.
    pub violations: Vec<String>,
    pub violations_count: usize,
    /// Data, node logs and histories, if something was wrong.
    pub kept: Option<PathBuf>,
    pub machine: Machine,
}

/// All that a report is made of.
pub struct Parts<'a> {
    pub counts: Counts,
    pub conducted: &'a Conducted,
    pub judged: Judged,
    pub troubles: Vec<String>,
    pub failovers: u64,
    /// Done and refused.
    pub moves: (u64, u64),
    pub whole_after: Duration,
    pub machine: Machine,
}

pub fn of(arguments: &Arguments, parts: Parts<'_>) -> Report {
    let Parts {
        conducted, judged, ..
    } = parts;
    let mut violations = parts.troubles;
    violations.extend(conducted.violations.iter().cloned());
    violations.extend(judged.violations.iter().cloned());
    let violations_count = violations.len();
    violations.truncate(VIOLATIONS_MAX);
    let mut faults = BTreeMap::new();
    let mut not_done = Vec::new();
    let kinds = arguments.faults();
    for kind in &kinds {
        match conducted.counts.get(kind) {
            Some(count) => drop(faults.insert(kind.name(), *count)),
            None => not_done.push(NotDone {
                fault: *kind,
                why: conducted.why_not(*kind),
            }),
        }
    }
    Report {
        minutes: arguments.minutes,
        seed: arguments.seed,
        nodes: arguments.nodes,
        clients: arguments.clients,
        judged,
        requests: parts.counts,
        faults,
        not_done,
        how: kinds
            .iter()
            .map(|kind| (kind.name(), kind.mechanism().to_owned()))
            .collect(),
        moves: parts.moves.0,
        moves_refused: parts.moves.1,
        failovers: parts.failovers,
        whole_after_ms: parts.whole_after.as_millis() as u64,
        violations,
        violations_count,
        kept: None,
        machine: parts.machine,
    }
}

impl Report {
    pub fn print(&self) -> Result<()> {
        let mut table = show::table(&["", ""]);
        let mut row = |name: &str, value: String| {
            table.add_row(vec![name.to_owned(), value]);
        };
        let Judged {
            streams,
            linearizable,
            operations,
            ..
        } = &self.judged;
        row(
            "streams",
            format!("{streams}: {linearizable} linearizable, {operations} operations"),
        );
        let requests = &self.requests;
        let appends = format!("{} done; {}", requests.appends, counts(&requests.shown()));
        row("appends", appends);
        let reads = format!(
            "{} of the tail, {} of a part, {} unanswered",
            requests.reads, requests.peeks, requests.reads_unanswered
        );
        row("reads", reads);
        let total: u64 = self.faults.values().sum();
        row("faults", format!("{total}: {}", counts(&self.faults)));
        for not in &self.not_done {
            row("not done", format!("{}: {}", not.fault.name(), not.why));
        }
        let moves = format!("{} done, {} refused", self.moves, self.moves_refused);
        row("moves of the leader", moves);
        row("changes of leader", self.failovers.to_string());
        row("seed", self.seed.to_string());
        let lines = show::lines(&table);
        show::print(lines.trim_start_matches('\n'))?;
        print_violations(&self.violations, self.violations_count)
    }

    /// Errors: something was wrong; or nothing was tried.
    pub fn verdict(&self) -> Result<()> {
        if self.violations_count > 0 {
            let sentence = format!("{} things are wrong", self.violations_count);
            return Err(Failure::new(Exit::Failure, sentence).into());
        }
        if self.requests.appends == 0 || self.requests.reads == 0 {
            let sentence = "no append or no read was answered: nothing was tried";
            return Err(Failure::new(Exit::Failure, sentence).into());
        }
        Ok(())
    }
}

fn counts(counts: &BTreeMap<String, u64>) -> String {
    let each = counts.iter().map(|(name, count)| format!("{name} {count}"));
    each.collect::<Vec<_>>().join(", ")
}
