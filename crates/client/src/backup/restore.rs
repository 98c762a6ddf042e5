//! Restoring: a new log with the streams of a backup, in their order, each as long and ended as it was; or an empty machine that is given the
//! rows of another.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use wire::told::Saving;
use wire::{Code, LogKind};

use super::format::{BackupError, Header, Identity};
use super::link::LinkError;
use super::set::{Backup, Seen, Stop, Wrong};
use crate::admin::{StreamEnd, StreamInfo};
use crate::request::Before;
use crate::{
    AdminError, AppendError, AppendOptions, Appender, Client, Mode, NewLog, StreamName, StreamPlace,
};

/// The log that a restore is to make.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestoreOptions {
    /// The log to be made.
    pub log: String,
    /// As in [`NewLog`].
    pub members: Vec<u64>,
    /// The beginning of a stream that was trimmed is left out: then its bytes stand at lower positions.
    /// Otherwise as many zeros are written and trimmed again.
    pub shift: bool,
}

/// The outcome of a restore.
#[derive(Clone, Debug, PartialEq)]
pub struct Restored {
    /// The log that was made.
    pub log: String,
    /// The streams that were written.
    pub streams: u64,
    /// Their bytes, or those of a machine's rows.
    pub bytes: u64,
    /// The rows of a machine: that is what was restored.
    pub rows: Option<u64>,
    /// Written, and trimmed again, so that positions are what they were.
    pub filled_bytes: u64,
    /// The number of full voters that hold what it acknowledges from now on, as it was saved; 0 if a majority decides.
    pub min_copies: u32,
    /// The number that was saved and cannot be had here, and why: a majority decides.
    pub copies_refused: Option<(u32, String)>,
    /// Each stream's saved name, and the name it has now.
    pub names: Vec<(String, String)>,
    /// What it has not.
    pub lost: Lost,
}

/// The parts that a restored log lacks, besides the streams' names and slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Streams that went on from one that was trimmed: they begin chains of their own.
    pub chains_cut: u64,
    /// Streams in more pieces than they were: leaders changed meanwhile.
    pub streams_split: u64,
    /// Streams whose bytes stand lower by what was trimmed of them.
    pub streams_shifted: u64,
}

/// Why a log was not restored, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The backup is damaged, or is none; nothing was made.
    #[error(transparent)]
    Wrong(#[from] Wrong),
    /// A question to the cluster was not answered.
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// The log was refused, and nothing was made.
    #[error(transparent)]
    NotMade(AdminError),
    /// Writing stopped.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// The log has other streams than were written: somebody else wrote there.
    #[error("the log holds other streams than were restored: {0}")]
    Other(String),
    /// The machine has written something.
    #[error("{0}")]
    NotEmpty(String),
    /// The machine was filled from this backup, to its end. It is left as it is.
    #[error("{0}")]
    FilledBefore(String),
    /// Another restore of it is open, or a row does not fit.
    #[error("{0}")]
    Refused(String),
    /// No node has a machine for the log. If the log was made for it, it is deleted again.
    #[error("no node that was asked has a machine for this log: {0}")]
    NoMachine(String),
    /// There is such a log, and it is of the other kind.
    #[error(
        "{log} is of kind {found}, and the backup is of one of kind {saved}: restore to another name with --log"
    )]
    OtherKind {
        /// The log.
        log: String,
        /// Its kind.
        found: String,
        /// The kind of the log that was saved.
        saved: LogKind,
    },
    /// ‡ Keys belong to slots, and slots to a group: elsewhere nobody would look for them.
    #[error(
        "the backup is of the keys of {saved}, and {log} serves other slots: restore to the group of that name, and leave --log out"
    )]
    OtherSlots {
        /// The group that was saved.
        saved: String,
        /// The group that was to be filled.
        log: String,
    },
    /// The cluster's groups serve other slots.
    #[error(
        "this cluster has no group {saved} with slots beside its own ({why}): restore into a cluster without groups, or with the same ones"
    )]
    OtherGroups {
        /// The group that was saved.
        saved: String,
        /// The reason.
        why: String,
    },
    /// The machine has a part of the rows, and serves nobody.
    #[error(
        "the machine is not filled to its end: {0}; run the same restore again, which goes on, or delete the log"
    )]
    NotFilled(String),
    /// The conversation with the node that fills the machine broke off.
    #[error(transparent)]
    Link(#[from] LinkError),
}

