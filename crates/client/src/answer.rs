//! The answers to client lines, typed. Needs only `std` and [`crate::line`].

use std::fmt;
use std::str::FromStr;

use crate::line::{LineError, LineWriter, StreamName, Words};

/// One line that a node answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Another writer is active; said again every second.
    Waiting,
    /// The stream is open. `at` is the chain position at which it begins.
    Stream {
        name: StreamName,
        at: u64,
    },
    /// Every byte of this stream below the position is chosen.
    Ack(u64),
    /// The stream ended cleanly at this position of its own.
    Closed(u64),
    /// What a read begins with. `length` bytes are known chosen now.
    Reading {
        from: u64,
        length: u64,
        stale: bool,
        open: bool,
    },
    /// `count` raw bytes follow. None at all: a sign of life.
    Data {
        position: u64,
        count: u64,
        crc32c: u32,
    },
    End {
        position: u64,
        end: ReadEnd,
    },
    /// The rest of the line, JSON.
    Ok(String),
    Error(Refusal),
}

/// Why a read ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadEnd {
    /// The chain ended cleanly.
    Closed,
    /// Its writer vanished or was superseded; another may yet continue it.
    Cut,
    /// It may still grow; this is all that is chosen.
    Open,
    /// The asked end was reached.
    To,
}

/// An `error` line: the last one of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub code: Code,
    pub keys: Vec<(String, String)>,
    /// For people.
    pub sentence: String,
}

macro_rules! codes {
    ($($variant:ident = $word:literal),* $(,)?) => {
        /// What an `error` line says, for programs.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Code {
            $($variant,)*
            /// A code that this version does not know.
            Other(String),
        }
        impl fmt::Display for Code {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$variant => $word,)* Self::Other(word) => word })
            }
        }
        impl From<&str> for Code {
            fn from(word: &str) -> Self {
                match word { $($word => Self::$variant,)* _ => Self::Other(word.to_owned()) }
            }
        }
        #[cfg(test)]
        const CODES: &[Code] = &[$(Code::$variant),*];
    };
}

codes! {
    BadRequest = "bad-request",
    Version = "version",
    NotLeader = "not-leader",
    NoQuorum = "no-quorum",
    Busy = "busy",
    Superseded = "superseded",
    UnknownLog = "unknown-log",
    UnknownStream = "unknown-stream",
    UnknownNode = "unknown-node",
    CannotLead = "cannot-lead",
    Continues = "continues",
    Full = "full",
    TooManyStreams = "too-many-streams",
    Trimmed = "trimmed",
    PastEnd = "past-end",
    NotHere = "not-here",
    Exists = "exists",
    ShuttingDown = "shutting-down",
    Overloaded = "overloaded",
    Refused = "refused",
    WrongCluster = "wrong-cluster",
    NotInForce = "not-in-force",
}

impl Refusal {
    pub fn new(code: Code, sentence: impl Into<String>) -> Self {
        Self {
            code,
            keys: Vec::new(),
            sentence: sentence.into(),
        }
    }

    pub fn with(mut self, key: &str, value: impl fmt::Display) -> Self {
        self.keys.push((key.to_owned(), value.to_string()));
        self
    }

    /// A key's value, if it is there and of its kind.
    pub fn key<T: FromStr>(&self, key: &str) -> Option<T> {
        let (_, value) = self.keys.iter().find(|(known, _)| known == key)?;
        value.parse().ok()
    }

    fn parse(rest: &str) -> Result<Self, LineError> {
        // Values are encoded, so the first colon before a space ends them.
        let (head, sentence) = match rest.split_once(": ") {
            Some(parts) => parts,
            None => (rest.strip_suffix(':').unwrap_or(rest), ""),
        };
        let mut words = head.split(' ');
        let code = words.next().filter(|code| !code.is_empty());
        let code = crate::line::decode(code.ok_or(LineError::Missing("CODE"))?)?;
        let mut refusal = Self::new(code.as_str().into(), sentence);
        for argument in words {
            let (key, value) = argument
                .split_once('=')
                .ok_or_else(|| LineError::Surplus(argument.to_owned()))?;
            refusal
                .keys
                .push((crate::line::decode(key)?, crate::line::decode(value)?));
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

impl fmt::Display for ReadEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => "closed",
            Self::Cut => "cut",
            Self::Open => "open",
            Self::To => "to",
        })
    }
}

impl FromStr for ReadEnd {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        match word {
            "closed" => Ok(Self::Closed),
            "cut" => Ok(Self::Cut),
            "open" => Ok(Self::Open),
            "to" => Ok(Self::To),
            _ => Err(()),
        }
    }
}

impl Answer {
    /// The answer as a line with its LF.
    pub fn to_line(&self) -> String {
        match self {
            Self::Waiting => LineWriter::new("waiting").end(),
            Self::Stream { name, at } => LineWriter::new("stream").word(name).key("at", at).end(),
            Self::Ack(position) => LineWriter::new("ack").word(position).end(),
            Self::Closed(position) => LineWriter::new("closed").word(position).end(),
            Self::Reading {
                from,
                length,
                stale,
                open,
            } => LineWriter::new("reading")
                .key("from", from)
                .key("length", length)
                .key("stale", u8::from(*stale))
                .flag("open", *open)
                .end(),
            Self::Data {
                position,
                count,
                crc32c,
            } => LineWriter::new("data")
                .word(position)
                .word(count)
                .word(format_args!("{crc32c:08x}"))
                .end(),
            Self::End { position, end } => LineWriter::new("end").word(position).word(end).end(),
            Self::Ok(json) => format!("ok {json}\n"),
            Self::Error(refusal) => {
                let line = LineWriter::new("error").word(&refusal.code);
                let line = refusal
                    .keys
                    .iter()
                    .fold(line, |line, (key, value)| line.key(key, value))
                    .end();
                // A sentence is one line, whatever went into it.
                let sentence = refusal.sentence.replace(['\r', '\n'], " ");
                format!("{}: {sentence}\n", line.trim_end())
            }
        }
    }

