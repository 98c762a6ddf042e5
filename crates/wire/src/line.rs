//! The text lines that clients and peers begin with (docs/wire.md).

use std::fmt::{self, Write};

/// Longest request line, with its line feed.
pub const LINE_BYTES_MAX: usize = 8192;

pub const PROTOCOL: &str = "logberg/1";

/// `logberg/1 verb word… key=value…`, decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    pub verb: String,
    pub words: Vec<String>,
    keys: Vec<(String, String)>,
}

/// Why a line is no request. Its text is the sentence that the sender gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineError {
    NotText,
    OtherProtocol,
    OtherVersion(String),
    NoVerb,
    BadEncoding(String),
    UnknownKey(String),
    RepeatedKey(String),
    BadValue { key: String, value: String },
    Missing(&'static str),
    TooManyWords,
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LineError::NotText => write!(f, "the request line is not UTF-8 text"),
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
            LineError::BadEncoding(word) => write!(f, "{word:?} is not percent-encoded text"),
            LineError::UnknownKey(key) => write!(f, "unknown key {key:?}"),
            LineError::RepeatedKey(key) => write!(f, "the key {key:?} stands twice"),
            LineError::BadValue { key, value } => write!(f, "{value:?} is no value for {key}"),
            LineError::Missing(what) => write!(f, "the request lacks {what}"),
            LineError::TooManyWords => write!(f, "the request has too many words"),
        }
    }
}

