//! Reading: checked chunks, in order, each once, across changes of leader.

use std::io::{self, BufRead, Read};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::Client;
use crate::answer::{Answer, Code, ReadEnd, Refusal};
use crate::cluster::{Backoff, Cluster, Said, Search, Unreachable, elsewhere};
use crate::connection::{Connection, NoLine};
use crate::line::StreamName;
use crate::lookout::{Lookout, OWED, SIGN_OF_LIFE};
use crate::request::{Format, Request};

/// The largest chunk this side takes. The wire's is 4 MiB; this leaves later nodes some room and
/// keeps a wrong length from becoming a large allocation.
const CHUNK_BYTES_MAX: u64 = 16 << 20;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// The first stream of the chain to read. None: all outputs of the log, one after the other.
    pub stream: Option<StreamName>,
    /// The first position, in bytes of that chain.
    pub from: u64,
    /// The position after the last one.
    pub to: Option<u64>,
    /// Wait for more until the chain is closed or `to` is reached.
    pub follow: bool,
    /// Any node may answer, from what it knows to be chosen; that may be less than there is.
    pub stale: bool,
    /// Only this server may answer (`HOST:PORT`). Implies `stale`.
    pub server: Option<String>,
}

/// Why a read is over before its end.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ReadError {
    #[error(transparent)]
    Unreachable(#[from] Unreachable),
    #[error(
        "there is no log {log:?}; `logberg log list` lists them, `logberg log create` makes one"
    )]
    UnknownLog { log: String },
    #[error("there is no stream {stream} in log {log:?}; `streams` lists those there are")]
    UnknownStream { log: String, stream: String },
    #[error("the bytes before {from} were trimmed; read from there")]
    Trimmed { from: u64 },
    #[error("stream {stream} was trimmed; `streams` lists what is left")]
    StreamTrimmed { stream: String },
    #[error("position {position} lies beyond the end, {length}; follow to wait for it")]
    PastEnd { position: u64, length: u64 },
    #[error(
        "the {count} bytes at {position} arrived with another checksum than {server} sent \
         ({found:08x}, not {expected:08x}); try another node and check that one's disk and network"
    )]
    Corrupt {
        server: String,
        position: u64,
        count: u64,
        expected: u32,
        found: u32,
    },
    #[error("{server} refused: {refusal}")]
    Refused { server: String, refusal: Refusal },
    #[error("{server} answered with what cannot be: {what}")]
    Garbled { server: String, what: String },
}

impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> Self {
        let kind = match error {
            ReadError::Unreachable(_) => io::ErrorKind::TimedOut,
            ReadError::UnknownLog { .. } | ReadError::UnknownStream { .. } => {
                io::ErrorKind::NotFound
            }
            ReadError::Corrupt { .. } | ReadError::Garbled { .. } => io::ErrorKind::InvalidData,
            _ => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}

/// Reads a chain of streams, or a whole log.
///
/// Hands out only bytes whose checksum it verified. When its server is lost or no longer leads, it
/// goes on elsewhere at the position it reached: no gap and no repeat.
#[derive(Debug)]
pub struct Reader {
    cluster: Arc<Cluster>,
    log: String,
    options: ReadOptions,
    conversation: Option<(String, Connection)>,
    /// The verified chunk, of which `chunk[taken..]` was not handed out yet.
    chunk: Vec<u8>,
    taken: usize,
    /// The position after the chunk.
    position: u64,
    length: u64,
    end: Option<ReadEnd>,
    error: Option<ReadError>,
    /// Since when somebody waits for bytes, or when a node last said that there are none.
    progress: Instant,
    /// When the present conversation began.
    began: Instant,
    /// Between conversations that bring nothing.
    backoff: Backoff,
    reconnects: u64,
    /// None if any node may answer: then it matters to nobody who leads.
    lookout: Option<Lookout>,
}

impl Client {
    /// Begins to read; returns once a server has said that it can answer.
    ///
    /// Errors: [`ReadError::UnknownLog`], [`ReadError::UnknownStream`]; [`ReadError::Trimmed`] (with the
    /// first position that is left) and [`ReadError::StreamTrimmed`]; [`ReadError::PastEnd`] unless it
    /// follows; [`ReadError::Unreachable`] if nobody answered in [`Timeouts::total`](crate::Timeouts::total).
    pub fn read(&self, log: &str, options: ReadOptions) -> Result<Reader, ReadError> {
        let cluster = match &options.server {
            None => self.cluster.clone(),
            Some(server) => {
                let only = Cluster::new(vec![server.clone()], self.cluster.timeouts);
                Arc::new(only.of(self.cluster.id()).alone())
            }
        };
        let stale = options.stale || options.server.is_some();
        let lookout = (!stale).then(|| Lookout::new(cluster.clone(), log));
        let mut reader = Reader {
            lookout,
            cluster,
            log: log.to_owned(),
            position: options.from,
            options,
            conversation: None,
            chunk: Vec::new(),
            taken: 0,
            length: 0,
            end: None,
            error: None,
            progress: Instant::now(),
            began: Instant::now(),
            backoff: Backoff::graceful(),
            reconnects: 0,
        };
        reader.begin(None)?;
        Ok(reader)
    }
}

impl Reader {
    /// The position of the next byte that [`Read::read`] hands out.
    pub fn position(&self) -> u64 {
        self.position - (self.chunk.len() - self.taken) as u64
    }

    /// How many bytes of the chain were known chosen when the present server was asked.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// How the chain ended, once it did: after a `read` that returned 0.
    pub fn end(&self) -> Option<ReadEnd> {
        self.end
    }

    /// How often another server, or the same one again, had to be asked.
    pub fn reconnects(&self) -> u64 {
        self.reconnects
    }

    fn is_stale(&self) -> bool {
        self.options.stale || self.options.server.is_some()
    }

    fn request(&self) -> Request {
        Request::Read {
            log: self.log.clone(),
            stream: self.options.stream,
            from: self.position,
            to: self.options.to,
            follow: self.options.follow,
            stale: self.is_stale(),
            format: Format::Framed,
        }
    }

    /// Finds a server that answers from `position` on.
    fn begin(&mut self, lost: Option<(&str, Said)>) -> Result<(), ReadError> {
        let cluster = self.cluster.clone();
        let timeouts = cluster.timeouts;
        let deadline = self.progress + timeouts.total;
        let resumes = lost.is_some();
        let mut search = match lost {
            None => Search::new(&cluster),
            Some((server, said)) => {
                self.backoff.pause(deadline);
                Search::after(&cluster, server, said).since(self.progress)
            }
        };
        loop {
            let server = search.next(deadline)?;
            let mut connection = match cluster.reach(&server) {
                Ok(connection) => connection,
                Err(said) => {
                    search.said(&server, said);
                    continue;
                }
            };
            let answer = match connection.ask(&self.request(), timeouts.silence) {
                Ok(()) => {
                    let deadline = Some(Instant::now() + timeouts.silence);
                    self.wait(
                        &server,
                        &mut connection,
                        OWED,
                        deadline,
                        Connection::answer_by,
                    )
                }
                Err(error) => Err(NoLine::Lost(error)),
            };
            match answer {
                Ok(Answer::Reading { from, length, .. }) if from == self.position => {
                    self.length = length;
                    self.began = Instant::now();
                    cluster.succeeded(&server);
                    self.conversation = Some((server, connection));
                    return Ok(());
                }
                Ok(Answer::Error(refusal)) => match elsewhere(&refusal) {
                    Some(said) => search.said(&server, said),
                    // Another node may know less than the one that was lost: later it will.
                    None if resumes && refusal.code == Code::PastEnd => {
                        search.said(&server, Said::NotHere);
                    }
                    None if cluster.misunderstood(&server, &connection, &refusal) => {
                        search.again(&server);
                    }
                    None => return Err(self.refused(server, refusal)),
                },
                Ok(other) => {
                    let what = other.to_line().trim_end().to_owned();
                    search.said(&server, Said::Garbled(what));
                }
                Err(no_line) => search.said(&server, Said::from(&no_line)),
            }
        }
    }

    /// Calls `wait` until the deadline, and asks others who leads when that lasts long.
    fn wait<T>(
        &mut self,
        server: &str,
        connection: &mut Connection,
        patience: Duration,
        deadline: Option<Instant>,
        mut wait: impl FnMut(&mut Connection, Option<Instant>) -> Result<T, NoLine>,
    ) -> Result<T, NoLine> {
        match &mut self.lookout {
            None => wait(connection, deadline),
            Some(lookout) => lookout.watched(server, connection, patience, deadline, wait),
        }
    }

    fn refused(&self, server: String, refusal: Refusal) -> ReadError {
        let log = self.log.clone();
        match (&refusal.code, self.options.stream) {
            (Code::UnknownLog, _) => ReadError::UnknownLog { log },
            (Code::UnknownStream, Some(stream)) => ReadError::UnknownStream {
                log,
                stream: stream.to_string(),
            },
            (Code::Trimmed, stream) => match (refusal.value("from"), stream) {
                (Some(from), _) => ReadError::Trimmed { from },
                (None, Some(stream)) => ReadError::StreamTrimmed {
                    stream: stream.to_string(),
                },
                (None, None) => ReadError::Refused { server, refusal },
            },
            (Code::PastEnd, _) => ReadError::PastEnd {
                position: self.position,
                length: refusal.value("length").unwrap_or(0),
            },
            _ => ReadError::Refused { server, refusal },
        }
    }

    /// Makes `chunk[taken..]` hold something, unless the end or an error is reached.
    fn next_chunk(&mut self) -> Result<(), ReadError> {
        if self.taken < self.chunk.len() {
            return Ok(());
        }
        // Time counts while somebody waits for bytes, not while the last ones were used.
        self.progress = Instant::now();
        while self.taken == self.chunk.len() && self.end.is_none() {
            if let Some(error) = &self.error {
                return Err(error.clone());
            }
            if let Err(error) = self.advance() {
                self.error = Some(error.clone());
                return Err(error);
            }
        }
        Ok(())
    }

    /// Takes in one line, and the chunk that follows it.
    fn advance(&mut self) -> Result<(), ReadError> {
        let Some((server, mut connection)) = self.conversation.take() else {
            return self.begin(None);
        };
        match self.hear(&server, &mut connection) {
            Ok(()) => {
                self.conversation = Some((server, connection));
                Ok(())
            }
            Err(Hindrance::Final(error)) => Err(error),
            Err(Hindrance::Lost(said)) => {
                drop(connection);
                self.reconnects += 1;
                if self.options.follow && self.began.elapsed() > self.cluster.timeouts.silence {
                    // Nothing may have been owed for hours; the search's time begins now.
                    self.progress = Instant::now();
                }
                self.begin(Some((&server, said)))
            }
        }
    }

    fn hear(&mut self, server: &str, connection: &mut Connection) -> Result<(), Hindrance> {
        let silence = self.cluster.timeouts.silence;
        // Who follows and is owed no bytes is owed a sign of life, each second.
        let deadline = Some(
            Instant::now()
                + match self.options.follow {
                    true => silence.max(SIGN_OF_LIFE),
                    false => silence,
                },
        );
        let garbled = |what: String| {
            Hindrance::Final(ReadError::Garbled {
                server: server.to_owned(),
                what,
            })
        };
        let patience = match self.options.follow {
            true => SIGN_OF_LIFE,
            false => OWED,
        };
        match self.wait(
            server,
            connection,
            patience,
            deadline,
            Connection::answer_by,
        )? {
            Answer::Data {
                position,
                count,
                crc32c: expected,
            } => {
                if position != self.position || count > CHUNK_BYTES_MAX {
                    let here = self.position;
                    return Err(garbled(format!(
                        "{count} bytes at {position}, not at {here}"
                    )));
                }
                let after = position.checked_add(count);
                if after.is_none() || self.options.to.is_some_and(|to| after > Some(to)) {
                    return Err(garbled(format!(
                        "{count} bytes at {position}, past the end"
                    )));
                }
                self.taken = 0;
                // Until it is whole and verified nobody else may see it.
                let mut chunk = std::mem::take(&mut self.chunk);
                chunk.resize(count as usize, 0);
                let mut filled = 0;
                loop {
                    let before = filled;
                    let deadline = Some(Instant::now() + silence);
                    let rest = |connection: &mut Connection, until| {
                        connection.read_exact(&mut chunk, &mut filled, until)
                    };
                    match self.wait(server, connection, OWED, deadline, rest) {
                        // Slow is not silent.
                        Err(NoLine::Silent) if filled > before => {}
                        whole => break whole?,
                    }
                }
                self.chunk = chunk;
                let found = crc32c::crc32c(&self.chunk);
                if found != expected {
                    self.chunk.clear();
                    return Err(Hindrance::Final(ReadError::Corrupt {
                        server: server.to_owned(),
                        position,
                        count,
                        expected,
                        found,
                    }));
                }
                self.position += count;
                // To a follower nothing may be owed. To others bytes are, and a sign of life is none.
                if count > 0 || self.options.follow {
                    self.progress = Instant::now();
                } else if self.progress.elapsed() >= self.cluster.timeouts.total {
                    return Err(Hindrance::Lost(Said::NotHere));
                }
                self.backoff = Backoff::graceful();
                Ok(())
            }
            Answer::End { position, end } if position == self.position => {
                self.end = Some(end);
                Ok(())
            }
            Answer::Error(refusal) => Err(match elsewhere(&refusal) {
                Some(said) => Hindrance::Lost(said),
                None => Hindrance::Final(self.refused(server.to_owned(), refusal)),
            }),
            other => {
                let here = self.position;
                let line = other.to_line();
                Err(garbled(format!("{:?} at {here}", line.trim_end())))
            }
        }
    }
}

/// Why a line did not bring the read forward.
enum Hindrance {
    Lost(Said),
    Final(ReadError),
}

impl From<NoLine> for Hindrance {
    fn from(no_line: NoLine) -> Self {
        Self::Lost(Said::from(&no_line))
    }
}

impl BufRead for Reader {
    /// The rest of the present chunk, or the next one. Empty: the end, of which
    /// [`Reader::end`] tells the kind.
    ///
    /// Errors: a [`ReadError`] inside, the same for every call from then on.
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.next_chunk()?;
        Ok(&self.chunk[self.taken..])
    }

    fn consume(&mut self, count: usize) {
        self.taken = (self.taken + count).min(self.chunk.len());
    }
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let available = self.fill_buf()?;
        let count = available.len().min(buffer.len());
        buffer[..count].copy_from_slice(&available[..count]);
        self.consume(count);
        Ok(count)
    }
}
