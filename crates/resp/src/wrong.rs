//! Mistakes in the bytes of a request. The connection is over with it: nobody knows where the next request would begin.

use std::fmt;

/// A mistake in the bytes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// The number behind `*` is none, or more arguments than are allowed.
    MultibulkLength,
    /// The line that begins with `*` does not end.
    MultibulkLine,
    /// The number behind `$` is none, or more bytes than are allowed.
    BulkLength,
    /// The line that begins with `$` does not end.
    BulkLine,
    /// An argument begins with another byte than `$`.
    NoBulk(u8),
    /// A line is longer than allowed.
    InlineLength,
    /// A quote is not closed, or something follows a closed one without a space.
    Quotes,
    /// Somebody speaks HTTP here: perhaps a browser that was made to. Redis closes such a connection without a word, and so should
    /// whoever gets this.
    Http,
    /// Somebody begins a TLS connection.
    Tls,
}

impl Wrong {
    /// The connection is closed without a word: whoever asked does not speak this protocol, and must not be led on.
    pub fn is_silent(&self) -> bool {
        *self == Wrong::Http
    }
}

/// The line that the client is answered, without its `-`.
impl fmt::Display for Wrong {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("ERR Protocol error: ")?;
        match self {
            Wrong::MultibulkLength => out.write_str("invalid multibulk length"),
            Wrong::MultibulkLine => out.write_str("too big mbulk count string"),
            Wrong::BulkLength => out.write_str("invalid bulk length"),
            Wrong::BulkLine => out.write_str("too big bulk count string"),
            Wrong::NoBulk(byte) => write!(out, "expected '$', got '{}'", shown(*byte)),
            Wrong::InlineLength => out.write_str("too big inline request"),
            Wrong::Quotes => out.write_str("unbalanced quotes in request"),
            Wrong::Http => out.write_str("this port does not speak HTTP"),
            Wrong::Tls => out.write_str("this port does not speak TLS"),
        }
    }
}

/// A byte within a line: what would end the line, or is no ASCII, is replaced.
fn shown(byte: u8) -> char {
    match byte {
        b'\r' | b'\n' => ' ',
        0..0x80 => char::from(byte),
        _ => '?',
    }
}

impl std::error::Error for Wrong {}
