//! A machine of one's own, and what becomes of a command.

use letters::{Fill, Step};

use crate::state::{State, Stop};

/// A replicated machine: commands on rows.
///
/// A command is executed where the log is led, and only there; the log holds what it wrote, which the other replicas
/// apply as it is. So a command need not be deterministic.
///
/// ```
/// use host::{Machine, State, Stop};
///
/// /// Counts by name.
/// struct Counters;
///
/// impl Machine for Counters {
///     fn execute(&self, state: &mut State<'_>, name: &[u8]) -> Result<Vec<u8>, Stop> {
///         let count = match state.get(name)? {
///             Some(bytes) => u64::from_le_bytes(bytes.try_into().map_err(|_| Stop::refused("no counter"))?),
///             None => 0,
///         };
///         let next = (count + 1).to_le_bytes();
///         state.put(name, &next)?;
///         Ok(next.to_vec())
///     }
/// }
/// ```
pub trait Machine: Send + Sync + 'static {
    /// Executes a command, and returns its answer.
    ///
    /// Errors: [`Stop::refused`], of which the caller is told the reason; and the errors of `state`, handed on. Nothing is
    /// written then. A panic is told to the caller as a refusal, too.
    fn execute(&self, state: &mut State<'_>, command: &[u8]) -> Result<Vec<u8>, Stop>;

    /// Reads rows that this command will read, and writes nothing: a call that has to wait for others of its [order](crate::What::Call) has them
    /// fetched meanwhile. It may read fewer or others, at the price of time. Errors of `state` are passed over.
    fn foresee(&self, _state: &mut State<'_>, _command: &[u8]) {}

    /// Keys of the rows that a command reads next which reads this row: they are fetched with it, where each else would cost a way to a thread
    /// of readers and back. It may name fewer or others, at the price of time. It is asked on such a thread, and only of rows that are fetched.
    fn leads_to(&self, _key: &[u8], _value: &[u8]) -> Vec<Vec<u8>> {
        Vec::new()
    }

    /// ‡ Whether its commands may [forget](State::forget) prefixes. A machine that says so never writes below a prefix that it once forgot: replicas
    /// remember them for different lengths of time, so one such write stops its states on all nodes, for good.
    fn forgets(&self) -> bool {
        false
    }

    /// This node begins to execute commands of a log: others may have, since it did so last, or a restore has brought rows. For machines that keep something in memory beside
    /// their rows.
    fn begins(&self) {}
}

/// A command for a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Executed each time that it is asked for.
    Plain(Vec<u8>),
    /// … and the time of the log is not before this from then on.
    NotBefore { time_ms: u64, command: Vec<u8> },
    /// A session begins: its number, as 8 bytes (little-endian), is the answer.
    OpenSession,
    /// Executed once, however often it is asked for. Of a session's commands each has a greater sequence number than the one
    /// before, and is asked for until its outcome is known.
    Once {
        session: u64,
        sequence: u64,
        command: Vec<u8>,
    },
    /// A step of a restore. The machine itself does not see it.
    Fill(Fill),
}

/// The fate of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is executed, and a majority has it on disk.
    Chosen(Vec<u8>),
    /// It was refused by the machine, for this reason, and wrote nothing.
    Refused(String),
    /// There is no such session, or no more: the command was not executed.
    NoSession,
    /// A later command of the session was executed: whether this one was is not known any more.
    Superseded,
    /// It was not executed, and never will be: another node leads, at this address if that is known.
    NotLeader { leader: Option<String> },
    /// It was not executed, and never will be, for this reason: it may be asked for again.
    NotNow(String),
    /// It was executed, or never will be, and nobody can say which. A session's command may be asked for again.
    Unknown,
}

impl Command {
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Command::Plain(command)
            | Command::NotBefore { command, .. }
            | Command::Once { command, .. } => command.len(),
            Command::Fill(Fill {
                step: Step::Page { rows, .. },
                ..
            }) => rows.len(),
            Command::OpenSession | Command::Fill(_) => 0,
        }
    }

    /// The time of the log is not before this from then on.
    pub(crate) fn time_ms(&self) -> u64 {
        match self {
            Command::Fill(Fill {
                step: Step::End { time_ms, .. },
                ..
            }) => *time_ms,
            Command::NotBefore { time_ms, .. } => *time_ms,
            _ => 0,
        }
    }
}
