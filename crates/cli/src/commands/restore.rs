//! `logberg restore`: a new log from a backup, or the rows of an empty machine.

use std::path::PathBuf;

use anyhow::{Error, Result};
use clap::{Args, ValueEnum};
use client::backup::{MachineKind, RestoreError, RestoreOptions, Restored};
use serde::Serialize;

use super::backup::{bar, of_wrong, open, spooled};
use crate::global::Global;
use terminal::exit::{Failure, Kind};
use terminal::show;
use wire::quantity;

/// Make a new log, of this or another cluster, from a backup
#[derive(Debug, Args)]
#[command(after_help = "\
The whole backup is checked before anything is made; of standard input a copy is kept meanwhile, in TMPDIR. The new log has the same streams in the same order,
with the same labels, bytes, ends and positions; they have new names, which are told, since names say
which node opened a stream. What was trimmed stays trimmed: zeros are written in its place and trimmed, so
that positions are kept, unless --positions shift leaves that out.

Not kept are names, slots, and the chain of a stream that went on from one that was trimmed. What the log's
retention and its number of copies (--min-copies) were is set at the end; a number that cannot be had here is told. If restoring stops in the middle, the new log holds a part: delete
it with `logberg log delete`, and begin again.

A backup of a machine's rows fills the machine of the log of that name, which nodes must have (docs/embedding.md) and
which must be new; its log is made if it is not there. The machine serves nobody before it is filled. A
restore that stopped in the middle goes on when it is run again with the same backup. A backup of a group of
keys fills the group of that name, which must be empty; `logberg kv restore` brings all groups back. A
backup of a space of streams fills a space in which nobody has made a stream; nodes serve `default` alone.

Example:
  logberg restore main.lbb --log main-again
  logberg restore /backup/main --log main --server other:7117
  ssh elsewhere cat main.lbb | logberg restore - --log main")]
pub struct Arguments {
    /// The file or directory that `logberg backup` made; - is standard input
    #[arg(value_name = "FILE|DIR|-")]
    from: PathBuf,
    /// The log to make; the name that it had, if not given
    #[arg(long, value_name = "NAME")]
    log: Option<String>,
    /// The nodes that host it; all, if not given
    #[arg(long, value_name = "ID,…", value_delimiter = ',')]
    members: Vec<u64>,
    /// keep the positions behind what was trimmed, or shift them to 0 [default: keep, if that takes less
    /// than 1 GiB of zeros]
    #[arg(long, value_name = "HOW")]
    positions: Option<Positions>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Positions {
    Keep,
    Shift,
}

/// More zeros than this are written only if somebody asks for them.
const FILL_BYTES_MAX: u64 = 1 << 30;

#[derive(Serialize)]
struct Outcome<'a> {
    log: &'a str,
    streams: u64,
    bytes: u64,
    filled_bytes: u64,
    min_copies: u32,
    /// The number that was saved, where it is more than there can be here.
    min_copies_refused: Option<u32>,
    chains_cut: u64,
    streams_split: u64,
    streams_shifted: u64,
    names: Vec<Renamed<'a>>,
    /// Of a machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    rows: Option<u64>,
}

#[derive(Serialize)]
struct Renamed<'a> {
    was: &'a str,
    is: &'a str,
}

impl Arguments {
    pub fn run(self, global: &Global) -> Result<()> {
        let spooled = spooled(&self.from)?;
        let from = spooled
            .as_ref()
            .map_or(self.from.as_path(), |file| file.path());
        let backup = open(from)?.without_older_rows();
        let header = backup.newest().map_err(of_wrong)?;
        let fill: u64 = header.streams.iter().map(|saved| saved.info.trimmed).sum();
        if self.positions.is_none() && fill > FILL_BYTES_MAX {
            let sentence = format!(
                "{} of zeros would be written and trimmed to keep positions: say --positions keep if that is meant, or --positions shift",
                quantity::shown(fill)
            );
            return Err(Failure::usage(sentence).into());
        }
        let options = RestoreOptions {
            log: self.log.unwrap_or_else(|| header.log.clone()),
            members: self.members,
            shift: self.positions == Some(Positions::Shift),
        };
        let bar = bar(global, "checked and restored");
        let restored = global.client().restore(&backup, &options, |done, all| {
            bar.set_length(all);
            bar.set_position(done);
        });
        bar.finish_and_clear();
        let restored = restored.map_err(|error| self::failed(error, &options.log))?;
        match global.json {
            true => show::print_json(&outcome(&restored)),
            false => {
                let saved = header.state.map(|_| header.kind);
                show::print(render(&restored, saved))
            }
        }
    }
}

