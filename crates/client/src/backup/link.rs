//! A connection on which rows of a machine go to and fro. What is said there is docs/wire.md, `save` and `fill`.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::time::{Duration, Instant};

use wire::told::Saving;
use wire::{Answer, Ask, LINE_BYTES_MAX, Refusal, rows};

use crate::cluster::Approach;
use crate::credential::Credential;
use crate::stream::Stream;

/// No time at all would be no bound to the kernel.
const PATIENCE_MIN: Duration = Duration::from_millis(1);

/// Bytes that are a sign that the rest of what is owed comes too; drop by drop it would last for minutes.
const BYTES_MIN: usize = 256;

/// One request and its conversation.
pub(super) struct Link {
    stream: BufReader<Paced>,
}

/// A connection whose other end has so much time for what it owes next, or for the next [`BYTES_MIN`] of that.
struct Paced {
    stream: Stream,
    patience: Duration,
    /// The time that was spent in waiting, and what came meanwhile.
    waited: Duration,
    came: usize,
}

impl Paced {
    fn begin(&mut self) {
        (self.waited, self.came) = (Duration::ZERO, 0);
    }
}

impl Read for Paced {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.waited >= self.patience {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let began = Instant::now();
        let count = self.stream.read(buffer)?;
        self.waited += began.elapsed();
        self.came += count;
        if self.came >= BYTES_MIN {
            self.begin();
        }
        Ok(count)
    }
}

/// Why a conversation did not go on.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The node refused.
    #[error("{0}")]
    Refused(Refusal),
    /// The connection broke off, or nothing came in time.
    #[error("{0}")]
    Lost(io::Error),
    /// The node said what it cannot have meant.
    #[error("it said what this version does not understand: {0}")]
    Garbled(String),
}

impl From<io::Error> for LinkError {
    fn from(error: io::Error) -> LinkError {
        LinkError::Lost(error)
    }
}

fn garbled(what: impl ToString) -> LinkError {
    LinkError::Garbled(what.to_string())
}

impl Link {
    /// Asks. Whoever says nothing for `patience` is lost.
    pub fn ask(
        server: &str,
        request: &Ask,
        cluster: Option<&str>,
        approach: &Approach,
        (connect, patience): (Duration, Duration),
    ) -> Result<Link, LinkError> {
        let stream = Stream::dial(
            server,
            connect.min(patience).max(PATIENCE_MIN),
            approach.transport.as_ref(),
        )?;
        stream.set_patience(patience.max(PATIENCE_MIN))?;
        let line = request.to_line_for(cluster);
        let shown = approach.credential.as_ref().map(Credential::line);
        let shown = shown.unwrap_or_default();
        (&stream).write_all(&[shown, line.as_bytes()].concat())?;
        let paced = Paced {
            stream,
            patience: patience.max(PATIENCE_MIN),
            waited: Duration::ZERO,
            came: 0,
        };
        let stream = BufReader::with_capacity(64 << 10, paced);
        Ok(Link { stream })
    }

    /// From now on whoever says nothing for so long is lost.
    pub fn be_patient(&mut self, patience: Duration) -> Result<(), LinkError> {
        let patience = patience.max(PATIENCE_MIN);
        let paced = self.stream.get_mut();
        paced.patience = patience;
        paced.begin();
        Ok(paced.stream.set_patience(patience)?)
    }

    fn answer(&mut self) -> Result<Answer, LinkError> {
        let mut line = Vec::new();
        self.stream.get_mut().begin();
        let mut bounded = self.stream.by_ref().take(LINE_BYTES_MAX as u64);
        bounded.read_until(b'\n', &mut line)?;
        if !line.ends_with(b"\n") {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        match Answer::parse(&line).map_err(garbled)? {
            Answer::Error(refusal) => Err(LinkError::Refused(refusal)),
            answer => Ok(answer),
        }
    }

    /// All rows follow, as of this.
    pub fn saving(&mut self) -> Result<Saving, LinkError> {
        match self.answer()? {
            Answer::Ok(json) => serde_json::from_str(&json).map_err(garbled),
            other => Err(garbled(other.to_line())),
        }
    }

    /// The page of this number; nothing behind the last.
    pub fn page(&mut self, number: u64) -> Result<Option<Vec<u8>>, LinkError> {
        let (position, count, crc32c) = match self.answer()? {
            Answer::Data {
                position,
                count,
                crc32c,
            } => (position, count, crc32c),
            Answer::Ok(_) => return Ok(None),
            other => return Err(garbled(other.to_line())),
        };
        if position != number || count > rows::PAGE_BYTES_MAX as u64 {
            return Err(garbled("a page that does not belong here"));
        }
        let mut page = Vec::new();
        self.stream.by_ref().take(count).read_to_end(&mut page)?;
        if page.len() as u64 != count {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        match crc32c::crc32c(&page) == crc32c {
            true => Ok(Some(page)),
            false => Err(garbled("a page with another checksum")),
        }
    }

    /// The number of the first page that is not in the machine.
    pub fn filled(&mut self) -> Result<u64, LinkError> {
        match self.answer()? {
            Answer::Ack(next) => Ok(next),
            other => Err(garbled(other.to_line())),
        }
    }

    /// Sends a page, or that there were so many.
    pub fn send(&mut self, number: u64, page: &[u8]) -> Result<(), LinkError> {
        let data = Answer::Data {
            position: number,
            count: page.len() as u64,
            crc32c: crc32c::crc32c(page),
        };
        let stream = &mut self.stream.get_mut().stream;
        stream.write_all(data.to_line().as_bytes())?;
        Ok(stream.write_all(page)?)
    }

    /// All of it is in the machine.
    pub fn ended(&mut self) -> Result<(), LinkError> {
        match self.answer()? {
            Answer::Ok(_) => Ok(()),
            other => Err(garbled(other.to_line())),
        }
    }
}
