//! The medium that holds the files of a kernel, and the files that it opens.

use std::io;
use std::path::Path;
use std::sync::Arc;

use ops::{Disk, OpenMode};

use crate::directory;
use crate::disk_file::DiskFile;
use crate::ink_file::InkFile;
use crate::leftover::{Leftover, Pace};
use crate::paged_file::PagedFile;

/// A change that returns without an error, here and below, is as durable as the ink makes anything.
pub(crate) trait Medium: Names + Send + Sync {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Opened>;
    /// The same files, for a node that starts. `mover` is for its status.
    fn disk(self: Arc<Self>, mover: &str) -> Box<dyn Disk>;
}

/// The names of files.
pub(crate) trait Names {
    fn create_directory(&self, path: &Path) -> io::Result<()>;
    fn write_file(&self, path: &Path, contents: &[u8]) -> io::Result<()>;
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// The name is gone then; what is left of the file may take long to let go.
    fn remove(&self, path: &Path) -> io::Result<Option<Leftover>>;
    fn remove_directory(&self, path: &Path, pace: &Pace) -> io::Result<()>;
    fn free_space(&self, path: &Path) -> io::Result<u64>;
}

#[derive(Clone)]
pub(crate) enum Opened {
    /// A ring can write it by itself.
    Disk(Arc<DiskFile>),
    /// Sockets can fill it.
    Paged(Arc<PagedFile>),
    Other(Arc<dyn InkFile>),
}

impl Opened {
    pub fn file(&self) -> Arc<dyn InkFile> {
        match self {
            Opened::Disk(file) => file.clone(),
            Opened::Paged(file) => file.clone(),
            Opened::Other(file) => file.clone(),
        }
    }

    pub fn paged(&self) -> Option<Arc<PagedFile>> {
        match self {
            Opened::Paged(file) => Some(file.clone()),
            Opened::Disk(_) | Opened::Other(_) => None,
        }
    }
}

/// A medium whose names are those of a file system.
pub(crate) trait InFileSystem {
    /// Nobody maps its files or has given them to a socket: a removed one may shrink.
    const MAY_SHRINK: bool = false;
}

impl<M: InFileSystem> Names for M {
    fn create_directory(&self, path: &Path) -> io::Result<()> {
        directory::create(path)
    }

    fn write_file(&self, path: &Path, contents: &[u8]) -> io::Result<()> {
        directory::write_file(path, contents)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        directory::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<Option<Leftover>> {
        let leftover = M::MAY_SHRINK.then(|| Leftover::of(path)).flatten();
        directory::remove(path)?;
        Ok(leftover)
    }

    fn remove_directory(&self, path: &Path, pace: &Pace) -> io::Result<()> {
        if M::MAY_SHRINK {
            directory::remove_large_files(path, pace);
        }
        if pace.is_ending() {
            // Nobody waits for the answer any more.
            return Err(io::ErrorKind::Interrupted.into());
        }
        directory::remove_directory(path)
    }

    fn free_space(&self, path: &Path) -> io::Result<u64> {
        directory::free_space(path)
    }
}
