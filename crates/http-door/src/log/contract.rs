//! Raw logs, as the door asks for them. Who answers speaks the raw pipe to the nodes; every call may take a while, so it is made on a thread of its own.

use std::fmt;
use std::time::Duration;

use access::{TicketText, Token};

/// Shown by the asker to the door.
#[derive(Clone, Debug)]
pub enum Credential {
    Nothing,
    Token(Token),
    /// A ticket: ‡ the nodes look at its signature again.
    Ticket(TicketText),
    /// A client's certificate of that name, which holds until then. ‡ The nodes believe a node that says so, and nobody else.
    Certificate {
        name: String,
        until_ms: u64,
    },
}

/// A log, and who asks. ‡ The nodes judge what was shown again, by the same table: a door is no way around it.
#[derive(Clone, Debug)]
pub struct Asking {
    pub log: String,
    pub shown: Credential,
}

/// A log that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Never another log's.
    pub id: u64,
    /// `None`: its bytes are its writers' own. Else what it is for.
    pub other_kind: Option<String>,
}

/// A place in one stream of a log, NAME@POSITION: bytes of that stream alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub stream: String,
    pub position: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.stream, self.position)
    }
}

/// Bytes that are to be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The chain that begins with this stream; `None`: the whole output.
    pub stream: Option<String>,
    pub from: u64,
    pub to: Option<u64>,
    pub follows: bool,
    /// As this node has it, and nobody else is asked.
    pub stale: bool,
}

/// The chain that wrote to a log last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Last {
    /// Its first stream, by which it is read.
    pub first: String,
    /// The bytes of the chain.
    pub bytes: u64,
    /// Where it could go on, unless it was closed.
    pub open_at: Option<Place>,
}

/// Why a log did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoLog {
    Unknown,
    Exists,
    /// Another writer is there.
    Busy,
    /// Another writer took over.
    Superseded,
    /// The stream to continue has another length, or was continued.
    Continues {
        length: u64,
        by: Option<String>,
    },
    UnknownStream,
    /// The bytes before this are gone; `None`: and all behind it.
    Trimmed {
        from: Option<u64>,
    },
    PastEnd {
        length: u64,
    },
    Full(String),
    Unauthenticated(String),
    Forbidden(String),
    /// The request makes no sense to a log.
    Bad(String),
    Refused(String),
    /// Nobody could answer, and nothing was done.
    NotNow(String),
    /// ‡ It may have been done.
    NotKnown(String),
    /// What was read or written is not what it should be.
    Damaged(String),
}

/// A writer: its bytes form one chain.
pub trait Append {
    /// Its first stream, by which all it writes can be read.
    fn stream(&self) -> String;
    /// Waits for room and for nothing else.
    fn write(&mut self, bytes: &[u8]) -> Result<(), NoLog>;
    /// Waits until all that was written is chosen, and leaves the chain open: it can be continued.
    fn leave(self: Box<Self>) -> Result<(), NoLog>;
    /// Ends the chain; all of it is chosen then.
    fn close(self: Box<Self>) -> Result<Ended, NoLog>;
}

/// A chain that was closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    pub first: String,
    pub last: String,
}

/// What comes next of a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    Bytes(Vec<u8>),
    /// Nothing came in time.
    Quiet,
    End(End),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Cleanly.
    Closed,
    /// Its writer vanished, and may come back.
    Cut,
    /// This is all that there is, or that was asked for.
    Here,
}

/// A read that was begun.
pub trait Read {
    /// Where it stands.
    fn position(&self) -> u64;
    /// The bytes that there were when it began.
    fn length(&self) -> u64;
    /// At most so many bytes, waited for at most so long.
    fn next(&mut self, bytes_max: usize, within: Duration) -> Result<Next, NoLog>;
}

/// The logs of a cluster.
pub trait Logs: Send + Sync + 'static {
    /// `stale`: as this node has heard of it.
    fn show(&self, asking: &Asking, stale: bool) -> Result<Shown, NoLog>;

    /// Makes one. Errors: [`NoLog::Exists`] if there is one of that name.
    fn create(&self, asking: &Asking) -> Result<(), NoLog>;

    fn delete(&self, asking: &Asking) -> Result<(), NoLog>;

    /// Opens a stream, behind a place if one is said. Errors: [`NoLog::Busy`] while another writer is there.
    fn append(&self, asking: &Asking, continues: Option<&Place>) -> Result<Box<dyn Append>, NoLog>;

    fn read(&self, asking: &Asking, wanted: &Wanted) -> Result<Box<dyn Read>, NoLog>;

    /// The first byte that is left, and the position behind the last one; of the chain that begins with `stream`, or of all. No byte is shown, so
    /// who may append hears it too.
    fn ends(&self, asking: &Asking, stream: Option<&str>, stale: bool)
    -> Result<(u64, u64), NoLog>;

    /// The chain that wrote last.
    fn last(&self, asking: &Asking) -> Result<Option<Last>, NoLog>;

    /// Whether no other writer's bytes stand between the first and the last stream of this chain.
    fn is_together(&self, asking: &Asking, chain: &Ended) -> Result<bool, NoLog>;
}