pub fn failed(error: RestoreError, log: &str) -> Error {
    match error {
        RestoreError::Wrong(wrong) => of_wrong(wrong),
        RestoreError::NotMade(error @ client::AdminError::Exists { .. }) => {
            let sentence =
                format!("{error}: restore to another name with --log, or delete that one first");
            Failure::new(Kind::Refused, sentence).into()
        }
        RestoreError::NotMade(error) => Error::new(error),
        RestoreError::NotEmpty(_)
        | RestoreError::FilledBefore(_)
        | RestoreError::Refused(_)
        | RestoreError::NoMachine(_)
        | RestoreError::OtherSlots { .. }
        | RestoreError::OtherGroups { .. }
        | RestoreError::OtherKind { .. } => Failure::new(Kind::Refused, error.to_string()).into(),
        RestoreError::NotFilled(_) => Failure::new(Kind::Unreachable, error.to_string()).into(),
        RestoreError::Link(error) => Error::new(error).context(begun(log)),
        RestoreError::Admin(error) => Error::new(error).context(begun(log)),
        RestoreError::Append(error) => Error::new(error).context(begun(log)),
        RestoreError::Other(why) => {
            Failure::new(Kind::Corrupt, format!("{}: {why}", begun(log))).into()
        }
    }
}

fn begun(log: &str) -> String {
    format!(
        "{log} may hold a part of the backup: delete it with `logberg log delete {log} --yes`, and begin again"
    )
}

fn outcome(restored: &Restored) -> Outcome<'_> {
    Outcome {
        log: &restored.log,
        streams: restored.streams,
        bytes: restored.bytes,
        rows: restored.rows,
        filled_bytes: restored.filled_bytes,
        min_copies: restored.min_copies,
        min_copies_refused: restored.copies_refused.as_ref().map(|(wanted, _)| *wanted),
        chains_cut: restored.lost.chains_cut,
        streams_split: restored.lost.streams_split,
        streams_shifted: restored.lost.streams_shifted,
        names: restored
            .names
            .iter()
            .map(|(was, is)| Renamed { was, is })
            .collect(),
    }
}

/// `saved`: of a machine, what it is.
fn render(restored: &Restored, saved: Option<MachineKind>) -> String {
    if let Some(rows) = restored.rows {
        let (log, bytes) = (&restored.log, quantity::shown(restored.bytes));
        let what = match saved {
            Some(MachineKind::Streams) => "space of streams",
            Some(MachineKind::Kv) => "group of keys",
            Some(MachineKind::State) | None => "machine of",
        };
        let rows = quantity::counted(rows, "row");
        return format!("the {what} {log} holds {rows} ({bytes})");
    }
    let mut lines = vec![format!(
        "log {} holds {} in {}",
        restored.log,
        quantity::shown(restored.bytes),
        quantity::counted(restored.streams, "stream")
    )];
    let mut table = show::table(&["WAS", "IS"]);
    for (was, is) in &restored.names {
        table.add_row([was, is]);
    }
    lines.push(show::lines(&table));
    let lost = &restored.lost;
    for (count, one, many) in [
        (
            lost.chains_cut,
            "begins a chain of its own: what it continued was trimmed",
            "begin chains of their own: what they continued was trimmed",
        ),
        (
            lost.streams_split,
            "came in several pieces that continue each other: leaders changed meanwhile",
            "came in several pieces that continue each other: leaders changed meanwhile",
        ),
        (
            lost.streams_shifted,
            "stands at lower positions, by what was trimmed of it",
            "stand at lower positions, by what was trimmed of them",
        ),
    ] {
        let does = if count == 1 { one } else { many };
        if count > 0 {
            let streams = quantity::counted(count, "stream");
            lines.push(format!("{streams} {does}"));
        }
    }
    if restored.min_copies > 0 {
        lines.push(format!(
            "appends are acknowledged by a majority, and {} copies, as they were",
            restored.min_copies
        ));
    }
    if let Some((wanted, why)) = &restored.copies_refused {
        let log = &restored.log;
        lines.push(format!(
            "appends are acknowledged by a majority: the log wanted {wanted} copies, and cannot have them here ({why}); once it can: logberg log set {log} --min-copies {wanted}"
        ));
    }
    lines.join("\n")
}
