//! The file system, with every file through the page cache.

use std::io;
use std::path::Path;
use std::sync::Arc;

use ops::{Disk, OpenMode};

use super::{Landings, PagedFile};
use crate::disk::LinuxDisk;
use crate::ink::{InFileSystem, Medium, Opened};

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
        Box::new(LinuxDisk::with_landing(mover, self.landings()))
    }
}
