//! The splice mover: what is received stands at once in the page cache of the file it belongs into, and
//! is sent out of it (`ops`).
//!
//! ```text
//! Reserve/view ──▶ Region: a part of a file as memory ──▶ Op::Receive: socket → pipe → file
//!                                                    ├──▶ Op::Write:   what the node changed, fdatasync
//!                                                    └──▶ Op::Send:    file → socket
//! ```

mod landings;
mod paged;
mod region;

use std::ops::Range;

use ops::{Buffer, FileId, Slice};

pub(crate) use landings::Landings;
pub(crate) use paged::Paged;
pub(crate) use region::Region;

/// Ranges of the slice that a write to this place of that file has to write: all of it, or what the
/// file does not have yet.
pub(crate) fn unwritten(slice: &Slice, file: FileId, offset: u64) -> Vec<Range<usize>> {
    let all = 0..slice.len();
    let Some((region, start)) = region_of(slice) else {
        return vec![all];
    };
    let stands_at = region.stands_at();
    let begins = stands_at.map(|place| (place.file, place.offset + start as u64));
    match begins == Some((file, offset)) {
        true => region.changed(start..start + slice.len()),
        false => vec![all],
    }
}

/// The part of a file that the slice is of, and where in it it begins.
pub(crate) fn region_of(slice: &Slice) -> Option<(&Region, usize)> {
    let (memory, start) = slice.kernels()?;
    Some((memory.downcast_ref::<Region>()?, start))
}

/// The part of a file that this buffer is, while what it receives stands there.
pub(crate) fn receiving_region(buffer: &mut Buffer) -> Option<&mut Region> {
    let region = buffer.kernels_mut()?.downcast_mut::<Region>()?;
    region.stands_at().is_some().then_some(region)
}
