//! Taking a backup: everything that is chosen when it begins, into a file that appears when it is whole.

use std::cell::Cell;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read};
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::format::{
    BackupError, Header, Identity, MachineKind, PAYLOAD_BYTES_MAX, PartWriter, Saved, hex,
};
use super::link::Link;
use super::set::{Backup, Wrong, is_same_history, part_name};
use crate::{AdminError, Client, ReadError, ReadOptions};

/// Why no backup was taken. Nothing is left behind that could be taken for one.
#[derive(Debug, thiserror::Error)]
pub enum TakeError {
    /// A question to the cluster was not answered.
    #[error(transparent)]
    Admin(#[from] AdminError),
    #[error(
        "log 0 is the cluster's directory, and means nothing elsewhere: save the logs that it names"
    )]
    /// Log 0 is not saved.
    Directory,
    /// No node gives the rows of its machine.
    #[error("{0}")]
    Machine(String),
    /// Nor did one in time.
    #[error("no node gave the machine's rows in time: {0}")]
    Nobody(String),
    #[error("{server} gave a part of the machine's rows: {why}; begin again")]
    /// The rows came in part.
    BrokenOff {
        /// The node that gave them.
        server: String,
        /// Why it stopped.
        why: String,
    },
    /// The list of a log's streams and its output are not of one length.
    #[error(
        "the streams of {log} are listed with {listed} bytes, and the log holds {held}: something between here and its leader \
         changes answers; name the nodes themselves with --server"
    )]
    Contradiction {
        /// The log.
        log: String,
        /// The bytes of all listed streams that are left.
        listed: u64,
        /// The bytes that are left of the log.
        held: u64,
    },
    /// A stream is shorter than it is listed.
    #[error(
        "a stream of {log} ends before byte {to}, to which it is listed: something between here and its leader changes answers; \
         name the nodes themselves with --server"
    )]
    Shorter {
        /// The log.
        log: String,
        /// Its listed length.
        to: u64,
    },
    /// The log was trimmed beyond what was to be read.
    #[error("the log was trimmed meanwhile: begin again")]
    Trimmed,
    /// Reading stopped.
    #[error(transparent)]
    Read(ReadError),
    #[error(
        "{0} exists already: name another file, or a directory, which holds one part after the other"
    )]
    /// There is such a file already.
    Exists(PathBuf),
    #[error("{}: {why}; name another directory", path.display())]
    /// The directory holds parts of another log.
    OtherLog {
        /// The directory.
        path: PathBuf,
        /// What it holds.
        why: String,
    },
    /// A part that is there already is damaged.
    #[error(transparent)]
    Wrong(#[from] Wrong),
    #[error("cannot write {}: {error}", path.display())]
    /// The part could not be written.
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
}

/// So often rows are asked for that come in part.
const TRIES_MAX: u32 = 3;

/// A part that was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Taken {
    /// The part, or the last one before it if nothing is new.
    pub path: PathBuf,
    /// What it is of.
    pub header: Header,
    /// Its identity: no other has it.
    pub identity: Identity,
    /// Bytes of streams in this part, or of rows.
    pub bytes: u64,
    /// Of a machine.
    pub rows: u64,
    /// The bytes of the file.
    pub file_bytes: u64,
    /// Nothing had come since the part before: no part was written.
    pub nothing_new: bool,
}

/// The place of a part to be written, and the part that it follows.
struct Target {
    path: PathBuf,
    before: Option<(Header, Identity)>,
}

