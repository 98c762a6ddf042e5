//! `logberg backup`: a log's streams, or its machine's rows, into files that know whether they are whole.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use client::backup::{Backup, BackupError, Header, TakeError, Wrong};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::global::Global;
use terminal::exit::{Failure, Kind};
use terminal::{quantity, show};

/// Save a log, or the rows of its machine, to a file or a directory; check backups
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "\
Saved are all streams that the log holds when the backup begins: names, labels, positions, what was
trimmed, how they ended, and every byte, with checksums. Appends go on meanwhile. A file gets its name
when it is whole and on the disk; what is interrupted leaves nothing that passes for a backup.

Of a log of kind state the rows of its machine are saved, all as of one position, from a node that has
them; each part has all of them. Its sessions end there. So it is with a group of keys; `logberg kv backup`
saves all groups.

In a directory each backup adds a part with what came since the one before; the parts before are checked
first, and nothing is put upon damaged ones. To begin anew, name another directory.

Example:
  logberg backup main --to main.lbb
  mkdir /backup/main && logberg backup main --to /backup/main      # and again every night
  logberg backup verify /backup/main
  logberg restore /backup/main --log main-again")]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<BackupCommand>,
    #[arg(value_name = "LOG", required = true)]
    log: Option<String>,
    /// A file that does not exist, or a directory that does
    #[arg(long, value_name = "FILE|DIR", required = true)]
    to: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum BackupCommand {
    /// Read a backup and check every byte against its checksums
    #[command(after_help = "\
Ends with 6 if it is damaged, cut or not all there, and says where.

Example:
  logberg backup verify /backup/main --json")]
    Verify {
        #[arg(value_name = "FILE|DIR")]
        path: PathBuf,
    },
}

#[derive(Serialize)]
struct Saved<'a> {
    path: &'a Path,
    log: &'a str,
    cluster: &'a str,
    part: u64,
    made_at: &'a str,
    streams: usize,
    /// In this part, or in all that were checked.
    bytes: u64,
    /// The log's bytes that the newest part knows, without the trimmed ones.
    log_bytes: u64,
    file_bytes: u64,
    nothing_new: bool,
    /// The rows of a machine, and the position of its log that they are as of.
    #[serde(skip_serializing_if = "Option::is_none")]
    rows: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<u64>,
}

impl Arguments {
    pub fn run(self, global: &Global) -> Result<()> {
        match (self.command, self.log, self.to) {
            (Some(BackupCommand::Verify { path }), ..) => check(&path, global),
            (None, Some(log), Some(to)) => save(&log, &to, global),
            _ => Err(Failure::usage(
                "say which log, and where --to: logberg backup main --to main.lbb",
            )
            .into()),
        }
    }
}

