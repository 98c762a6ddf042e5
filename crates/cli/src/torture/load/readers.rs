//! Readers: linearizable, of any node, and following.

use std::io::BufRead;
use std::time::{Duration, Instant};

use client::{ReadError, ReadOptions, Reader};

use super::Job;
use crate::torture::ledger::Kind;

/// How far before the known end most reads begin.
const BACK_BYTES: u64 = 48 << 10;
const FAR_BYTES: u64 = 256 << 10;

/// All that is chosen, from near the known end on; and now and then some bytes of long ago.
pub fn read(mut job: Job) {
    while !job.readers_stop() {
        let known = job.ledger.known();
        let far = job.chance.one_in(10);
        let from = match far {
            true => job.chance.below(known + 1),
            false => known.saturating_sub(job.chance.below(BACK_BYTES)),
        };
        let options = ReadOptions {
            from,
            to: far.then_some((from + FAR_BYTES).min(known)),
            stale: job.plan.reads_are_stale,
            ..ReadOptions::default()
        };
        let invoked = job.ledger.now();
        let outcome = match job.client.read(&job.ledger.log, options) {
            Ok(mut reader) => take(&job, &mut reader, from),
            Err(error) => Err((from, Some(error))),
        };
        match outcome {
            Ok(length) if !far => {
                job.ledger
                    .observed(Kind::Read, job.number, from, length, invoked);
            }
            Ok(length) => {
                job.ledger
                    .observed(Kind::Peek, job.number, from, length, invoked);
            }
            // It was told that less is chosen than somebody has seen.
            Err((_, Some(ReadError::PastEnd { length, .. }))) => {
                job.ledger
                    .observed(Kind::Read, job.number, from, length, invoked);
            }
            Err((length, error)) => partly(&job, from, length, invoked, error),
        }
        job.pause(50, 300);
    }
}

/// What any one node knows to be chosen.
pub fn ask(mut job: Job) {
    while !job.readers_stop() {
        let server = job.chance.below(job.plan.servers.len() as u64) as usize;
        let known = job.ledger.known();
        let from = known.saturating_sub(job.chance.below(BACK_BYTES));
        let options = ReadOptions {
            from,
            server: Some(job.plan.servers[server].clone()),
            ..ReadOptions::default()
        };
        let invoked = job.ledger.now();
        match job.client.read(&job.ledger.log, options) {
            Ok(mut reader) => match take(&job, &mut reader, from) {
                Ok(length) => job
                    .ledger
                    .observed(Kind::Peek, job.number, from, length, invoked),
                Err((length, error)) => partly(&job, from, length, invoked, error),
            },
            Err(error) => partly(&job, from, from, invoked, Some(error)),
        }
        job.pause(100, 500);
    }
}

/// Follows for some megabytes, and begins again.
pub fn follow(mut job: Job) {
    while !job.readers_stop() {
        let mut from = job.ledger.known();
        let options = ReadOptions {
            from,
            to: Some(from + job.chance.between(1, 4 << 20)),
            follow: true,
            ..ReadOptions::default()
        };
        let Ok(mut reader) = job.client.read(&job.ledger.log, options) else {
            job.pause(100, 500);
            continue;
        };
        let mut at = from;
        let mut invoked = job.ledger.now();
        let mut told = Instant::now();
        loop {
            let next = step(&job, &mut reader, at).unwrap_or(at);
            let over = next == at || job.readers_stop();
            at = next;
            if at > from && (over || told.elapsed() > Duration::from_millis(100)) {
                job.ledger
                    .observed(Kind::Peek, job.number, from, at, invoked);
                (from, invoked, told) = (at, job.ledger.now(), Instant::now());
            }
            if over {
                break;
            }
        }
        job.pause(50, 1000);
    }
}

/// Everything up to the end: where that is. Or how far it came, and the error if it was one of the
/// client's and not of the content.
fn take(job: &Job, reader: &mut Reader, from: u64) -> Result<u64, (u64, Option<ReadError>)> {
    let mut at = from;
    loop {
        match step(job, reader, at) {
            Ok(next) if next == at => return Ok(at),
            Ok(next) => at = next,
            Err(error) => return Err((at, error)),
        }
    }
}

/// The next chunk; the position after it, which is the same at the end.
fn step(job: &Job, reader: &mut Reader, at: u64) -> Result<u64, Option<ReadError>> {
    let bytes = match reader.fill_buf() {
        Ok(bytes) => bytes,
        Err(error) => return Err(error.downcast::<ReadError>().ok()),
    };
    let who = || {
        std::thread::current()
            .name()
            .unwrap_or("a reader")
            .to_owned()
    };
    if job.ledger.see(&who(), at, bytes).is_err() {
        return Err(None);
    }
    let count = bytes.len();
    reader.consume(count);
    Ok(at + count as u64)
}

/// What was seen before an error was shown all the same.
fn partly(job: &Job, from: u64, length: u64, invoked: u64, error: Option<ReadError>) {
    if length > from {
        job.ledger
            .observed(Kind::Peek, job.number, from, length, invoked);
    }
    if let Some(error @ (ReadError::Corrupt { .. } | ReadError::Garbled { .. })) = error {
        let log = &job.ledger.log;
        job.ledger
            .wrong_read(format!("a read of the log {log} failed: {error}"));
    }
}
