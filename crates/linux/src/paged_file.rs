//! An open file that is written through the page cache, which sockets fill and drain.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use ops::OpenMode;
use rustix::fs::{Mode, OFlags, fdatasync, ftruncate};
use rustix::io::{Errno, pwritev};

use crate::directory::Holder;
use crate::disk_file::DiskFile;
use crate::ink_file::InkFile;

/// The file is made longer in steps of so many bytes before anything is received there: a mapping
/// has no pages behind its end.
const STEP: u64 = 4 << 20;

#[derive(Debug)]
pub(crate) struct PagedFile {
    pages: Arc<File>,
    /// For reads that are to see the disk; none of a file that is written.
    device: Option<DiskFile>,
    length: AtomicU64,
    /// What was written ends here.
    end: AtomicU64,
    failure: OnceLock<String>,
}

impl PagedFile {
    pub fn open(path: &Path, mode: OpenMode) -> io::Result<PagedFile> {
        let (pages, device) = match mode {
            OpenMode::Read => {
                let device = DiskFile::open(path, mode)?;
                // By the descriptor and not by name, which may have changed.
                let again = format!("/proc/self/fd/{}", device.as_fd().as_raw_fd());
                let flags = OFlags::RDONLY | OFlags::CLOEXEC;
                (rustix::fs::open(again, flags, Mode::empty())?, Some(device))
            }
            OpenMode::Create { .. } | OpenMode::ReadWrite => {
                let new = match mode {
                    OpenMode::Create { .. } => OFlags::CREATE | OFlags::EXCL,
                    _ => OFlags::empty(),
                };
                let flags = OFlags::RDWR | OFlags::CLOEXEC | new;
                let holder = Holder::of(path)?;
                let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?;
                if new != OFlags::empty() {
                    holder.sync()?;
                }
                (file, None)
            }
        };
        let pages = File::from(pages);
        let length = pages.metadata()?.len();
        Ok(PagedFile {
            pages: Arc::new(pages),
            device,
            length: AtomicU64::new(length),
            end: AtomicU64::new(length),
            failure: OnceLock::new(),
        })
    }

    pub fn pages(&self) -> &Arc<File> {
        &self.pages
    }

    /// Whether no write has failed.
    fn check(&self) -> io::Result<()> {
        match self.failure.get() {
            None => Ok(()),
            Some(first) => Err(io::Error::other(format!(
                "an earlier write to this file failed: {first}"
            ))),
        }
    }

    /// Makes room to receive bytes up to this offset.
    pub fn reach(&self, offset: u64) -> io::Result<()> {
        self.check()?;
        if self.device.is_some() {
            return Err(Errno::BADF.into());
        }
        if offset > self.length.load(Ordering::Relaxed) {
            let length = offset.next_multiple_of(STEP);
            ftruncate(&*self.pages, length)?;
            self.length.store(length, Ordering::Relaxed);
        }
        Ok(())
    }

    /// No more is written: the file ends where its records do. If that fails, is lost with the
    /// power, or is not done because a region of it is still received into, zeros follow, as after a kill.
    pub fn finish(&self) {
        let end = self.end.load(Ordering::Relaxed);
        if self.device.is_none() && end < self.length.load(Ordering::Relaxed) {
            let _ = ftruncate(&*self.pages, end);
        }
    }

    /// The file has what was received into it and these pieces, durably.
    ///
    /// Shape:  buffers -> page cache -> device.
    /// Units:  pieces with their offsets; `end` is where the last of them, or of what was received,
    ///         ends.
    /// Errors: this and every later write of the file fail; nothing is retried.
    /// Source: Rebello et al., USENIX ATC 2020, on fsync failure.
    pub fn write_pieces(&self, pieces: &mut [(u64, Vec<IoSlice<'_>>)], end: u64) -> io::Result<()> {
        self.check()?;
        let written = (|| {
            for (offset, slices) in pieces {
                write_at(&self.pages, *offset, slices)?;
            }
            self.end.fetch_max(end, Ordering::Relaxed);
            self.length.fetch_max(end, Ordering::Relaxed);
            Ok(fdatasync(&*self.pages)?)
        })();
        written.inspect_err(|error| self.fail(error))
    }
}

fn write_at(file: &File, mut offset: u64, mut slices: &mut [IoSlice<'_>]) -> io::Result<()> {
    while !slices.is_empty() {
        match pwritev(file, slices, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                offset += count as u64;
                IoSlice::advance_slices(&mut slices, count);
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

impl InkFile for PagedFile {
    fn write(&self, offset: u64, slices: &mut [IoSlice<'_>], _refuse: bool) -> io::Result<()> {
        let length: usize = slices.iter().map(|slice| slice.len()).sum();
        let pieces = &mut [(offset, slices.to_vec())];
        self.write_pieces(pieces, offset + length as u64)
    }

    /// From the device, of a file that is only read: who wants to know what the disk has is not
    /// served by the page cache.
    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        if let Some(device) = &self.device {
            return device.read(offset, into);
        }
        let mut count = 0;
        while count < into.len() {
            match rustix::io::pread(&*self.pages, &mut into[count..], offset + count as u64) {
                Ok(0) => break,
                Ok(more) => count += more,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(count)
    }

    fn fail(&self, error: &io::Error) {
        let _ = self.failure.set(error.to_string());
    }
}
