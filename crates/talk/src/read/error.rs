//! Why a read is over before its end.

use std::io;

use wire::{Code, Refusal};

use super::ReadOptions;
use crate::said::Unreachable;

/// Why a read is over before its end.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ReadError {
    #[error(transparent)]
    Unreachable(#[from] Unreachable),
    #[error(
        "there is no log {log:?}; `logberg log list` lists them, `logberg log create` makes one"
    )]
    UnknownLog { log: String },
    #[error("there is no stream {stream} in log {log:?}; `streams` lists those there are")]
    UnknownStream { log: String, stream: String },
    #[error("the bytes before {from} were trimmed; read from there")]
    Trimmed { from: u64 },
    #[error("stream {stream} was trimmed; `streams` lists what is left")]
    StreamTrimmed { stream: String },
    #[error("position {position} lies beyond the end, {length}; follow to wait for it")]
    PastEnd { position: u64, length: u64 },
    #[error(
        "the {count} bytes at {position} arrived with another checksum than {server} sent \
         ({found:08x}, not {expected:08x}); try another node and check that one's disk and network"
    )]
    Corrupt {
        server: String,
        position: u64,
        count: u64,
        expected: u32,
        found: u32,
    },
    #[error("{server} refused: {refusal}")]
    Refused { server: String, refusal: Refusal },
    #[error("{server} answered with what cannot be: {what}")]
    Garbled { server: String, what: String },
}

impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> Self {
        let kind = match error {
            ReadError::Unreachable(_) => io::ErrorKind::TimedOut,
            ReadError::UnknownLog { .. } | ReadError::UnknownStream { .. } => {
                io::ErrorKind::NotFound
            }
            ReadError::Corrupt { .. } | ReadError::Garbled { .. } => io::ErrorKind::InvalidData,
            _ => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}

/// A refusal that means the same from every server.
pub(super) fn refused(
    options: &ReadOptions,
    position: u64,
    server: &str,
    refusal: Refusal,
) -> ReadError {
    let log = options.log.clone();
    let server = server.to_owned();
    match (&refusal.code, options.stream) {
        (Code::UnknownLog, _) => ReadError::UnknownLog { log },
        (Code::UnknownStream, Some(stream)) => ReadError::UnknownStream {
            log,
            stream: stream.to_string(),
        },
        (Code::Trimmed, stream) => match (refusal.value("from"), stream) {
            (Some(from), _) => ReadError::Trimmed { from },
            (None, Some(stream)) => ReadError::StreamTrimmed {
                stream: stream.to_string(),
            },
            (None, None) => ReadError::Refused { server, refusal },
        },
        (Code::PastEnd, _) => match refusal.value("length") {
            Some(length) if length >= position => ReadError::Garbled {
                server,
                what: format!("{position} lies beyond an end at {length}"),
            },
            length => ReadError::PastEnd {
                position,
                length: length.unwrap_or(0),
            },
        },
        _ => ReadError::Refused { server, refusal },
    }
}
