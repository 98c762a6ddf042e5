//! The files of one kernel that bytes can be received into.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use ops::{Buffer, FileId, Landing, Place, Reservation};
use splice::{Part, Pipe};

use super::region::Region;
use crate::paged_file::PagedFile;

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

    fn files(&self) -> MutexGuard<'_, HashMap<FileId, Arc<PagedFile>>> {
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
