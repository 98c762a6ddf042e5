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
//! It is an offer of the kernel, which the node need not take up and can always do without: the
//! buffer reads and is changed like any other, and written anywhere else all of it is written. Two
//! things the node owes. Before it has anything else written to that place it gives the place up
//! ([`Reservation::give_up`]). And what was written in place is never written over, as sockets may
//! still have it: files of trimmed segments are removed, and not used again.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use crate::{Buffer, FileId};

/// In an open file, from this offset on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub file: FileId,
    pub offset: u64,
}

/// What a kernel that moves bytes in this way offers beside its ops.
pub trait Landing: Debug + Send + Sync {
    /// A buffer for bytes to come. None if that is not possible now.
    ///
    /// Units:  offset and length are multiples of the block.
    fn reserve(&self, place: Place, length: usize) -> Option<(Buffer, Arc<dyn Reservation>)>;
    /// A buffer for an `Op::Read` of what stands there and does not change any more.
    fn view(&self, place: Place, length: usize) -> Option<Buffer>;
}

/// The node's hold on a buffer that is elsewhere: at the kernel, perhaps.
pub trait Reservation: Debug + Send + Sync {
    /// What was received keeps its value, and the place is free.
    fn give_up(&self);
    /// Whether the buffer still exists.
    fn is_held(&self) -> bool;
}

/// Memory that is a part of a file.
pub trait Landed: Any + Send + Sync {
    fn bytes(&self) -> &[u8];
    /// What is changed here does not change the file.
    fn bytes_mut(&mut self, range: std::ops::Range<usize>) -> &mut [u8];
    /// None once it was given up.
    fn place(&self) -> Option<Place>;
}
