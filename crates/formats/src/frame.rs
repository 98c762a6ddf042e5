//! The frames of peers: small control frames, and data frames that lead bytes in.
//!
//! ```text
//! control  magic u32 ─ version u8 ─ kind u8 ─ 0 u16 ─ log u32 ─ body length u32 ─ body crc32c u32
//!          ─ crc32c of the 20 bytes before u32 ─ body
//!
//! data       0 ┬ magic u32 ─ version u8 ─ kind u8 ─ value kind u8 ─ 0 u8 ─ log u32
//!           12 ┼ payload length u32 ─ digest u32
//!           20 ┼ term: era, number, owner          | 0
//!           32 ┼ first slot u64 ─ slot count u64   | request u64 ─ position u64
//!           48 ┼ chosen up to u64                  | 0
//!           56 ┼ stream: owner, incarnation, counter ─ 0 u32
//!           72 ┼ offset u64                        | 0
//!           80 ┼ zero ─ 92 crc32c of the 92 bytes before u32
//!           96 ┴ payload
//! ```
//!
//! A slot is never inferred by counting: every batch says its own.

mod control;
mod data;
mod error;
mod heartbeat;
mod outline;

use super::codec::{DecodeError, Encode, Reader};
use crate::LogId;

pub use control::{
    AskDigest, BODY_BYTES_MAX, BytesNotHere, CONTROL_PREFIX, ControlPrefix, Examined, FetchBytes,
    Frame, PIECE_BYTES_MAX, Part, Piece, STATE_PIECE_BYTES_MAX, ServedPart, TellDigest, WishTold,
    decode_control_body, decode_control_prefix, encode_control,
};
pub use data::{BytesHeader, DATA_HEADER, DataHeader, ProposeHeader, ProposedValue};
pub use error::FrameError;
pub use heartbeat::{Heartbeat, TOLD_MAX, Told};
pub use outline::{OUTLINE, OUTLINE_MAX, Outline};

impl Encode for LogId {
    const BYTES_MIN: usize = 4;
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }
    fn parse(from: &mut Reader<'_>) -> Result<LogId, DecodeError> {
        Ok(LogId(u32::parse(from)?))
    }
}
