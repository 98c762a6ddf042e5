//! The names and files in memory as a medium. For a node that starts there are none, so it starts as a
//! new one.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ops::{DirectoryEntry, Disk, OpenMode};
use rustix::io::Errno;

use super::ram::Ram;
use crate::disk::LinuxDisk;
use crate::ink_file::InkFile;
use crate::medium::{Medium, Names, Opened};

impl Medium for Ram {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Opened> {
        Ram::open(self, path, mode)
    }

    fn disk(self: Arc<Self>, mover: &str) -> Box<dyn Disk> {
        Box::new(RamDisk::new(self, mover))
    }
}

struct RamDisk {
    files: Arc<Ram>,
    locks: BTreeSet<PathBuf>,
    /// For what is no file: time and randomness.
    machine: LinuxDisk,
    mover: String,
}

impl RamDisk {
    fn new(files: Arc<Ram>, mover: &str) -> RamDisk {
        RamDisk {
            files,
            locks: BTreeSet::new(),
            machine: LinuxDisk::new(),
            mover: mover.to_string(),
        }
    }
}

impl Disk for RamDisk {
    fn list(&mut self, directory: &Path) -> io::Result<Vec<DirectoryEntry>> {
        let entries = self.files.list(directory)?.into_iter();
        Ok(entries
            .map(|(name, is_directory, length)| DirectoryEntry {
                name,
                is_directory,
                length,
            })
            .collect())
    }

    fn read_at(&mut self, path: &Path, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.files.file(path)?.read(offset, into)
    }

    fn settle(&mut self, path: &Path) -> io::Result<()> {
        match self.files.file(path) {
            Err(error) if error.kind() != io::ErrorKind::IsADirectory => Err(error),
            _ => Ok(()),
        }
    }

    /// No process finds the files of an earlier one.
    fn is_still(&mut self, _: &Path) -> bool {
        false
    }

    fn write_file(&mut self, path: &Path, contents: &[u8]) -> io::Result<()> {
        self.files.write_file(path, contents)
    }

    fn create_directory(&mut self, path: &Path) -> io::Result<()> {
        self.files.create_directory(path)
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.files.rename(from, to)
    }

    fn lock(&mut self, path: &Path) -> io::Result<()> {
        if self.locks.contains(path) {
            return Err(Errno::WOULDBLOCK.into());
        }
        match self.files.file(path) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.files.write_file(path, &[])?;
            }
            Err(error) => return Err(error),
        }
        self.locks.insert(path.to_owned());
        Ok(())
    }

    fn free_space(&mut self, path: &Path) -> io::Result<u64> {
        self.files.free_space(path)
    }

    fn wall_clock(&mut self) -> Option<u64> {
        self.machine.wall_clock()
    }

    fn random(&mut self) -> io::Result<[u8; 16]> {
        self.machine.random()
    }

    fn write_path(&mut self, _directory: &Path) -> String {
        format!(
            "{}, ram: nothing survives the end of this process",
            self.mover
        )
    }
}
