//! Buffers that are a part of a file: what is received into one stands where its record will stand.
//!
//! ```text
//! socket ──▶ file, at the end of what is written        (Op::Receive into such a buffer)
//!            │ the node reads it there, and decides
//!            ▼
//!            header and padding around it, all durable   (Op::Write of that buffer, at that place)
//!            └──▶ sockets, out of the file               (Op::Send of its slices)
//! ```
//!
//! The landing is an offer of the kernel, which the node need not take up and can always do without: the
//! buffer reads and is changed like any other, and written anywhere else all of it is written. The node owes
//! two things. Before it has anything else written to that place it gives the place up
//! ([`Reservation::give_up`]). And bytes that were written in place are never written over, as sockets may
//! still have them: files of trimmed segments are removed, and not used again.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use crate::{Buffer, FileId};

/// A place in an open file, from this offset on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub file: FileId,
    pub offset: u64,
}

/// A kernel's offer, beside its ops, to move bytes in this way.
pub trait Landing: Debug + Send + Sync {
    /// A buffer for bytes to come. `None` if that is not possible now.
    ///
    /// Units:  offset and length are multiples of the block.
    fn reserve(&self, place: Place, length: usize) -> Option<(Buffer, Arc<dyn Reservation>)>;
    /// A buffer for an `Op::Read` of bytes that stand there and do not change any more.
    fn view(&self, place: Place, length: usize) -> Option<Buffer>;
}

/// The node's hold on a buffer that is elsewhere: at the kernel, perhaps.
pub trait Reservation: Debug + Send + Sync {
    /// Gives up the place. Received bytes keep their value.
    fn give_up(&self);
    /// Whether the buffer still exists.
    fn is_held(&self) -> bool;
}

/// Memory that is a part of a file.
pub trait Landed: Any + Send + Sync {
    fn bytes(&self) -> &[u8];
    /// The bytes, to be changed here without changing the file.
    fn bytes_mut(&mut self, range: std::ops::Range<usize>) -> &mut [u8];
    /// Returns `None` once the place was given up.
    fn place(&self) -> Option<Place>;
}
