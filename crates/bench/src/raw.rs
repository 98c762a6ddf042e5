//! A writer without our client library: one system call for each write, straight to the leader's
//! socket, each in a packet of its own if the kernel likes.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use client::answer::Answer;
use client::line::StreamName;
use client::request::{ConnectionEnd, Mode, Request};
use client::{AppendOptions, Appender, Client, Closed, OnAcknowledged};

/// A leader that says nothing for so long, or takes nothing, is an error.
const PATIENCE: Duration = Duration::from_secs(30);
const LINE_BYTES_MAX: u64 = 4096;
/// The number of times that a log without a leader is asked for it.
const ATTEMPTS: u32 = 100;
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(50);

/// The way of a writer's bytes to the leader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// By the client library, which gathers them.
    #[default]
    Library,
    /// The same, and no checksums are compared.
    Unchecked,
    /// Each write is a system call.
    Socket,
}

pub enum Output {
    Library(Appender),
    Socket(Raw),
}

/// Dropping ends the connection; the stream is cut then.
pub struct Raw {
    socket: TcpStream,
    stream: StreamName,
    written: u64,
    acknowledged: Arc<AtomicU64>,
    hears: Option<JoinHandle<Result<()>>>,
}

impl Output {
    pub fn open(
        way: Way,
        client: &Client,
        log: &str,
        buffer_bytes_max: usize,
        on_acknowledged: OnAcknowledged,
    ) -> Result<Output> {
        if way == Way::Socket {
            return Ok(Output::Socket(Raw::open(client, log, on_acknowledged)?));
        }
        let options = AppendOptions {
            label: Some("bench".to_owned()),
            buffer_bytes_max,
            on_acknowledged: Some(on_acknowledged),
            checked: way != Way::Unchecked,
            ..AppendOptions::default()
        };
        Ok(Output::Library(client.append(log, options)?))
    }

    pub fn stream(&self) -> StreamName {
        match self {
            Output::Library(appender) => appender.stream(),
            Output::Socket(raw) => raw.stream,
        }
    }

    pub fn reconnects(&self) -> u64 {
        match self {
            Output::Library(appender) => appender.statistics().reconnects,
            Output::Socket(_) => 0,
        }
    }

    #[inline]
    pub fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        match self {
            Output::Library(appender) => {
                appender.append(bytes)?;
            }
            Output::Socket(raw) => raw.write_all(bytes)?,
        }
        Ok(())
    }

    /// Waits until everything is acknowledged. A library's stream ends cleanly then.
    pub fn close(&mut self) -> Result<Closed> {
        match self {
            Output::Library(appender) => Ok(appender.close()?),
            Output::Socket(raw) => raw.finish(),
        }
    }
}

impl Raw {
    fn open(client: &Client, log: &str, on_acknowledged: OnAcknowledged) -> Result<Raw> {
        let request = Request::Append {
            log: log.to_owned(),
            label: Some("bench".to_owned()),
            continues: None,
            token: None,
            checked: false,
            mode: Mode::Refuse,
            end: ConnectionEnd::Cut,
        };
        let mut refused = None;
        for _ in 0..ATTEMPTS {
            for server in client.servers() {
                let (socket, mut reader) = dial(&server)?;
                (&socket).write_all(request.to_line().as_bytes())?;
                match answer(&mut reader)? {
                    Some(Answer::Stream { name, .. }) => {
                        socket.set_read_timeout(None)?;
                        return Raw::begin(socket, reader, name, on_acknowledged);
                    }
                    Some(Answer::Error(refusal)) => refused = Some(refusal),
                    other => bail!("{server} answered {other:?} where a stream was to be opened"),
                }
            }
            std::thread::sleep(BETWEEN_ATTEMPTS);
        }
        match refused {
            Some(refusal) => bail!("no node opened a stream: {refusal}"),
            None => bail!("there is no node to open a stream at"),
        }
    }

    fn begin(
        socket: TcpStream,
        reader: BufReader<TcpStream>,
        stream: StreamName,
        on_acknowledged: OnAcknowledged,
    ) -> Result<Raw> {
        let acknowledged = Arc::new(AtomicU64::new(0));
        let tells = acknowledged.clone();
        let hears = std::thread::Builder::new()
            .name("bench-acks".to_owned())
            .spawn(move || hear(reader, &tells, on_acknowledged))?;
        Ok(Raw {
            socket,
            stream,
            written: 0,
            acknowledged,
            hears: Some(hears),
        })
    }

    #[inline]
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.socket.write_all(bytes)?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    fn finish(&mut self) -> Result<Closed> {
        let mut heard = (0, Instant::now());
        loop {
            let acknowledged = self.acknowledged.load(Ordering::Acquire);
            if acknowledged > heard.0 {
                heard = (acknowledged, Instant::now());
            }
            if acknowledged >= self.written {
                break;
            }
            if self.hears.as_ref().is_some_and(JoinHandle::is_finished) {
                self.end()?;
                bail!("the leader ended the connection at {acknowledged}");
            }
            if heard.1.elapsed() > PATIENCE {
                bail!("the leader acknowledges nothing beyond {acknowledged}");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.end()?;
        Ok(Closed {
            stream: self.stream,
            last: self.stream,
            position: self.written,
        })
    }

    fn end(&mut self) -> Result<()> {
        // Fails only on a connection that is gone already.
        let _ = self.socket.shutdown(Shutdown::Both);
        match self.hears.take() {
            Some(hears) => hears.join().map_err(|_| anyhow!("a thread panicked"))?,
            None => Ok(()),
        }
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

fn dial(server: &str) -> Result<(TcpStream, BufReader<TcpStream>)> {
    let socket = TcpStream::connect(server).with_context(|| format!("cannot reach {server}"))?;
    socket.set_nodelay(true)?;
    socket.set_write_timeout(Some(PATIENCE))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let reader = BufReader::new(socket.try_clone()?);
    Ok((socket, reader))
}

/// Returns `None` at the end of the connection.
fn answer(reader: &mut BufReader<TcpStream>) -> Result<Option<Answer>> {
    let mut line = Vec::new();
    match reader.take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
        // We end it ourselves.
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(None),
        Err(error) => Err(error).context("no answer"),
        Ok(0) => Ok(None),
        Ok(_) => Ok(Some(Answer::parse(line.trim_ascii_end())?)),
    }
}

fn hear(
    mut reader: BufReader<TcpStream>,
    acknowledged: &AtomicU64,
    mut on_acknowledged: OnAcknowledged,
) -> Result<()> {
    while let Some(answer) = answer(&mut reader)? {
        match answer {
            Answer::Ack(position) => {
                acknowledged.store(position, Ordering::Release);
                on_acknowledged(position, Instant::now());
            }
            Answer::Error(refusal) => bail!("the leader refused: {refusal}"),
            other => bail!("the leader answered {other:?}"),
        }
    }
    Ok(())
}