impl Client {
    /// Makes a log and writes the streams of a backup into it. Every part is read twice: nothing is made of a
    /// backup that is not sound to its end. `progress` hears how much of all files was done, of twice their
    /// length.
    ///
    /// Errors: [`RestoreError::NotMade`] if the log is refused, as when there is one. After any other the log may exist with a part of
    /// the streams; it is for the caller to delete it.
    pub fn restore(
        &self,
        backup: &Backup,
        options: &RestoreOptions,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<Restored, RestoreError> {
        let all = backup.file_bytes();
        let (header, identity) = backup.verify(|done| progress(done, 2 * all))?;
        if let Some(state) = header.state {
            let backup = (backup, identity, state);
            return self.restore_machine(&header, backup, options, |done| {
                progress((all + done).min(2 * all), 2 * all);
            });
        }
        self.create_new_log(&NewLog {
            name: options.log.clone(),
            members: options.members.clone(),
            ..NewLog::default()
        })
        .map_err(not_made)?;
        let mut restoring = Restoring::new(self, &header, options);
        backup
            .read(|_, piece, done| {
                progress(all + done, 2 * all);
                restoring
                    .piece(&piece)
                    .map_err(|error| Stop(Box::new(error)))
            })
            .map_err(unpack)?;
        restoring.finish()
    }
}

impl Client {
    /// ‡ Where slots were given out, a group without any is filled with no keys: nobody would find them, and they would be there when slots come to it.
    fn check_group(&self, log: &str) -> Result<(), RestoreError> {
        let map = self.slots(None).map_err(not_made)?;
        let its = map.groups.iter().find(|group| group.name == log);
        if map.version == 0 || its.is_some_and(|group| group.joined) {
            return Ok(());
        }
        let joined = map.groups.iter().filter(|group| group.joined);
        let names: Vec<&str> = joined.map(|group| &*group.name).collect();
        Err(RestoreError::OtherGroups {
            saved: log.to_owned(),
            why: names.join(", "),
        })
    }

    /// Fills the empty machine of this name, whose log is made if it is not there.
    fn restore_machine(
        &self,
        header: &Header,
        backup: (&Backup, Identity, Saving),
        options: &RestoreOptions,
        progress: impl FnMut(u64),
    ) -> Result<Restored, RestoreError> {
        let log = &options.log;
        let kind = header.kind.of_log();
        if kind == LogKind::Kv && *log != header.log {
            return Err(RestoreError::OtherSlots {
                saved: header.log.clone(),
                log: log.clone(),
            });
        }
        if kind == LogKind::Kv {
            self.check_group(log)?;
        }
        let new = NewLog {
            name: log.clone(),
            members: options.members.clone(),
            kind,
            ..NewLog::default()
        };
        let is_new = match self.create_new_log(&new) {
            Ok(_) => true,
            // A program with a machine of this name makes its log by itself.
            Err(AdminError::Exists { .. }) => {
                let found = self.log(log)?.kind;
                if found != kind.to_string() {
                    return Err(RestoreError::OtherKind {
                        log: log.clone(),
                        found,
                        saved: kind,
                    });
                }
                false
            }
            Err(AdminError::Refused { refusal, .. })
                if kind == LogKind::Kv && refusal.code == Code::BadRequest =>
            {
                let (saved, why) = (log.clone(), refusal.sentence);
                return Err(RestoreError::OtherGroups { saved, why });
            }
            Err(error) => return Err(not_made(error)),
        };
        let filled = self.fill_rows(log, backup, progress);
        if matches!(filled, Err(RestoreError::NoMachine(_))) && is_new {
            // Nobody has written there: no machine is anywhere.
            let _ = self.delete_log(log);
        }
        let all = filled?;
        Ok(Restored {
            log: log.clone(),
            streams: 0,
            bytes: all.bytes,
            rows: Some(all.rows),
            filled_bytes: 0,
            min_copies: 0,
            copies_refused: None,
            names: Vec::new(),
            lost: Lost::default(),
        })
    }
}

/// An error of making the log. Who was refused knows that there is none; who was not answered does not.
fn not_made(error: AdminError) -> RestoreError {
    match error {
        AdminError::Refused { .. } | AdminError::Exists { .. } => RestoreError::NotMade(error),
        error => RestoreError::Admin(error),
    }
}

/// The error of writing, which stopped the reading.
fn unpack(wrong: Wrong) -> RestoreError {
    match wrong {
        Wrong::Stopped(Stop(error)) => match error.downcast::<RestoreError>() {
            Ok(error) => *error,
            Err(error) => RestoreError::Other(error.to_string()),
        },
        wrong => RestoreError::Wrong(wrong),
    }
}

struct Restoring<'a> {
    client: &'a Client,
    options: &'a RestoreOptions,
    header: &'a Header,
    places: BTreeMap<&'a str, usize>,
    /// The stream that is being written, by its place in the header, and the next position in it.
    at: usize,
    position: u64,
    open: Option<Appender>,
    /// By place.
    became: Vec<Became>,
    restored: Restored,
}

