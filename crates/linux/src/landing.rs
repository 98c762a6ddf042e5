//! The splice mover: what is received stands at once in the page cache of the file it belongs into, and
//! is sent out of it (`ops`).
//!
//! ```text
//! Reserve/view ──▶ Region: a part of a file as memory ──▶ Op::Receive: socket → pipe → file
//!                                                    ├──▶ Op::Write:   what the node changed, fdatasync
//!                                                    └──▶ Op::Send:    file → socket
//! ```

mod medium;
mod paged_file;
mod region;

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use ops::{Buffer, FileId, Landing, Place, Reservation, Slice};
use splice::{Part, Pipe};

pub(crate) use medium::Paged;
pub(crate) use paged_file::PagedFile;
pub(crate) use region::Region;

/// The files of one kernel that bytes can be received into.
#[derive(Debug)]
pub(crate) struct Landings {
    files: Mutex<HashMap<FileId, Arc<PagedFile>>>,
    /// Empty whenever nobody has it.
    pipe: Arc<Mutex<Pipe>>,
    regions: Arc<AtomicUsize>,
}

/// Each is a mapping of its own, and a process has 65,530 of them by default (vm.max_map_count), which
/// allocations of memory need too.
const REGIONS_MAX: usize = 16 << 10;

impl Landings {
    pub fn new() -> io::Result<Landings> {
        Ok(Landings {
            files: Mutex::default(),
            pipe: Arc::new(Mutex::new(Pipe::new()?)),
            regions: Arc::default(),
        })
    }

    pub fn add(&self, id: FileId, file: Arc<PagedFile>) {
        self.files().insert(id, file);
    }

    pub fn remove(&self, id: FileId) {
        self.files().remove(&id);
    }

    fn files(&self) -> std::sync::MutexGuard<'_, HashMap<FileId, Arc<PagedFile>>> {
        self.files.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn region(&self, place: Place, length: usize, writes: bool) -> Option<Region> {
        if self.regions.load(Ordering::Relaxed) >= REGIONS_MAX {
            return None;
        }
        let file = self.files().get(&place.file)?.clone();
        let end = place.offset + length as u64;
        if writes {
            file.reach(end).ok()?;
        }
        let part = Part::new(file.pages().clone(), place.offset, length).ok()?;
        let (pipe, regions) = (self.pipe.clone(), self.regions.clone());
        Some(Region::new(part, place, file, pipe, regions))
    }
}

impl Landing for Landings {
    fn reserve(&self, place: Place, length: usize) -> Option<(Buffer, Arc<dyn Reservation>)> {
        let region = self.region(place, length, true)?;
        let reservation = region.reservation();
        Some((Buffer::landed(Box::new(region)), reservation))
    }

    fn view(&self, place: Place, length: usize) -> Option<Buffer> {
        let region = self.region(place, length, false)?;
        Some(Buffer::landed(Box::new(region)))
    }
}

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
