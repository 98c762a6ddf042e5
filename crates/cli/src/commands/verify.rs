//! `logberg verify`: every record of a node's directory, while no node serves it.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use formats::slots::group_of;
use formats::{ClusterId, LogId};
use indicatif::{ProgressBar, ProgressStyle};
use linux::LinuxDisk;
use serde::Serialize;
use shelf::ShelfError;
use store::{LogReport, Manifest, ManifestError, VerifyError, VerifyReport, ranges, verify};
use terminal::exit::{Failure, Kind};
use terminal::show;
use wire::quantity;

use crate::global::Global;

/// The socket of a node in its directory (docs/data-files.md).
const ADMIN_SOCKET: &str = "admin.sock";

use crate::states::{Found, FoundState, Place};

/// Check a node's directory while the node is down
#[derive(Debug, Args)]
#[command(after_help = "\
Reads every record and checks it against its checksum and its neighbours, and every row of the states of
machines; changes nothing. What it says of a
start is what the start will do: both ask the same function. Ends with 6 if acknowledged data cannot be
read here and the node starts and fetches it from its peers, and with 9 if the node does not start. A write
at the end that is not whole is said. What the peers remember of this disk is not asked: a directory that is
older than they know is sound, and refused by them. Where records were lost the node votes again once it
has learned what they may have said: do not start so on a majority of a log's nodes without looking for
the lost files.

Example:
  logberg verify /var/lib/logberg
  logberg verify logberg-dev/node-1 --json")]
pub struct Arguments {
    /// The node's directory (its --data)
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

#[derive(Serialize)]
struct Verdict<'a> {
    sound: bool,
    /// A node starts from the directory, whatever is wrong with it.
    starts: bool,
    #[serde(flatten)]
    report: &'a VerifyReport,
    states: &'a [FoundState],
}

impl Arguments {
    pub fn run(self, global: &Global) -> Result<()> {
        let mut disk = LinuxDisk::new();
        let cluster = self.take(&mut disk)?;
        let bar = bar(global);
        let report = verify(&mut disk, &self.directory, &mut |done, all| {
            bar.set_length(all);
            bar.set_position(done);
        });
        bar.finish_and_clear();
        let mut report = report.map_err(|error| match error {
            VerifyError::Manifest(error) => of_manifest(error),
            other => anyhow::Error::new(other),
        })?;
        let (states, aside) = self.look_at_states(cluster, &mut report, global)?;
        let wanting = states.iter().filter(|state| state.is_wanting()).count();
        let is_sound = report.is_sound() && wanting == 0;
        match global.json {
            true => show::print_json(&Verdict {
                sound: is_sound,
                starts: report.starts(),
                report: &report,
                states: &states,
            })?,
            false => show::print(render(&report, &states, &aside))?,
        }
        if is_sound {
            return Ok(());
        }
        let shown = self.directory.display();
        let refused = report.problems.iter().find(|problem| problem.refused);
        if let Some(problem) = refused {
            let file = problem.file.display();
            let sentence = format!("no node starts from {shown}: {file}: {}", problem.what);
            return Err(Failure::new(Kind::Lost, sentence).into());
        }
        let damaged = report.problems.len();
        let sentence = match damaged {
            0 => format!(
                "the records of {shown} are sound, and not all states of machines are as they should be ({wanting} {}): see above what becomes of each",
                if wanting == 1 { "is not" } else { "are not" }
            ),
            _ => format!(
                "{shown} is damaged in {}: let the node run, it fetches from its peers what they hold of it; but look for lost files first: peers that know of more than is here refuse the directory for good",
                quantity::counted(damaged as u64, "place")
            ),
        };
        Err(Failure::new(Kind::Corrupt, sentence).into())
    }

    /// The states of machines, and those that were put aside. What else stands beside them is unknown.
    fn look_at_states(
        &self,
        cluster: ClusterId,
        report: &mut VerifyReport,
        global: &Global,
    ) -> Result<(Vec<FoundState>, Vec<PathBuf>)> {
        let all = self.directory.join(shelf::STATES);
        let cannot = || format!("cannot read {}", all.display());
        let found = Found::below(&self.directory).with_context(cannot)?;
        // What a killed node left there the next one takes over.
        let socket = self.directory.join(ADMIN_SOCKET);
        report
            .unknown
            .retain(|path| *path != all && *path != socket);
        report.unknown.extend(found.unknown);
        let bar = bar(global);
        bar.set_length(shelf::bytes_below(&all).with_context(cannot)?);
        let states = found.states.iter().map(|(log, directory)| {
            let log = (LogId(*log), directory.as_path());
            let mut state = FoundState::read(log, cluster, &mut |bytes| bar.inc(bytes))?;
            let mut logs = report.logs.iter();
            if let Some(of) = logs.find(|of| of.log == state.log) {
                state.compare(of.output);
            }
            Ok(state)
        });
        let states: Result<Vec<FoundState>, ShelfError> = states.collect();
        bar.finish_and_clear();
        Ok((states.with_context(cannot)?, found.aside))
    }

