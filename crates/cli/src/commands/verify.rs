//! `logberg verify`: every record of a node's directory, while no node serves it.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use linux::LinuxDisk;
use serde::Serialize;
use store::{LogReport, Manifest, ManifestError, VerifyError, VerifyReport, ranges, verify};
use terminal::exit::{Failure, Kind};
use terminal::{quantity, show};

use crate::global::Global;

/// Check a node's directory while the node is down
#[derive(Debug, Args)]
#[command(after_help = "\
Reads every record and checks it against its checksum and its neighbours; changes nothing. What it says of a
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
}

impl Arguments {
    pub fn run(self, global: &Global) -> Result<()> {
        let mut disk = LinuxDisk::new();
        self.take(&mut disk)?;
        let bar = bar(global);
        let report = verify(&mut disk, &self.directory, &mut |done, all| {
            bar.set_length(all);
            bar.set_position(done);
        });
        bar.finish_and_clear();
        let report = report.map_err(|error| match error {
            VerifyError::Manifest(error) => of_manifest(error),
            other => anyhow::Error::new(other),
        })?;
        match global.json {
            true => show::print_json(&Verdict {
                sound: report.is_sound(),
                starts: report.starts(),
                report: &report,
            })?,
            false => show::print(render(&report))?,
        }
        if report.is_sound() {
            return Ok(());
        }
        let shown = self.directory.display();
        let refused = report.problems.iter().find(|problem| problem.refused);
        if let Some(problem) = refused {
            let file = problem.file.display();
            let sentence = format!("no node starts from {shown}: {file}: {}", problem.what);
            return Err(Failure::new(Kind::Lost, sentence).into());
        }
        let sentence = format!(
            "{shown} is damaged in {} place(s): let the node run, it fetches from its peers what they hold of it; but look for lost files first: peers that know of more than is here refuse the directory for good",
            report.problems.len()
        );
        Err(Failure::new(Kind::Corrupt, sentence).into())
    }

    /// Makes sure that the directory is a node's and that no node has it.
    fn take(&self, disk: &mut LinuxDisk) -> Result<()> {
        let directory = &self.directory;
        let shown = directory.display();
        let about = std::fs::metadata(directory);
        if !about
            .with_context(|| format!("cannot open {shown}"))?
            .is_dir()
        {
            return Err(Failure::new(Kind::NotFound, format!("{shown} is no directory")).into());
        }
        if Manifest::load(disk, directory)
            .map_err(of_manifest)?
            .is_none()
        {
            let mut sentence = format!("{shown} is not a node's directory: it has no manifest");
            if let Some(node) = a_node_below(directory) {
                sentence += &format!("; did you mean {}?", node.display());
            }
            return Err(Failure::new(Kind::NotFound, sentence).into());
        }
        Manifest::lock(disk, directory).map_err(of_manifest)
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

fn render(report: &VerifyReport) -> String {
    let mut parts = vec![format!(
        "node {} of cluster {}, started {} time(s)",
        report.node, report.cluster, report.incarnation
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
    if report.is_sound() {
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
