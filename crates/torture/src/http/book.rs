//! What clients asked and saw of each stream.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anyhow::Result;
use history::{Action, Operation};
use serde::Serialize;

pub struct Book {
    pub began: Instant,
    streams: Vec<Stream>,
    counts: Mutex<Counts>,
    wrong: Mutex<Vec<String>>,
}

/// A stream, and its history. Its chains are those of its producers, and each append without a number is one.
pub struct Stream {
    pub name: String,
    chains: AtomicU32,
    operations: Mutex<Vec<Operation>>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Counts {
    pub appends: u64,
    /// … of producers, which were asked for more than once.
    pub appends_again: u64,
    /// Of appends without a number nobody knows whether these were done.
    pub appends_unknown: u64,
    /// A node said of these that they were not done, and never will be.
    pub appends_not_done: u64,
    pub reads: u64,
    /// Reads that need only be shown an initial part.
    pub peeks: u64,
    pub reads_unanswered: u64,
}

/// The verdict.
#[derive(Debug, Serialize)]
pub struct Judged {
    pub streams: usize,
    pub linearizable: usize,
    pub operations: usize,
    #[serde(skip)]
    pub violations: Vec<String>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stream {
    /// The number of a chain that is nobody's.
    pub fn chain(&self) -> u32 {
        self.chains.fetch_add(1, Ordering::Relaxed)
    }
}

impl Book {
    pub fn new(streams: u32) -> Book {
        let stream = |number| Stream {
            name: format!("torture/{number}"),
            chains: AtomicU32::new(0),
            operations: Mutex::default(),
        };
        Book {
            began: Instant::now(),
            streams: (0..streams).map(stream).collect(),
            counts: Mutex::default(),
            wrong: Mutex::default(),
        }
    }

    pub fn streams(&self) -> &[Stream] {
        &self.streams
    }

    /// Microseconds since the beginning.
    pub fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    pub fn count(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut lock(&self.counts));
    }

    pub fn counts(&self) -> Counts {
        lock(&self.counts).clone()
    }

    /// `answered`: it was, just now.
    pub fn note(&self, at: usize, client: u32, action: Action, invoked: u64, answered: bool) {
        let operation = Operation {
            client,
            action,
            invoked,
            completed: answered.then(|| self.now()),
        };
        lock(&self.streams[at].operations).push(operation);
    }

    /// Something that cannot be, whatever the order.
    pub fn wrong(&self, sentence: String) {
        lock(&self.wrong).push(sentence);
    }

    pub fn judge(&self) -> Result<Judged> {
        let mut judged = Judged {
            streams: self.streams.len(),
            linearizable: 0,
            operations: 0,
            violations: lock(&self.wrong).clone(),
        };
        for stream in &self.streams {
            let operations = lock(&stream.operations);
            judged.operations += operations.len();
            match history::check(&operations) {
                Ok(violations) if violations.is_empty() => judged.linearizable += 1,
                Ok(violations) => {
                    let sentences = violations.iter().map(|violation| {
                        let seen = violation.observer().map(|at| &operations[at]);
                        format!("{}: {violation}; it is {seen:?}", stream.name)
                    });
                    judged.violations.extend(sentences);
                }
                Err(why) => {
                    let sentence = format!("{}: its history is none: {why}", stream.name);
                    judged.violations.push(sentence);
                }
            }
        }
        Ok(judged)
    }

    /// One file for each stream.
    pub fn write(&self, directory: &Path) -> Result<()> {
        let directory = directory.join("history");
        fs::create_dir_all(&directory)?;
        for (number, stream) in self.streams.iter().enumerate() {
            let file = File::create(directory.join(format!("{number}.jsonl")))?;
            let mut file = BufWriter::new(file);
            for operation in lock(&stream.operations).iter() {
                writeln!(file, "{}", history::to_line(operation))?;
            }
            file.flush()?;
        }
        Ok(())
    }
}

impl Counts {
    pub fn shown(&self) -> BTreeMap<String, u64> {
        BTreeMap::from([
            ("sent again".to_owned(), self.appends_again),
            ("unknown".to_owned(), self.appends_unknown),
            ("not done".to_owned(), self.appends_not_done),
        ])
    }
}