/// The streams that a saved stream became: several, if the writer lost its leader meanwhile.
struct Became {
    first: StreamName,
    last: StreamName,
    /// The length of the last stream, if it is the first.
    length: Option<u64>,
}

impl<'a> Restoring<'a> {
    fn new(client: &'a Client, header: &'a Header, options: &'a RestoreOptions) -> Restoring<'a> {
        let places = header.streams.iter().enumerate();
        Restoring {
            client,
            options,
            header,
            places: places
                .map(|(at, saved)| (saved.info.name.as_str(), at))
                .collect(),
            at: 0,
            position: 0,
            open: None,
            became: Vec::new(),
            restored: Restored {
                log: options.log.clone(),
                streams: 0,
                bytes: 0,
                rows: None,
                filled_bytes: 0,
                min_copies: 0,
                copies_refused: None,
                names: Vec::new(),
                lost: Lost::default(),
            },
        }
    }

    fn info(&self) -> &'a StreamInfo {
        &self.header.streams[self.at].info
    }

    /// Restores a piece, but passes over what was trimmed since it was saved.
    fn piece(&mut self, piece: &Seen<'_>) -> Result<(), RestoreError> {
        let Some(&place) = self.places.get(piece.stream) else {
            return Ok(());
        };
        while self.at < place {
            self.end_stream()?;
        }
        let trimmed = self.info().trimmed;
        let skipped = trimmed
            .saturating_sub(piece.position)
            .min(piece.payload.len() as u64);
        let payload = &piece.payload[skipped as usize..];
        if payload.is_empty() {
            return Ok(());
        }
        self.begin_stream()?;
        if self.position != piece.position + skipped {
            let what = format!(
                "bytes of stream {} are not where they should be",
                piece.stream
            );
            return Err(RestoreError::Other(what));
        }
        self.write(payload)?;
        self.position += payload.len() as u64;
        self.restored.bytes += payload.len() as u64;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), RestoreError> {
        let Some(appender) = &mut self.open else {
            return Ok(());
        };
        appender.write_all(bytes).map_err(of_write)
    }

    /// Opens the stream, if it is not, as the continuation of the one that it continued.
    fn begin_stream(&mut self) -> Result<(), RestoreError> {
        if self.open.is_some() {
            return Ok(());
        }
        let info = self.info();
        let continues = match &info.continues {
            None => None,
            Some(continues) => match self.places.get(continues.stream.as_str()) {
                Some(place) => Some(self.end_of(*place)?),
                None => {
                    self.restored.lost.chains_cut += 1;
                    None
                }
            },
        };
        let appender = self.client.append(
            &self.options.log,
            AppendOptions {
                label: info.label.clone().filter(|label| !label.is_empty()),
                // The streams before were left open where they had been cut.
                mode: Mode::TakeOver,
                continues,
                ..AppendOptions::default()
            },
        )?;
        self.open = Some(appender);
        self.position = info.trimmed;
        if info.trimmed > 0 {
            match self.options.shift {
                true => self.restored.lost.streams_shifted += 1,
                false => self.fill(info.trimmed)?,
            }
        }
        Ok(())
    }

    fn fill(&mut self, count: u64) -> Result<(), RestoreError> {
        let zeros = vec![0; 1 << 20];
        let mut left = count;
        while left > 0 {
            let some = left.min(zeros.len() as u64);
            self.write(&zeros[..some as usize])?;
            left -= some;
        }
        self.restored.filled_bytes += count;
        Ok(())
    }

