//! A request as a node takes it apart: verb, words and keys. [`crate::Ask`] gives it its meaning.

use std::fmt;
use std::str::FromStr;

use crate::line::{LineError, LineWriter, PROTOCOL, Words, text_of};
use crate::names::{NoStreamName, parse_stream};
use crate::verb::{self, Verb};

/// `logberg/1 verb word… key=value…`, decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    pub verb: String,
    pub words: Vec<String>,
    keys: Vec<(String, String)>,
}

impl Request {
    /// Parses a line, with or without its line feed.
    pub fn parse(line: &[u8]) -> Result<Request, LineError> {
        // A speaker of another protocol is told so, however that protocol spells its lines.
        let first = text_of(line)?.split(' ').next().unwrap_or_default();
        if first != PROTOCOL {
            return Err(match first.starts_with("logberg/") && first.len() < 32 {
                true => LineError::OtherVersion(first.to_string()),
                false => LineError::OtherProtocol,
            });
        }
        let Words { mut words, keys } = Words::of_request(line)?;
        words.pop_front();
        Ok(Request {
            verb: words.pop_front().ok_or(LineError::NoVerb)?,
            words: words.into(),
            keys,
        })
    }

    pub fn new(verb: &str) -> Request {
        Request {
            verb: verb.to_string(),
            ..Request::default()
        }
    }

    pub fn key(mut self, key: &str, value: impl fmt::Display) -> Request {
        self.keys.push((key.to_string(), value.to_string()));
        self
    }

    /// The line with its line feed.
    pub fn encode(&self) -> Vec<u8> {
        let mut line = LineWriter::new(PROTOCOL).word(&self.verb);
        for word in &self.words {
            line = line.word(word);
        }
        for (key, value) in &self.keys {
            line = line.key(key, value);
        }
        line.end().into_bytes()
    }

    pub fn verb(&self) -> Result<Verb, LineError> {
        self.verb.parse()
    }

    /// Refuses words and keys that the verb does not know.
    pub fn check(&self) -> Result<(), LineError> {
        let (words_max, keys) = verb::shape(self)?;
        if self.words.len() > words_max {
            return Err(LineError::TooManyWords);
        }
        match self.keys.iter().find(|(k, _)| !keys.contains(&k.as_str())) {
            Some((key, _)) => Err(LineError::UnknownKey(key.clone())),
            None => Ok(()),
        }
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        self.keys
            .iter()
            .find(|(k, _)| k == key)
            .map(|(_, v)| v.as_str())
    }

    /// Takes out the value of a key that has been dealt with then, whatever the verb.
    pub fn take(&mut self, key: &str) -> Option<String> {
        let at = self.keys.iter().position(|(known, _)| known == key)?;
        Some(self.keys.remove(at).1)
    }

    pub fn require(&self, key: &'static str) -> Result<&str, LineError> {
        self.get(key).ok_or(LineError::Missing(key))
    }

    /// The value as a number, if the key is there.
    pub fn parsed<T: FromStr>(&self, key: &str) -> Result<Option<T>, LineError> {
        match self.get(key) {
            None => Ok(None),
            Some(value) => match value.parse() {
                Ok(parsed) => Ok(Some(parsed)),
                Err(_) => Err(LineError::BadValue {
                    key: key.to_string(),
                    value: value.to_string(),
                }),
            },
        }
    }

    /// The value of a kind that says itself what it is to be, if the key is there.
    pub fn value<T>(&self, key: &str) -> Result<Option<T>, LineError>
    where
        T: FromStr<Err: fmt::Display>,
    {
        let value = self.get(key).map(str::parse).transpose();
        value.map_err(|error: T::Err| LineError::Value(error.to_string()))
    }

    /// The name of a stream, as a node keeps it.
    pub fn stream(&self, key: &str) -> Result<Option<paxos::StreamName>, LineError> {
        let no_name = || LineError::Value(NoStreamName.to_string());
        let name = self
            .get(key)
            .map(|name| parse_stream(name).ok_or_else(no_name));
        name.transpose()
    }

    pub fn flag(&self, key: &str) -> Result<bool, LineError> {
        match self.get(key) {
            None | Some("0") => Ok(false),
            Some("1") => Ok(true),
            Some(other) => Err(LineError::BadValue {
                key: key.to_string(),
                value: other.to_string(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LINE_BYTES_MAX, Refusal};
    use proptest::prelude::*;

    #[test]
    fn a_request_line_reads_as_documented() {
        let r = Request::parse(b"logberg/1 append main label=a%20b continues=1.2.3@77").unwrap();
        assert_eq!(
            (r.verb.as_str(), r.words.as_slice()),
            ("append", &["main".to_string()][..])
        );
        assert_eq!(r.get("label"), Some("a b"));
        assert_eq!(r.check(), Ok(()));
        let unknown = LineError::UnknownKey("colour".into());
        assert_eq!(r.key("colour", "red").check(), Err(unknown));
        assert_eq!(
            Request::parse(b"logberg/1 read main from=1 from=2"),
            Err(LineError::RepeatedKey("from".into()))
        );
    }

    #[test]
    fn strangers_and_other_versions_get_different_answers() {
        for stranger in [&b"GET / HTTP/1.1"[..], b"", b" ", b"logberg", b"\tx"] {
            let refused = Request::parse(stranger);
            assert_eq!(refused, Err(LineError::OtherProtocol), "{stranger:?}");
        }
        for line in ["logberg/2 status", "logberg/2  status", "logberg/2"] {
            let refused = Request::parse(line.as_bytes());
            assert_eq!(refused, Err(LineError::OtherVersion("logberg/2".into())));
        }
        assert_eq!(Request::parse(b"logberg/1"), Err(LineError::NoVerb));
        assert_eq!(Request::parse(b"logberg/1 "), Err(LineError::EmptyWord));
        assert_eq!(Request::parse(b"\xff\xfe"), Err(LineError::NotText));
    }

    #[test]
    fn a_refusal_is_one_line_however_long_and_odd_what_it_quotes() {
        let verb = "\u{1}".repeat(8000);
        let line = Refusal::new("bad-request", format!("unknown {verb:?}\r\n")).encode();
        assert_eq!(line.len(), LINE_BYTES_MAX);
        assert!(line.ends_with(b"\n") && !line[..line.len() - 1].contains(&b'\n'));
    }

    proptest! {
        #[test]
        fn any_text_survives_encoding(word in "\\PC+", value in "\\PC*") {
            let mut r = Request::new("verb").key("k", &value);
            r.words.push(word);
            let line = r.encode();
            prop_assert_eq!(Request::parse(&line[..line.len() - 1]).unwrap(), r);
        }

        #[test]
        fn any_bytes_parse_or_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Err(e) = Request::parse(&bytes) {
                prop_assert!(!Refusal::from(e).encode()[..].is_empty());
            }
        }
    }
}
