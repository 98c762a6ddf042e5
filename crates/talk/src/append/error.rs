//! Why an append is over.

use std::io;

use wire::{Code, Refusal, StreamName, StreamPlace};

use crate::said::Unreachable;

/// The reason why an append is over. Acknowledged bytes stay.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AppendError {
    #[error(transparent)]
    Unreachable(#[from] Unreachable),
    #[error(
        "there is no log {log:?}; `logberg log list` lists them, `logberg log create` makes one"
    )]
    UnknownLog { log: String },
    #[error("log {log:?} has an active writer{}; wait for it (`--wait`) or take over (`--takeover`)", named(.stream))]
    Busy {
        log: String,
        stream: Option<StreamName>,
    },
    /// Final in every mode: two writers that took over from each other would do so for ever.
    #[error("another writer took over{}; what was acknowledged stays", named(.by))]
    Superseded { by: Option<StreamName> },
    #[error("{place} cannot be continued: that stream is {length} bytes long{}", continued(.by))]
    Continues {
        place: StreamPlace,
        length: u64,
        by: Option<StreamName>,
    },
    #[error("there is no stream {stream} to continue; it may have been trimmed")]
    UnknownStream { stream: StreamName },
    /// `disks`: whose they are, if the server said so.
    #[error("{}; free space there, or trim", full(.server, .disks))]
    Full {
        server: String,
        disks: Option<String>,
    },
    #[error("{server} refused: {refusal}")]
    Refused { server: String, refusal: Refusal },
    #[error("{server} answered with what cannot be: {what}; do not trust this stream's end")]
    Garbled { server: String, what: String },
    #[error(
        "{server} stored other bytes than were sent: those of the stream below {place} have the checksum {stored:08x}, and {sent:08x} was \
         sent; look for the damage between here and there, and append them again"
    )]
    Damaged {
        server: String,
        place: StreamPlace,
        sent: u32,
        stored: u32,
    },
    #[error("the stream is closed")]
    Closed,
    #[error("the appender was dropped; what was acknowledged stays")]
    Dropped,
    #[error("the appender's thread could not run: {0}")]
    Thread(String),
}

fn full(server: &str, disks: &Option<String>) -> String {
    match disks {
        Some(disks) => format!("the disk of {disks} is full"),
        None => format!("a disk of the cluster is full, as {server} says"),
    }
}

fn named(stream: &Option<StreamName>) -> String {
    stream.map_or_else(String::new, |name| format!(" (stream {name})"))
}

fn continued(by: &Option<StreamName>) -> String {
    by.map_or_else(String::new, |name| format!(" and continued by {name}"))
}

impl From<AppendError> for io::Error {
    fn from(error: AppendError) -> Self {
        let kind = match error {
            AppendError::Unreachable(_) => io::ErrorKind::TimedOut,
            AppendError::Full { .. } => io::ErrorKind::StorageFull,
            AppendError::Busy { .. } => io::ErrorKind::ResourceBusy,
            AppendError::UnknownLog { .. } | AppendError::UnknownStream { .. } => {
                io::ErrorKind::NotFound
            }
            AppendError::Garbled { .. } | AppendError::Damaged { .. } => io::ErrorKind::InvalidData,
            _ => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}

/// The refusals that mean the same whenever they come.
pub(super) fn final_error(log: &str, server: &str, refusal: Refusal) -> AppendError {
    let log = log.to_owned();
    match refusal.code {
        Code::UnknownLog => AppendError::UnknownLog { log },
        Code::Superseded => AppendError::Superseded {
            by: refusal.value("stream"),
        },
        Code::Busy => AppendError::Busy {
            log,
            stream: refusal.value("stream"),
        },
        Code::Full => AppendError::Full {
            server: server.to_owned(),
            disks: refusal.value("disks"),
        },
        _ => AppendError::Refused {
            server: server.to_owned(),
            refusal,
        },
    }
}
