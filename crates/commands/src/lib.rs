//! State machines on a log.
//!
//! ```text
//!  Batch ─▶ frames ─▶ the leader's own stream ─ chosen ─▶ every replica: Decoder ─▶ Sessions ─▶ apply
//!                                                 snapshot frames first in a new stream ─▶ restore
//! ```
//!
//! The leader of a log opens a stream of its own when it takes over, which ends its predecessor's,
//! and appends [`frames`](Frame). Every replica hands the chosen bytes to its [`Replica`], which cuts
//! them into frames and applies these in their order to a [`StateMachine`]. A torn last frame at the
//! end of a stream is dropped, everywhere alike: it was never acknowledged. Bytes that are no frame
//! [halt](Halted) every replica at the same place: nothing is applied after damage, and a replica's
//! owner is told why.
//!
//! Nothing here reads a clock, a file or a socket. The contract of the caller that does:
//!
//! * *Bytes.* [`Replica::push`] is given the outputs of all streams, in the log's order, and
//!   [`Replica::end_of_stream`] between two of them.
//! * *Proposing.* A leader proposes frames only in a stream whose beginning its own replica has reached:
//!   then it has applied all that was chosen before, and nobody can add to that any more.
//! * *Size.* A command has at most [`COMMAND_BYTES_MAX`] bytes. A larger one is refused when its frame
//!   is made, with [`TooLarge`], and never proposed.
//! * *Forgetting.* There, before any other frame, it may append [`Replica::snapshot`], part by part: it
//!   applies nothing between two of them, since nothing else is in that stream yet. Once that is
//!   chosen everything before the stream may be trimmed. A replica that finds the beginning trimmed calls
//!   [`Replica::skip`], and goes on with the first stream that is left.
//! * *Reading.* A read is linearizable if it is answered after the log's read barrier, asked for when
//!   the read came, was passed, and the replica has applied all that was chosen by then.
//! * *Once.* A command that must not be applied twice belongs to a [session](Frame::Session), which is
//!   opened first. Its retry, through whichever leader, gets the answer that it got before.
//!
//! `examples/bank.rs` is a state machine to copy.

#![forbid(unsafe_code)]

mod batch;
mod decoder;
mod frame;
mod replica;
mod sessions;
mod snapshot;

use std::fmt::Debug;

pub use batch::Batch;
pub use decoder::{Broken, Decoder, Torn};
pub use frame::{COMMAND_BYTES_MAX, Frame, NoFrame, TooLarge, encode};
pub use replica::{Applied, Halted, Replica};
pub use sessions::{Once, SessionBounds};
pub use snapshot::{Layout, Mark, Misplaced, PIECE_BYTES, Snapshot};

/// The state machine that a log's commands act on.
///
/// The same commands lead to the same state and the same answers, on whichever machine, and before
/// as after a snapshot is taken over: no clock, no randomness, no order of a hash map.
///
/// A snapshot is the state's bytes. They are asked for in pieces, and given back cut in other ways.
pub trait StateMachine: Sized {
    /// The place up to which a snapshot of the state is made. Its default is the beginning.
    type Place: Clone + Debug + Default;
    /// A state that is being made from a snapshot's bytes. Its default is that of no bytes.
    type Restoring: Clone + Debug + Default;

    /// The layout in which its snapshots are written.
    const LAYOUT: Layout = Layout::Checked;

    /// The answer, as bytes for the client.
    ///
    /// Errors: a command that this version does not know. The replica halts: it would become
    /// another one than the others.
    fn apply(&mut self, command: &[u8]) -> Result<Vec<u8>, Unknown>;

    /// Appends the state's next piece, of about [`PIECE_BYTES`], and moves the place behind it. Returns
    /// whether more is to come.
    fn snapshot(&self, at: &mut Self::Place, into: &mut Vec<u8>) -> bool;

    /// Takes a snapshot's next bytes.
    fn restore(into: &mut Self::Restoring, bytes: &[u8]) -> Result<(), Unknown>;

    /// All bytes came: puts the snapshot's state in place of this one's. After an error the state is as
    /// it was.
    fn restored(&mut self, snapshot: Self::Restoring) -> Result<(), Unknown>;
}

/// Bytes that this version does not understand, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unknown(pub String);
