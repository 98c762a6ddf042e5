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
/// So little time is left to the kernel whole.
const EXACT_BELOW: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    /// Bytes received and not yet taken: `buffer[taken..received]`. Behind them is room, which was
    /// filled with zeros once and not for every read.
    buffer: Vec<u8>,
    taken: usize,
    received: usize,
    /// No line ends in `buffer[taken..searched]`: a long line is searched once, not once per read.
    searched: usize,
    /// What the kernel was told last, so that it need not be told again before each read.
    read_timeout: Option<Duration>,
    /// Named in every request here.
    cluster: Option<String>,
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
                        received: 0,
                        searched: 0,
                        read_timeout: None,
                        cluster: None,
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

    /// From now on requests say that they mean this cluster.
    pub fn names(mut self, cluster: String) -> Self {
        self.cluster = Some(cluster);
        self
    }

    pub fn names_a_cluster(&self) -> bool {
        self.cluster.is_some()
    }

    pub fn ask(&mut self, request: &Request, timeout: Duration) -> io::Result<()> {
        self.stream.set_write_timeout(Some(timeout))?;
        let line = request.to_line_for(self.cluster.as_deref());
        self.stream.write_all(line.as_bytes())
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
            self.read_by(deadline, Self::receive)?;
        }
    }

    /// The next answer, if a whole one was received already.
    pub fn buffered_answer(&mut self) -> Result<Option<Answer>, NoLine> {
        let from = self.searched.max(self.taken);
        let found = self.buffer[from..self.received]
            .iter()
            .position(|&byte| byte == b'\n');
        let received = &self.buffer[self.taken..self.received];
        let Some(length) = found.map(|index| from - self.taken + index) else {
            let limit = match received.starts_with(b"ok ") {
                true => OK_BYTES_MAX,
                false => LINE_BYTES_MAX,
            };
            if received.len() >= limit {
                return Err(NoLine::Garbled(LineError::TooLong));
            }
            self.searched = self.received;
            return Ok(None);
        };
        let answer = Answer::parse(&received[..length]).map_err(NoLine::Garbled)?;
        self.taken += length + 1;
        Ok(Some(answer))
    }

    /// Receives what is there without waiting. `WouldBlock` needs a non-blocking stream.
    pub fn receive(&mut self) -> io::Result<usize> {
        if self.taken > 0 {
            self.buffer.copy_within(self.taken..self.received, 0);
            self.received -= self.taken;
            self.searched = self.searched.saturating_sub(self.taken);
            self.taken = 0;
        }
        let room = self.received + READ_BYTES;
        if self.buffer.len() < room {
            self.buffer.resize(room, 0);
        }
        let room = &mut self.buffer[self.received..];
        let count = retry_interrupted(|| (&self.stream).read(room))?;
        self.received += count;
        Ok(count)
    }

    /// Bytes that came and were not taken.
    pub fn received(&self) -> usize {
        self.received - self.taken
    }

    /// The last [`Connection::receive`] took as much as there was room for: more may be there.
    pub fn is_full(&self) -> bool {
        self.received == self.buffer.len()
    }

    /// Fills `bytes[*filled..]` with what follows the last line. After [`NoLine::Silent`] it can be
    /// called again for the rest.
    pub fn read_exact(
        &mut self,
        bytes: &mut [u8],
        filled: &mut usize,
        deadline: Option<Instant>,
    ) -> Result<(), NoLine> {
        let buffered = (bytes.len() - *filled).min(self.received - self.taken);
        bytes[*filled..*filled + buffered]
            .copy_from_slice(&self.buffer[self.taken..self.taken + buffered]);
        self.taken += buffered;
        *filled += buffered;
        while *filled < bytes.len() {
            *filled += self.read_by(deadline, |connection| {
                let rest = &mut bytes[*filled..];
                retry_interrupted(|| (&connection.stream).read(rest))
            })?;
        }
        Ok(())
    }

    /// Reads once, and waits for something to read until the deadline.
    fn read_by(
        &mut self,
        deadline: Option<Instant>,
        mut read: impl FnMut(&mut Self) -> io::Result<usize>,
    ) -> Result<usize, NoLine> {
        loop {
            self.set_deadline(deadline)?;
            match read(self) {
                Ok(0) => return Err(NoLine::Lost(io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => return Ok(count),
                Err(error) => match error.kind() {
                    // The kernel was told of less time than there is.
                    io::ErrorKind::WouldBlock if deadline.is_some() => {}
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                        return Err(NoLine::Silent);
                    }
                    _ => return Err(NoLine::Lost(error)),
                },
            }
        }
    }

    fn set_deadline(&mut self, deadline: Option<Instant>) -> Result<(), NoLine> {
        let left = match deadline {
            None => None,
            Some(deadline) => match deadline.checked_duration_since(Instant::now()) {
                Some(left) => Some(left),
                None => return Err(NoLine::Silent),
            },
        };
        let timeout = read_timeout(self.read_timeout, left);
        if timeout != self.read_timeout {
            self.stream
                .set_read_timeout(timeout)
                .map_err(NoLine::Lost)?;
            self.read_timeout = timeout;
        }
        Ok(())
    }
}