impl Client {
    /// Saves what is chosen of a log into a file that must not exist, or into a directory as the next
    /// part of the backup there. `made_at` is for people; `progress` hears how many bytes are
    /// checked or saved, of how many.
    ///
    /// The parts before are read to their ends first: nothing is put upon damaged ones. Where a node gives a part of a machine's rows, all
    /// of them are asked of the next.
    pub fn back_up(
        &self,
        log: &str,
        to: &Path,
        made_at: String,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<Taken, TakeError> {
        let mut tries = 0;
        // All tries together have the time in which nothing may get on, and each page begins it anew.
        let until = Cell::new(self.deadline());
        loop {
            tries += 1;
            match self.back_up_once(log, to, made_at.clone(), &until, &mut progress) {
                Err(TakeError::BrokenOff { .. })
                    if tries < TRIES_MAX && Instant::now() < until.get() => {}
                other => return other,
            }
        }
    }

    /// As [`Client::back_up`], whole, into an open file or pipe. What was written before an error has no end, and is no backup:
    /// nothing is asked for again.
    pub fn back_up_into(
        &self,
        log: &str,
        out: File,
        made_at: String,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<Taken, TakeError> {
        let until = Cell::new(self.deadline());
        let target = Target {
            path: PathBuf::from("-"),
            before: None,
        };
        let (header, source) = self.header(log, made_at, &target, until.get())?;
        let wanted: u64 = header.streams.iter().map(|s| s.info.length - s.from).sum();
        let progress = &mut |done: u64| progress(done, wanted.max(done));
        let written = match source {
            Source::Streams => self.write_part(log, out, header.clone(), progress),
            Source::Rows(server, link) => write_rows(&server, link, out, header.clone(), progress),
        }?;
        Ok(Taken {
            path: target.path,
            header,
            identity: written.identity,
            bytes: written.bytes,
            rows: written.rows,
            file_bytes: 0,
            nothing_new: false,
        })
    }

    fn back_up_once(
        &self,
        log: &str,
        to: &Path,
        made_at: String,
        until: &Cell<Instant>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Taken, TakeError> {
        let began = Instant::now();
        let target = Target::find(to, progress)?;
        // The parts before were read from this machine's own disk: nobody was waited for.
        until.set(until.get() + began.elapsed());
        let (header, source) = self.header(log, made_at, &target, until.get())?;
        let wanted: u64 = header.streams.iter().map(|s| s.info.length - s.from).sum();
        if let Some((before, identity)) = &target.before
            && is_same(before, &header)
        {
            let (header, identity) = (before.clone(), *identity);
            let path = to.to_owned();
            return Ok(Taken {
                path,
                header,
                identity,
                bytes: 0,
                rows: 0,
                file_bytes: 0,
                nothing_new: true,
            });
        }
        let failed = |error| TakeError::Io {
            path: target.path.clone(),
            error,
        };
        let aside = aside_of(&target.path);
        let file = File::create(&aside).map_err(failed)?;
        // How much of a machine comes is not known before.
        let progress = &mut |done: u64| {
            until.set(self.deadline());
            progress(done, wanted.max(done));
        };
        let written = match source {
            Source::Streams => self.write_part(log, file, header.clone(), progress),
            Source::Rows(server, link) => write_rows(&server, link, file, header.clone(), progress),
        };
        let settled = written.and_then(
            |Written {
                 file,
                 identity,
                 bytes,
                 rows,
             }| {
                file.sync_all().map_err(failed)?;
                let file_bytes = file.metadata().map_err(failed)?.len();
                // A link fails where a rename would replace what somebody put there meanwhile.
                fs::hard_link(&aside, &target.path).map_err(|error| match error.kind() {
                    io::ErrorKind::AlreadyExists => TakeError::Exists(target.path.clone()),
                    _ => failed(error),
                })?;
                sync_directory(&target.path).map_err(failed)?;
                Ok((identity, bytes, rows, file_bytes))
            },
        );
        // The file is no backup without its end; with it, it has its name by now.
        let _ = fs::remove_file(&aside);
        let (identity, bytes, rows, file_bytes) = settled?;
        Ok(Taken {
            path: target.path,
            header,
            identity,
            bytes,
            rows,
            file_bytes,
            nothing_new: false,
        })
    }

    /// The header of what is chosen now, and where that comes from.
    fn header(
        &self,
        log: &str,
        made_at: String,
        target: &Target,
        until: Instant,
    ) -> Result<(Header, Source), TakeError> {
        let status = self.status()?;
        let info = self.logs()?.into_iter().find(|info| info.name == log);
        let Some(info) = info else {
            let log = log.to_owned();
            return Err(AdminError::UnknownLog { log }.into());
        };
        if info.id == 0 {
            return Err(TakeError::Directory);
        }
        let details = self.log(log)?;
        let kind = details.kind;
        let kinds = [MachineKind::State, MachineKind::Kv, MachineKind::Streams];
        let mut kinds = kinds.into_iter();
        let machines = kinds.find(|known| known.of_log().to_string() == kind);
        let (source, state, streams) = match machines {
            Some(_) => {
                let (server, link, saving) = self.ask_for_rows(log, &status.cluster, until)?;
                (Source::Rows(server, link), Some(saving), Vec::new())
            }
            None => (Source::Streams, None, self.listed(log)?),
        };
        let mut header = Header {
            cluster: status.cluster,
            log: log.to_owned(),
            log_id: info.id,
            retention: info.retention,
            min_copies: details.min_copies,
            part: 1,
            after: None,
            made_at,
            streams: streams
                .into_iter()
                .map(|info| Saved {
                    from: info.trimmed,
                    info,
                })
                .collect(),
            state,
            kind: machines.unwrap_or_default(),
        };
        if let Some((before, identity)) = &target.before {
            header.part = before.part + 1;
            header.after = Some(hex(identity));
            let path = target.path.clone();
            is_same_history(before, &header).map_err(|why| TakeError::OtherLog { path, why })?;
            for saved in &mut header.streams {
                let known = before
                    .streams
                    .iter()
                    .rev()
                    .find(|s| s.info.name == saved.info.name);
                saved.from = saved.from.max(known.map_or(0, |s| s.info.length));
            }
        }
        Ok((header, source))
    }

    fn write_part(
        &self,
        log: &str,
        file: File,
        header: Header,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Written, TakeError> {
        let io = of_file;
        let mut writer =
            PartWriter::new(BufWriter::with_capacity(1 << 20, file), header).map_err(io)?;
        let mut buffer = vec![0; PAYLOAD_BYTES_MAX];
        let mut done = 0;
        while let Some((saved, from, count)) = writer.wants() {
            let options = ReadOptions {
                stream: saved.info.name.parse().ok(),
                from,
                to: Some(from + count),
                ..ReadOptions::default()
            };
            let mut reader = self.read(log, options).map_err(of_read)?;
            let mut left = count;
            while left > 0 {
                let wanted = left.min(PAYLOAD_BYTES_MAX as u64) as usize;
                reader
                    .read_exact(&mut buffer[..wanted])
                    .map_err(|error| match error.kind() {
                        io::ErrorKind::UnexpectedEof => TakeError::Shorter {
                            log: log.to_owned(),
                            to: from + count,
                        },
                        _ => of_io(error),
                    })?;
                writer.write(&buffer[..wanted]).map_err(io)?;
                left -= wanted as u64;
                done += wanted as u64;
                progress(done);
            }
        }
        let (file, identity) = writer.finish().map_err(io)?;
        let file = file.into_inner().map_err(|error| io(error.into_error()))?;
        Ok(Written {
            file,
            identity,
            bytes: done,
            rows: 0,
        })
    }
}

/// Where a part's bytes come from.
enum Source {
    Streams,
    /// The server, and what it says.
    Rows(String, Link),
}

struct Written {
    file: File,
    identity: Identity,
    bytes: u64,
    rows: u64,
}

/// Nothing has come since.
fn is_same(before: &Header, now: &Header) -> bool {
    let infos = |header: &Header| {
        let infos = header.streams.iter().map(|saved| saved.info.clone());
        infos.collect::<Vec<_>>()
    };
    let position = |header: &Header| header.state.map(|state| state.position);
    position(before) == position(now) && infos(before) == infos(now)
}

fn of_file(error: io::Error) -> TakeError {
    TakeError::Io {
        path: PathBuf::from("the backup"),
        error,
    }
}

/// Writes all rows that a server gives, page by page.
fn write_rows(
    server: &str,
    mut link: Link,
    file: File,
    header: Header,
    progress: &mut dyn FnMut(u64),
) -> Result<Written, TakeError> {
    let file = BufWriter::with_capacity(1 << 20, file);
    let mut writer = PartWriter::new(file, header).map_err(of_file)?;
    let (mut number, mut bytes) = (0, 0);
    loop {
        let page = link.page(number).map_err(|error| TakeError::BrokenOff {
            server: server.to_owned(),
            why: error.to_string(),
        })?;
        let Some(page) = page else { break };
        writer.write_rows(&page).map_err(of_file)?;
        bytes += page.len() as u64;
        number += 1;
        progress(bytes);
    }
    let rows = writer.rows();
    let (file, identity) = writer.finish().map_err(of_file)?;
    let file = file.into_inner();
    let file = file.map_err(|error| of_file(error.into_error()))?;
    Ok(Written {
        file,
        identity,
        bytes,
        rows,
    })
}

fn of_read(error: ReadError) -> TakeError {
    match error {
        ReadError::Trimmed { .. }
        | ReadError::StreamTrimmed { .. }
        | ReadError::UnknownStream { .. } => TakeError::Trimmed,
        error => TakeError::Read(error),
    }
}

/// A reader's errors travel inside those of `Read`.
fn of_io(error: io::Error) -> TakeError {
    let inner = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<ReadError>());
    match inner.cloned() {
        Some(error) => of_read(error),
        None => TakeError::Io {
            path: PathBuf::from("the log"),
            error,
        },
    }
}

impl Target {
    fn find(to: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<Target, TakeError> {
        if !to.is_dir() {
            return match to.exists() {
                true => Err(TakeError::Exists(to.to_owned())),
                false => Ok(Target {
                    path: to.to_owned(),
                    before: None,
                }),
            };
        }
        match Backup::open(to) {
            Ok(backup) => {
                let (header, identity) =
                    backup.verify(|done| progress(done, backup.file_bytes()))?;
                let path = to.join(part_name(header.part + 1));
                Ok(Target {
                    path,
                    before: Some((header, identity)),
                })
            }
            Err(BackupError::NotABackup) => {
                let path = to.join(part_name(1));
                Ok(Target { path, before: None })
            }
            Err(error) => Err(Wrong::of(to, error).into()),
        }
    }
}

fn aside_of(path: &Path) -> PathBuf {
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    let name = format!(
        ".{}.{}.unfinished",
        name.unwrap_or_default(),
        std::process::id()
    );
    path.with_file_name(name)
}

fn sync_directory(path: &Path) -> io::Result<()> {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}
