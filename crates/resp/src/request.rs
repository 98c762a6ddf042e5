//! Requests: arrays of bulks, and lines.
//!
//! ```text
//! *2\r\n  $3\r\n  GET\r\n  $1\r\n  a\r\n
//!         ^ at: all before it is read; `left` arguments are to come
//! ```
//!
//! A request that is too long is known by its lengths. It is dropped as it comes, and what follows it is read as ever.

use std::ops::Range;

use crate::inline;
use crate::number::integer_of;
use crate::wrong::Wrong;

/// The bounds of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The bytes of one argument.
    pub bulk_bytes_max: usize,
    /// The bytes of one request.
    pub request_bytes_max: usize,
    /// An argument that is longer than those above, and no longer than this, is dropped; one that is longer ends the connection.
    pub dropped_bytes_max: usize,
    /// The arguments of one request.
    pub arguments_max: usize,
    /// The bytes of a request that is a line, and of the line before an argument.
    pub line_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            bulk_bytes_max: 64 << 20,
            request_bytes_max: 65 << 20,
            // As Redis: its `proto-max-bulk-len`.
            dropped_bytes_max: 512 << 20,
            arguments_max: 1 << 20,
            line_bytes_max: 64 << 10,
        }
    }
}

/// The outcome of a look at received bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum Found<'a> {
    Request(Request<'a>),
    /// An empty line or array: so many bytes to be dropped, and nothing to be answered.
    Nothing {
        length: usize,
    },
    /// The beginning of a request that is too long: so many bytes to be dropped, and nothing to be answered yet.
    Dropped {
        length: usize,
    },
    /// The end of a request that is too long: so many bytes to be dropped, and the request to be refused.
    TooLong {
        length: usize,
    },
    /// The request is not whole yet. [`Parser::missing`] says what is known to be still on its way.
    More,
}

/// A request, in the bytes that were received.
#[derive(Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// The received bytes; of a line the words, without their quotes.
    bytes: &'a [u8],
    ranges: &'a [Range<usize>],
    length: usize,
}

impl<'a> Request<'a> {
    /// The command's name and what follows it: at least one.
    pub fn arguments(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let bytes = self.bytes;
        let ranges = self.ranges.iter();
        ranges.map(move |range| bytes.get(range.clone()).unwrap_or_default())
    }

    /// Where the arguments lie in [`Request::bytes`].
    pub fn ranges(&self) -> &'a [Range<usize>] {
        self.ranges
    }

    /// The bytes in which the arguments lie: those that were received, if the request was an array.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The received bytes that are done with.
    pub fn length(&self) -> usize {
        self.length
    }
}

/// Reads the requests of one connection.
#[derive(Debug)]
pub struct Parser {
    limits: Limits,
    /// All before this is read.
    at: usize,
    /// The arguments that are to come, once the array's line is read.
    left: Option<usize>,
    /// The length of the argument that begins here, once its line is read; of one that is dropped, the bytes that are to come.
    bulk: Option<usize>,
    /// The request is too long.
    is_dropped: bool,
    /// The bytes that the request will have, if all arguments to come are as long as the longest one.
    expected: usize,
    /// The line that begins at `at` has no end before this.
    looked: usize,
    ranges: Vec<Range<usize>>,
    /// The words of a line.
    words: Vec<u8>,
    /// The contents of `ranges` and `words` were handed out: the next call begins anew.
    is_done: bool,
    /// A request was read before: what comes now is no greeting of another protocol.
    is_greeted: bool,
}

impl Parser {
    pub fn new(limits: Limits) -> Parser {
        Parser {
            limits,
            at: 0,
            left: None,
            bulk: None,
            is_dropped: false,
            expected: 0,
            looked: 0,
            ranges: Vec::new(),
            words: Vec::new(),
            is_done: false,
            is_greeted: false,
        }
    }

