//! Noisy neighbours: clients that misbehave, each kind in its way, until they are told to stop. What is said here is of one connection.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Neighbour {
    /// It asks for 1 MiB a thousand times, and takes nothing of it.
    NeverReads,
    /// It writes a value of 64 MiB, and writes it again.
    LargeValues,
    /// It sends requests that are nested, or that never end.
    Endless,
    /// It sends a million commands, and takes the replies meanwhile.
    LongPipeline,
}

/// The place of the nuisance: a door, and a key that it answers for.
#[derive(Clone, Debug)]
pub struct Place {
    pub door: SocketAddr,
    pub key: Vec<u8>,
}

const PATIENCE: Duration = Duration::from_secs(3);
/// So often a neighbour sees that it is to stop.
const LOOK: Duration = Duration::from_millis(50);
const LARGE: usize = 64 << 20;
const MIDDLE: usize = 1 << 20;
const COMMANDS: usize = 1_000_000;
const COMMANDS_AT_ONCE: usize = 1000;

impl Neighbour {
    pub fn name(self) -> &'static str {
        match self {
            Neighbour::NeverReads => "reads nothing",
            Neighbour::LargeValues => "values of 64 MiB",
            Neighbour::Endless => "nested and endless",
            Neighbour::LongPipeline => "a million commands",
        }
    }

    /// Writes the value that has to be there before it comes.
    pub fn prepare(self, place: &Place) -> Result<()> {
        if self != Neighbour::NeverReads {
            return Ok(());
        }
        let never = AtomicBool::new(false);
        let mut stream = connected(place)?;
        let set = request(&[b"SET", &place.key, &vec![b'v'; MIDDLE]]);
        send(&mut stream, &set, &never)?;
        match take(&mut stream, b"+OK\r\n".len(), &never)?.as_deref() {
            Some(b"+OK\r\n") => Ok(()),
            other => bail!("a value of 1 MiB is answered {other:?}"),
        }
    }

    /// Goes on until `stop`. Counts what was done. An error is one that a door has no right to.
    pub fn act(self, place: &Place, stop: &AtomicBool, done: &AtomicU64) -> Result<()> {
        let mut round = 0;
        while !stop.load(Ordering::Relaxed) {
            match self {
                Neighbour::NeverReads => never_reads(place, stop, done)?,
                Neighbour::LargeValues => large_value(place, stop, done)?,
                Neighbour::Endless => endless(place, round, stop)?,
                Neighbour::LongPipeline => long_pipeline(place, stop, done)?,
            }
            if self == Neighbour::Endless {
                done.fetch_add(1, Ordering::Relaxed);
            }
            round += 1;
        }
        Ok(())
    }
}

fn connected(place: &Place) -> Result<TcpStream> {
    let connected = TcpStream::connect_timeout(&place.door, PATIENCE);
    let stream = connected.context("no connection")?;
    stream.set_read_timeout(Some(LOOK))?;
    stream.set_write_timeout(Some(LOOK))?;
    Ok(stream)
}

fn request(words: &[&[u8]]) -> Vec<u8> {
    let mut request = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        request.extend_from_slice(word);
        request.extend_from_slice(b"\r\n");
    }
    request
}

/// Sends as far as there is room, until it is to stop. False once the other side has closed.
fn send(stream: &mut TcpStream, mut bytes: &[u8], stop: &AtomicBool) -> Result<bool> {
    while !bytes.is_empty() && !stop.load(Ordering::Relaxed) {
        match stream.write(bytes) {
            Ok(0) => return Ok(false),
            Ok(count) => bytes = &bytes[count..],
            Err(error) if waits(&error) => {}
            Err(_) => return Ok(false),
        }
    }
    Ok(true)
}

fn waits(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}

/// Takes so many bytes, until it is to stop. `None` once the other side has closed, or it was told to stop.
fn take(stream: &mut TcpStream, count: usize, stop: &AtomicBool) -> Result<Option<Vec<u8>>> {
    let (mut taken, mut piece) = (Vec::new(), vec![0; 64 << 10]);
    while taken.len() < count {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let room = (count - taken.len()).min(piece.len());
        match stream.read(&mut piece[..room]) {
            Ok(0) => return Ok(None),
            Ok(count) => taken.extend_from_slice(&piece[..count]),
            Err(error) if waits(&error) => {}
            Err(_) => return Ok(None),
        }
    }
    Ok(Some(taken))
}

