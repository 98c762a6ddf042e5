//! Files of a file system, written past the page cache where it allows that.

use std::io;
use std::path::Path;
use std::sync::Arc;

use ops::{Disk, OpenMode};

use crate::disk::LinuxDisk;
use crate::disk_file::DiskFile;
use crate::medium::{InFileSystem, Medium, Opened};

pub(super) struct FileSystem;

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
