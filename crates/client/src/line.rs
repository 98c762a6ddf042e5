//! The grammar of the client lines (docs/wire.md): what may stand in a line, and nothing about
//! when it is sent.
//!
//! ```text
//! request  "logberg/1" SP verb *(SP argument) LF      at most 8192 bytes with the LF
//! argument word | key "=" value                       both percent-encoded
//! answer   word *(SP argument) LF
//! error    "error" SP CODE *(SP key "=" value) ": " SENTENCE LF
//! ```
//!
//! This module needs only `std` and knows no sockets. [`Words`] is the untyped line;
//! [`Request`](crate::request::Request) and [`Answer`](crate::answer::Answer) give it meaning.

use std::fmt::{self, Write as _};
use std::str::FromStr;

/// What every request line begins with: the protocol and its version.
pub const VERSION: &str = "logberg/1";

/// The longest request line, in bytes with its LF. Answers keep to it too, except `ok`.
pub const LINE_BYTES_MAX: usize = 8192;

/// Why a line could not be understood. Displayed, it is a sentence for a `bad-request`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineError {
    TooLong,
    NotUtf8,
    /// Two spaces in a row, a space at an end, or nothing at all.
    EmptyWord,
    /// A `%` that two hexadecimal digits do not follow, or bytes that decode to no UTF-8.
    Percent,
    /// A byte that should have been percent-encoded.
    Bare(u8),
    /// The line does not begin with `logberg/1`; what it began with.
    Version(String),
    UnknownVerb(String),
    UnknownKey(String),
    RepeatedKey(String),
    /// An argument that the verb needs and that is not there.
    Missing(&'static str),
    /// More words than the verb takes.
    Surplus(String),
    /// A value that is not of the kind its key takes.
    Value {
        key: &'static str,
        found: String,
    },
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(f, "a line may have {LINE_BYTES_MAX} bytes"),
            Self::NotUtf8 => f.write_str("the line is not UTF-8"),
            Self::EmptyWord => f.write_str("words are separated by one space"),
            Self::Percent => f.write_str("% takes two hexadecimal digits that make UTF-8"),
            Self::Bare(byte) => write!(f, "the byte {byte:#04x} must be written %{byte:02X}"),
            Self::Version(found) => write!(f, "the line begins with {found:?}, not {VERSION}"),
            Self::UnknownVerb(verb) => write!(f, "unknown verb {verb:?}"),
            Self::UnknownKey(key) => write!(f, "unknown key {key:?}"),
            Self::RepeatedKey(key) => write!(f, "the key {key:?} stands twice"),
            Self::Missing(what) => write!(f, "{what} is missing"),
            Self::Surplus(word) => write!(f, "{word:?} is one word too many"),
            Self::Value { key, found } => write!(f, "{found:?} is no {key}"),
        }
    }
}

impl std::error::Error for LineError {}

/// Writes `text` percent-encoded: spaces, `%`, control characters, whatever is not ASCII, `=`
/// (which a value may hold bare, but a word may not) and a colon at the end (which would end the
/// keys of an error line).
pub fn encode(text: &str, line: &mut String) {
    for (index, byte) in text.bytes().enumerate() {
        let ends_with_colon = byte == b':' && index + 1 == text.len();
        if byte.is_ascii_graphic() && byte != b'%' && byte != b'=' && !ends_with_colon {
            line.push(byte as char);
        } else {
            write!(line, "%{byte:02X}").expect("a String takes all that is written to it");
        }
    }
}

/// Reads what [`encode`] wrote. Refuses bytes that should not stand bare, so that two different
/// lines never mean the same by accident of leniency.
pub fn decode(text: &str) -> Result<String, LineError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let mut digit = || {
                    let digit = char::from(rest.next()?).to_digit(16)?;
                    u8::try_from(digit).ok()
                };
                let (Some(high), Some(low)) = (digit(), digit()) else {
                    return Err(LineError::Percent);
                };
                bytes.push(high << 4 | low);
            }
            byte if byte.is_ascii_graphic() => bytes.push(byte),
            byte => return Err(LineError::Bare(byte)),
        }
    }
    String::from_utf8(bytes).map_err(|_| LineError::Percent)
}

