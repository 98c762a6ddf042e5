//! The bytes on disk and between peers, one by one.
//!
//! ```text
//! codec    the engine's values                      inside records and frames
//! segment  the first block of a segment file   ┐
//! record   one durable fact                    ┴──  docs/data-files.md
//! frame    what peers send each other               docs/wire.md
//! rows     what clients are sent of a machine's state
//! past     what nodes tell of their disks, inside a frame
//! proof    what shows whose word that is
//! ```
//!
//! Everything is little endian and has a fixed place. Bytes from a disk or a peer never panic here:
//! they are parsed into types that cannot be wrong, or refused with a reason. Nothing here
//! reads a disk or knows a connection.

#![forbid(unsafe_code)]

pub mod codec;
pub mod frame;
mod hex;
mod ids;
mod kind;
mod message;
pub mod past;
pub mod proof;
pub mod record;
pub mod rows;
pub mod segment;
pub mod slots;
mod stand;
mod standing;
pub mod version;

pub use codec::DecodeError;
pub use frame::{DATA_HEADER, DataHeader, Frame, FrameError, Heartbeat};
/// Bytes as text.
pub use hex::{hex, hex_byte, parse_hex, parse_hex16};
/// The numbers that name a log, a cluster, a disk.
pub use ids::{ClusterId, DiskId, Identity, LogId};
pub use kind::LogKind;
pub use record::{BATCH_BUFFER, PAYLOAD_BYTES_MAX, RECORD_HEADER};
pub use stand::{Mark, Stand};
pub use version::Speaks;

use paxos::Digest;

/// The digest of one batch's content, as records, frames and acceptances carry it.
pub fn digest(content: &[u8]) -> Digest {
    Digest(crc32c::crc32c(content))
}

/// The digest of two stretches together, the second of which is so many bytes long.
pub fn digest_of_both(first: Digest, second: Digest, second_bytes: usize) -> Digest {
    Digest(crc32c::crc32c_combine(first.0, second.0, second_bytes))
}

#[cfg(test)]
mod tests;
