//! A name is a register: logs come and go under it one after the other. A request by name uses the log that
//! has the name at some moment between the question and the answer.
//!
//! ```text
//!   create ok 7 ──────── delete ok 7 ─ create ok 9 ─────────        asked behind the delete's ok, nothing is
//!        append … ack      │  append … ack: in 9, never in 7        acknowledged in 7 or read of it; asked
//!          read: all of it │                                        behind an ack, a read of 7 has its bytes
//! ```
//!
//! Where answers leave it open what had the name, log 0 says it. Which log bytes are in, the disks say. The creation
//! of a log takes effect when an answer first tells of the log: a leader may not know yet that log 0 has chosen it.

use std::collections::{BTreeMap, BTreeSet};

use formats::LogId;

use super::history::History;
use super::said::{Point, Said};
use crate::client::{self, Answer, Attempt, Entry, Line};

#[derive(Default)]
pub(super) struct Names {
    attempts: BTreeMap<Attempt, Asked>,
    /// Entries so far.
    now: u64,
    logs: BTreeMap<LogId, Known>,
    /// Freed although nobody could say that nothing is written there any more.
    abandoned: Vec<String>,
}

struct Asked {
    request: Line,
    at: Point,
    since: u64,
}

/// The answers about one log.
#[derive(Default)]
struct Known {
    /// An answer told of it first here.
    told: Option<u64>,
    /// The point from which on nobody who asks for its name uses it.
    gone: Option<u64>,
    /// ⟨when, how far the log's output is acknowledged⟩
    acknowledged: Vec<(u64, u64)>,
}

impl Names {
    pub fn on_entry(&mut self, entry: &Entry, said: &Said, logs: &BTreeMap<LogId, History>) {
        self.now += 1;
        match entry {
            Entry::Asked { attempt, request } => {
                let request = Line::parse(request);
                if request.key("abandon").is_some() {
                    self.abandoned.extend(request.arguments.first().cloned());
                }
                let asked = Asked {
                    request,
                    at: said.point,
                    since: self.now,
                };
                if said.is_kept() {
                    self.attempts.insert(*attempt, asked);
                }
            }
            Entry::Heard { attempt, answer } => {
                let Some(asked) = self.attempts.remove(attempt) else {
                    return;
                };
                let Some(name) = asked.request.arguments.first() else {
                    return;
                };
                match answer {
                    Answer::Line(line) => self.on_line(&asked, name, line, said),
                    Answer::Acknowledged { client, bytes } => {
                        self.on_acknowledged(&asked, name, *client, *bytes, logs);
                        // More may follow.
                        self.attempts.insert(*attempt, asked);
                    }
                    Answer::Output(output) => self.on_output(&asked, name, output, said, logs),
                }
            }
        }
    }

    pub fn is_abandoned(&self, name: &str) -> bool {
        self.abandoned.iter().any(|other| other == name)
    }

    fn on_line(&mut self, asked: &Asked, name: &str, line: &str, said: &Said) {
        let had = said.named_since(name, asked.at);
        let had = || had.iter().map(|(_, log)| *log);
        let is_free = |log: Option<LogId>| log.is_none_or(|log| said.is_ending(log));
        // Before the first of them was told of, the name was as free as when it was created.
        let told = |log: LogId| self.logs.get(&log).and_then(|known| known.told);
        let is_new = |log: LogId| told(log).is_none_or(|told| told > asked.since);
        let began_free = had().next().is_none_or(|log| log.is_some_and(is_new));
        let was_free = began_free || had().any(is_free);
        let word = asked.request.word.as_str();
        let answer = Line::parse(line);
        let granted = line.strip_prefix("ok {\"id\":");
        let granted = granted.and_then(|rest| rest.split([',', '}']).next()?.parse().ok());
        match (word, granted, answer.word.as_str()) {
            ("create-log", Some(id), _) => {
                let id = LogId(id);
                assert!(
                    had().any(|log| log == Some(id)),
                    "names: {name} was created as log {}, and log 0 said so at no point since it was asked: {:?}",
                    id.0,
                    had().collect::<Vec<_>>()
                );
                for (_, known) in self.known_before(name, id, said) {
                    known.gone.get_or_insert(asked.since);
                }
                self.tell(id);
            }
            ("create-log", None, "exists") => {
                let existed: BTreeSet<LogId> = had().flatten().collect();
                assert!(
                    !existed.is_empty(),
                    "names: {name} is said to exist, and did at no point since somebody asked to create it"
                );
                // The answer does not say which of several it means.
                if let (Some(log), 1) = (existed.first(), existed.len()) {
                    self.tell(*log);
                }
            }
            ("delete-log", Some(id), _) => {
                let id = LogId(id);
                assert!(
                    had().any(|log| log == Some(id)) && said.is_deleted(id),
                    "names: {name} was deleted as log {}, and log 0 says otherwise: {:?}",
                    id.0,
                    had().collect::<Vec<_>>()
                );
                let now = self.now;
                self.logs.entry(id).or_default().gone.get_or_insert(now);
            }
            (_, None, "unknown-log") => assert!(
                was_free,
                "names: {word:?} is told that there is no log {name}, and there was one all the time since it was asked: {:?}",
                had().collect::<Vec<_>>()
            ),
            _ => {}
        }
    }

