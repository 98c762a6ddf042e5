//! A writer: opens a stream, by whatever mode, writes for some seconds, ends it or vanishes; and the
//! next time goes on with its chain or begins another.

use std::io::Write;
use std::time::{Duration, Instant};

use client::{AppendError, AppendOptions, Appender, Mode, StreamName, StreamPlace};

use super::Job;
use crate::content;
use crate::ledger::ChainContent;

/// Written and not acknowledged, at most: what is lost with a client that vanishes.
const BUFFER_BYTES: usize = 1 << 20;

pub fn run(mut job: Job) {
    let mut chain: Option<ChainContent> = None;
    while !job.writers_stop() {
        job.renew();
        let goes_on = chain.is_some() && !job.chance.one_in(3);
        let now = match (chain, goes_on) {
            (Some(chain), true) => chain,
            (old, _) => {
                if let Some(old) = old {
                    job.ledger.abandoned(old);
                }
                job.ledger.new_chain(job.number)
            }
        };
        chain = Some(now);
        let Some(appender) = open(&mut job, now) else {
            job.pause(50, 400);
            continue;
        };
        match write(&mut job, now, appender) {
            // Let the other one have its turn.
            Ok(()) => job.pause(0, 2000),
            Err(error) => {
                judge(&job, &error);
                job.pause(50, 1000);
            }
        }
    }
}

/// Opens a stream that begins the chain or continues it.
fn open(job: &mut Job, chain: ChainContent) -> Option<Appender> {
    let (first, _) = job.ledger.chain(chain);
    let continues = match first {
        None => None,
        Some(first) => Some(end_of(job, first)?),
    };
    let mode = match job.chance.below(4) {
        0..=1 => Mode::TakeOver,
        2 => Mode::Wait,
        _ => Mode::Refuse,
    };
    let (ledger, number) = (job.ledger.clone(), chain.number);
    let options = AppendOptions {
        label: Some(format!("chain {number}")),
        mode,
        buffer_bytes_max: BUFFER_BYTES,
        continues,
        on_acknowledged: Some(Box::new(move |position, _| {
            ledger.acknowledged(number, position);
        })),
        ..AppendOptions::default()
    };
    match job.client.append(&job.ledger.log, options) {
        Ok(appender) => {
            let position = appender.position();
            let stream = first.unwrap_or(appender.stream());
            job.ledger
                .opened(chain, stream, position)
                .then_some(appender)
        }
        Err(error) => {
            judge(job, &error);
            None
        }
    }
}

/// The present end of the chain that begins with this stream.
fn end_of(job: &Job, first: StreamName) -> Option<StreamPlace> {
    let streams = job.client.streams(&job.ledger.log).ok()?;
    let mut name = first.to_string();
    loop {
        let stream = streams.iter().find(|stream| stream.name == name);
        let Some(stream) = stream else {
            job.ledger.wrong_append(format!(
                "the log {} does not know its stream {name} any more",
                job.ledger.log
            ));
            return None;
        };
        match &stream.continued_by {
            Some(by) => name.clone_from(by),
            None => {
                return Some(StreamPlace {
                    stream: name.parse().ok()?,
                    position: stream.length,
                });
            }
        }
    }
}

/// Writes at the plan's rate for some seconds.
fn write(job: &mut Job, chain: ChainContent, mut appender: Appender) -> Result<(), AppendError> {
    let until = Instant::now() + job.chance.millis(500, 12_000);
    let mut due = Instant::now();
    let mut bytes = Vec::new();
    let mut position = appender.position();
    while Instant::now() < until && !job.writers_stop() {
        let count = match job.chance.below(3) {
            0 => job.chance.between(1, 300),
            1 => job.chance.between(1, 8 << 10),
            _ => job.chance.between(1, 64 << 10),
        };
        bytes.resize(count as usize, 0);
        content::fill(chain.key, position, &mut bytes);
        position += count;
        job.ledger.invoke(chain, position);
        appender.write_all(&bytes).map_err(inner)?;
        due += Duration::from_secs_f64(count as f64 / job.plan.rate as f64);
        // Writes that a fault held up are not made up for.
        due = due.max(
            Instant::now()
                .checked_sub(Duration::from_millis(500))
                .unwrap_or(due),
        );
        let early = due.saturating_duration_since(Instant::now());
        std::thread::sleep(early.min(Duration::from_secs(1)));
    }
    // A client that vanishes leaves bytes of which nobody knows whether they were chosen.
    if !job.writers_stop() && job.chance.one_in(3) {
        drop(appender);
        return Ok(());
    }
    let closed = appender.close()?;
    job.ledger.closed(closed.last);
    Ok(())
}

fn inner(error: std::io::Error) -> AppendError {
    match error.downcast::<AppendError>() {
        Ok(error) => error,
        Err(error) => AppendError::Thread(error.to_string()),
    }
}

/// Most errors are what the faults and the other writer are there for; some may never be.
fn judge(job: &Job, error: &AppendError) {
    // Nothing is trimmed here, so no log and no stream is forgotten.
    if let AppendError::Garbled { .. }
    | AppendError::Thread(_)
    | AppendError::UnknownLog { .. }
    | AppendError::UnknownStream { .. } = error
    {
        let log = &job.ledger.log;
        job.ledger
            .wrong_append(format!("an append to the log {log} failed: {error}"));
    }
}
