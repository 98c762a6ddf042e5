//! The file system, with every file through the page cache.

use std::io;
use std::path::Path;
use std::sync::Arc;

use ops::{Disk, OpenMode};

use super::landings::Landings;
use crate::disk::LinuxDisk;
use crate::disk_file;
use crate::medium::{InFileSystem, Medium, Opened};
use crate::paged_file::PagedFile;

pub(crate) struct Paged {
    landings: Arc<Landings>,
}

impl Paged {
    pub fn new() -> io::Result<Paged> {
        Ok(Paged {
            landings: Arc::new(Landings::new()?),
        })
    }

    pub fn landings(&self) -> Arc<Landings> {
        self.landings.clone()
    }
}

impl InFileSystem for Paged {}

impl Medium for Paged {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Opened> {
        Ok(Opened::Paged(Arc::new(PagedFile::open(path, mode)?)))
    }

    fn disk(self: Arc<Self>, mover: &str) -> Box<dyn Disk> {
        Box::new(
            LinuxDisk::moved_by(mover)
                .written_by(write_path)
                .filled_by(self.landings()),
        )
    }
}

fn write_path(directory: &Path) -> String {
    match disk_file::is_in_memory(directory) {
        true => "page cache: the directory is in memory (tmpfs), nothing survives a power loss",
        false => "page cache",
    }
    .to_string()
}
