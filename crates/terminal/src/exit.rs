//! The meaning of an error to the caller of the program: one sentence and an exit code.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done; also when the reader of our output went away |
//! | 1 | failure |
//! | 2 | wrong usage |
//! | 3 | nobody reachable, no quorum, or no answer in time |
//! | 4 | refused: the log has a writer, another writer took over, a disk is full, a place beyond the end, too few voters for so many copies, a log has too many streams, a node cannot lead, too great a risk, a directory of something else, no token, or none that allows it |
//! | 5 | no such log, stream, node or file |
//! | 6 | bytes arrived damaged, or a node answered what cannot be |
//! | 7 | the bytes asked for were trimmed |
//! | 8 | `status`: all is served, and something is wrong (with 13 appends are refused, with 3 something is not served) |
//! | 9 | acknowledged bytes are lost, or a node cannot start from its directory |
//! | 10 | agreed for good, and not yet in force in some log or at some node; the same command again waits on |
//! | 11 | `read`: the stream that was read was cut, for its writer vanished or was superseded: what was read is not a whole stream |
//! | 12 | standard output took not all of the answer (it is full, say); what was to be done is done, and the answer is on standard error |
//! | 13 | `status`: appends to a log are refused, and all is read |

use std::io::{self, Write};
use std::process::ExitCode;

use client::answer::Code;
use client::{AdminError, AppendError, ReadError};

/// An error of a command's own, with the code it is to end with.
#[derive(Debug)]
pub struct Failure {
    pub kind: Kind,
    pub sentence: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Failure = 1,
    Usage = 2,
    Unreachable = 3,
    Refused = 4,
    NotFound = 5,
    Corrupt = 6,
    Trimmed = 7,
    AtRisk = 8,
    Lost = 9,
    NotInForce = 10,
    Cut = 11,
    Unsaid = 12,
    Degraded = 13,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Failure => "failure",
            Self::Usage => "usage",
            Self::Unreachable => "unreachable",
            Self::Refused => "refused",
            Self::NotFound => "not-found",
            Self::Corrupt => "corrupt",
            Self::Trimmed => "trimmed",
            Self::AtRisk => "at-risk",
            Self::Lost => "lost",
            Self::NotInForce => "not-in-force",
            Self::Cut => "cut",
            Self::Unsaid => "unsaid",
            Self::Degraded => "degraded",
        }
    }
}

/// All was said on standard output; only the code is to tell more.
#[derive(Debug, thiserror::Error)]
#[error("see the output")]
pub struct Said(pub Kind);

/// A failure after which work can be gone on with, and the command that does so.
#[derive(Debug)]
pub struct Resumable {
    /// The part that was done, and the part that was not.
    pub sentence: String,
    /// Words before the command, such as what is to be fed to it.
    pub how: String,
    pub command: String,
    /// Where it stood, for machines.
    pub place: String,
}

impl std::fmt::Display for Resumable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl Failure {
    pub fn new(kind: Kind, sentence: impl Into<String>) -> Self {
        Self {
            kind,
            sentence: sentence.into(),
        }
    }

    pub fn usage(sentence: impl Into<String>) -> Self {
        Self::new(Kind::Usage, sentence)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for Failure {}

/// Says what went wrong on standard error, and with which code to end. `program`: its name.
///
/// A closed pipe on standard output is no error: `logberg read main | head -c 10` has what it
/// wanted. (No other broken pipe comes this far; the client makes its own sense of its sockets'.)
pub fn report(program: &str, error: &anyhow::Error, json: bool) -> ExitCode {
    if is_closed_pipe(error) {
        return ExitCode::SUCCESS;
    }
    if let Some(Said(kind)) = error.downcast_ref() {
        return ExitCode::from(*kind as u8);
    }
    let kind = classify(error);
    let sentence = format!("{error:#}");
    let resumable = error.downcast_ref::<Resumable>();
    match json {
        true => {
            let mut object = serde_json::json!({
                "kind": kind.word(), "exit": kind as u8, "message": sentence
            });
            if let Some(from) = error.chain().find_map(left_from) {
                object["from"] = from.into();
            }
            if let Some(resumable) = resumable {
                object["continue"] = resumable.place.as_str().into();
                object["command"] = resumable.command.as_str().into();
            }
            if let Some(logs) = error.chain().find_map(not_in_force_in) {
                object["logs"] = logs.into();
            }
            say(&serde_json::json!({ "error": object }).to_string());
        }
        false => {
            say(&format!("{program}: {sentence}"));
            if let Some(Resumable { how, command, .. }) = resumable {
                say(&format!("{program}: {how}:\n  {command}"));
            }
        }
    }
    ExitCode::from(kind as u8)
}

/// A sentence that standard error does not take is lost, and the exit code stays: it may be a file on a disk that is full.
fn say(sentence: &str) {
    drop(writeln!(io::stderr(), "{sentence}"));
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let io = cause.downcast_ref::<io::Error>();
        io.is_some_and(|io| io.kind() == io::ErrorKind::BrokenPipe)
    })
}

fn classify(error: &anyhow::Error) -> Kind {
    error.chain().find_map(known).unwrap_or(Kind::Failure)
}

