//! One line: its words and its `key=value` arguments, decoded, and nothing about their meaning.
//!
//! ```text
//! line     = argument *(SP argument) LF               UTF-8, at most 8192 bytes with the LF; a request `change-slots`, `put-token` or `put-issuer` 2 MiB
//! argument = word | key "=" value                     all three percent-encoded
//! ```
//!
//! There is one answer to each question of spelling (docs/wire.md): words are separated by one space, a
//! carriage return before the line feed does not belong to the line, and a byte that must be encoded may not
//! stand bare. So two lines that look different mean different things.

use std::collections::VecDeque;
use std::fmt::{self, Write as _};
use std::str::FromStr;

use crate::verb::Verb;

/// Longest line, with its line feed. The answer `ok` alone may be longer.
pub const LINE_BYTES_MAX: usize = 8192;

/// Longest line of a request that tells which group has which slots, where each may be named alone, or what a token allows.
pub const LONG_LINE_BYTES_MAX: usize = 2 << 20;

/// So long may this line be, by its beginning.
pub fn line_bytes_max(line: &[u8]) -> usize {
    let long = [
        &b"logberg/1 change-slots "[..],
        b"logberg/1 put-token ",
        b"logberg/1 put-issuer ",
    ];
    let is_long = long.iter().any(|verb| line.starts_with(verb));
    match is_long {
        true => LONG_LINE_BYTES_MAX,
        false => LINE_BYTES_MAX,
    }
}

/// The word that every request begins with.
pub const PROTOCOL: &str = "logberg/1";

/// Why a line is not understood. Its text is the sentence that the sender gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineError {
    TooLong,
    NotText,
    OtherProtocol,
    OtherVersion(String),
    NoVerb,
    UnknownVerb(String),
    UnknownAnswer(String),
    /// Two spaces in a row, a space at an end, or nothing at all.
    EmptyWord,
    /// A byte that must be percent-encoded.
    Bare(u8),
    BadEncoding(String),
    UnknownKey(String),
    RepeatedKey(String),
    BadValue {
        key: String,
        value: String,
    },
    /// A value that is not of its kind. The sentence says what it is to be.
    Value(String),
    Missing(&'static str),
    TooManyWords,
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LineError::TooLong => write!(f, "the line is longer than {LINE_BYTES_MAX} bytes"),
            LineError::NotText => write!(f, "the line is not UTF-8 text"),
            LineError::OtherProtocol => {
                write!(
                    f,
                    "this is a Logberg node; a request line begins with {PROTOCOL}, see docs/wire.md"
                )
            }
            LineError::OtherVersion(v) => {
                write!(
                    f,
                    "the other side speaks {v}, this node speaks {PROTOCOL}; upgrade the older one"
                )
            }
            LineError::NoVerb => write!(f, "the request line names no verb, see docs/wire.md"),
            LineError::UnknownVerb(verb) => {
                let known: Vec<&str> = Verb::ALL.iter().map(|verb| verb.as_str()).collect();
                write!(f, "unknown verb {verb:?}; known are {}", known.join(", "))
            }
            LineError::UnknownAnswer(word) => write!(f, "unknown answer {word:?}"),
            LineError::EmptyWord => write!(
                f,
                "words are separated by one space, and none stands at the line's end"
            ),
            LineError::Bare(byte) => {
                write!(f, "the byte {byte:#04x} must be written %{byte:02X}")
            }
            LineError::BadEncoding(word) => write!(f, "{word:?} is not percent-encoded text"),
            LineError::UnknownKey(key) => write!(f, "unknown key {key:?}"),
            LineError::RepeatedKey(key) => write!(f, "the key {key:?} stands twice"),
            LineError::BadValue { key, value } => write!(f, "{value:?} is no value for {key}"),
            LineError::Value(sentence) => f.write_str(sentence),
            LineError::Missing(what) => write!(f, "the line lacks {what}"),
            LineError::TooManyWords => write!(f, "the line has too many words"),
        }
    }
}

impl std::error::Error for LineError {}

/// Percent-encodes a word or value: also `=`, which a word may not hold bare, and a colon at the
/// end, which would end the keys of an error line.
pub fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    encode_into(text, &mut out);
    out
}

fn encode_into(text: &str, out: &mut String) {
    for (at, &b) in text.as_bytes().iter().enumerate() {
        let ends_with_colon = b == b':' && at + 1 == text.len();
        if b.is_ascii_graphic() && b != b'%' && b != b'=' && !ends_with_colon {
            out.push(char::from(b));
        } else {
            let _ = write!(out, "%{b:02X}");
        }
    }
}

/// Reads what [`encode`] wrote.
pub fn decode(text: &str) -> Result<String, LineError> {
    let bare = |b: &u8| !b.is_ascii_graphic();
    if let Some(b) = text.bytes().find(bare) {
        return Err(LineError::Bare(b));
    }
    if !text.contains('%') {
        return Ok(text.to_string());
    }
    let bad = || LineError::BadEncoding(text.to_string());
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&b, after)) = rest.split_first() {
        if b != b'%' {
            bytes.push(b);
            rest = after;
            continue;
        }
        let (hex, after) = after.split_first_chunk().ok_or_else(bad)?;
        bytes.push(formats::hex_byte(*hex).ok_or_else(bad)?);
        rest = after;
    }
    String::from_utf8(bytes).map_err(|_| bad())
}

/// The meaning of a key that stands twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repeated {
    /// In a request: its writer is mistaken about one of the two.
    IsRefused,
    /// In an answer, as with every unknown part there: the first one counts.
    IsPassedOver,
}

/// A line without meaning: its words and its keys, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    pub(crate) words: VecDeque<String>,
    pub(crate) keys: Vec<(String, String)>,
}