/// A line without meaning: its words and its `key=value` arguments, decoded, in their order.
///
/// The reader of a line takes out what it knows and then calls [`Words::end`], which refuses the
/// rest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    words: std::collections::VecDeque<String>,
    keys: Vec<(String, String)>,
}

impl Words {
    /// Parses a line, with or without its LF.
    pub fn parse(line: &[u8]) -> Result<Self, LineError> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let line = std::str::from_utf8(line).map_err(|_| LineError::NotUtf8)?;
        let mut parsed = Self::default();
        for argument in line.split(' ') {
            match argument.split_once('=') {
                _ if argument.is_empty() => return Err(LineError::EmptyWord),
                None => parsed.words.push_back(decode(argument)?),
                Some((key, value)) => {
                    let key = decode(key)?;
                    if parsed.keys.iter().any(|(known, _)| *known == key) {
                        return Err(LineError::RepeatedKey(key));
                    }
                    parsed.keys.push((key, decode(value)?));
                }
            }
        }
        Ok(parsed)
    }

    pub fn word(&mut self, what: &'static str) -> Result<String, LineError> {
        self.words.pop_front().ok_or(LineError::Missing(what))
    }

    pub fn key(&mut self, key: &str) -> Option<String> {
        let index = self.keys.iter().position(|(known, _)| known == key)?;
        Some(self.keys.remove(index).1)
    }

    /// The next word, as a number or a name.
    pub fn word_as<T: FromStr>(&mut self, what: &'static str) -> Result<T, LineError> {
        let found = self.word(what)?;
        found
            .parse()
            .map_err(|_| LineError::Value { key: what, found })
    }

    /// A key's value, as a number or a name.
    pub fn key_as<T: FromStr>(&mut self, key: &'static str) -> Result<Option<T>, LineError> {
        let Some(found) = self.key(key) else {
            return Ok(None);
        };
        match found.parse() {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(LineError::Value { key, found }),
        }
    }

    /// `key=1` is true, `key=0` and no key are false.
    pub fn flag(&mut self, key: &'static str) -> Result<bool, LineError> {
        match self.key(key).as_deref() {
            None | Some("0") => Ok(false),
            Some("1") => Ok(true),
            Some(found) => Err(LineError::Value {
                key,
                found: found.to_owned(),
            }),
        }
    }

    /// Refuses whatever was not taken out.
    pub fn end(mut self) -> Result<(), LineError> {
        if let Some(word) = self.words.pop_front() {
            return Err(LineError::Surplus(word));
        }
        match self.keys.pop() {
            Some((key, _)) => Err(LineError::UnknownKey(key)),
            None => Ok(()),
        }
    }
}

/// Writes a line, argument by argument.
#[derive(Clone, Debug)]
pub struct LineWriter(String);

impl LineWriter {
    pub fn new(first: &str) -> Self {
        Self(first.to_owned())
    }

    pub fn word(mut self, word: impl fmt::Display) -> Self {
        self.0.push(' ');
        encode(&word.to_string(), &mut self.0);
        self
    }

    pub fn key(mut self, key: &str, value: impl fmt::Display) -> Self {
        self.0.push(' ');
        encode(key, &mut self.0);
        self.0.push('=');
        encode(&value.to_string(), &mut self.0);
        self
    }

    pub fn key_if(self, key: &str, value: Option<impl fmt::Display>) -> Self {
        match value {
            Some(value) => self.key(key, value),
            None => self,
        }
    }

    pub fn flag(self, key: &str, value: bool) -> Self {
        if value { self.key(key, 1) } else { self }
    }

    /// Ends the line with its LF.
    pub fn end(mut self) -> String {
        self.0.push('\n');
        self.0
    }
}

/// The name of a stream: the node that opened it, that node's incarnation, a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamName {
    pub owner: u64,
    pub incarnation: u64,
    pub counter: u64,
}

impl fmt::Display for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.owner, self.incarnation, self.counter)
    }
}

/// The text is not `owner.incarnation.counter`, three decimal numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoStreamName;

impl fmt::Display for NoStreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a stream's name is three decimal numbers, such as 1.4.2")
    }
}

impl std::error::Error for NoStreamName {}

impl FromStr for StreamName {
    type Err = NoStreamName;