/// The logs that have not heard of what was agreed.
fn not_in_force_in(cause: &(dyn std::error::Error + 'static)) -> Option<Vec<String>> {
    match cause.downcast_ref()? {
        AdminError::NotInForce { logs, .. } => Some(logs.clone()),
        _ => None,
    }
}

/// The beginning of the bytes that are left, where some were trimmed.
fn left_from(cause: &(dyn std::error::Error + 'static)) -> Option<u64> {
    if let Some(ReadError::Trimmed { from }) = cause.downcast_ref() {
        return Some(*from);
    }
    left_from(cause.downcast_ref::<io::Error>()?.get_ref()?)
}

fn known(cause: &(dyn std::error::Error + 'static)) -> Option<Kind> {
    if let Some(failure) = cause.downcast_ref::<Failure>() {
        return Some(failure.kind);
    }
    if let Some(error) = cause.downcast_ref::<AppendError>() {
        return Some(of_append(error));
    }
    if let Some(error) = cause.downcast_ref::<ReadError>() {
        return Some(of_read(error));
    }
    if let Some(error) = cause.downcast_ref::<AdminError>() {
        return Some(of_admin(error));
    }
    let io = cause.downcast_ref::<io::Error>()?;
    match io.get_ref() {
        // The client's errors travel inside those of `Read` and `Write`.
        Some(inner) => known(inner),
        None if io.kind() == io::ErrorKind::NotFound => Some(Kind::NotFound),
        None => None,
    }
}

fn of_append(error: &AppendError) -> Kind {
    match error {
        AppendError::Unreachable(_) => Kind::Unreachable,
        AppendError::UnknownLog { .. } | AppendError::UnknownStream { .. } => Kind::NotFound,
        AppendError::Busy { .. }
        | AppendError::Superseded { .. }
        | AppendError::Continues { .. }
        | AppendError::Full { .. } => Kind::Refused,
        AppendError::Garbled { .. } | AppendError::Damaged { .. } => Kind::Corrupt,
        AppendError::Refused { refusal, .. } => of_refusal(refusal),
        AppendError::Closed | AppendError::Dropped | AppendError::Thread(_) => Kind::Failure,
    }
}

fn of_read(error: &ReadError) -> Kind {
    match error {
        ReadError::Unreachable(_) => Kind::Unreachable,
        ReadError::UnknownLog { .. } | ReadError::UnknownStream { .. } => Kind::NotFound,
        ReadError::Corrupt { .. } | ReadError::Garbled { .. } => Kind::Corrupt,
        // Only a node that was asked alone says so: it does not host the log.
        ReadError::Refused { refusal, .. } if refusal.code == Code::NotLeader => Kind::NotFound,
        ReadError::Refused { refusal, .. } => of_refusal(refusal),
        ReadError::Trimmed { .. } | ReadError::StreamTrimmed { .. } => Kind::Trimmed,
        ReadError::PastEnd { .. } => Kind::Refused,
    }
}

fn of_admin(error: &AdminError) -> Kind {
    match error {
        AdminError::Unreachable(_) => Kind::Unreachable,
        AdminError::UnknownLog { .. } => Kind::NotFound,
        AdminError::Exists { .. } => Kind::Refused,
        AdminError::NotInForce { .. } => Kind::NotInForce,
        AdminError::Refused { refusal, .. } => of_refusal(refusal),
        AdminError::Garbled { .. } => Kind::Corrupt,
    }
}

fn of_refusal(refusal: &client::Refusal) -> Kind {
    match refusal.code {
        Code::UnknownLog
        | Code::UnknownStream
        | Code::UnknownNode
        | Code::UnknownToken
        | Code::UnknownIssuer => Kind::NotFound,
        Code::BadRequest => Kind::Usage,
        Code::Busy
        | Code::Superseded
        | Code::Full
        | Code::TooFewCopies
        | Code::TooManyStreams
        | Code::Exists
        | Code::Continues
        | Code::CannotLead
        | Code::Unauthenticated
        | Code::Forbidden
        | Code::TlsRequired
        | Code::WrongCluster
        | Code::Version
        | Code::PastEnd
        | Code::NotEmpty
        | Code::FilledBefore
        | Code::Removed
        | Code::OldCopy
        | Code::NoProof
        | Code::Refused => Kind::Refused,
        Code::NoQuorum
        | Code::NotLeader
        | Code::NotHere
        | Code::NoMachine
        | Code::ShuttingDown
        | Code::TooLate
        | Code::Overloaded => Kind::Unreachable,
        Code::Trimmed => Kind::Trimmed,
        Code::NotInForce => Kind::NotInForce,
        Code::Other(_) => Kind::Failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn an_error_inside_a_write_error_keeps_its_code() {
        let superseded = AppendError::Superseded { by: None };
        let error = Err::<(), _>(io::Error::from(superseded)).context("appended 3 bytes");
        assert_eq!(classify(&error.unwrap_err()), Kind::Refused);
    }

    #[test]
    fn a_closed_pipe_is_success() {
        let error = anyhow::Error::new(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!(report("logberg", &error, false), ExitCode::SUCCESS);
    }

    #[test]
    fn what_is_not_known_is_a_failure() {
        assert_eq!(classify(&anyhow::anyhow!("something")), Kind::Failure);
    }
}
