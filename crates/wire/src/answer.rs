//! A node's answers, typed: one line each.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::line::{LineError, Words};
use crate::{Code, Refusal, StreamName};

/// One line that a node answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Another writer is active; the line is said again every second.
    Waiting,
    /// The stream is open. `at` is the chain position at which it begins.
    Stream {
        name: StreamName,
        at: u64,
    },
    /// Every byte of this stream below the position is chosen.
    Ack(u64),
    /// The same, and the checksum of those bytes, for a writer that asked for it.
    Checked {
        position: u64,
        crc32c: u32,
    },
    /// The stream ended cleanly at this position of its own.
    Closed(u64),
    /// A read begins. `length` bytes are known chosen now.
    Reading {
        from: u64,
        length: u64,
        stale: bool,
        open: bool,
    },
    /// `count` raw bytes follow. With no bytes it is a sign of life.
    Data {
        position: u64,
        count: u64,
        crc32c: u32,
    },
    End {
        position: u64,
        end: ReadEnd,
    },
    /// Success, with the rest of the line, JSON.
    Ok(String),
    Error(Refusal),
}

/// The reason why a read ended.
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

/// A whole line: `ok` and JSON behind it.
pub fn ok(value: &impl Serialize) -> String {
    match serde_json::to_string(value) {
        Ok(json) => format!("ok {json}\n"),
        Err(e) => Answer::Error(Refusal::new(Code::BadRequest, e.to_string())).to_line(),
    }
}

impl Answer {
    /// The answer as a line with its line feed.
    pub fn to_line(&self) -> String {
        // No number or name needs to be encoded.
        match self {
            Self::Waiting => "waiting\n".to_owned(),
            Self::Stream { name, at } => format!("stream {name} at={at}\n"),
            Self::Ack(position) => format!("ack {position}\n"),
            Self::Checked { position, crc32c } => format!("ack {position} crc32c={crc32c:08x}\n"),
            Self::Closed(position) => format!("closed {position}\n"),
            Self::Reading {
                from,
                length,
                stale,
                open,
            } => {
                let stale = u8::from(*stale);
                let open = if *open { " open=1" } else { "" };
                format!("reading from={from} length={length} stale={stale}{open}\n")
            }
            Self::Data {
                position,
                count,
                crc32c,
            } => format!("data {position} {count} {crc32c:08x}\n"),
            Self::End { position, end } => format!("end {position} {end}\n"),
            Self::Ok(json) => format!("ok {json}\n"),
            Self::Error(refusal) => {
                let line = String::from_utf8(refusal.encode());
                line.expect("a refusal is written as text")
            }
        }
    }

    /// Parses an answer, with or without its line feed. Words and keys that this version does not know
    /// are left aside: a newer node may say more.
    pub fn parse(line: &[u8]) -> Result<Self, LineError> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        if line == b"ok" {
            return Ok(Self::Ok(String::new()));
        }
        if let Some(json) = line.strip_prefix(b"ok ") {
            let json = std::str::from_utf8(json).map_err(|_| LineError::NotText)?;
            return Ok(Self::Ok(json.to_owned()));
        }
        if let Some(rest) = line.strip_prefix(b"error ") {
            return Refusal::parse(rest).map(Self::Error);
        }
        let mut words = Words::of_answer(line)?;
        let verb = words.word("answer")?;
        Ok(match verb.as_str() {
            "waiting" => Self::Waiting,
            "stream" => Self::Stream {
                name: words.word_as("NAME")?,
                at: words.key_as("at")?,
            },
            "ack" => {
                let position = words.word_as("POSITION")?;
                match words.value("crc32c") {
                    None => Self::Ack(position),
                    Some(value) => Self::Checked {
                        position,
                        crc32c: checksum(value)?,
                    },
                }
            }
            "closed" => Self::Closed(words.word_as("POSITION")?),
            "reading" => Self::Reading {
                from: words.key_as("from")?,
                length: words.key_as("length")?,
                // ‡ Whoever says nothing of it has not said that the bytes are not stale.
                stale: match words.key_as::<u8>("stale")? {
                    0 => false,
                    _ => words.flag("stale")?,
                },
                open: words.flag("open")?,
            },
            "data" => Self::Data {
                position: words.word_as("POSITION")?,
                count: words.word_as("COUNT")?,
                crc32c: checksum(words.word("CRC32C")?)?,
            },
            "end" => Self::End {
                position: words.word_as("POSITION")?,
                end: words.word_as("closed|cut|open|to")?,
            },
            _ => return Err(LineError::UnknownAnswer(verb)),
        })
    }
}

/// Eight digits of hex.
fn checksum(value: String) -> Result<u32, LineError> {
    let digits = value.len() == 8 && value.bytes().all(|b| b.is_ascii_hexdigit());
    let checksum = u32::from_str_radix(&value, 16).ok();
    checksum.filter(|_| digits).ok_or(LineError::BadValue {
        key: "CRC32C".to_owned(),
        value,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_code_survives_a_line() {
        for code in Code::ALL {
            let answer = Answer::Error(Refusal::new(code.as_str(), "so it is"));
            let Answer::Error(refusal) = &answer else {
                unreachable!("just made")
            };
            assert_eq!(refusal.code, *code);
            assert_eq!(Answer::parse(answer.to_line().as_bytes()), Ok(answer));
        }
    }

    #[test]
    fn an_error_of_a_newer_node_is_still_an_error() {
        let Ok(Answer::Error(refusal)) = Answer::parse(b"error too-hot now degrees=90: Cool it.\n")
        else {
            panic!("no error")
        };
        assert_eq!(refusal.code, Code::Other("too-hot".to_owned()));
        assert_eq!(refusal.value("degrees"), Some(90));
    }

    #[test]
    fn a_newer_node_may_say_more() {
        let said = Answer::parse(b"ack 10 soon by=2 by=3\n");
        assert_eq!(said, Ok(Answer::Ack(10)));
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
        fn every_sentence_survives_in_one_line(sentence in "[^\\p{Cc}]*", value in ".*") {
            let refusal = Refusal::new(Code::Busy, sentence).key("stream", value);
            let line = Answer::Error(refusal.clone()).to_line();
            prop_assert_eq!(Answer::parse(line.as_bytes()), Ok(Answer::Error(refusal)));
        }
    }
}