fn save(log: &str, to: &Path, global: &Global) -> Result<()> {
    let made_at = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let bar = bar(global, "checked or saved");
    let taken = global.client().back_up(log, to, made_at, |done, all| {
        bar.set_length(all);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    let taken = taken.map_err(of_taking)?;
    if global.json {
        return show::print_json(&Saved {
            nothing_new: taken.nothing_new,
            rows: taken.header.state.map(|_| taken.rows),
            ..saved(&taken.path, &taken.header, taken.bytes, taken.file_bytes)
        });
    }
    if taken.nothing_new {
        return show::print(format_args!(
            "nothing has come to {log} since the last part in {}",
            to.display()
        ));
    }
    if let Some(state) = taken.header.state {
        return show::print(format_args!(
            "{} row(s) of {log} ({}) saved to {}, as of position {}",
            taken.rows,
            quantity::shown(taken.bytes),
            taken.path.display(),
            state.position
        ));
    }
    show::print(format_args!(
        "{} of {log} in {} stream(s) saved to {}{}",
        quantity::shown(taken.bytes),
        taken.header.streams.len(),
        taken.path.display(),
        match taken.header.part {
            1 => String::new(),
            part => format!(", part {part}, beside what the parts before hold"),
        }
    ))
}

fn saved<'a>(path: &'a Path, header: &'a Header, bytes: u64, file_bytes: u64) -> Saved<'a> {
    Saved {
        path,
        log: &header.log,
        cluster: &header.cluster,
        part: header.part,
        made_at: &header.made_at,
        streams: header.streams.len(),
        bytes,
        log_bytes: header
            .streams
            .iter()
            .map(|s| s.info.length - s.info.trimmed)
            .sum(),
        file_bytes,
        nothing_new: false,
        rows: None,
        position: header.state.map(|state| state.position),
    }
}

fn check(path: &Path, global: &Global) -> Result<()> {
    let backup = open(path)?;
    let bar = bar(global, "checked");
    bar.set_length(backup.file_bytes());
    let (mut bytes, mut rows) = (0, 0);
    let read = backup.read(|header, piece, done| {
        bytes += piece.payload.len() as u64;
        if header.state.is_some() && header.part == backup.parts.len() as u64 {
            let page = wire::rows::decode(piece.payload, None);
            rows += page.map_or(0, |page| page.len() as u64);
        }
        bar.set_position(done);
        Ok(())
    });
    bar.finish_and_clear();
    let (header, _) = read.map_err(of_wrong)?;
    if global.json {
        return show::print_json(&Saved {
            rows: header.state.map(|_| rows),
            ..saved(path, &header, bytes, backup.file_bytes())
        });
    }
    if let Some(state) = header.state {
        return show::print(format_args!(
            "{} is sound: {} part(s), the last of {}, {rows} row(s) of {} as of position {}",
            path.display(),
            backup.parts.len(),
            header.made_at,
            header.log,
            state.position
        ));
    }
    let mut table = show::table(&["STREAM", "LABEL", "FROM", "TO", "END"]);
    for saved in &header.streams {
        let info = &saved.info;
        let end = serde_json::to_value(info.end)?;
        table.add_row([
            info.name.as_str().into(),
            show::printable(info.label.as_deref().unwrap_or_default()).into(),
            show::number(info.trimmed),
            show::number(info.length),
            end.as_str().unwrap_or_default().into(),
        ]);
    }
    show::print(show::lines(&table))?;
    show::print(format_args!(
        "{} is sound: {} part(s), the last of {}, {} of {} in {} stream(s)",
        path.display(),
        backup.parts.len(),
        header.made_at,
        quantity::shown(
            header
                .streams
                .iter()
                .map(|s| s.info.length - s.info.trimmed)
                .sum()
        ),
        header.log,
        header.streams.len()
    ))
}

/// A backup's files, as people name them.
pub fn open(path: &Path) -> Result<Backup> {
    let shown = path.display();
    match Backup::open(path) {
        Ok(backup) => Ok(backup),
        Err(BackupError::NotABackup) => Err(Failure::new(
            Kind::NotFound,
            format!("{shown} holds no backup: no part-000001.lbb is in it"),
        )
        .into()),
        Err(BackupError::Io(error)) => Err(error).with_context(|| format!("cannot open {shown}")),
        Err(error) => Err(Failure::new(Kind::Corrupt, format!("{shown}: {error}")).into()),
    }
}

pub fn of_wrong(wrong: Wrong) -> anyhow::Error {
    let kind = match &wrong {
        Wrong::Backup {
            error: BackupError::Io(_),
            ..
        }
        | Wrong::Stopped(_) => return anyhow::Error::new(wrong),
        Wrong::Backup {
            error: BackupError::NotABackup,
            ..
        } => Kind::NotFound,
        Wrong::Backup {
            error: BackupError::OtherVersion { .. },
            ..
        } => Kind::Refused,
        Wrong::Backup { .. } => Kind::Corrupt,
    };
    Failure::new(kind, wrong.to_string()).into()
}

pub fn of_taking(error: TakeError) -> anyhow::Error {
    match error {
        TakeError::Wrong(wrong) => of_wrong(wrong),
        TakeError::Exists(_)
        | TakeError::OtherLog { .. }
        | TakeError::Directory
        | TakeError::Machine(_) => Failure::new(Kind::Refused, error.to_string()).into(),
        // The exit codes of these errors are known.
        TakeError::Admin(error) => anyhow::Error::new(error),
        TakeError::Read(error) => anyhow::Error::new(error),
        TakeError::Nobody(_) | TakeError::BrokenOff { .. } => {
            Failure::new(Kind::Unreachable, error.to_string()).into()
        }
        TakeError::Trimmed => Failure::new(Kind::Trimmed, error.to_string()).into(),
        other => anyhow::Error::new(other),
    }
}

pub fn bar(global: &Global, what: &str) -> ProgressBar {
    if global.json || !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let template = format!(
        "{{bar:30}} {{binary_bytes}} of {{binary_total_bytes}} {what}, {{binary_bytes_per_sec}}"
    );
    match ProgressStyle::with_template(&template) {
        Ok(style) => ProgressBar::new(0).with_style(style),
        Err(_) => ProgressBar::new(0),
    }
}