    fn tell(&mut self, log: LogId) {
        let now = self.now;
        self.logs.entry(log).or_default().told.get_or_insert(now);
    }

    /// Those that had the name before.
    fn known_before<'a>(
        &'a mut self,
        name: &str,
        id: LogId,
        said: &Said,
    ) -> impl Iterator<Item = (&'a LogId, &'a mut Known)> {
        let before = said.named_since(name, Point(0)).iter();
        for log in before.filter_map(|(_, log)| *log) {
            self.logs.entry(log).or_default();
        }
        let ids: Vec<LogId> = said
            .named_since(name, Point(0))
            .iter()
            .filter_map(|(_, log)| *log)
            .collect();
        let logs = self.logs.iter_mut();
        logs.filter(move |(log, _)| **log < id && ids.contains(log))
    }

    fn on_acknowledged(
        &mut self,
        asked: &Asked,
        name: &str,
        client: u64,
        bytes: u64,
        logs: &BTreeMap<LogId, History>,
    ) {
        let mut found = logs.iter().filter_map(|(log, history)| {
            let (begins, length) = place_of(history, client)?;
            (length >= bytes).then_some((*log, begins + bytes))
        });
        let Some((log, end)) = found.next() else {
            panic!(
                "I5: {bytes} bytes of client {client} are acknowledged in {name} and not chosen"
            );
        };
        self.tell(log);
        let known = self.logs.entry(log).or_default();
        assert!(
            known.gone.is_none_or(|gone| gone > asked.since),
            "names: {bytes} bytes of client {client} are acknowledged by log {}, which was gone from the name {name} before they were sent",
            log.0
        );
        known.acknowledged.push((self.now, end));
    }

    fn on_output(
        &mut self,
        asked: &Asked,
        name: &str,
        output: &[u8],
        said: &Said,
        logs: &BTreeMap<LogId, History>,
    ) {
        let mut why = Vec::new();
        for log in said
            .named_since(name, Point(0))
            .iter()
            .filter_map(|(_, log)| *log)
        {
            let nothing = Known::default();
            let known = self.logs.get(&log).unwrap_or(&nothing);
            let acknowledged = known.acknowledged.iter();
            let before = acknowledged.filter(|(when, _)| *when < asked.since);
            let least = before.map(|(_, end)| *end).max().unwrap_or(0);
            let is_gone = known.gone.is_some_and(|gone| gone < asked.since);
            let is_its = logs.get(&log).map_or(output.is_empty(), |history| {
                output_of(history).starts_with(output)
            });
            if is_its && !is_gone && output.len() as u64 >= least {
                if !output.is_empty() {
                    self.tell(log);
                }
                return;
            }
            why.push(format!(
                "log {}: {least} bytes were acknowledged, {}{}",
                log.0,
                ["other bytes", "so it begins"][usize::from(is_its)],
                ["", ", gone before"][usize::from(is_gone)],
            ));
        }
        panic!(
            "names: {} bytes are read of {name}, and are of none of its logs: {}",
            output.len(),
            why.join("; ")
        );
    }
}

/// The place in the log's output where the client's stream begins, and how much of it is chosen.
fn place_of(history: &History, client: u64) -> Option<(u64, u64)> {
    let mut begins = 0;
    for stream in &history.state.as_ref()?.streams {
        let info = history.streams.get(&stream.name)?;
        if info.client == Some(client) {
            return Some((begins, stream.length.0));
        }
        begins += stream.length.0;
    }
    None
}

fn output_of(history: &History) -> Vec<u8> {
    let mut output = Vec::new();
    let state = history.state.iter();
    for stream in state.flat_map(|state| &state.streams) {
        let info = history.streams.get(&stream.name);
        if let Some(client) = info.and_then(|info| info.client) {
            let mut bytes = vec![0; stream.length.0 as usize];
            client::fill(client, info.map_or(0, |info| info.begins), &mut bytes);
            output.extend_from_slice(&bytes);
        }
    }
    output
}
