//! Replies as our own clients read them.
//!
//! An array is a frame on a stack, not a call: nesting costs a frame, and there are at most [`DEPTH_MAX`].

use std::borrow::Cow;
use std::fmt;

use crate::number::integer_of;
use crate::value::Value;

/// How deep values may lie in each other.
pub const DEPTH_MAX: usize = 64;

/// The longest line of a reply.
const LINE_BYTES_MAX: usize = 64 << 10;

/// Why bytes are no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoReply {
    /// No value begins with this byte.
    Kind(u8),
    /// A length or a number is none, or more than allowed.
    Number,
    /// A line does not end, or ends with one byte of two.
    Line,
    /// Values lie too deep in each other.
    Depth,
    /// Text that is none.
    Text,
}

impl fmt::Display for NoReply {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoReply::Kind(byte) => write!(out, "no reply begins with the byte {byte}"),
            NoReply::Number => out.write_str("a reply's number is none"),
            NoReply::Line => out.write_str("a reply's line does not end"),
            NoReply::Depth => write!(out, "a reply is more than {DEPTH_MAX} deep"),
            NoReply::Text => out.write_str("a reply's text is none"),
        }
    }
}

impl std::error::Error for NoReply {}

/// Reads the replies of one connection.
#[derive(Debug)]
pub struct Decoder {
    bulk_bytes_max: usize,
    /// All before this is read.
    at: usize,
    looked: usize,
    open: Vec<Open>,
}

/// A value whose parts are not all there.
#[derive(Debug)]
struct Open {
    kind: u8,
    left: usize,
    items: Vec<Value>,
}

impl Decoder {
    pub fn new(bulk_bytes_max: usize) -> Decoder {
        Decoder {
            bulk_bytes_max,
            at: 0,
            looked: 0,
            open: Vec::new(),
        }
    }

    /// Reads on: a value and its length, or nothing as long as it is not whole. `received` begins with the value's first byte, and
    /// holds at least what the call before was given, unless that one found a value.
    ///
    /// Errors: the bytes are no reply; the connection is over.
    pub fn next(&mut self, received: &[u8]) -> Result<Option<(Value, usize)>, NoReply> {
        loop {
            let Some(part) = self.part(received)? else {
                return Ok(None);
            };
            if let Some(value) = self.placed(part)? {
                let length = self.at;
                self.at = 0;
                self.looked = 0;
                return Ok(Some((value, length)));
            }
        }
    }

    /// Puts a part where it belongs; the value, if it is whole by that.
    fn placed(&mut self, part: Part) -> Result<Option<Value>, NoReply> {
        let mut value = match part {
            Part::Whole(value) => value,
            Part::Begins { kind, count } => {
                if self.open.len() >= DEPTH_MAX {
                    return Err(NoReply::Depth);
                }
                let items = Vec::new();
                let left = count;
                let open = Open { kind, left, items };
                if count > 0 {
                    self.open.push(open);
                    return Ok(None);
                }
                match closed(open) {
                    Some(value) => value,
                    None => return Ok(None),
                }
            }
        };
        loop {
            let Some(mut open) = self.open.pop() else {
                return Ok(Some(value));
            };
            open.items.push(value);
            open.left -= 1;
            if open.left > 0 {
                self.open.push(open);
                return Ok(None);
            }
            value = match closed(open) {
                Some(value) => value,
                None => return Ok(None),
            };
        }
    }