fn never_reads(place: &Place, stop: &AtomicBool, done: &AtomicU64) -> Result<()> {
    let mut stream = connected(place)?;
    let gets = request(&[b"GET", &place.key]).repeat(COMMANDS_AT_ONCE);
    let is_there = send(&mut stream, &gets, stop)?;
    done.fetch_add(1, Ordering::Relaxed);
    // A door may let go of it.
    while is_there && !stop.load(Ordering::Relaxed) {
        thread::sleep(LOOK);
    }
    Ok(())
}

fn large_value(place: &Place, stop: &AtomicBool, done: &AtomicU64) -> Result<()> {
    let mut stream = connected(place)?;
    let set = request(&[b"SET", &place.key, &vec![b'v'; LARGE]]);
    while send(&mut stream, &set, stop)? {
        match take(&mut stream, b"+OK\r\n".len(), stop)?.as_deref() {
            Some(b"+OK\r\n") => done.fetch_add(1, Ordering::Relaxed),
            // Where there are many such values a door takes them from some only.
            Some(other) if other.starts_with(b"-ERR") => break,
            Some(other) => {
                let other = String::from_utf8_lossy(other);
                bail!("a value of 64 MiB is answered {other:?}");
            }
            None => break,
        };
    }
    Ok(())
}

/// In turn: arrays in arrays, an array whose elements never end, a value that comes drop by drop.
fn endless(place: &Place, round: u32, stop: &AtomicBool) -> Result<()> {
    let mut stream = connected(place)?;
    let (head, piece, pause) = match round % 3 {
        0 => (Vec::new(), b"*1\r\n".repeat(16 << 10), Duration::ZERO),
        1 => (
            b"*1048576\r\n".to_vec(),
            b"$16\r\n0123456789abcdef\r\n".repeat(1000),
            Duration::ZERO,
        ),
        _ => (
            b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$67108864\r\n".to_vec(),
            vec![b'v'; 100],
            Duration::from_millis(1),
        ),
    };
    if !send(&mut stream, &head, stop)? {
        return Ok(());
    }
    let mut sent = 0;
    while send(&mut stream, &piece, stop)? && !stop.load(Ordering::Relaxed) && sent < 1000 {
        thread::sleep(pause);
        sent += 1;
    }
    Ok(())
}

fn long_pipeline(place: &Place, stop: &AtomicBool, done: &AtomicU64) -> Result<()> {
    let mut stream = connected(place)?;
    let mut sends = stream.try_clone()?;
    let some = request(&[b"SET", &place.key, b"0123456789abcdef"]).repeat(COMMANDS_AT_ONCE);
    thread::scope(|scope| {
        let sender = scope.spawn(move || -> Result<()> {
            for _ in 0..COMMANDS / COMMANDS_AT_ONCE {
                if !send(&mut sends, &some, stop)? || stop.load(Ordering::Relaxed) {
                    break;
                }
            }
            Ok(())
        });
        for _ in 0..COMMANDS / COMMANDS_AT_ONCE {
            let replies = take(&mut stream, COMMANDS_AT_ONCE * b"+OK\r\n".len(), stop)?;
            let Some(replies) = replies else { break };
            if replies != b"+OK\r\n".repeat(COMMANDS_AT_ONCE) {
                let first = &replies[..replies.len().min(60)];
                bail!(
                    "a pipeline is answered {:?}",
                    String::from_utf8_lossy(first)
                );
            }
            done.fetch_add(COMMANDS_AT_ONCE as u64, Ordering::Relaxed);
        }
        // One that sends still hears of it by the closed connection.
        let _ = stream.shutdown(std::net::Shutdown::Both);
        match sender.join() {
            Ok(ended) => ended,
            Err(_) => bail!("a sender panicked"),
        }
    })
}