impl Words {
    /// Parses a request, with or without its line feed.
    pub fn of_request(line: &[u8]) -> Result<Words, LineError> {
        Words::parse(line, Repeated::IsRefused)
    }

    /// Parses an answer, with or without its line feed.
    pub fn of_answer(line: &[u8]) -> Result<Words, LineError> {
        Words::parse(line, Repeated::IsPassedOver)
    }

    fn parse(line: &[u8], repeated: Repeated) -> Result<Words, LineError> {
        let mut parsed = Words::default();
        for argument in text_of(line)?.split(' ') {
            match argument.split_once('=') {
                _ if argument.is_empty() => return Err(LineError::EmptyWord),
                None => parsed.words.push_back(decode(argument)?),
                Some((key, value)) => {
                    let (key, value) = (decode(key)?, decode(value)?);
                    let stands = parsed.keys.iter().any(|(known, _)| *known == key);
                    match (stands, repeated) {
                        (false, _) => parsed.keys.push((key, value)),
                        (true, Repeated::IsRefused) => return Err(LineError::RepeatedKey(key)),
                        (true, Repeated::IsPassedOver) => {}
                    }
                }
            }
        }
        Ok(parsed)
    }

    /// The words and the keys that were not taken out.
    pub fn into_parts(self) -> (Vec<String>, Vec<(String, String)>) {
        (self.words.into(), self.keys)
    }

    /// The next word.
    pub fn word(&mut self, what: &'static str) -> Result<String, LineError> {
        self.words.pop_front().ok_or(LineError::Missing(what))
    }

    /// The next word, as a number or a name.
    pub fn word_as<T: FromStr>(&mut self, what: &'static str) -> Result<T, LineError> {
        let value = self.word(what)?;
        let key = what.to_owned();
        value
            .parse()
            .map_err(|_| LineError::BadValue { key, value })
    }

    /// A key's value, as a number or a name.
    pub fn key_as<T: FromStr>(&mut self, key: &'static str) -> Result<T, LineError> {
        let found = self.keys.iter().find(|(known, _)| known == key);
        let (_, value) = found.ok_or(LineError::Missing(key))?;
        value.parse().map_err(|_| LineError::BadValue {
            key: key.to_owned(),
            value: value.clone(),
        })
    }

    /// A key's value, if it stands there.
    pub fn value(&self, key: &str) -> Option<String> {
        let found = self.keys.iter().find(|(known, _)| known == key);
        found.map(|(_, value)| value.clone())
    }

    /// `key=1` is true, `key=0` and no key are false.
    pub fn flag(&mut self, key: &'static str) -> Result<bool, LineError> {
        let found = self.keys.iter().find(|(known, _)| known == key);
        match found.map(|(_, value)| value.as_str()) {
            None | Some("0") => Ok(false),
            Some("1") => Ok(true),
            Some(value) => Err(LineError::BadValue {
                key: key.to_owned(),
                value: value.to_owned(),
            }),
        }
    }
}

/// The line's text without its end.
pub(crate) fn text_of(line: &[u8]) -> Result<&str, LineError> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    std::str::from_utf8(line).map_err(|_| LineError::NotText)
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
        encode_into(&word.to_string(), &mut self.0);
        self
    }

    pub fn key(mut self, key: &str, value: impl fmt::Display) -> Self {
        self.0.push(' ');
        encode_into(key, &mut self.0);
        self.0.push('=');
        encode_into(&value.to_string(), &mut self.0);
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

    /// Ends the line with its line feed.
    pub fn end(mut self) -> String {
        self.0.push('\n');
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_has_one_spelling() {
        let refused = |line: &[u8]| Words::of_request(line).expect_err("one spelling");
        for line in ["", " ", "a  b", " a", "a ", "a \r\n"] {
            assert_eq!(refused(line.as_bytes()), LineError::EmptyWord, "{line:?}");
        }
        assert_eq!(refused("ü".as_bytes()), LineError::Bare(0xc3));
        assert_eq!(refused(b"a\tb"), LineError::Bare(b'\t'));
        assert_eq!(refused(b"a\r\r\n"), LineError::Bare(b'\r'));
        assert_eq!(refused(b"\xff"), LineError::NotText);
        for word in ["%+5", "%4", "%x0", "%ff", "%"] {
            let error = LineError::BadEncoding(word.into());
            assert_eq!(refused(word.as_bytes()), error, "{word:?}");
        }
        assert_eq!(Words::of_request(b"a\r\n"), Words::of_request(b"a"));
    }

    #[test]
    fn a_value_may_hold_a_bare_equals_sign_and_be_empty() {
        let words = Words::of_request(b"a k=x=y l=").unwrap();
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(words.keys, [pair("k", "x=y"), pair("l", "")]);
    }

    #[test]
    fn a_key_that_stands_twice_is_refused_in_a_request_and_passed_over_in_an_answer() {
        let line = b"a k=1 %6B=2";
        let refused = LineError::RepeatedKey("k".to_owned());
        assert_eq!(Words::of_request(line), Err(refused));
        let mut answer = Words::of_answer(line).unwrap();
        assert_eq!(answer.key_as("k"), Ok(1));
    }

    proptest! {
        #[test]
        fn every_text_survives_a_line(word in ".+", value in ".*") {
            let line = LineWriter::new("verb").word(&word).key("k", &value).end();
            prop_assert!(line.is_ascii());
            let mut words = Words::of_request(line.as_bytes()).unwrap();
            prop_assert_eq!(words.word("verb").unwrap(), "verb");
            prop_assert_eq!(words.word("word").unwrap(), word);
            prop_assert_eq!(words.key_as::<String>("k").unwrap(), value);
        }

        #[test]
        fn no_bytes_from_outside_panic(line in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = Words::of_request(&line);
            let _ = Words::of_answer(&line);
        }
    }
}
