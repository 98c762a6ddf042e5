//! One connection to one door.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use resp::{Decoder, Protocol, Value, encode};

/// A command's words, the first of which is its name.
pub type Words = Vec<Vec<u8>>;

const CONNECT_MAX: Duration = Duration::from_secs(1);
const REPLY_BYTES_MAX: usize = 16 << 20;
const PIECE_BYTES: usize = 64 << 10;

pub struct Link {
    stream: TcpStream,
    decoder: Decoder,
    received: Vec<u8>,
    /// With one reply.
    patience: Duration,
}

impl Link {
    /// Errors: nobody is there; nothing was asked for.
    pub fn to(door: &str, patience: Duration) -> io::Result<Link> {
        let address = door.to_socket_addrs()?.next();
        let address = address.ok_or(io::ErrorKind::NotFound)?;
        let stream = TcpStream::connect_timeout(&address, patience.min(CONNECT_MAX))?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(patience))?;
        Ok(Link {
            stream,
            decoder: Decoder::new(REPLY_BYTES_MAX),
            received: Vec::new(),
            patience,
        })
    }

    /// Sends all of these at once.
    ///
    /// Errors: the connection is over, and any of them may be done.
    pub fn send(&mut self, commands: &[Words]) -> io::Result<()> {
        let mut bytes = Vec::new();
        for words in commands {
            encode(&Value::bulks(words.clone()), Protocol::Resp2, &mut bytes);
        }
        self.stream.write_all(&bytes)
    }

    /// The next reply.
    ///
    /// Errors: the connection is over, or nothing came for so long that its client gives it up.
    pub fn receive(&mut self) -> io::Result<Value> {
        let deadline = Instant::now() + self.patience;
        let mut piece = [0; PIECE_BYTES];
        loop {
            let next = self.decoder.next(&self.received);
            if let Some((value, length)) = next.map_err(io::Error::other)? {
                self.received.drain(..length);
                return Ok(value);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.stream.set_read_timeout(Some(left))?;
            match self.stream.read(&mut piece)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => self.received.extend_from_slice(&piece[..count]),
            }
        }
    }
}

/// A command of these words.
pub fn words<T: AsRef<[u8]>>(all: impl IntoIterator<Item = T>) -> Words {
    all.into_iter().map(|word| word.as_ref().to_vec()).collect()
}
