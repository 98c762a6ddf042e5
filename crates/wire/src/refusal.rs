//! `error` lines: the last line of a connection, for programs and for people.

use std::fmt;
use std::str::FromStr;

use crate::line::{LINE_BYTES_MAX, LineError, LineWriter, decode, text_of};

/// One `error` line: a code, keys, and a sentence that names the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub code: Code,
    pub keys: Vec<(String, String)>,
    /// For people.
    pub sentence: String,
}

macro_rules! codes {
    ($($variant:ident = $word:literal),* $(,)?) => {
        /// The code of an `error` line, for programs.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Code {
            $($variant,)*
            /// A code that this version does not know.
            Other(String),
        }

        impl Code {
            pub const ALL: &[Code] = &[$(Code::$variant),*];

            pub fn as_str(&self) -> &str {
                match self { $(Self::$variant => $word,)* Self::Other(word) => word }
            }
        }

        impl From<&str> for Code {
            fn from(word: &str) -> Self {
                match word { $($word => Self::$variant,)* _ => Self::Other(word.to_owned()) }
            }
        }
    };
}

codes! {
    BadRequest = "bad-request",
    TooLate = "too-late",
    Unauthenticated = "unauthenticated",
    Forbidden = "forbidden",
    TlsRequired = "tls-required",
    WrongCluster = "wrong-cluster",
    Version = "version",
    NotLeader = "not-leader",
    NoQuorum = "no-quorum",
    Busy = "busy",
    Superseded = "superseded",
    UnknownLog = "unknown-log",
    UnknownStream = "unknown-stream",
    UnknownToken = "unknown-token",
    UnknownIssuer = "unknown-issuer",
    CannotLead = "cannot-lead",
    Continues = "continues",
    Full = "full",
    TooFewCopies = "too-few-copies",
    TooManyStreams = "too-many-streams",
    Trimmed = "trimmed",
    PastEnd = "past-end",
    NotHere = "not-here",
    NoMachine = "no-machine",
    NotEmpty = "not-empty",
    FilledBefore = "filled-before",
    Exists = "exists",
    ShuttingDown = "shutting-down",
    NotInForce = "not-in-force",
    Removed = "removed",
    Overloaded = "overloaded",
    Refused = "refused",
    UnknownNode = "unknown-node",
    OldCopy = "old-copy",
    NoProof = "no-proof",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl PartialEq<&str> for Code {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl Refusal {
    pub fn new(code: impl Into<Code>, sentence: impl Into<String>) -> Refusal {
        Refusal {
            code: code.into(),
            keys: Vec::new(),
            sentence: sentence.into(),
        }
    }

    pub fn key(mut self, key: &str, value: impl fmt::Display) -> Refusal {
        self.keys.push((key.to_owned(), value.to_string()));
        self
    }

    /// A key's value, if it is there and of its kind.
    pub fn value<T: FromStr>(&self, key: &str) -> Option<T> {
        let (_, value) = self.keys.iter().find(|(known, _)| known == key)?;
        value.parse().ok()
    }

    /// The line with its line feed.
    pub fn encode(&self) -> Vec<u8> {
        let mut head = LineWriter::new("error").word(&self.code);
        for (key, value) in &self.keys {
            head = head.key(key, value);
        }
        let mut line = head.end();
        line.pop();
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

    /// `rest`: what follows `error `.
    pub(crate) fn parse(rest: &[u8]) -> Result<Refusal, LineError> {
        let rest = text_of(rest)?;
        // Values are encoded, so the first colon before a space ends them.
        let (head, sentence) = match rest.split_once(": ") {
            Some(parts) => parts,
            None => (rest.strip_suffix(':').unwrap_or(rest), ""),
        };
        let mut words = head.split(' ');
        let code = words.next().filter(|code| !code.is_empty());
        let code = decode(code.ok_or(LineError::Missing("its code"))?)?;
        let mut refusal = Refusal::new(code.as_str(), sentence);
        for argument in words {
            if argument.is_empty() {
                return Err(LineError::EmptyWord);
            }
            // A word that is not known says more, as a key would.
            if let Some((key, value)) = argument.split_once('=') {
                refusal.keys.push((decode(key)?, decode(value)?));
            }
        }
        Ok(refusal)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.sentence.is_empty() {
            write!(f, "{}", self.code)
        } else {
            f.write_str(&self.sentence)
        }
    }
}

impl From<LineError> for Refusal {
    fn from(error: LineError) -> Refusal {
        match error {
            LineError::OtherVersion(_) => {
                Refusal::new(Code::Version, error.to_string()).key("speaks", 1)
            }
            _ => Refusal::new(Code::BadRequest, error.to_string()),
        }
    }
}
