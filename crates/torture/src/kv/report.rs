//! The result, for people and for machines.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use super::book::{Book, Counts};
use super::judge::Judged;
use super::probe::Stall;
use super::sessions::Sums;
use crate::Arguments;
use crate::conduct::Conducted;
use crate::report::{NotDone, VIOLATIONS_MAX, print_violations};
use terminal::exit::{Failure, Kind as Exit};
use terminal::show;
use testbed::environment::Machine;

#[derive(Debug, Serialize)]
pub struct Unavailable {
    pub group: String,
    pub ms: u64,
    /// On the clock of the histories.
    pub from_us: u64,
    /// The faults of that time.
    pub during: Vec<String>,
}

#[derive(Debug, Serialize)]
pub struct Report {
    pub minutes: f64,
    pub seed: u64,
    pub nodes: u32,
    pub groups: usize,
    pub clients: u32,
    /// The verdict on every object.
    #[serde(flatten)]
    pub judged: Judged,
    /// What came of the clients' calls, the last reads included.
    pub calls: Counts,
    /// The sums of clients that send again and again in sessions.
    pub sessions: Sums,
    /// The number of faults done of each kind.
    pub faults: BTreeMap<String, u64>,
    pub not_done: Vec<NotDone>,
    /// The way in which each kind was done.
    pub how: BTreeMap<String, String>,
    /// Moves of leaders that an operator asked for, and that were done.
    pub moves: u64,
    pub moves_refused: u64,
    /// Changes of which group has which slots.
    pub slot_moves: u64,
    /// The number of times that a log got another leader.
    pub failovers: u64,
    /// The longest times in which a client of a group that looks elsewhere at once was not answered, the longest first.
    pub unavailable: Vec<Unavailable>,
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
    pub book: &'a Book,
    pub conducted: &'a Conducted,
    pub judged: Judged,
    pub troubles: Vec<String>,
    pub failovers: u64,
    /// Of leaders, done and refused; and of slots.
    pub moves: (u64, u64, u64),
    pub groups: usize,
    pub stalls: Vec<Stall>,
    pub sums: Sums,
    pub whole_after: Duration,
    pub machine: Machine,
}

pub fn of(arguments: &Arguments, parts: Parts<'_>) -> Report {
    let Parts {
        book,
        conducted,
        judged,
        ..
    } = parts;
    let mut violations = parts.troubles;
    violations.extend(conducted.violations.iter().cloned());
    violations.extend(book.wrong());
    violations.extend(parts.sums.wrong.iter().cloned());
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
    let unavailable = parts.stalls.iter().map(|stall| Unavailable {
        group: stall.group.clone(),
        ms: stall.length.as_millis() as u64,
        from_us: stall
            .since
            .saturating_duration_since(book.began)
            .as_micros() as u64,
        during: conducted.during(stall.since, stall.since + stall.length),
    });
    let unavailable = unavailable.collect();
    Report {
        minutes: arguments.minutes,
        seed: arguments.seed,
        nodes: arguments.nodes,
        groups: parts.groups,
        clients: arguments.clients,
        judged,
        calls: book.counts(),
        sessions: parts.sums,
        faults,
        not_done,
        how: kinds
            .iter()
            .map(|kind| (kind.name(), kind.mechanism().to_owned()))
            .collect(),
        moves: parts.moves.0,
        moves_refused: parts.moves.1,
        slot_moves: parts.moves.2,
        failovers: parts.failovers,
        unavailable,
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
        let judged = &self.judged;
        let objects = format!(
            "{}: {} linearizable, {} refused, {} undecided",
            judged.objects,
            judged.linearizable,
            judged.refused.len(),
            judged.undecided.len()
        );
        row("objects", objects);
        let calls = &self.calls;
        let (done, refused, unknown) = (calls.done, calls.refused, calls.unknown);
        row(
            "calls",
            format!("{done} done, {refused} refused, {unknown} unknown"),
        );
        row("of objects", counts(&calls.by_object));
        let Sums {
            sessions,
            commands,
            again,
            ..
        } = &self.sessions;
        let said = format!("{commands} commands of {sessions} done once, {again} sent again");
        row("sessions", said);
        row("refused for", counts(&calls.refusals));
        let total: u64 = self.faults.values().sum();
        row("faults", format!("{total}: {}", counts(&self.faults)));
        for not in &self.not_done {
            row("not done", format!("{}: {}", not.fault.name(), not.why));
        }
        let moves = format!("{} done, {} refused", self.moves, self.moves_refused);
        row("moves of leaders", moves);
        row("moves of slots", self.slot_moves.to_string());
        row("changes of leader", self.failovers.to_string());
        if let Some(longest) = self.unavailable.first() {
            let (ms, group) = (longest.ms, &longest.group);
            row("longest unavailability", format!("{ms} ms, {group}"));
        }
        row("seed", self.seed.to_string());
        let lines = show::lines(&table);
        show::print(lines.trim_start_matches('\n'))?;
        print_violations(&self.violations, self.violations_count)?;
        show::print(self.machine.sentence())
    }

    /// An error unless all was as it must be, and could be judged.
    pub fn verdict(&self) -> Result<()> {
        let mut wrong = Vec::new();
        if !self.judged.refused.is_empty() {
            let count = self.judged.refused.len();
            wrong.push(format!("the answers about {count} objects have no order"));
        }
        // A search may be too long for one object or another: all others are judged. Many would say that nothing was looked at.
        let count = self.judged.undecided.len();
        if count as u64 > 1 + self.judged.linearizable / 100 {
            wrong.push(format!("{count} objects could not be judged"));
        }
        if wrong.is_empty() && self.violations_count > 0 {
            let count = self.violations_count;
            wrong.push(format!("{count} things happened that cannot be"));
        }
        match wrong.is_empty() {
            true => Ok(()),
            false => Err(Failure::new(Exit::Failure, wrong.join("; ")).into()),
        }
    }
}

fn counts<T: AsRef<str>>(all: &BTreeMap<T, u64>) -> String {
    let all = all
        .iter()
        .map(|(name, count)| format!("{count} {}", name.as_ref()));
    all.collect::<Vec<_>>().join(", ")
}
