//! One connection to one node: dialled with care, read line by line under a deadline.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use rustix::net::sockopt;

use crate::answer::Answer;
use crate::line::{LINE_BYTES_MAX, LineError};
use crate::request::Request;

/// `ok` lines carry tables; a node that sends more than this is not answering but flooding.
const OK_BYTES_MAX: usize = 64 << 20;
/// What one read asks of the kernel while lines are read.
const READ_BYTES: usize = 16 << 10;

#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    /// Bytes received and not yet taken: `buffer[taken..]`.
    buffer: Vec<u8>,
    taken: usize,
    /// No line ends in `buffer[taken..searched]`: a long line is searched once, not once per read.
    searched: usize,
}

/// Why no line came.
#[derive(Debug)]
pub(crate) enum NoLine {
    /// Nothing within the deadline.
    Silent,
    /// The other side ended or broke the connection.
    Lost(io::Error),
    /// Something came, and it is no line of the protocol.
    Garbled(LineError),
}

impl Connection {
    /// Connects to the first address of `server` that takes the connection.
    pub fn dial(server: &str, timeout: Duration) -> io::Result<Self> {
        let mut last = None;
        for address in server.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, timeout) {
                Ok(stream) => {
                    prepare(&stream)?;
                    return Ok(Self {
                        stream,
                        buffer: Vec::new(),
                        taken: 0,
                        searched: 0,
                    });
                }
                Err(error) => last = Some(error),
            }
        }
        Err(last
            .unwrap_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the name has no address")))
    }

    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub fn ask(&mut self, request: &Request, timeout: Duration) -> io::Result<()> {
        self.stream.set_write_timeout(Some(timeout))?;
        self.stream.write_all(request.to_line().as_bytes())
    }

    /// The next answer, waiting for it until the deadline.
    pub fn answer(&mut self, deadline: Instant) -> Result<Answer, NoLine> {
        self.answer_by(Some(deadline))
    }

    /// The next answer; without a deadline, however long it takes.
    pub fn answer_by(&mut self, deadline: Option<Instant>) -> Result<Answer, NoLine> {
        loop {
            if let Some(answer) = self.buffered_answer()? {
                return Ok(answer);
            }
            self.fill(deadline)?;
        }
    }

    /// The next answer, if a whole one was received already.
    pub fn buffered_answer(&mut self) -> Result<Option<Answer>, NoLine> {
        let from = self.searched.max(self.taken);
        let found = self.buffer[from..].iter().position(|&byte| byte == b'\n');
        let received = &self.buffer[self.taken..];
        let Some(length) = found.map(|index| from - self.taken + index) else {
            let limit = match received.starts_with(b"ok ") {
                true => OK_BYTES_MAX,
                false => LINE_BYTES_MAX,
            };
            if received.len() >= limit {
                return Err(NoLine::Garbled(LineError::TooLong));
            }
            self.searched = self.buffer.len();
            return Ok(None);
        };
        let answer = Answer::parse(&received[..length]).map_err(NoLine::Garbled)?;
        self.taken += length + 1;
        Ok(Some(answer))
    }

    /// Receives what is there without waiting. `WouldBlock` needs a non-blocking stream.
    pub fn receive(&mut self) -> io::Result<usize> {
        self.buffer.drain(..self.taken);
        self.searched = self.searched.saturating_sub(self.taken);
        self.taken = 0;
        let held = self.buffer.len();
        self.buffer.resize(held + READ_BYTES, 0);
        let received = retry_interrupted(|| (&self.stream).read(&mut self.buffer[held..]));
        self.buffer
            .truncate(held + *received.as_ref().unwrap_or(&0));
        received
    }

    /// Fills `bytes[*filled..]` with what follows the last line. After [`NoLine::Silent`] it can be
    /// called again for the rest.
    pub fn read_exact(
        &mut self,
        bytes: &mut [u8],
        filled: &mut usize,
        deadline: Option<Instant>,
    ) -> Result<(), NoLine> {
        let buffered = (bytes.len() - *filled).min(self.buffer.len() - self.taken);
        bytes[*filled..*filled + buffered]
            .copy_from_slice(&self.buffer[self.taken..self.taken + buffered]);
        self.taken += buffered;
        *filled += buffered;
        while *filled < bytes.len() {
            self.set_deadline(deadline)?;
            match retry_interrupted(|| (&self.stream).read(&mut bytes[*filled..])) {
                Ok(0) => return Err(NoLine::Lost(io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => *filled += count,
                Err(error) => return Err(no_line(error)),
            }
        }
        Ok(())
    }

    fn fill(&mut self, deadline: Option<Instant>) -> Result<(), NoLine> {
        self.set_deadline(deadline)?;
        match self.receive() {
            Ok(0) => Err(NoLine::Lost(io::ErrorKind::UnexpectedEof.into())),
            Ok(_) => Ok(()),
            Err(error) => Err(no_line(error)),
        }
    }

    fn set_deadline(&self, deadline: Option<Instant>) -> Result<(), NoLine> {
        let left = match deadline {
            None => None,
            Some(deadline) => match deadline.checked_duration_since(Instant::now()) {
                // Shorter waits round to zero, which the kernel reads as "for ever".
                Some(left) => Some(left.max(Duration::from_millis(1))),
                None => return Err(NoLine::Silent),
            },
        };
        self.stream.set_read_timeout(left).map_err(NoLine::Lost)
    }
}

/// The options of every connection. Each is a help, not a need, so a refusal is no error.
///
/// Cubic: bbr paces loopback and short fat links far below what they carry. Keepalive: a follower
/// of a quiet log has nothing else by which to notice that the other machine is gone.
fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let _ = sockopt::set_tcp_congestion(stream, "cubic");
    let _ = sockopt::set_socket_keepalive(stream, true);
    let _ = sockopt::set_tcp_keepidle(stream, Duration::from_secs(2));
    let _ = sockopt::set_tcp_keepintvl(stream, Duration::from_secs(1));
    let _ = sockopt::set_tcp_keepcnt(stream, 4);
    Ok(())
}

fn no_line(error: io::Error) -> NoLine {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => NoLine::Silent,
        _ => NoLine::Lost(error),
    }
}

pub(crate) fn retry_interrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