    /// Parses an answer, with or without its LF. Keys that this version does not know are left
    /// aside: a newer node may say more.
    pub fn parse(line: &[u8]) -> Result<Self, LineError> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        if line == b"ok" {
            return Ok(Self::Ok(String::new()));
        }
        if let Some(json) = line.strip_prefix(b"ok ") {
            let json = std::str::from_utf8(json).map_err(|_| LineError::NotUtf8)?;
            return Ok(Self::Ok(json.to_owned()));
        }
        if let Some(rest) = line.strip_prefix(b"error ") {
            let rest = std::str::from_utf8(rest).map_err(|_| LineError::NotUtf8)?;
            return Refusal::parse(rest).map(Self::Error);
        }
        let mut words = Words::parse(line)?;
        let verb = words.word("answer")?;
        Ok(match verb.as_str() {
            "waiting" => Self::Waiting,
            "stream" => Self::Stream {
                name: words.word_as("NAME")?,
                at: words.key_as("at")?.ok_or(LineError::Missing("at"))?,
            },
            "ack" => Self::Ack(words.word_as("POSITION")?),
            "closed" => Self::Closed(words.word_as("POSITION")?),
            "reading" => Self::Reading {
                from: words.key_as("from")?.ok_or(LineError::Missing("from"))?,
                length: words
                    .key_as("length")?
                    .ok_or(LineError::Missing("length"))?,
                stale: words.flag("stale")?,
                open: words.flag("open")?,
            },
            "data" => Self::Data {
                position: words.word_as("POSITION")?,
                count: words.word_as("COUNT")?,
                crc32c: {
                    let found = words.word("CRC32C")?;
                    let digits = found.len() == 8 && found.bytes().all(|b| b.is_ascii_hexdigit());
                    match u32::from_str_radix(&found, 16) {
                        Ok(crc32c) if digits => crc32c,
                        _ => {
                            return Err(LineError::Value {
                                key: "CRC32C",
                                found,
                            });
                        }
                    }
                },
            },
            "end" => Self::End {
                position: words.word_as("POSITION")?,
                end: words.word_as("closed|cut|open|to")?,
            },
            _ => return Err(LineError::UnknownVerb(verb)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn answers_are_written_as_the_page_says() {
        let name: StreamName = "1.1.3".parse().unwrap();
        let answers = [
            ("waiting\n", Answer::Waiting),
            ("stream 1.1.3 at=9\n", Answer::Stream { name, at: 9 }),
            ("ack 10\n", Answer::Ack(10)),
            ("closed 10\n", Answer::Closed(10)),
            (
                "reading from=0 length=5 stale=0 open=1\n",
                Answer::Reading {
                    from: 0,
                    length: 5,
                    stale: false,
                    open: true,
                },
            ),
            (
                "data 5 1024 0000abcd\n",
                Answer::Data {
                    position: 5,
                    count: 1024,
                    crc32c: 0xabcd,
                },
            ),
            (
                "end 7 cut\n",
                Answer::End {
                    position: 7,
                    end: ReadEnd::Cut,
                },
            ),
            ("ok [{\"id\":1}]\n", Answer::Ok("[{\"id\":1}]".to_owned())),
            (
                "error not-leader leader=127.0.0.1:7118: Node 2 leads.\n",
                Answer::Error(
                    Refusal::new(Code::NotLeader, "Node 2 leads.").with("leader", "127.0.0.1:7118"),
                ),
            ),
            (
                "error no-quorum: Only 1 of 3 nodes answers: wait.\n",
                Answer::Error(Refusal::new(
                    Code::NoQuorum,
                    "Only 1 of 3 nodes answers: wait.",
                )),
            ),
        ];
        for (line, answer) in answers {
            assert_eq!(answer.to_line(), line);
            assert_eq!(Answer::parse(line.as_bytes()), Ok(answer));
        }
    }

    #[test]
    fn every_code_survives_a_line() {
        for code in CODES {
            let answer = Answer::Error(Refusal::new(code.clone(), "so it is"));
            assert_eq!(Answer::parse(answer.to_line().as_bytes()), Ok(answer));
        }
    }

    #[test]
    fn an_error_of_a_newer_node_is_still_an_error() {
        let Ok(Answer::Error(refusal)) = Answer::parse(b"error too-hot degrees=90: Cool it.\n")
        else {
            panic!("no error")
        };
        assert_eq!(refusal.code, Code::Other("too-hot".to_owned()));
        assert_eq!(refusal.key("degrees"), Some(90));
    }

    #[test]
    fn a_checksum_is_eight_digits_of_hex() {
        for crc in ["1", "+0000abc", "0000abcg", "00000abcd"] {
            let line = format!("data 0 1 {crc}");
            assert!(Answer::parse(line.as_bytes()).is_err(), "{crc}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_from_a_node_panic(line in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = Answer::parse(&line);
        }

        #[test]
        fn every_sentence_survives_in_one_line(sentence in "[^\r\n]*", value in ".*") {
            let refusal = Refusal::new(Code::Busy, sentence).with("stream", value);
            let line = Answer::Error(refusal.clone()).to_line();
            prop_assert_eq!(Answer::parse(line.as_bytes()), Ok(Answer::Error(refusal)));
        }
    }
}