    /// Reads on. `received` begins with the request's first byte, and holds at least what the call before this one was given,
    /// unless that one found something: then it begins behind the length which was found.
    ///
    /// Errors: the bytes are no request. The connection is over; what is asked then finds nothing sensible.
    pub fn next<'a>(&'a mut self, received: &'a [u8]) -> Result<Found<'a>, Wrong> {
        if self.is_done {
            self.begin();
        }
        let Some(first) = received.first() else {
            return Ok(Found::More);
        };
        let is_whole = match *first {
            _ if self.is_dropped => return self.drop_on(received),
            b'*' => self.array(received)?,
            0x16 if !self.is_greeted => return tls(received),
            _ => self.line(received)?,
        };
        if self.is_dropped {
            return self.drop_on(received);
        }
        if !is_whole {
            return Ok(Found::More);
        }
        self.is_done = true;
        self.is_greeted = true;
        let length = self.at;
        if self.ranges.is_empty() {
            return Ok(Found::Nothing { length });
        }
        let bytes = if *first == b'*' {
            received
        } else {
            &self.words
        };
        let ranges = &self.ranges;
        Ok(Found::Request(Request {
            bytes,
            ranges,
            length,
        }))
    }

    /// The bytes that an argument's length says are to come beyond the `received` ones: what to reserve before they are received.
    pub fn missing(&self, received: usize) -> usize {
        match self.bulk {
            Some(length) if !self.is_done && !self.is_dropped => {
                (self.at + length + 2).saturating_sub(received)
            }
            _ => 0,
        }
    }

    /// The bytes that a request which is not whole will have, if its arguments to come are as long as the longest one: never less than
    /// [`Parser::missing`] says.
    pub fn expected(&self) -> usize {
        match self.is_done || self.is_dropped {
            true => 0,
            false => self.expected,
        }
    }

    /// The memory that a request took which is not whole, beside the received bytes: of many short arguments it is more than those.
    pub fn held_bytes(&self) -> usize {
        self.ranges.len() * size_of::<Range<usize>>() + self.words.len()
    }

    /// Gives back what the last request took, if it is done with.
    pub fn rest(&mut self) {
        if self.is_done {
            self.begin();
        }
    }

    fn begin(&mut self) {
        self.at = 0;
        self.left = None;
        self.bulk = None;
        self.is_dropped = false;
        self.expected = 0;
        self.looked = 0;
        self.is_done = false;
        self.words.clear();
        // One large request must not stay with the connection.
        if self.ranges.capacity() > 1024 {
            self.ranges = Vec::new();
        }
        if self.words.capacity() > 4096 {
            self.words = Vec::new();
        }
        self.ranges.clear();
    }

    /// An array of bulks; true once it is whole.
    fn array(&mut self, received: &[u8]) -> Result<bool, Wrong> {
        if self.left.is_none() {
            let Some(line) = self.head(received, Wrong::MultibulkLine)? else {
                return Ok(false);
            };
            let count = line.get(1..).and_then(integer_of);
            let count = count.ok_or(Wrong::MultibulkLength)?;
            let count = usize::try_from(count.max(0)).unwrap_or(usize::MAX);
            if count > self.limits.arguments_max {
                return Err(Wrong::MultibulkLength);
            }
            self.left = Some(count);
        }
        while let Some(left) = self.left.filter(|left| *left > 0) {
            if !self.argument(received)? {
                return Ok(false);
            }
            self.left = Some(left - 1);
        }
        Ok(true)
    }

    /// The next argument; true once it is whole.
    fn argument(&mut self, received: &[u8]) -> Result<bool, Wrong> {
        let length = match self.bulk {
            Some(length) => length,
            None => {
                let Some(line) = self.head(received, Wrong::BulkLine)? else {
                    return Ok(false);
                };
                let length = bulk_length(line, &self.limits)?;
                self.bulk = Some(length);
                if length > self.limits.bulk_bytes_max
                    || self.at + length > self.limits.request_bytes_max
                {
                    self.is_dropped = true;
                    self.bulk = Some(length + 2);
                    self.ranges = Vec::new();
                    return Ok(false);
                }
                let to_come = (length + BESIDE_BYTES).saturating_mul(self.left.unwrap_or(1));
                let expected = self.at.saturating_add(to_come);
                self.expected = self
                    .expected
                    .max(expected.min(self.limits.request_bytes_max));
                length
            }
        };
        let end = self.at + length;
        // Like Redis, without a look at what the two bytes behind it are.
        if received.len() < end + 2 {
            return Ok(false);
        }
        self.ranges.push(self.at..end);
        self.at = end + 2;
        self.looked = self.at;
        self.bulk = None;
        Ok(true)
    }