/// For how long to let the kernel wait when so much is `left`: `told`, if that is near enough.
///
/// Never longer than is left, so a deadline is kept exactly; who is woken too early waits again. A
/// little shorter, so that what is left of the next deadline, which is seldom to the microsecond
/// what was left of the last, is not shorter than what the kernel was told.
fn read_timeout(told: Option<Duration>, left: Option<Duration>) -> Option<Duration> {
    let left = left?;
    if told.is_some_and(|told| told <= left && left / 8 <= told) {
        return told;
    }
    match left < EXACT_BELOW {
        // Shorter waits round to zero, which the kernel reads as "for ever".
        true => Some(left.max(Duration::from_millis(1))),
        false => Some(left * 7 / 8),
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

pub(crate) fn retry_interrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn pair() -> (Connection, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound").to_string();
        let connection = Connection::dial(&address, Duration::from_secs(10)).expect("it listens");
        let (other, _) = listener.accept().expect("dialled");
        (connection, other)
    }

    fn milliseconds(count: u64) -> Option<Duration> {
        Some(Duration::from_millis(count))
    }

    #[test]
    fn the_kernel_is_told_anew_only_when_the_deadline_moved_noticeably() {
        let told = read_timeout(None, milliseconds(400));
        assert_eq!(told, milliseconds(350));
        for left in [400, 399, 350, 1500, 2800] {
            assert_eq!(read_timeout(told, milliseconds(left)), told, "{left}");
        }
        assert_eq!(read_timeout(told, milliseconds(2808)), milliseconds(2457));
        assert_eq!(read_timeout(told, None), None);
    }

    #[test]
    fn the_kernel_never_waits_for_longer_than_is_left() {
        let mut told = None;
        // A millisecond is the least that it can be told.
        for left in (1..5000).rev().chain(1..5000).chain([40_000, 3, 700]) {
            told = read_timeout(told, milliseconds(left));
            assert!(told.is_some_and(|told| !told.is_zero()), "{left}");
            assert!(told <= milliseconds(left), "{told:?} of {left}");
        }
        assert_eq!(read_timeout(None, Some(Duration::ZERO)), milliseconds(1));
    }

    #[test]
    fn a_silence_lasts_until_the_deadline_and_not_shorter() {
        let (mut connection, mut other) = pair();
        for (wait, line) in [(120, "ack 1\n"), (3, "ack 2\n"), (60, "ack 3\n")] {
            let deadline = Instant::now() + Duration::from_millis(wait);
            let silent = connection.answer(deadline);
            assert!(matches!(silent, Err(NoLine::Silent)), "{silent:?}");
            assert!(Instant::now() >= deadline, "given up too early");
            other.write_all(line.as_bytes()).expect("connected");
            let answer = connection.answer_by(None).expect("it came");
            assert_eq!(answer.to_line(), line);
        }
    }

    #[test]
    fn lines_and_bytes_come_out_as_they_went_in() {
        let (mut connection, mut other) = pair();
        let json = "x".repeat(5 * READ_BYTES + 17);
        let body: Vec<u8> = (0..3 * READ_BYTES).map(|i| (i * 7 / 3) as u8).collect();
        let sends = std::thread::spawn({
            let (json, body) = (json.clone(), body.clone());
            move || {
                for round in 0..20u64 {
                    let lines = format!("ack {round}\nok {json}\nack {round}\n");
                    other.write_all(lines.as_bytes()).expect("connected");
                    other.write_all(&body).expect("connected");
                }
            }
        });
        let deadline = Instant::now() + Duration::from_secs(60);
        for round in 0..20 {
            for expected in [
                Answer::Ack(round),
                Answer::Ok(json.clone()),
                Answer::Ack(round),
            ] {
                let answer = connection.answer(deadline).expect("it comes");
                assert!(answer == expected, "round {round}");
            }
            let (mut bytes, mut filled) = (vec![0; body.len()], 0);
            let read = connection.read_exact(&mut bytes, &mut filled, Some(deadline));
            assert!(read.is_ok() && bytes == body, "round {round}");
        }
        sends.join().expect("no panic");
        let end = connection.answer(deadline);
        assert!(matches!(end, Err(NoLine::Lost(_))), "{end:?}");
    }
}
