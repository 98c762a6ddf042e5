//! Where the records of a node go: ops on files are the same on each, and the node cannot tell.
//!
//! | ink | files are | durable when |
//! |---|---|---|
//! | disk | in a file system | the device says so (`disk_file`) |
//! | pmem | in a file system, mapped | their cache lines are flushed (`pmem`) |
//! | ram | in this process's memory | never: they end with the process |

use std::fmt;
use std::io::{self, IoSlice};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use ops::{Disk, OpenMode};
use rustix::io::Errno;

use crate::directory;
use crate::disk::LinuxDisk;
use crate::disk_file::DiskFile;
use crate::landing::PagedFile;
use crate::removal::{Leftover, Pace};

mod free_memory;
mod pmem;
mod pmem_file;
mod ram;
mod ram_disk;
mod ram_file;

use self::pmem::Pmem;
pub(crate) use self::pmem::write_path as pmem_write_path;
use ram::Ram;
use ram_disk::RamDisk;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ink {
    #[default]
    Disk,
    /// Nothing survives the process: a node starts on an empty disk, as a new one.
    Ram,
    /// Mapped files, flushed by cache line where they are persistent memory.
    Pmem,
}

impl Ink {
    pub const ALL: [Ink; 3] = [Ink::Disk, Ink::Ram, Ink::Pmem];

    pub fn name(self) -> &'static str {
        match self {
            Ink::Disk => "disk",
            Ink::Ram => "ram",
            Ink::Pmem => "pmem",
        }
    }

    /// What holds the files of one kernel.
    pub(crate) fn medium(self) -> Arc<dyn Medium> {
        match self {
            Ink::Disk => Arc::new(FileSystem),
            Ink::Ram => Arc::new(Ram::new()),
            Ink::Pmem => Arc::new(Pmem::default()),
        }
    }
}

impl fmt::Display for Ink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Ink {
    type Err = String;

    fn from_str(text: &str) -> Result<Ink, String> {
        let found = Ink::ALL.into_iter().find(|ink| ink.name() == text);
        found.ok_or_else(|| format!("{text:?} is no ink: choose disk, ram or pmem"))
    }
}

/// What returns without an error, here and below, is as durable as the ink makes anything.
pub(crate) trait Medium: Names + Send + Sync {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Opened>;
    /// The same files, for a node that starts. `mover` is for its status.
    fn disk(self: Arc<Self>, mover: &str) -> Box<dyn Disk>;
}

/// Where files have their names.
pub(crate) trait Names {
    fn create_directory(&self, path: &Path) -> io::Result<()>;
    fn write_file(&self, path: &Path, contents: &[u8]) -> io::Result<()>;
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// The name is gone then; what is left of the file may take long to let go.
    fn remove(&self, path: &Path) -> io::Result<Option<Leftover>>;
    fn remove_directory(&self, path: &Path, pace: &Pace) -> io::Result<()>;
    fn free_space(&self, path: &Path) -> io::Result<u64>;
}

/// A medium whose names are those of a file system.
pub(crate) trait InFileSystem {
    /// Nobody maps its files or has given them to a socket: a removed one may shrink.
    const MAY_SHRINK: bool = false;
}

/// An open file.
pub(crate) trait InkFile: Send + Sync {
    /// As `DiskFile::write`; `refuse` is a fault of disks.
    fn write(&self, offset: u64, slices: &mut [IoSlice<'_>], refuse: bool) -> io::Result<()>;
    /// As `DiskFile::read`.
    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<usize>;
    /// All later writes fail with this.
    fn fail(&self, error: &io::Error);
}

#[derive(Clone)]
pub(crate) enum Opened {
    /// What a ring can write by itself.
    Disk(Arc<DiskFile>),
    /// What sockets can fill.
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

/// Opened to be read: a write fails as of a descriptor without that right.
struct ReadOnly<F>(Arc<F>);

impl<F: InkFile> InkFile for ReadOnly<F> {
    fn write(&self, _: u64, _: &mut [IoSlice<'_>], _: bool) -> io::Result<()> {
        Err(Errno::BADF.into())
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(offset, into)
    }

    fn fail(&self, _: &io::Error) {}
}

struct FileSystem;

impl InFileSystem for FileSystem {
    const MAY_SHRINK: bool = true;
}

impl Medium for FileSystem {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Opened> {
        Ok(Opened::Disk(Arc::new(DiskFile::open(path, mode)?)))
    }

    fn disk(self: Arc<Self>, mover: &str) -> Box<dyn Disk> {
        Box::new(LinuxDisk::moved_by(mover))
    }
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
