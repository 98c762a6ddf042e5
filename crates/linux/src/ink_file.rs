//! An open file, whatever holds its bytes.

use std::io::{self, IoSlice};
use std::sync::Arc;

use rustix::io::Errno;

pub(crate) trait InkFile: Send + Sync {
    /// As `DiskFile::write`; `refuse` is a fault of disks.
    fn write(&self, offset: u64, slices: &mut [IoSlice<'_>], refuse: bool) -> io::Result<()>;
    /// As `DiskFile::read`.
    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<usize>;
    /// Whether a write that failed so wrote nothing for want of room, and may be given again as it is.
    fn waits_for_room(&self, _: &io::Error) -> bool {
        false
    }
    /// All later writes fail with this.
    fn fail(&self, error: &io::Error);
}

/// Opened to be read: a write fails as of a descriptor without that right.
pub(crate) struct ReadOnly<F>(pub Arc<F>);

impl<F: InkFile> InkFile for ReadOnly<F> {
    fn write(&self, _: u64, _: &mut [IoSlice<'_>], _: bool) -> io::Result<()> {
        Err(Errno::BADF.into())
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(offset, into)
    }

    fn fail(&self, _: &io::Error) {}
}
