//! Readers: each a thread that counts what it is given.

use std::io::BufRead;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use client::{Client, ReadError, ReadOptions, Reader, StreamName};

use crate::history::forget_pages;
use testbed::watch::sleep_until;

const UNKNOWN: Duration = Duration::from_secs(10);

/// Dropping leaves those behind that wait for more of a stream that was cut; our process ends then.
pub struct Readers {
    threads: Vec<JoinHandle<Result<()>>>,
    stop: Arc<AtomicBool>,
    given: Vec<Arc<AtomicU64>>,
}

/// A stream that is read from its beginning over and over, from the disk.
#[derive(Clone, Debug)]
pub struct History {
    pub log: String,
    pub stream: StreamName,
    /// The nodes' directories of that log, whose pages are dropped from memory before each time.
    pub directories: Vec<PathBuf>,
}

impl Readers {
    /// At the tail of a stream until it is closed. `servers`: one for each reader in turn; of none,
    /// the leader.
    pub fn follow(
        client: &Client,
        log: &str,
        stream: StreamName,
        count: u32,
        servers: &[String],
    ) -> Result<Readers> {
        let options = |index: u32| ReadOptions {
            stream: Some(stream),
            follow: true,
            server: match servers.len() {
                0 => None,
                all => Some(servers[index as usize % all].clone()),
            },
            ..ReadOptions::default()
        };
        let mut readers = Readers::new();
        for index in 0..count {
            let (client, log, options) = (client.clone(), log.to_owned(), options(index));
            readers.spawn(move |given, _| read(&client, &log, options, given, &never()))?;
        }
        Ok(readers)
    }

    /// Until they are told to end.
    pub fn of_history(client: &Client, history: &History, count: u32) -> Result<Readers> {
        let mut readers = Readers::new();
        for _ in 0..count {
            let (client, history) = (client.clone(), history.clone());
            readers.spawn(move |given, stop| {
                while !stop.load(Ordering::Relaxed) {
                    for directory in &history.directories {
                        forget_pages(directory)?;
                    }
                    let options = ReadOptions {
                        stream: Some(history.stream),
                        ..ReadOptions::default()
                    };
                    read(&client, &history.log, options, given, stop)?;
                }
                Ok(())
            })?;
        }
        Ok(readers)
    }

    fn new() -> Readers {
        Readers {
            threads: Vec::new(),
            stop: Arc::default(),
            given: Vec::new(),
        }
    }

    fn spawn(
        &mut self,
        run: impl FnOnce(&AtomicU64, &AtomicBool) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let (given, stop) = (Arc::new(AtomicU64::new(0)), self.stop.clone());
        self.given.push(given.clone());
        let thread = std::thread::Builder::new().name("bench-reader".to_owned());
        self.threads.push(thread.spawn(move || run(&given, &stop))?);
        Ok(())
    }

    pub fn given(&self) -> &[Arc<AtomicU64>] {
        &self.given
    }

    /// Their streams have to be closed by now. Returns what each was given.
    pub fn finish(mut self) -> Result<Vec<u64>> {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let ended = thread.join().map_err(|_| anyhow!("a reader panicked"))?;
            ended.context("a read failed")?;
        }
        let given = self.given.iter().map(|given| given.load(Ordering::Relaxed));
        Ok(given.collect())
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn never() -> AtomicBool {
    AtomicBool::new(false)
}

fn read(
    client: &Client,
    log: &str,
    options: ReadOptions,
    given: &AtomicU64,
    stop: &AtomicBool,
) -> Result<()> {
    let mut reader = open(client, log, &options)?;
    while !stop.load(Ordering::Relaxed) {
        let count = reader.fill_buf()?.len();
        if count == 0 {
            break;
        }
        reader.consume(count);
        given.fetch_add(count as u64, Ordering::Relaxed);
    }
    Ok(())
}

/// A node that does not lead hears of a new stream a moment later than its writer does.
fn open(client: &Client, log: &str, options: &ReadOptions) -> Result<Reader> {
    let deadline = Instant::now() + UNKNOWN;
    loop {
        match client.read(log, options.clone()) {
            Err(ReadError::UnknownStream { .. }) if Instant::now() < deadline => {
                sleep_until(Instant::now() + Duration::from_millis(10))?;
            }
            opened => return Ok(opened?),
        }
    }
}