    /// Makes sure that the directory is a node's and that no node has it. Returns the cluster.
    fn take(&self, disk: &mut LinuxDisk) -> Result<ClusterId> {
        let directory = &self.directory;
        let shown = directory.display();
        let about = std::fs::metadata(directory);
        if !about
            .with_context(|| format!("cannot open {shown}"))?
            .is_dir()
        {
            return Err(Failure::new(Kind::NotFound, format!("{shown} is no directory")).into());
        }
        let Some(manifest) = Manifest::load(disk, directory).map_err(of_manifest)? else {
            let mut sentence = format!("{shown} is not a node's directory: it has no manifest");
            if let Some(node) = a_node_below(directory) {
                sentence += &format!("; did you mean {}?", node.display());
            }
            return Err(Failure::new(Kind::NotFound, sentence).into());
        };
        Manifest::lock(disk, directory).map_err(of_manifest)?;
        Ok(manifest.identity.cluster)
    }
}

/// People give the directory of a whole local cluster.
fn a_node_below(directory: &Path) -> Option<PathBuf> {
    let node = directory.join("node-1");
    matches!(Manifest::load(&mut LinuxDisk::new(), &node), Ok(Some(_))).then_some(node)
}

fn of_manifest(error: ManifestError) -> anyhow::Error {
    let kind = match &error {
        ManifestError::Locked(directory) => {
            let sentence = format!(
                "{} is in use by a running node: stop the node, then verify",
                directory.display()
            );
            return Failure::new(Kind::Refused, sentence).into();
        }
        ManifestError::Damaged { .. }
        | ManifestError::LostLog { .. }
        | ManifestError::Missing(_) => Kind::Lost,
        _ => Kind::Failure,
    };
    Failure::new(kind, error.to_string()).into()
}

fn bar(global: &Global) -> ProgressBar {
    if global.json || !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let template =
        "{bar:30} {binary_bytes} of {binary_total_bytes} checked, {binary_bytes_per_sec}";
    match ProgressStyle::with_template(template) {
        Ok(style) => ProgressBar::new(0).with_style(style),
        Err(_) => ProgressBar::new(0),
    }
}

/// The end of a log that did not come to rest.
fn end_of(log: &LogReport) -> Option<String> {
    let name = log.name.as_deref()?;
    // Nothing was read of it, and that is a problem of its own.
    if log.rested || log.records == 0 {
        return None;
    }
    let ends = match &log.torn_tail {
        Some(place) => format!(
            "{}: a write that is not whole begins at byte {}",
            place.file.display(),
            place.offset
        ),
        None => format!("{name}: nothing follows the last record"),
    };
    Some(format!(
        "{ends}. A node marks the end a moment after its last write, and when it is stopped, and {name} has no such mark: \
         it was killed in the middle of writing, and nothing that was acknowledged is missing; or its end was cut off \
         or lost since, and then it is"
    ))
}

/// The bytes that the node will ask its peers for.
fn doubts(log: &LogReport) -> Vec<String> {
    let name = log.name.as_deref().unwrap_or("(unlisted)");
    let mut doubts = Vec::new();
    if log.learn_past > 0 {
        doubts.push(format!(
            "{name}: what was accepted below slot {} may be forgotten here: the node votes for no leader before it has learned that from its peers",
            log.learn_past
        ));
    }
    if !log.lacks.is_empty() {
        doubts.push(format!(
            "{name}: chosen, and not here: {}; the node fetches it from a peer that holds it",
            ranges(&log.lacks)
        ));
    }
    doubts
}

/// The sentence about a state that does not fit its log.
fn misplaced(report: &VerifyReport, state: &FoundState) -> Option<String> {
    let name = name_of(report, state.log);
    let mut logs = report.logs.iter();
    let (begins, ends) = logs.find(|log| log.log == state.log)?.output;
    let at = state.stands_at?;
    match state.place? {
        Place::Within => None,
        Place::Behind => Some(format!(
            "{name}: its state stands at byte {at}, and the log was trimmed up to {begins} here: the node copies the state from another one that has it"
        )),
        Place::Ahead => Some(format!(
            "{name}: its state stands at byte {at}, ahead of the log, which ends at {ends} here: if no other node has the log up to there, one of the two is of another time, and the node stands still and says so (docs/first-aid.md)"
        )),
    }
}

