//! Files of a file system that are written as memory. Names are as on a disk.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};

use ops::{Disk, OpenMode};
use rustix::fs::{FileType, Mode, OFlags, fstat};
use rustix::io::Errno;

use super::pmem_file::PmemFile;
use crate::directory::Holder;
use crate::disk::LinuxDisk;
use crate::ink_file::{InkFile, ReadOnly};
use crate::medium::{InFileSystem, Medium, Opened};

/// By device and inode: who opens a file again sees the same end of it.
pub(super) struct Pmem {
    /// Files are taken for persistent memory, whatever they are.
    emulated: bool,
    open: Mutex<HashMap<(u64, u64), Weak<PmemFile>>>,
}

impl Pmem {
    pub fn new(emulated: bool) -> Pmem {
        Pmem {
            emulated,
            open: Mutex::default(),
        }
    }

    fn share(&self, file: std::os::fd::OwnedFd) -> io::Result<Arc<PmemFile>> {
        let about = fstat(&file)?;
        let id = (about.st_dev, about.st_ino);
        let mut open = self.open.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(shared) = open.get(&id).and_then(Weak::upgrade) {
            return Ok(shared);
        }
        open.retain(|_, file| file.strong_count() > 0);
        let shared = Arc::new(PmemFile::new(file, self.emulated)?);
        open.insert(id, Arc::downgrade(&shared));
        Ok(shared)
    }
}

impl InFileSystem for Pmem {}

impl Medium for Pmem {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Opened> {
        let flags = match mode {
            OpenMode::Create { .. } => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
            // Whoever reads may share the mapping of one who writes.
            OpenMode::ReadWrite | OpenMode::Read => OFlags::RDWR,
        };
        let holder = Holder::of(path)?;
        let file = rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR)?;
        if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::RegularFile {
            return Err(Errno::INVAL.into());
        }
        if let OpenMode::Create { .. } = mode {
            holder.sync()?;
        }
        let shared = self.share(file)?;
        Ok(Opened::Other(match mode {
            OpenMode::Read => Arc::new(ReadOnly(shared)) as Arc<dyn InkFile>,
            _ => shared,
        }))
    }

    fn disk(self: Arc<Self>, mover: &str) -> Box<dyn Disk> {
        let path = match self.emulated {
            true => emulated_path,
            false => write_path,
        };
        Box::new(LinuxDisk::moved_by(mover).written_by(path))
    }
}

fn emulated_path(_: &Path) -> String {
    "pmem: emulated by DRAM whose cache lines are flushed; nothing here survives a loss of power"
        .to_owned()
}

/// "pmem: by clwb" or "pmem: by fdatasync, ...", found out with a file of its own in `directory`.
fn write_path(directory: &Path) -> String {
    let tried = (|| {
        let path = directory.join(format!(".write-path-{}", std::process::id()));
        let file = std::fs::File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)?;
        std::fs::remove_file(&path)?;
        file.set_len(4096)?;
        pmem::Mapping::new(std::os::fd::AsFd::as_fd(&file), 4096)
    })();
    match tried.map(|mapping| mapping.persists_by()) {
        Ok(Some(lines)) => format!("pmem: mapped, flushed by {lines}"),
        Ok(None) => {
            "pmem: mapped, flushed by fdatasync (not persistent memory: no DAX here)".to_string()
        }
        Err(error) => format!("pmem: cannot map files here ({error})"),
    }
}