    /// Drops as much of a request that is too long as came.
    fn drop_on(&mut self, received: &[u8]) -> Result<Found<'static>, Wrong> {
        while let Some(left) = self.left.filter(|left| *left > 0) {
            let bulk = match self.bulk {
                Some(bulk) => bulk,
                None => match self.head(received, Wrong::BulkLine)? {
                    Some(line) => bulk_length(line, &self.limits)? + 2,
                    None => break,
                },
            };
            let here = bulk.min(received.len().saturating_sub(self.at));
            self.at += here;
            self.looked = self.at;
            self.bulk = Some(bulk - here).filter(|bulk| *bulk > 0);
            if self.bulk.is_some() {
                break;
            }
            self.left = Some(left - 1);
        }
        if self.left == Some(0) {
            self.is_done = true;
            self.is_greeted = true;
            let length = self.at;
            return Ok(Found::TooLong { length });
        }
        let length = std::mem::take(&mut self.at);
        self.looked = self.looked.saturating_sub(length);
        Ok(match length {
            0 => Found::More,
            length => Found::Dropped { length },
        })
    }

    /// A line that begins with `*` or `$`, without its end; `at` is behind it then.
    fn head<'a>(&mut self, received: &'a [u8], long: Wrong) -> Result<Option<&'a [u8]>, Wrong> {
        let from = self.looked.max(self.at);
        let unseen = received.get(from..).unwrap_or_default();
        let end = unseen.iter().position(|byte| *byte == b'\r');
        let length = end.map_or(received.len(), |end| from + end) - self.at;
        if length > self.limits.line_bytes_max {
            return Err(long);
        }
        let Some(end) = end.map(|end| from + end) else {
            self.looked = received.len();
            return Ok(None);
        };
        if received.len() < end + 2 {
            self.looked = end;
            return Ok(None);
        }
        let line = received.get(self.at..end).unwrap_or_default();
        self.at = end + 2;
        self.looked = self.at;
        Ok(Some(line))
    }

    /// A request that is a line; true once it is whole.
    fn line(&mut self, received: &[u8]) -> Result<bool, Wrong> {
        let unseen = received.get(self.looked..).unwrap_or_default();
        let end = unseen.iter().position(|byte| *byte == b'\n');
        let end = end.map(|end| self.looked + end);
        if end.unwrap_or(received.len()) > self.limits.line_bytes_max {
            return Err(Wrong::InlineLength);
        }
        let Some(end) = end else {
            self.looked = received.len();
            return Ok(false);
        };
        let line = received.get(..end).unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        inline::split(line, &mut self.words, &mut self.ranges)?;
        self.at = end + 1;
        let first = self
            .ranges
            .first()
            .and_then(|word| self.words.get(word.clone()));
        match first {
            Some(word) if is_http(word) => Err(Wrong::Http),
            _ => Ok(true),
        }
    }
}

/// The bytes of an argument beside its own, at most, of one that is not dropped.
const BESIDE_BYTES: usize = 16;

fn bulk_length(line: &[u8], limits: &Limits) -> Result<usize, Wrong> {
    let digits = match line {
        [b'$', digits @ ..] => digits,
        [other, ..] => return Err(Wrong::NoBulk(*other)),
        [] => return Err(Wrong::NoBulk(b'\r')),
    };
    let length = integer_of(digits).ok_or(Wrong::BulkLength)?;
    let length = usize::try_from(length).map_err(|_| Wrong::BulkLength)?;
    if length > limits.bulk_bytes_max.max(limits.dropped_bytes_max) {
        return Err(Wrong::BulkLength);
    }
    Ok(length)
}

/// The words by which Redis, too, knows that a browser was made to talk to it. A request is taken for none of them when it is an array.
fn is_http(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(b"post") || word.eq_ignore_ascii_case(b"host:")
}

/// The first bytes of a connection, when they begin as a handshake does: no command begins so.
fn tls(received: &[u8]) -> Result<Found<'static>, Wrong> {
    match received {
        [0x16] => Ok(Found::More),
        _ => Err(Wrong::Tls),
    }
}