fn name_of(report: &VerifyReport, log: u32) -> String {
    let mut logs = report.logs.iter();
    let name = logs
        .find(|one| one.log == log)
        .and_then(|log| log.name.clone());
    name.unwrap_or_else(|| format!("log {log} (unlisted)"))
}

fn render(report: &VerifyReport, states: &[FoundState], aside: &[PathBuf]) -> String {
    let mut parts = vec![format!(
        "node {} of cluster {}, started {}",
        report.node,
        report.cluster,
        quantity::counted(report.incarnation, "time")
    )];
    let headings = [
        "LOG", "ID", "SEGMENTS", "RECORDS", "ON DISK", "HOLDS", "CHOSEN", "PROMISED",
    ];
    let mut table = show::table(&headings);
    for log in &report.logs {
        table.add_row([
            log.name.as_deref().unwrap_or("(unlisted)").into(),
            show::number(log.log),
            show::number(log.segments),
            show::number(log.records),
            show::number(quantity::shown(log.file_bytes)),
            show::number(quantity::shown(log.held_bytes)),
            show::number(log.first_unchosen),
            log.promised.as_str().into(),
        ]);
    }
    parts.push(show::lines(&table));
    let mut table = show::table(&["LOG", "STREAM", "HOLDS BYTES"]);
    for log in &report.logs {
        for stream in &log.streams {
            let ranges = stream.held.iter();
            let ranges: Vec<String> = ranges.map(|(from, to)| format!("{from}..{to}")).collect();
            table.add_row([
                log.name.as_deref().unwrap_or("(unlisted)"),
                &stream.stream,
                &ranges.join(" "),
            ]);
        }
    }
    if table.row_iter().next().is_some() {
        parts.push(show::lines(&table));
    }
    let mut table = show::table(&["STATE OF LOG", "ON DISK", "STANDS AT BYTE"]);
    for state in states {
        let name = name_of(report, state.log);
        table.add_row([
            name.as_str().into(),
            show::number(quantity::shown(state.file_bytes)),
            match state.stands_at {
                Some(position) => show::number(position),
                None => "nowhere".into(),
            },
        ]);
    }
    if !states.is_empty() {
        parts.push(show::lines(&table));
    }
    parts.extend(report.logs.iter().filter_map(end_of));
    parts.extend(report.logs.iter().flat_map(doubts));
    for path in &report.unknown {
        parts.push(format!(
            "{}: not one of ours, not looked at",
            path.display()
        ));
    }
    for problem in &report.problems {
        if problem.missing {
            parts.push(format!(
                "MISSING {}: {}",
                problem.file.display(),
                problem.what
            ));
            continue;
        }
        parts.push(format!(
            "DAMAGED {} at byte {}: {}",
            problem.file.display(),
            problem.offset,
            problem.what
        ));
    }
    for state in states {
        let name = name_of(report, state.log);
        let remedy = state.remedy.unwrap_or_default();
        parts.extend(state.unfit.as_ref().map(|why| match state.damaged {
            true => format!("DAMAGED state of {name}: {why}; {remedy}"),
            false => {
                format!("{name}: its state stands nowhere yet: {why}; the node goes on with it")
            }
        }));
    }
    parts.extend(states.iter().filter_map(|state| misplaced(report, state)));
    let has_state = |log: u32| states.iter().any(|state| state.log == log);
    let of_keys = report.logs.iter().filter_map(|log| {
        let name = log.name.as_deref().filter(|name| group_of(name).is_some())?;
        let (begins, _) = log.output;
        (begins > 0 && !has_state(log.log)).then(|| {
            format!(
                "{name}: its log was trimmed up to byte {begins}, and no state of it is here: unless this node is auxiliary there, it copies the state from another one that has it"
            )
        })
    });
    parts.extend(of_keys);
    parts.extend(aside.iter().map(|path| {
        format!(
            "{}: a damaged state that the node put aside and made anew; no node needs it",
            path.display()
        )
    }));
    if report.is_sound() && !states.iter().any(FoundState::is_wanting) {
        let repaired: u64 = report.logs.iter().map(|log| log.repaired).sum();
        parts.push(match repaired {
            0 => "Every record is sound.".to_owned(),
            _ => format!(
                "Every byte is there and sound. Damaged places whose bytes later records hold: {repaired}."
            ),
        });
    }
    parts.join("\n\n")
}