impl Request {
    /// `line` without its line feed.
    pub fn parse(line: &[u8]) -> Result<Request, LineError> {
        let text = std::str::from_utf8(line).map_err(|_| LineError::NotText)?;
        let mut parts = text
            .trim_end_matches('\r')
            .split(' ')
            .filter(|p| !p.is_empty());
        match parts.next() {
            Some(PROTOCOL) => {}
            Some(other) if other.starts_with("logberg/") && other.len() < 32 => {
                return Err(LineError::OtherVersion(other.to_string()));
            }
            _ => return Err(LineError::OtherProtocol),
        }
        let mut request = Request {
            verb: decode(parts.next().ok_or(LineError::NoVerb)?)?,
            ..Request::default()
        };
        for part in parts {
            match part.split_once('=') {
                Some((key, _)) if request.get(key).is_some() => {
                    return Err(LineError::RepeatedKey(key.to_string()));
                }
                Some((key, value)) => request.keys.push((key.to_string(), decode(value)?)),
                None => request.words.push(decode(part)?),
            }
        }
        Ok(request)
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

    /// With its line feed.
    pub fn encode(&self) -> Vec<u8> {
        let mut line = format!("{PROTOCOL} {}", encode(&self.verb));
        for word in &self.words {
            line.push(' ');
            line.push_str(&encode(word));
        }
        for (key, value) in &self.keys {
            let _ = write!(line, " {key}={}", encode(value));
        }
        line.push('\n');
        line.into_bytes()
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        self.keys
            .iter()
            .find(|(k, _)| k == key)
            .map(|(_, v)| v.as_str())
    }

    /// The value of a key that has been dealt with then, whatever the verb.
    pub fn take(&mut self, key: &str) -> Option<String> {
        let at = self.keys.iter().position(|(known, _)| known == key)?;
        Some(self.keys.remove(at).1)
    }

    pub fn require(&self, key: &'static str) -> Result<&str, LineError> {
        self.get(key).ok_or(LineError::Missing(key))
    }

    /// The value parsed, if the key is there.
    pub fn parsed<T: std::str::FromStr>(&self, key: &str) -> Result<Option<T>, LineError> {
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

    /// Refuses keys that this verb does not know, and more than `words_max` words.
    pub fn allow(&self, words_max: usize, keys: &[&str]) -> Result<(), LineError> {
        if self.words.len() > words_max {
            return Err(LineError::TooManyWords);
        }
        match self.keys.iter().find(|(k, _)| !keys.contains(&k.as_str())) {
            Some((key, _)) => Err(LineError::UnknownKey(key.clone())),
            None => Ok(()),
        }
    }
}

/// Percent-encodes a word or value: also `=`, which a word may not hold bare, and a colon at the
/// end, which would end the keys of an error line.
pub fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (at, &b) in text.as_bytes().iter().enumerate() {
        let ends_with_colon = b == b':' && at + 1 == text.len();
        if b.is_ascii_graphic() && b != b'%' && b != b'=' && !ends_with_colon {
            out.push(b as char);
        } else {
            let _ = write!(out, "%{b:02X}");
        }
    }
    out
}

fn decode(text: &str) -> Result<String, LineError> {
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

/// One `error` line: a code, keys, and a sentence that names the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub code: &'static str,
    pub keys: Vec<(&'static str, String)>,
    pub sentence: String,
}

impl Refusal {
    pub fn new(code: &'static str, sentence: impl Into<String>) -> Refusal {
        Refusal {
            code,
            keys: Vec::new(),
            sentence: sentence.into(),
        }
    }

    pub fn key(mut self, key: &'static str, value: impl fmt::Display) -> Refusal {
        self.keys.push((key, value.to_string()));
        self
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut line = format!("error {}", self.code);
        for (key, value) in &self.keys {
            let _ = write!(line, " {key}={}", encode(value));
        }
        line.push_str(": ");
        // A sentence may quote what a stranger said, and its line may be no longer than others.
        for c in self.sentence.chars() {
            if line.len() + c.len_utf8() >= LINE_BYTES_MAX {
                break;
            }
            line.push(if c.is_control() { ' ' } else { c });
        }
        line.push('\n');
        line.into_bytes()
    }
}

impl From<LineError> for Refusal {
    fn from(error: LineError) -> Refusal {
        match error {
            LineError::OtherVersion(_) => {
                Refusal::new("version", error.to_string()).key("speaks", 1)
            }
            _ => Refusal::new("bad-request", error.to_string()),
        }
    }
}

/// `owner.incarnation.counter`, in its one spelling.
pub fn parse_stream(text: &str) -> Option<paxos::StreamName> {
    let mut parts = text.split('.');
    let mut next = || {
        let part = parts.next()?;
        let number: u32 = part.parse().ok()?;
        // `parse` would take a sign and zeros in front.
        (number.to_string() == part).then_some(number)
    };
    let (owner, incarnation, counter) = (next()?, next()?, next()?);
    if parts.next().is_some() {
        return None;
    }
    Some(paxos::StreamName {
        owner: paxos::NodeId(owner),
        sequence: paxos::StreamSequence {
            incarnation,
            counter,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_request_line_reads_as_documented() {
        let r = Request::parse(b"logberg/1 append main label=a%20b continues=1.2.3@77").unwrap();
        assert_eq!(
            (r.verb.as_str(), r.words.as_slice()),
            ("append", &["main".to_string()][..])
        );
        assert_eq!(r.get("label"), Some("a b"));
        assert_eq!(r.allow(1, &["label", "continues"]), Ok(()));
        assert_eq!(
            r.allow(1, &["label"]),
            Err(LineError::UnknownKey("continues".into()))
        );
        assert_eq!(
            Request::parse(b"logberg/1 read main from=1 from=2"),
            Err(LineError::RepeatedKey("from".into()))
        );
    }

    #[test]
    fn strangers_and_other_versions_get_different_answers() {
        assert_eq!(
            Request::parse(b"GET / HTTP/1.1"),
            Err(LineError::OtherProtocol)
        );
        assert_eq!(
            Request::parse(b"logberg/2 status"),
            Err(LineError::OtherVersion("logberg/2".into()))
        );
        assert_eq!(Request::parse(b"logberg/1"), Err(LineError::NoVerb));
        assert_eq!(Request::parse(b"\xff\xfe"), Err(LineError::NotText));
    }

    #[test]
    fn numbers_and_escapes_have_one_spelling() {
        for word in ["%+5", "%4", "%x0", "%ff"] {
            let line = format!("logberg/1 read {word}");
            let refused = Request::parse(line.as_bytes());
            assert_eq!(refused, Err(LineError::BadEncoding(word.into())));
        }
        assert!(parse_stream("1.2.3").is_some());
        for name in ["+1.2.3", "01.2.3", "1.2", "1.2.3.4", "1..3"] {
            assert_eq!(parse_stream(name), None, "{name}");
        }
        assert_eq!(formats::parse_hex16(&"0f".repeat(16)), Some([15; 16]));
        assert_eq!(formats::parse_hex16(&"+f".repeat(16)), None);
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
