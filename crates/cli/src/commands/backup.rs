//! `logberg backup`: a log's streams, or its machine's rows, into files that know whether they are whole.

use std::fs::{self, File};
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use client::backup::{Backup, BackupError, Header, TakeError, Taken, Wrong};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::kv;
use crate::global::Global;
use terminal::exit::{Failure, Kind};
use terminal::show;
use wire::{LogKind, quantity};

/// Save a log, or the rows of its machine, to a file or a directory; check backups
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "\
Saved are all streams that the log holds when the backup begins: names, labels, positions, what was
trimmed, how they ended, and every byte, with checksums. Appends go on meanwhile. A file gets its name
when it is whole and on the disk; what is interrupted leaves nothing that passes for a backup.

Of a log of kind state the rows of its machine are saved, all as of one position, from a node that has
them; each part has all of them. Its sessions end there. So it is with a space of streams, and with a group
of keys; `logberg kv backup` saves all groups.

With --to - a backup goes to standard output, whole, and everything else to standard error; `restore -` reads one. With
--all every log is saved, each into a directory of its name below the one that is said, which is made; a log that fails
keeps no other from being saved, and the exit code is that of the first that failed.

In a directory each backup adds a part with what came since the one before; the parts before are checked
first, and nothing is put upon damaged ones. To begin anew, name another directory.

Example:
  logberg backup main --to main.lbb
  mkdir /backup/main && logberg backup main --to /backup/main      # and again every night
  logberg backup --all --to /backup                                # each log in /backup/NAME
  logberg backup main --to - | ssh elsewhere 'cat > main.lbb'
  logberg backup verify /backup/main
  logberg restore /backup/main --log main-again")]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<BackupCommand>,
    #[arg(value_name = "LOG", required_unless_present = "all")]
    log: Option<String>,
    /// Every log of the cluster, each into a directory of its name
    #[arg(long, conflicts_with = "log")]
    all: bool,
    /// A file that does not exist, or a directory that does; - is standard output
    #[arg(long, value_name = "FILE|DIR|-", required = true)]
    to: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum BackupCommand {
    /// Read a backup and check every byte against its checksums
    #[command(after_help = "\
Ends with 6 if it is damaged, cut or not all there, and says where. What comes on standard input is kept in a file first.

Example:
  logberg backup verify /backup/main --json
  ssh store cat main.lbb | logberg backup verify -")]
    Verify {
        /// A backup; - is standard input
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
            (None, Some(log), Some(to)) if to == Path::new("-") => pour(&log, global),
            (None, Some(log), Some(to)) => save(&log, &to, global),
            (None, None, Some(to)) if self.all => save_all(&to, global),
            _ => Err(Failure::usage(
                "say which log, and where --to: logberg backup main --to main.lbb",
            )
            .into()),
        }
    }
}

fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}

