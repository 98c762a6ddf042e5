//! The contract for the giver of an op to a disk, and the answer to an op that cannot be done.

use std::io;
use std::ops::Range;

use ops::{BLOCK, Buffer, Completion, Op, Token};

use crate::media;

/// An op on a file that is not open.
pub(super) fn refused(op: Op, kind: io::ErrorKind) -> Completion {
    match op {
        Op::Read {
            token,
            buffer,
            range,
            ..
        } => Completion::Read {
            token,
            buffer,
            range,
            result: Err(kind.into()),
        },
        op => Completion::Done {
            token: token_of(&op),
            result: Err(kind.into()),
        },
    }
}

pub(super) fn token_of(op: &Op) -> Token {
    match op {
        Op::Open { token, .. }
        | Op::CloseFile { token, .. }
        | Op::Write { token, .. }
        | Op::Read { token, .. }
        | Op::CreateDirectory { token, .. }
        | Op::WriteFile { token, .. }
        | Op::Rename { token, .. }
        | Op::Remove { token, .. }
        | Op::RemoveDirectory { token, .. }
        | Op::FreeSpace { token, .. } => *token,
        op => unreachable!("not an op of a disk: {op:?}"),
    }
}

/// Asserts what the contract asks of the giver of the op.
pub(super) fn check_shape(op: &Op) {
    match op {
        Op::Write { offset, slices, .. } => {
            let length = media::length_of(slices);
            assert!(length > 0, "a write writes something");
            assert!(offset.is_multiple_of(BLOCK as u64), "offset {offset}");
            assert!(length.is_multiple_of(BLOCK), "length {length}");
            for (i, slice) in slices.iter().enumerate() {
                let aligned = slice.as_ptr().addr().is_multiple_of(BLOCK);
                assert!(aligned, "slice {i} starts at a block of its buffer");
                let whole = slice.len().is_multiple_of(BLOCK) || i + 1 == slices.len();
                assert!(whole, "slice {i} is {} bytes long", slice.len());
            }
        }
        Op::Read {
            offset,
            buffer,
            range,
            ..
        } => check_read(*offset, buffer, range),
        _ => {}
    }
}

fn check_read(offset: u64, buffer: &Buffer, range: &Range<usize>) {
    assert!(offset.is_multiple_of(BLOCK as u64), "offset {offset}");
    assert!(range.start.is_multiple_of(BLOCK), "range {range:?}");
    assert!(range.len().is_multiple_of(BLOCK), "range {range:?}");
    assert!(range.end <= buffer.len(), "range {range:?} of {buffer:?}");
}
