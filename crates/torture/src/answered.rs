//! The answers that operators and writers got, and whether a cluster still says so.

use std::collections::BTreeMap;
use std::io::BufRead;

use anyhow::{Context, Result};
use client::{AdminError, AppendError, AppendOptions, Client, Mode, ReadOptions, StreamName};

use crate::content;

/// A stream whose every byte was acknowledged.
#[derive(Clone, Debug)]
pub struct Stream {
    pub log: String,
    pub name: StreamName,
    pub key: u64,
    pub bytes: u64,
}

/// The streams that a log had left when "forever" was answered.
pub type Left = BTreeMap<String, (u64, u64)>;

#[derive(Default)]
pub struct Answered {
    /// The id of each log, by its name, and what it keeps.
    pub logs: BTreeMap<String, (u64, String)>,
    pub deleted: Vec<String>,
    /// ⟨log, node⟩
    pub weights: BTreeMap<(String, u64), u64>,
    pub streams: Vec<Stream>,
    /// ⟨trimmed, length⟩ of each stream of the log that was narrowed and widened.
    pub left: Left,
}

/// The number of bytes that are not there, and other differences from the answers.
#[derive(Default)]
pub struct Found {
    pub lost_bytes: u64,
    pub violations: Vec<String>,
}

impl Answered {
    /// To be asked at once after a start: an answer that is too early is wrong then, or never.
    pub fn check_names(&self, client: &Client, found: &mut Found) -> Result<()> {
        for name in &self.deleted {
            // Nobody could open a stream before the log is known; nobody may after it was deleted.
            match client.append(name, AppendOptions::default()) {
                Err(AppendError::UnknownLog { .. }) => {}
                Ok(_) => found.says(format!("{name} was deleted, and took a stream")),
                Err(error) => found.says(format!("{name} was deleted, and answered: {error}")),
            }
            match client.log(name) {
                Err(AdminError::UnknownLog { .. }) => {}
                Ok(log) => found.says(format!("{name} was deleted, and is there, id {}", log.id)),
                Err(error) => return Err(error).context("the directory does not answer"),
            }
        }
        for (name, (id, retention)) in &self.logs {
            let log = match client.log(name) {
                Err(AdminError::UnknownLog { .. }) => {
                    found.says(format!("{name} is not there, and was not deleted"));
                    continue;
                }
                answer => answer.context("the directory does not answer")?,
            };
            // Those who write or read there come by the name, too.
            match client.streams(name) {
                Ok(_) => {}
                Err(AdminError::UnknownLog { .. }) => {
                    found.says(format!(
                        "{name} is in the directory, and its clients hear unknown-log"
                    ));
                }
                Err(error) => return Err(error).with_context(|| format!("{name} cannot be asked")),
            }
            if log.id != *id {
                found.says(format!("{name} has id {}, and was given {id}", log.id));
            }
            if log.retention != *retention {
                let says = &log.retention;
                found.says(format!(
                    "{name} keeps {says}, and the last answer was {retention}"
                ));
            }
        }
        Ok(())
    }

    pub fn check_weights(&self, client: &Client, found: &mut Found) -> Result<()> {
        let members = client.members().context("the members cannot be had")?;
        for ((log, node), weight) in &self.weights {
            let of_log = members.logs.iter().find(|said| said.name == *log);
            let member = of_log.and_then(|log| log.members.iter().find(|m| m.node == *node));
            let wanted = member.map(|member| member.wanted);
            if wanted != Some(*weight) {
                found.says(format!(
                    "node {node} is to weigh {wanted:?} in {log}, and the last answer was {weight}"
                ));
            }
        }
        Ok(())
    }

    /// Checks that bytes which were there when "forever" was answered are there.
    pub fn check_left(&self, client: &Client, log: &str, found: &mut Found) -> Result<()> {
        let streams = client.streams(log);
        let streams = streams.with_context(|| format!("the streams of {log} cannot be had"))?;
        for (name, (trimmed, length)) in &self.left {
            let now = streams.iter().find(|stream| stream.name == *name);
            let gone = now.map_or(*length, |now| now.trimmed.min(*length));
            if gone > *trimmed {
                let bytes = gone - trimmed;
                found.lost_bytes += bytes;
                found.says(format!(
                    "{bytes} bytes of the stream {name} of {log} were trimmed after it was to be kept for ever"
                ));
            }
        }
        Ok(())
    }

    /// Every byte of the streams of the logs that a node holds, from it alone.
    pub fn check_streams(
        &self,
        client: &Client,
        server: &str,
        holds: &dyn Fn(&str) -> bool,
        found: &mut Found,
    ) {
        for stream in self.streams.iter().filter(|stream| holds(&stream.log)) {
            let (right, why) = read(client, server, stream);
            if right < stream.bytes {
                let (lost, log, name) = (stream.bytes - right, &stream.log, stream.name);
                found.lost_bytes += lost;
                found.says(format!(
                    "{server} lacks {lost} of {} acknowledged bytes of the stream {name} of {log}: {}",
                    stream.bytes,
                    why.unwrap_or_else(|| "they are other bytes, or it ends before".to_owned())
                ));
            }
        }
    }
}

/// The number of bytes from its start that are right, or, where that was trimmed, from where it goes on.
fn read(client: &Client, server: &str, stream: &Stream) -> (u64, Option<String>) {
    let mut right = 0;
    let mut why = None;
    let mut from = 0;
    loop {
        let options = ReadOptions {
            stream: Some(stream.name),
            from,
            server: Some(server.to_owned()),
            ..ReadOptions::default()
        };
        let mut reader = match client.read(&stream.log, options) {
            Ok(reader) => reader,
            // The bytes left behind a trim count as there: a loss is told as such.
            Err(client::ReadError::Trimmed { from: left }) if left > from => {
                why.get_or_insert(format!("those before {left} were trimmed"));
                from = left;
                continue;
            }
            Err(error) => {
                why.get_or_insert(error.to_string());
                return (right, why);
            }
        };
        loop {
            let at = reader.position();
            let bytes = match reader.fill_buf() {
                Ok([]) => return (right, why),
                Ok(bytes) => bytes,
                Err(error) => {
                    why.get_or_insert(error.to_string());
                    return (right, why);
                }
            };
            let same = content::matching(stream.key, at, bytes);
            right += same as u64;
            if same < bytes.len() {
                return (right, why);
            }
            let count = bytes.len();
            reader.consume(count);
        }
    }
}

impl Found {
    pub fn says(&mut self, violation: String) {
        self.violations.push(violation);
    }
}

/// Appends a stream and closes it: all of it is acknowledged.
pub fn append(client: &Client, log: &str, key: u64, bytes: u64) -> Result<Stream> {
    use std::io::Write;
    let options = AppendOptions {
        mode: Mode::TakeOver,
        ..AppendOptions::default()
    };
    let mut appender = client
        .append(log, options)
        .with_context(|| format!("cannot append to {log}"))?;
    let mut piece = vec![0; 64 << 10];
    let mut at = 0;
    while at < bytes {
        let count = (bytes - at).min(piece.len() as u64) as usize;
        content::fill(key, at, &mut piece[..count]);
        appender.write_all(&piece[..count])?;
        at += count as u64;
    }
    let closed = appender.close().context("the append was not ended")?;
    Ok(Stream {
        log: log.to_owned(),
        name: closed.stream,
        key,
        bytes,
    })
}