    fn from_str(text: &str) -> Result<Self, NoStreamName> {
        let mut numbers = text.split('.').map(|number| {
            // `parse` would take a sign and leading zeros; names have one spelling.
            let value: u64 = number.parse().ok()?;
            (value.to_string() == number).then_some(value)
        });
        let mut next = || numbers.next().flatten().ok_or(NoStreamName);
        let name = Self {
            owner: next()?,
            incarnation: next()?,
            counter: next()?,
        };
        match numbers.next() {
            None => Ok(name),
            Some(_) => Err(NoStreamName),
        }
    }
}

/// A place in one stream, written `NAME@POSITION`. The position counts the bytes of that stream
/// alone, not of the chain it may belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamPlace {
    pub stream: StreamName,
    pub position: u64,
}

impl fmt::Display for StreamPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.stream, self.position)
    }
}

impl FromStr for StreamPlace {
    type Err = NoStreamName;

    fn from_str(text: &str) -> Result<Self, NoStreamName> {
        let (stream, position) = text.split_once('@').ok_or(NoStreamName)?;
        Ok(Self {
            stream: stream.parse()?,
            position: position.parse().map_err(|_| NoStreamName)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(text: &str) -> String {
        let mut line = String::new();
        encode(text, &mut line);
        line
    }

    #[test]
    fn spaces_percents_and_umlauts_are_encoded() {
        assert_eq!(encoded("a b%c=ö\n"), "a%20b%25c%3D%C3%B6%0A");
        assert_eq!(decode("a%20b%25c%3d%c3%b6%0A").unwrap(), "a b%c=ö\n");
    }

    #[test]
    fn half_an_escape_is_refused() {
        for text in ["%", "%4", "%4x", "%x4", "%ff", "%C3"] {
            assert_eq!(decode(text), Err(LineError::Percent), "{text}");
        }
        assert_eq!(decode("a\tb"), Err(LineError::Bare(9)));
    }

    #[test]
    fn words_are_separated_by_exactly_one_space() {
        for line in ["", " a", "a ", "a  b", "\n"] {
            assert_eq!(Words::parse(line.as_bytes()), Err(LineError::EmptyWord));
        }
    }

    #[test]
    fn a_key_may_be_empty_but_not_repeated() {
        let mut words = Words::parse(b"append label=\r\n").unwrap();
        assert_eq!(words.key("label").as_deref(), Some(""));
        assert_eq!(
            Words::parse(b"a k=1 k=2"),
            Err(LineError::RepeatedKey("k".to_owned()))
        );
    }

    #[test]
    fn a_value_may_hold_a_bare_equals_sign() {
        let mut words = Words::parse(b"a k=x=y").unwrap();
        assert_eq!(words.key("k").as_deref(), Some("x=y"));
    }

    #[test]
    fn what_is_not_understood_is_refused_at_the_end() {
        let words = Words::parse(b"a k=1").unwrap();
        assert_eq!(words.end(), Err(LineError::Surplus("a".to_owned())));
        let mut words = Words::parse(b"a k=1").unwrap();
        words.word("verb").unwrap();
        assert_eq!(words.end(), Err(LineError::UnknownKey("k".to_owned())));
    }

    #[test]
    fn stream_names_have_one_spelling() {
        let name: StreamName = "1.20.3".parse().unwrap();
        assert_eq!(name.to_string(), "1.20.3");
        for text in [
            "", "1", "1.2", "1.2.3.4", "1.2.x", "1.+2.3", "1.02.3", "1..3",
        ] {
            assert!(text.parse::<StreamName>().is_err(), "{text}");
        }
        let place: StreamPlace = "1.2.3@77".parse().unwrap();
        assert_eq!(place.to_string(), "1.2.3@77");
    }

    proptest! {
        #[test]
        fn every_text_survives_a_line(word in ".+", value in ".*") {
            let line = LineWriter::new("verb").word(&word).key("k", &value).end();
            prop_assert!(line.is_ascii());
            let mut words = Words::parse(line.as_bytes()).unwrap();
            prop_assert_eq!(words.word("verb").unwrap(), "verb");
            prop_assert_eq!(words.word("word").unwrap(), word);
            prop_assert_eq!(words.key("k").unwrap(), value);
            prop_assert_eq!(words.end(), Ok(()));
        }

        #[test]
        fn no_bytes_from_outside_panic(line in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = Words::parse(&line);
        }
    }
}