    /// The end of the streams that a stream became.
    fn end_of(&self, place: usize) -> Result<StreamPlace, RestoreError> {
        let became = &self.became[place];
        let stream = became.last;
        let position = match became.length {
            Some(length) => length,
            // The table of a log with a long chain is large: it is asked for only where it must be.
            None => {
                let streams = self.client.streams(&self.options.log)?;
                let name = stream.to_string();
                let found = streams.iter().find(|info| info.name == name);
                let length = found.map(|info| info.length);
                length.ok_or_else(|| RestoreError::Other(format!("{name} is gone")))?
            }
        };
        Ok(StreamPlace { stream, position })
    }

    /// All of the stream is there: it ends as it had ended.
    fn end_stream(&mut self) -> Result<(), RestoreError> {
        self.begin_stream()?;
        let info = self.info();
        let Some(mut appender) = self.open.take() else {
            return Ok(());
        };
        if self.position != info.length {
            return Err(RestoreError::Other(format!(
                "stream {} is not whole",
                info.name
            )));
        }
        let first = appender.stream();
        let end = appender.position();
        appender.wait_acknowledged(end)?;
        if info.end == StreamEnd::Closed {
            appender.close()?;
        }
        let split = appender.statistics().streams_opened > 1;
        drop(appender);
        let last = match split {
            true => self.last_of(first)?,
            false => first,
        };
        self.restored.lost.streams_split += u64::from(split);
        self.restored.streams += 1;
        self.restored
            .names
            .push((info.name.clone(), first.to_string()));
        let written = match self.options.shift {
            true => info.length - info.trimmed,
            false => info.length,
        };
        let length = (!split).then_some(written);
        self.became.push(Became {
            first,
            last,
            length,
        });
        self.at += 1;
        self.position = 0;
        Ok(())
    }

    fn last_of(&self, first: StreamName) -> Result<StreamName, RestoreError> {
        let streams = self.client.streams(&self.options.log)?;
        let by_name: BTreeMap<&str, &StreamInfo> =
            streams.iter().map(|s| (s.name.as_str(), s)).collect();
        let mut name = first.to_string();
        while let Some(next) = by_name
            .get(name.as_str())
            .and_then(|info| info.continued_by.as_ref())
        {
            name.clone_from(next);
        }
        name.parse()
            .map_err(|_| RestoreError::Other(format!("{name} is no stream")))
    }

    /// The streams behind the last piece, the trim, what is kept, and a look at what came of it.
    fn finish(mut self) -> Result<Restored, RestoreError> {
        while self.at < self.header.streams.len() {
            self.end_stream()?;
        }
        if !self.options.shift {
            self.trim_filled()?;
        }
        self.check()?;
        if self.header.retention != "forever" {
            self.client
                .retain(&self.options.log, &self.header.retention)?;
        }
        self.want_copies()?;
        Ok(self.restored)
    }

