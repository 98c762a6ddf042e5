//! Files as memory: mapped, written by the processor, durable when their cache lines are flushed.
//!
//! On persistent memory (a DAX file system) a mapping made with MAP_SYNC needs nothing more: the file
//! system has written what it has to before a page can be. Where that is refused the file is mapped
//! as any other, and what was written is durable after fdatasync(2); [`Mapping::persists_by`] says
//! which it is.
//!
//! Mapped memory can change, or be gone (SIGBUS), when somebody else writes or shortens the file:
//! nothing here makes a reference to it. Bytes are copied in and out, within bounds that are checked,
//! and a write takes the mapping for itself.

#![allow(unsafe_code)] // each use says why it is sound

mod flush;

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};

pub use flush::Lines;

/// The beginning of a file, to be read and written.
pub struct Mapping {
    start: NonNull<u8>,
    length: usize,
    lines: Option<Lines>,
}

// SAFETY: the memory belongs to the mapping until it is dropped, on whatever thread; `&self` only
// reads it.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `length` bytes, which the file has, and which are to stay.
    pub fn new(file: BorrowedFd<'_>, length: usize) -> io::Result<Mapping> {
        if let Some(lines) = Lines::of_this_processor() {
            let flags = libc::MAP_SHARED_VALIDATE | libc::MAP_SYNC;
            if let Ok(start) = map(file, length, flags) {
                return Ok(Mapping {
                    start,
                    length,
                    lines: Some(lines),
                });
            }
        }
        Ok(Mapping {
            start: map(file, length, libc::MAP_SHARED)?,
            length,
            lines: None,
        })
    }

    /// As if the file were persistent memory: its cache lines are flushed, and nobody is told to sync it. ‡ Nothing survives a loss of
    /// power by it: it is for measuring what such memory would cost.
    pub fn emulating_persistence(mut self) -> Mapping {
        self.lines = Lines::of_this_processor();
        self
    }

    pub fn length(&self) -> usize {
        self.length
    }

    /// The instruction that flushes a cache line; `None` if the file has to be synced.
    pub fn persists_by(&self) -> Option<Lines> {
        self.lines
    }

    pub fn write(&mut self, offset: usize, bytes: &[u8]) {
        let to = self.place(offset, bytes.len());
        // SAFETY: `place` checked that so many bytes are ours; `bytes` is a reference, and none is
        // ever made to mapped memory, so they do not overlap.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) }
    }

    pub fn read(&self, offset: usize, into: &mut [u8]) {
        let from = self.place(offset, into.len());
        // SAFETY: as in `write`.
        unsafe { ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) }
    }

    /// Persists the bytes written there. They are in persistent memory on return; false if the file has to be
    /// synced.
    pub fn persist(&self, offset: usize, length: usize) -> bool {
        let Some(lines) = self.lines else {
            return false;
        };
        lines.flush(self.place(offset, length), length);
        true
    }

    fn place(&self, offset: usize, length: usize) -> *mut u8 {
        let end = offset.checked_add(length);
        assert!(
            end.is_some_and(|end| end <= self.length),
            "within the mapping"
        );
        // SAFETY: within the mapping, as was just checked.
        unsafe { self.start.as_ptr().add(offset) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nothing refers to it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

fn map(file: BorrowedFd<'_>, length: usize, flags: i32) -> io::Result<NonNull<u8>> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the system chooses where, so nothing that is in use is replaced.
    let start = unsafe { libc::mmap(ptr::null_mut(), length, access, flags, file.as_raw_fd(), 0) };
    match NonNull::new(start.cast::<u8>()) {
        Some(mapped) if start != libc::MAP_FAILED => Ok(mapped),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    fn mapped(length: usize) -> (std::fs::File, Mapping) {
        let file = tempfile::tempfile().unwrap();
        file.set_len(length as u64).unwrap();
        let mapping = Mapping::new(file.as_fd(), length).unwrap();
        (file, mapping)
    }

    #[test]
    fn what_is_written_is_in_the_file_and_read_back() {
        let (file, mut mapping) = mapped(10_000);
        let bytes: Vec<u8> = (0..5000).map(|at| (at % 251) as u8).collect();
        mapping.write(4999, &bytes);
        if !mapping.persist(4999, bytes.len()) {
            file.sync_data().unwrap();
        }
        let mut back = vec![0; 5000];
        mapping.read(4999, &mut back);
        assert!(back == bytes);
        file.read_exact_at(&mut back, 4999).unwrap();
        assert!(back == bytes);
    }

    #[test]
    fn memory_that_is_taken_for_persistent_needs_no_sync_and_is_in_the_file() {
        let (file, mapping) = mapped(4096);
        let mut mapping = mapping.emulating_persistence();
        mapping.write(8, b"kept");
        let has_lines = Lines::of_this_processor().is_some();
        assert_eq!(mapping.persist(8, 4), has_lines);
        let mut back = [0; 4];
        file.read_exact_at(&mut back, 8).unwrap();
        assert_eq!(&back, b"kept");
    }

    #[test]
    fn cache_lines_are_flushed_by_every_instruction_there_is() {
        let (_file, mut mapping) = mapped(4096);
        mapping.write(100, &[7; 1000]);
        for lines in Lines::all_of_this_processor() {
            lines.flush(mapping.place(100, 1000), 1000);
        }
        let mut back = [0; 1000];
        mapping.read(100, &mut back);
        assert_eq!(back, [7; 1000]);
    }

    #[test]
    #[should_panic(expected = "within the mapping")]
    fn nothing_is_written_behind_the_end() {
        mapped(4096).1.write(4000, &[0; 97]);
    }

    #[test]
    #[should_panic(expected = "within the mapping")]
    fn an_offset_that_wraps_is_behind_the_end() {
        mapped(4096).1.read(usize::MAX, &mut [0; 2]);
    }
}
