//! The kinds of logs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The meaning of a log's bytes. A log has its kind for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogKind {
    /// The bytes are the log's writers' own.
    #[default]
    Bytes,
    /// The bytes are the frames of a machine's writes: each replica applies them to a state, and clients write none.
    State,
    /// As `State`, of a machine that every node has which serves keys: a group of slots.
    Kv,
    /// As `Kv`, of a machine that serves named streams: a space of them.
    Streams,
}

impl LogKind {
    pub fn is_bytes(&self) -> bool {
        *self == LogKind::Bytes
    }
}

impl fmt::Display for LogKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LogKind::Bytes => "bytes",
            LogKind::State => "state",
            LogKind::Kv => "kv",
            LogKind::Streams => "streams",
        })
    }
}

impl FromStr for LogKind {
    type Err = String;

    fn from_str(text: &str) -> Result<LogKind, String> {
        match text {
            "bytes" => Ok(LogKind::Bytes),
            "state" => Ok(LogKind::State),
            "kv" => Ok(LogKind::Kv),
            "streams" => Ok(LogKind::Streams),
            _ => Err("a log's kind is bytes, state, kv or streams".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::LogKind;

    #[test]
    fn what_a_kind_is_called_names_it() {
        let kinds = [
            LogKind::Bytes,
            LogKind::State,
            LogKind::Kv,
            LogKind::Streams,
        ];
        for kind in kinds {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        assert!("Bytes".parse::<LogKind>().is_err());
    }
}