fn take(log: &str, to: &Path, global: &Global) -> Result<Taken> {
    let bar = bar(global, "checked or saved");
    let taken = global.client().back_up(log, to, now(), |done, all| {
        bar.set_length(all);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    taken.map_err(of_taking)
}

fn shape(taken: &Taken) -> Saved<'_> {
    Saved {
        nothing_new: taken.nothing_new,
        rows: taken.header.state.map(|_| taken.rows),
        ..saved(&taken.path, &taken.header, taken.bytes, taken.file_bytes)
    }
}

/// Saves a log to standard output.
fn pour(log: &str, global: &Global) -> Result<()> {
    let out = io::stdout();
    if out.is_terminal() {
        return Err(Failure::usage("a backup is no text: send it to a file or a command").into());
    }
    if global.json {
        return Err(
            Failure::usage("the backup itself goes to standard output: leave --json away").into(),
        );
    }
    let out = File::from(out.as_fd().try_clone_to_owned()?);
    let bar = bar(global, "saved");
    let taken = global.client().back_up_into(log, out, now(), |done, all| {
        bar.set_length(all);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    let taken = taken.map_err(of_taking)?;
    eprintln!(
        "logberg: {} of {log} saved to standard output",
        quantity::shown(taken.bytes)
    );
    Ok(())
}

/// The directory of a log below another, made if it is not there.
///
/// ‡ A node says what its logs are called, and is not believed in what leads elsewhere: a file is made there.
pub fn directory_of(log: &str, to: &Path) -> Result<PathBuf> {
    let mut parts = Path::new(log).components();
    let is_below = match (parts.next(), parts.next()) {
        (Some(Component::Normal(name)), None) => name == log,
        _ => false,
    };
    if !is_below {
        let sentence = format!(
            "a node names a log {log:?}, which is no name of a log: nothing is written there; look which program that node runs"
        );
        return Err(Failure::new(Kind::Corrupt, sentence).into());
    }
    let below = to.join(log);
    fs::create_dir_all(&below).with_context(|| format!("cannot make {}", below.display()))?;
    Ok(below)
}

fn save_all(to: &Path, global: &Global) -> Result<()> {
    if to == Path::new("-") {
        return Err(
            Failure::usage("several logs are several files: name a directory with --to").into(),
        );
    }
    let client = global.client();
    let logs = client.logs()?;
    // Log 0 names the others, and means nothing elsewhere.
    let logs = logs.iter().filter(|log| log.id != 0 && !log.deleting);
    let mut taken = Vec::new();
    let mut failed = None;
    let mut has_keys = false;
    for log in logs {
        // ‡ Which group had which slots is a part of their backup.
        if client.log(&log.name)?.kind == LogKind::Kv.to_string() {
            has_keys = true;
            continue;
        }
        let below = directory_of(&log.name, to);
        match below.and_then(|below| Ok((take(&log.name, &below, global)?, below))) {
            Ok((one, _)) if global.json => taken.push(one),
            Ok((one, below)) => tell(&log.name, &below, &one)?,
            Err(error) => {
                eprintln!("logberg: {} is not saved: {error:#}", log.name);
                failed.get_or_insert(error);
            }
        }
    }
    let keys = has_keys.then(|| kv::take(global, &client, to));
    match keys.transpose() {
        Ok(keys) => {
            for (group, one) in keys.into_iter().flatten() {
                match global.json {
                    true => taken.push(one),
                    false => tell(&group, &to.join(&group), &one)?,
                }
            }
        }
        Err(error) => {
            eprintln!("logberg: the groups of keys are not saved: {error:#}");
            failed.get_or_insert(error);
        }
    }
    if global.json {
        let shapes: Vec<Saved<'_>> = taken.iter().map(shape).collect();
        show::print_json(&shapes)?;
    }
    failed.map_or(Ok(()), |error| Err(error.context("not all logs are saved")))
}

fn save(log: &str, to: &Path, global: &Global) -> Result<()> {
    let taken = take(log, to, global)?;
    match global.json {
        true => show::print_json(&shape(&taken)),
        false => tell(log, to, &taken),
    }
}

fn tell(log: &str, to: &Path, taken: &Taken) -> Result<()> {
    if taken.nothing_new {
        return show::print(format_args!(
            "nothing has come to {log} since the last part in {}",
            to.display()
        ));
    }
    if let Some(state) = taken.header.state {
        return show::print(format_args!(
            "{} of {log} ({}) saved to {}, as of position {}",
            quantity::counted(taken.rows, "row"),
            quantity::shown(taken.bytes),
            taken.path.display(),
            state.position
        ));
    }
    show::print(format_args!(
        "{} of {log} in {} saved to {}{}",
        quantity::shown(taken.bytes),
        quantity::counted(taken.header.streams.len() as u64, "stream"),
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

/// A copy of standard input, where `-` names it: a backup is read from its end, and twice to restore it.
pub fn spooled(path: &Path) -> Result<Option<tempfile::NamedTempFile>> {
    if path != Path::new("-") {
        return Ok(None);
    }
    let mut file = tempfile::Builder::new().suffix(".lbb").tempfile()?;
    io::copy(&mut io::stdin().lock(), &mut file).context("cannot copy standard input")?;
    Ok(Some(file))
}

fn check(path: &Path, global: &Global) -> Result<()> {
    let spooled = spooled(path)?;
    let backup = open(spooled.as_ref().map_or(path, |file| file.path()))?;
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
            "{} is sound: {}, the last of {}, {} of {} as of position {}",
            path.display(),
            quantity::counted(backup.parts.len() as u64, "part"),
            header.made_at,
            quantity::counted(rows, "row"),
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
        "{} is sound: {}, the last of {}, {} of {} in {}",
        path.display(),
        quantity::counted(backup.parts.len() as u64, "part"),
        header.made_at,
        quantity::shown(
            header
                .streams
                .iter()
                .map(|s| s.info.length - s.info.trimmed)
                .sum()
        ),
        header.log,
        quantity::counted(header.streams.len() as u64, "stream")
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
        TakeError::Contradiction { .. } | TakeError::Shorter { .. } => {
            Failure::new(Kind::Corrupt, error.to_string()).into()
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_has_a_directory_below_the_one_that_was_said_and_nowhere_else() {
        let directory = tempfile::tempdir().expect("a directory");
        for wrong in ["", ".", "..", "../up", "/etc", "a/b", "a/", "a/..", "./a"] {
            let refused = directory_of(wrong, directory.path()).expect_err(wrong);
            let failure = refused.downcast_ref::<Failure>().expect("a failure");
            assert_eq!(failure.kind, Kind::Corrupt, "{wrong}");
        }
        let made = directory_of("kv-1.of_3", directory.path()).expect("it is made");
        assert_eq!(made, directory.path().join("kv-1.of_3"));
        assert!(made.is_dir());
    }
}
