//! A file that is written as memory. Its end is ours to know: the file itself is made longer before,
//! in steps, and cut to its end when it is closed. What a killed process leaves ends in zeros, which
//! recovery takes for the end of the records, as after any torn write.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{OnceLock, RwLock};

use pmem::Mapping;
use rustix::fs::{FallocateFlags, fallocate, fdatasync, fstat, ftruncate};

use crate::errors::copy_of;
use crate::ink_file::InkFile;

/// A file grows by as much as it has, within these.
const STEP_MIN: usize = 1 << 20;
const STEP_MAX: usize = 64 << 20;

pub(super) struct PmemFile {
    file: OwnedFd,
    emulated: bool,
    contents: RwLock<Contents>,
    failure: OnceLock<io::Error>,
}

struct Contents {
    /// None while there are no bytes to map.
    mapping: Option<Mapping>,
    end: usize,
}

impl PmemFile {
    pub fn new(file: OwnedFd, emulated: bool) -> io::Result<PmemFile> {
        let end = fstat(&file)?.st_size as usize;
        let mapping = match end {
            0 => None,
            _ => Some(map(&file, end, emulated)?),
        };
        Ok(PmemFile {
            file,
            emulated,
            contents: RwLock::new(Contents { mapping, end }),
            failure: OnceLock::new(),
        })
    }

    fn write_all(&self, offset: usize, slices: &[IoSlice<'_>]) -> io::Result<()> {
        let length: usize = slices.iter().map(|slice| slice.len()).sum();
        let mut contents = self.contents.write().unwrap_or_else(|e| e.into_inner());
        let end = contents.end.max(offset + length);
        let Some(mapping) = contents.reaching(&self.file, offset + length, self.emulated)? else {
            return Ok(());
        };
        let mut at = offset;
        for slice in slices {
            mapping.write(at, slice);
            at += slice.len();
        }
        let persisted = mapping.persist(offset, length);
        contents.end = end;
        drop(contents);
        if !persisted {
            fdatasync(&self.file)?;
        }
        Ok(())
    }
}

fn map(file: &OwnedFd, length: usize, emulated: bool) -> io::Result<Mapping> {
    let mapping = Mapping::new(file.as_fd(), length)?;
    Ok(match emulated {
        true => mapping.emulating_persistence(),
        false => mapping,
    })
}

impl Contents {
    /// The mapping of at least so many bytes.
    fn reaching(
        &mut self,
        file: &OwnedFd,
        end: usize,
        emulated: bool,
    ) -> io::Result<Option<&mut Mapping>> {
        let mapped = self.mapping.as_ref().map_or(0, Mapping::length);
        if end > mapped {
            let step = mapped.clamp(STEP_MIN, STEP_MAX);
            let length = end.max(mapped + step).next_multiple_of(STEP_MIN);
            // With blocks of its own: a page without one would end the process when the disk is full.
            fallocate(file, FallocateFlags::empty(), 0, length as u64)?;
            // The length that recovery will find.
            fdatasync(file)?;
            self.mapping = Some(map(file, length, emulated)?);
        }
        Ok(self.mapping.as_mut())
    }
}

impl InkFile for PmemFile {
    fn write(&self, offset: u64, slices: &mut [IoSlice<'_>], _refuse: bool) -> io::Result<()> {
        if let Some(first) = self.failure.get() {
            return Err(io::Error::other(format!(
                "an earlier write to this file failed: {first}"
            )));
        }
        self.write_all(offset as usize, slices)
            .inspect_err(|error| self.fail(error))
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let contents = self.contents.read().unwrap_or_else(|e| e.into_inner());
        let offset = offset as usize;
        let count = into.len().min(contents.end.saturating_sub(offset));
        if let (Some(mapping), true) = (&contents.mapping, count > 0) {
            mapping.read(offset, &mut into[..count]);
        }
        Ok(count)
    }

    fn fail(&self, error: &io::Error) {
        let _ = self.failure.set(copy_of(error));
    }
}

impl Drop for PmemFile {
    fn drop(&mut self) {
        let contents = self.contents.get_mut().unwrap_or_else(|e| e.into_inner());
        let mapped = contents.mapping.take().map_or(0, |m| m.length());
        if contents.end < mapped {
            // If it fails, or is lost with the power, zeros follow, as after a kill.
            let _ = ftruncate(&self.file, contents.end as u64);
        }
    }
}
