//! Readers: linearizable, of any node, and following.

use std::io::BufRead;
use std::time::{Duration, Instant};

use client::{ReadError, ReadOptions, Reader};

use super::Job;
use crate::ledger::Kind;

/// The distance before the known end at which most reads begin.
const BACK_BYTES: u64 = 48 << 10;
const FAR_BYTES: u64 = 256 << 10;

/// All that is chosen, from near the known end on; and now and then some bytes of long ago.
pub fn read(mut job: Job) {
    while !job.readers_stop() {
        job.renew();
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

/// Asks for the bytes that any one node knows to be chosen.
pub fn ask(mut job: Job) {
    while !job.readers_stop() {
        job.renew();
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
        job.renew();
        let mut from = job.ledger.known();
        let options = ReadOptions {
            from,
            to: Some(from + job.chance.between(1, 4 << 20)),
            follow: true,
            ..ReadOptions::default()
        };
        let mut reader = match job.client.read(&job.ledger.log, options) {
            Ok(reader) => reader,
            Err(error) => {
                partly(&job, from, from, job.ledger.now(), Some(error));
                job.pause(100, 500);
                continue;
            }
        };
        let mut at = from;
        let mut invoked = job.ledger.now();
        let mut told = Instant::now();
        loop {
            let (next, error) = match step(&job, &mut reader, at) {
                Ok(next) => (next, None),
                Err(error) => (at, error),
            };
            let over = next == at || job.readers_stop();
            at = next;
            partly(&job, at, at, invoked, error);
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

/// Notes the bytes seen before an error: they were shown all the same.
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

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;
    use std::sync::Arc;

    use client::{Client, Timeouts};

    use super::*;
    use crate::ledger::Ledger;
    use crate::load::{LoadPlan, Stop};
    use crate::schedule::Chance;

    /// A reader's job on a log to which nobody appended.
    fn job(server: String) -> Job {
        let timeouts = Timeouts {
            total: Duration::from_secs(1),
            ..Timeouts::default()
        };
        Job {
            ledger: Arc::new(Ledger::new("main", 0, 1, Instant::now())),
            plan: LoadPlan {
                seed: 1,
                rate: 1,
                servers: vec![server.clone()],
                reads_are_stale: false,
                keys: None,
            },
            client: Client::new(vec![server], timeouts),
            number: 1,
            chance: Chance::new(1, 1),
            stop: Arc::new(Stop::default()),
        }
    }

    /// A node that follows its first line with these bytes, for every client.
    fn node_that_says(rest: &'static [u8]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound").to_string();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let _ = stream.write_all(b"reading from=0 length=0 stale=0 open=1\n");
                let _ = stream.write_all(rest);
                std::thread::sleep(Duration::from_millis(200));
            }
        });
        address
    }

    #[test]
    fn what_is_wrong_with_a_followers_answer_is_told() {
        let answers: [&[u8]; 3] = [
            b"data 7 3 364b3fb7\nabc",
            b"data 0 3 00000000\nabc",
            b"end 9 closed\n",
        ];
        for answer in answers {
            let job = job(node_that_says(answer));
            let (ledger, stop) = (job.ledger.clone(), job.stop.clone());
            let follower = std::thread::spawn(move || follow(job));
            let deadline = Instant::now() + Duration::from_secs(20);
            while ledger.wrong_reads().is_empty() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(10));
            }
            stop.readers
                .store(true, std::sync::atomic::Ordering::Release);
            follower.join().expect("it ends");
            let said = String::from_utf8_lossy(answer);
            assert!(
                !ledger.wrong_reads().is_empty(),
                "{said:?} is taken as it is"
            );
        }
    }
}