    fn part(&mut self, received: &[u8]) -> Result<Option<Part>, NoReply> {
        let before = self.at;
        let Some(line) = self.line(received)? else {
            return Ok(None);
        };
        let [kind, text @ ..] = line else {
            return Err(NoReply::Line);
        };
        let whole = |value| Ok(Some(Part::Whole(value)));
        match kind {
            b'+' => whole(Value::Simple(text_of(text)?)),
            b'-' => whole(Value::Error(text_of(text)?)),
            b':' => whole(Value::Integer(integer_of(text).ok_or(NoReply::Number)?)),
            b'_' => whole(Value::Null),
            b'(' => whole(Value::BigNumber(text_of(text)?)),
            b'#' => whole(Value::Boolean(text == b"t")),
            b',' => whole(Value::Double(double_of(text)?)),
            b'$' | b'=' | b'!' if text != b"-1" => {
                let found = self.bulk(*kind, length_of(text)?, received)?;
                if found.is_none() {
                    // The line is read again with the bytes.
                    self.at = before;
                    self.looked = before;
                }
                Ok(found)
            }
            b'$' => whole(Value::Null),
            b'*' if text == b"-1" => whole(Value::NullArray),
            b'*' | b'~' | b'>' => begins(*kind, length_of(text)?),
            b'%' | b'|' => begins(
                *kind,
                length_of(text)?.checked_mul(2).ok_or(NoReply::Number)?,
            ),
            other => Err(NoReply::Kind(*other)),
        }
    }

    fn bulk(&mut self, kind: u8, length: usize, received: &[u8]) -> Result<Option<Part>, NoReply> {
        if length > self.bulk_bytes_max {
            return Err(NoReply::Number);
        }
        let end = self.at + length;
        let Some(bytes) = received.get(self.at..end) else {
            return Ok(None);
        };
        match received.get(end..end + 2) {
            None => return Ok(None),
            Some(b"\r\n") => {}
            Some(_) => return Err(NoReply::Line),
        }
        let value = match (kind, bytes) {
            (b'!', text) => Value::Error(text_of(text)?),
            (b'=', [a, b, c, b':', text @ ..]) => Value::Verbatim([*a, *b, *c], text.to_vec()),
            (b'=', _) => return Err(NoReply::Text),
            (_, bytes) => Value::Bulk(bytes.to_vec()),
        };
        self.at = end + 2;
        self.looked = self.at;
        Ok(Some(Part::Whole(value)))
    }

    fn line<'a>(&mut self, received: &'a [u8]) -> Result<Option<&'a [u8]>, NoReply> {
        let from = self.looked.max(self.at);
        let unseen = received.get(from..).unwrap_or_default();
        let end = unseen.iter().position(|byte| *byte == b'\n');
        let end = end.map(|end| from + end);
        if end.unwrap_or(received.len()).saturating_sub(self.at) > LINE_BYTES_MAX {
            return Err(NoReply::Line);
        }
        let Some(end) = end else {
            self.looked = received.len();
            return Ok(None);
        };
        let line = received.get(self.at..end).unwrap_or_default();
        let line = line.strip_suffix(b"\r").ok_or(NoReply::Line)?;
        self.at = end + 1;
        self.looked = self.at;
        Ok(Some(line))
    }
}

enum Part {
    Whole(Value),
    Begins { kind: u8, count: usize },
}

fn begins(kind: u8, count: usize) -> Result<Option<Part>, NoReply> {
    Ok(Some(Part::Begins { kind, count }))
}

/// The value that all of its parts make. Attributes make none: they stand before the value that they are about.
fn closed(open: Open) -> Option<Value> {
    match open.kind {
        b'~' => Some(Value::Set(open.items)),
        b'>' => Some(Value::Push(open.items)),
        b'%' => Some(Value::Map(pairs(open.items))),
        b'|' => None,
        _ => Some(Value::Array(open.items)),
    }
}

fn pairs(items: Vec<Value>) -> Vec<(Value, Value)> {
    let mut items = items.into_iter();
    let mut pairs = Vec::new();
    while let (Some(key), Some(value)) = (items.next(), items.next()) {
        pairs.push((key, value));
    }
    pairs
}

fn length_of(text: &[u8]) -> Result<usize, NoReply> {
    let length = integer_of(text).ok_or(NoReply::Number)?;
    usize::try_from(length).map_err(|_| NoReply::Number)
}

fn text_of(text: &[u8]) -> Result<Cow<'static, str>, NoReply> {
    let text = std::str::from_utf8(text).map_err(|_| NoReply::Text)?;
    Ok(Cow::Owned(text.to_owned()))
}

fn double_of(text: &[u8]) -> Result<f64, NoReply> {
    let text = std::str::from_utf8(text).map_err(|_| NoReply::Number)?;
    text.parse().map_err(|_| NoReply::Number)
}
