//! A producer for NATS JetStream, as much of its text protocol as that takes.
//!
//! Shape:  PUB subject reply length, bytes ─► server ─► MSG reply … {"stream": …, "seq": …}: stored
//! Source: the client protocol and the JetStream API of NATS' documentation.

use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{TrySendError, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;

use super::{Load, Made};
use bench::content;
use bench::latency::{histogram, quantile_ms, rounded};

pub struct Connection {
    reader: BufReader<TcpStream>,
    writer: TcpStream,
}

/// The subject of answers.
const INBOX: &str = "_INBOX.bench";
/// Messages under way before the producer waits for acks: as many bytes as ours keeps, and no more than
/// NATS' own clients have by themselves.
const UNDER_WAY_BYTES: u64 = 16 << 20;
const UNDER_WAY_MOST: u64 = 4_000;
const PONG: &[u8] = b"PONG\r\n";
/// More than any answer to us has.
const ANSWER_BYTES_MAX: usize = 1 << 20;

#[derive(PartialEq, Eq)]
enum Said {
    Message,
    Ping,
}

impl Connection {
    /// A server that says nothing for so long is an error.
    pub fn open(port: u16, patience: Duration) -> Result<Connection> {
        let mut writer = TcpStream::connect(("127.0.0.1", port)).context("nats does not listen")?;
        writer.set_read_timeout(Some(patience))?;
        writer.set_write_timeout(Some(patience))?;
        writer.set_nodelay(true)?;
        let options = "{\"verbose\":false,\"pedantic\":false,\"headers\":false,\"lang\":\"rust\"}";
        write!(writer, "CONNECT {options}\r\nSUB {INBOX} 1\r\n")?;
        Ok(Connection {
            reader: BufReader::with_capacity(64 << 10, writer.try_clone()?),
            writer,
        })
    }

    pub fn ask(&mut self, subject: &str, body: &Value) -> Result<Value> {
        let body = body.to_string();
        let length = body.len();
        write!(self.writer, "PUB {subject} {INBOX} {length}\r\n{body}\r\n")?;
        let mut answer = Vec::new();
        while self.answer(&mut answer)? == Said::Ping {
            self.writer.write_all(PONG)?;
        }
        let answer: Value = serde_json::from_slice(&answer).context("nats answered no JSON")?;
        match answer["error"]["description"].as_str() {
            Some(error) => bail!("nats refused: {error}"),
            None => Ok(answer),
        }
    }

    /// The next message to us, or a question that is to be answered with [`PONG`] between two messages.
    fn answer(&mut self, into: &mut Vec<u8>) -> Result<Said> {
        loop {
            let mut line = String::new();
            if (&mut self.reader).take(64 << 10).read_line(&mut line)? == 0 {
                bail!("nats closed the connection");
            }
            let mut words = line.split_ascii_whitespace();
            match words.next() {
                Some("MSG") => {
                    let length = words.next_back().and_then(|word| word.parse().ok());
                    let length: usize = length.unwrap_or(usize::MAX);
                    if length > ANSWER_BYTES_MAX {
                        bail!("nats said what it cannot: {line:?}");
                    }
                    // And the end of its line.
                    into.resize(length + 2, 0);
                    self.reader.read_exact(into)?;
                    into.truncate(length);
                    return Ok(Said::Message);
                }
                Some("PING") => return Ok(Said::Ping),
                Some("-ERR") => bail!("nats refused: {}", line.trim_end()),
                _ => {}
            }
        }
    }

    /// Every message acknowledged, and the time from each being handed to the socket until then.
    pub fn produce(mut self, subject: &str, load: Load) -> Result<Made> {
        let most = (UNDER_WAY_BYTES / load.message_bytes).clamp(1, UNDER_WAY_MOST);
        let (handed, under_way) = sync_channel::<Instant>(most as usize);
        let out = BufWriter::with_capacity(256 << 10, self.writer.try_clone()?);
        let mut micros = histogram();
        // The writing thread answers what the server asks: an answer from beside could land within a message.
        let pinged = AtomicBool::new(false);
        let asked = &pinged;
        let began = Instant::now();
        std::thread::scope(|scope| {
            let writes = scope.spawn(move || -> Result<()> {
                let mut out = out;
                let mut message = vec![0; load.message_bytes as usize];
                // As we are given: what compresses well would be another load.
                content::fill(0, &mut message);
                message.extend_from_slice(b"\r\n");
                for _ in 0..load.messages {
                    if let Err(TrySendError::Full(_)) = handed.try_send(Instant::now()) {
                        out.flush()?;
                        handed.send(Instant::now())?;
                    }
                    if asked.swap(false, Ordering::Relaxed) {
                        out.write_all(PONG)?;
                    }
                    write!(out, "PUB {subject} {INBOX} {}\r\n", load.message_bytes)?;
                    out.write_all(&message)?;
                }
                Ok(out.flush()?)
            });
            let mut answer = Vec::new();
            let mut acks = || -> Result<()> {
                for _ in 0..load.messages {
                    while self.answer(&mut answer)? == Said::Ping {
                        asked.store(true, Ordering::Relaxed);
                    }
                    if !answer.windows(6).any(|bytes| bytes == b"\"seq\":") {
                        bail!(
                            "nats stored a message not: {}",
                            String::from_utf8_lossy(&answer)
                        );
                    }
                    let since = under_way.recv().context("an ack for no message")?;
                    micros.saturating_record((since.elapsed().as_micros() as u64).max(1));
                }
                Ok(())
            };
            let acked = acks();
            // A writer that waits has nobody to wait for any more.
            drop(under_way);
            let _ = self.writer.shutdown(std::net::Shutdown::Both);
            let wrote = writes
                .join()
                .map_err(|_| anyhow!("the producer panicked"))?;
            acked.and(wrote)
        })?;
        let seconds = began.elapsed().as_secs_f64();
        Ok(Made {
            messages_per_s: load.messages as f64 / seconds,
            p50_ms: Some(rounded(quantile_ms(&micros, 0.5))),
            p99_ms: Some(rounded(quantile_ms(&micros, 0.99))),
        })
    }
}
