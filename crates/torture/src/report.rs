//! The result of the torture, for people and for machines.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;
use serde::Serialize;

use super::schedule::Kind;
use super::secured::SecuredReport;
use super::verdict::NodeBytes;
use terminal::exit::{Failure, Kind as Exit};
use terminal::show;
use testbed::environment::Machine;
use wire::quantity;

#[derive(Debug, Serialize)]
pub struct Report {
    pub minutes: f64,
    pub seed: u64,
    pub nodes: u32,
    pub logs: usize,
    pub acked_bytes: u64,
    /// Acknowledged and not on every node, or other bytes there: of the node that lost most.
    pub lost_bytes: u64,
    /// Reads that no order of what happened explains, or that gave bytes nobody wrote.
    pub unjustified_reads: u64,
    /// Every node returned the same bytes of every log.
    pub identical: bool,
    /// The number of faults done of each kind.
    pub faults: BTreeMap<String, u64>,
    pub not_done: Vec<NotDone>,
    /// The way in which each kind was done.
    pub how: BTreeMap<String, String>,
    /// The longest time in which a log's bytes waited and none was acknowledged, while writers wrote.
    pub longest_stall_ms: u64,
    /// The faults of that time.
    pub longest_stall_during: Vec<String>,
    pub appends: u64,
    /// Linearizable ones.
    pub reads: u64,
    /// Those of any node, and parts of what followers saw.
    pub stale_reads: u64,
    /// Streams that writers opened.
    pub streams: u64,
    /// The number of times that a log got another leader.
    pub failovers: u64,
    /// Operations in the histories that were checked.
    pub operations: u64,
    /// The time that the cluster took to become whole at the end.
    pub whole_after_ms: u64,
    /// At most a hundred sentences; `violations_count` says how many there were.
    pub violations: Vec<String>,
    pub violations_count: usize,
    pub found: Vec<NodeBytes>,
    /// Data, node logs and histories, if something was wrong or they were to be kept.
    pub kept: Option<PathBuf>,
    /// With --tls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<SecuredReport>,
    pub machine: Machine,
}

#[derive(Clone, Debug, Serialize)]
pub struct NotDone {
    pub fault: Kind,
    pub why: String,
}

pub const VIOLATIONS_MAX: usize = 100;

impl Report {
    pub fn print(&self) -> Result<()> {
        let mut table = show::table(&["", ""]);
        let mut row = |name: &str, value: String| {
            table.add_row(vec![name.to_owned(), value]);
        };
        row("acknowledged", quantity::shown(self.acked_bytes));
        row("lost bytes", self.lost_bytes.to_string());
        row("unjustified reads", self.unjustified_reads.to_string());
        row("all nodes identical", yes(self.identical).to_owned());
        let total: u64 = self.faults.values().sum();
        let kinds: Vec<String> = self
            .faults
            .iter()
            .map(|(kind, count)| format!("{count} {kind}"))
            .collect();
        row("faults", format!("{total}: {}", kinds.join(", ")));
        for not in &self.not_done {
            row("not done", format!("{}: {}", not.fault.name(), not.why));
        }
        row("longest stall", format!("{} ms", self.longest_stall_ms));
        row("changes of leader", self.failovers.to_string());
        let operations = format!(
            "{} appends, {} reads, {} stale reads",
            self.appends, self.reads, self.stale_reads
        );
        row("operations", operations);
        if let Some(tls) = &self.tls {
            let renewed = format!(
                "{} times, taken up {} times; tokens rotated {} times",
                tls.certificates_renewed, tls.certificates_taken_up, tls.tokens_rotated
            );
            row("certificates renewed", renewed);
            let searched = format!(
                "{} in {} lines: {} found",
                tls.secrets, tls.log_lines_searched, tls.lines_with_secrets
            );
            row("secrets searched", searched);
        }
        row("seed", self.seed.to_string());
        let lines = show::lines(&table);
        show::print(lines.trim_start_matches('\n'))?;
        print_violations(&self.violations, self.violations_count)?;
        show::print(self.machine.sentence())
    }

    /// An error unless all was as it must be.
    pub fn verdict(&self) -> Result<()> {
        let mut wrong = Vec::new();
        if self.lost_bytes > 0 {
            wrong.push(format!("{} acknowledged bytes are lost", self.lost_bytes));
        }
        if self.unjustified_reads > 0 {
            wrong.push(format!(
                "{} reads are not justified",
                self.unjustified_reads
            ));
        }
        if !self.identical {
            wrong.push("the nodes do not hold the same".to_owned());
        }
        if wrong.is_empty() && self.violations_count > 0 {
            wrong.push(format!(
                "{} things happened that cannot be",
                self.violations_count
            ));
        }
        match wrong.is_empty() {
            true => Ok(()),
            false => Err(Failure::new(Exit::Failure, wrong.join("; ")).into()),
        }
    }
}

/// The first ten, and how many there are besides.
pub fn print_violations(violations: &[String], count: usize) -> Result<()> {
    for violation in violations.iter().take(10) {
        show::print(violation)?;
    }
    match count > 10 {
        true => show::print(format!("and {} more", count - 10)),
        false => Ok(()),
    }
}

fn yes(is: bool) -> &'static str {
    match is {
        true => "yes",
        false => "NO",
    }
}