    /// Here may be fewer voters than where it was saved: the log is whole all the same.
    fn want_copies(&mut self) -> Result<(), RestoreError> {
        let wanted = self.header.min_copies;
        if wanted == 0 {
            return Ok(());
        }
        match self.client.set_log(&self.options.log, None, Some(wanted)) {
            Ok(_) => self.restored.min_copies = wanted,
            Err(AdminError::Refused { refusal, .. }) => {
                self.restored.copies_refused = Some((wanted, refusal.sentence));
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Only one stream can have lost a part: what lies before it is gone altogether.
    fn trim_filled(&self) -> Result<(), RestoreError> {
        let filled = self.header.streams.iter().zip(&self.became);
        let mut trimmed = filled.filter(|(saved, _)| saved.info.trimmed > 0);
        let last = trimmed.next_back();
        let Some((saved, Became { first, .. })) = last else {
            return Ok(());
        };
        let streams = self.client.streams(&self.options.log)?;
        let by_name: BTreeMap<&str, &StreamInfo> =
            streams.iter().map(|s| (s.name.as_str(), s)).collect();
        let (mut name, mut position) = (first.to_string(), saved.info.trimmed);
        while let Some(info) = by_name.get(name.as_str()) {
            match &info.continued_by {
                Some(next) if position > info.length => {
                    position -= info.length;
                    name.clone_from(next);
                }
                _ => break,
            }
        }
        let stream = name
            .parse()
            .map_err(|_| RestoreError::Other(format!("{name} is no stream")))?;
        let before = Before::Stream(StreamPlace { stream, position });
        self.client.trim(&self.options.log, before)?;
        Ok(())
    }

    /// Compares the restored log with what the cluster says that it holds.
    fn check(&mut self) -> Result<(), RestoreError> {
        let streams = self.client.streams(&self.options.log)?;
        for (at, first) in begun_twice(&streams, &self.became) {
            self.restored.lost.streams_split += u64::from(self.became[at].length.is_some());
            // The chain begins there, and reads whole from there alone.
            self.restored.names[at].1 = first;
        }
        let held: u64 = streams.iter().map(|info| info.length - info.trimmed).sum();
        let saved: u64 = self
            .header
            .streams
            .iter()
            .map(|s| s.info.length - s.info.trimmed)
            .sum();
        match held == saved {
            true => Ok(()),
            false => Err(RestoreError::Other(format!(
                "{held} bytes instead of {saved}"
            ))),
        }
    }
}

/// The streams that begin behind an empty one of their own, by their places, with that one's name: its opening was not answered,
/// and the next attempt went on with it.
fn begun_twice(streams: &[StreamInfo], became: &[Became]) -> Vec<(usize, String)> {
    let by_name: BTreeMap<&str, &StreamInfo> =
        streams.iter().map(|s| (s.name.as_str(), s)).collect();
    let ends = became.iter().flat_map(|one| [one.first, one.last]);
    let ends: BTreeSet<String> = ends.map(|name| name.to_string()).collect();
    let own_before = |name: &str| {
        let continues = by_name.get(name)?.continues.as_ref()?;
        let before = by_name.get(continues.stream.as_str())?;
        (before.length == 0 && !ends.contains(&before.name)).then(|| before.name.clone())
    };
    let begins = became.iter().enumerate().filter_map(|(at, one)| {
        let mut first = own_before(&one.first.to_string())?;
        // Several answers may have been lost.
        while let Some(before) = own_before(&first) {
            first = before;
        }
        Some((at, first))
    });
    begins.collect()
}

fn of_write(error: io::Error) -> RestoreError {
    let inner = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<AppendError>());
    match inner.cloned() {
        Some(error) => error.into(),
        None => RestoreError::Wrong(Wrong::of(
            std::path::Path::new("the log"),
            BackupError::Io(error),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::{Continues, StreamInfo};

    fn stream(name: &str, length: u64, continues: Option<(&str, u64)>) -> StreamInfo {
        let told = serde_json::json!({"name": name, "length": length, "trimmed": 0, "end": "cut"});
        StreamInfo {
            continues: continues.map(|(stream, at)| Continues {
                stream: stream.to_owned(),
                at,
            }),
            ..serde_json::from_value(told).expect("a stream")
        }
    }

    fn whole(name: &str, length: u64) -> Became {
        let name = name.parse().expect("a name");
        Became {
            first: name,
            last: name,
            length: Some(length),
        }
    }

    #[test]
    fn a_stream_behind_an_empty_one_that_was_not_asked_for_is_in_more_pieces() {
        let twice = [
            stream("1.1.1", 0, None),
            stream("1.1.2", 9, Some(("1.1.1", 0))),
        ];
        assert_eq!(
            begun_twice(&twice, &[whole("1.1.2", 9)]),
            [(0, "1.1.1".to_owned())]
        );
        // The empty one was saved as one.
        assert_eq!(
            begun_twice(&twice, &[whole("1.1.1", 0), whole("1.1.2", 9)]),
            []
        );
        // It is the last piece of the stream before.
        let split = [
            stream("1.1.1", 5, None),
            stream("1.1.2", 0, Some(("1.1.1", 5))),
            stream("1.1.3", 9, Some(("1.1.2", 0))),
        ];
        let before = Became {
            last: "1.1.2".parse().expect("a name"),
            length: None,
            ..whole("1.1.1", 5)
        };
        assert_eq!(begun_twice(&split, &[before, whole("1.1.3", 9)]), []);
    }
}
