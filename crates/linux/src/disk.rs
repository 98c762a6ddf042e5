//! The disk for start-up and offline checks: the same durable changes, one after the other.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use ops::{COPY_BYTES, DirectoryEntry, Disk, Landing};
use rustix::fs::{Advice, FlockOperation, Mode, OFlags};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::{directory, disk_file};

/// The threads that work at once. They wait for the disk, which merges what comes together.
const AT_ONCE: usize = 32;

#[derive(Debug)]
pub struct LinuxDisk {
    /// Locks last as long as their descriptors.
    locks: Vec<OwnedFd>,
    /// For status.
    mover: Option<String>,
    /// Finds out, for people, how files of a directory are written.
    write_path: fn(&Path) -> String,
    /// The files that sockets fill.
    landing: Option<Arc<dyn Landing>>,
}

impl LinuxDisk {
    pub fn new() -> LinuxDisk {
        LinuxDisk {
            locks: Vec::new(),
            mover: None,
            write_path: disk_file::write_path,
            landing: None,
        }
    }

    /// For the status of a node whose kernel moves bytes so.
    pub(crate) fn moved_by(mover: &str) -> LinuxDisk {
        LinuxDisk {
            mover: Some(mover.to_string()),
            ..LinuxDisk::new()
        }
    }

    /// For files that are not written past the page cache.
    pub(crate) fn written_by(self, write_path: fn(&Path) -> String) -> LinuxDisk {
        LinuxDisk { write_path, ..self }
    }

    /// For files that sockets fill.
    pub(crate) fn filled_by(self, landing: Arc<dyn Landing>) -> LinuxDisk {
        LinuxDisk {
            landing: Some(landing),
            ..self
        }
    }
}

impl Default for LinuxDisk {
    fn default() -> LinuxDisk {
        LinuxDisk::new()
    }
}

impl Disk for LinuxDisk {
    fn list(&mut self, directory: &Path) -> io::Result<Vec<DirectoryEntry>> {
        let mut entries = Vec::new();
        for entry in std::fs::read_dir(directory)? {
            let entry = entry?;
            let about = match entry.metadata() {
                Ok(about) => about,
                // Removed since the listing.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            entries.push(DirectoryEntry {
                // Our own names are ASCII; of others' it only matters that they are not ours.
                name: entry.file_name().to_string_lossy().into_owned(),
                is_directory: about.is_dir(),
                length: about.len(),
            });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn read_at(&mut self, path: &Path, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        // Through the page cache, as offsets and lengths are not blocks here.
        let file = File::open(path)?;
        let mut count = 0;
        while count < into.len() {
            match file.read_at(&mut into[count..], offset + count as u64) {
                Ok(0) => break,
                Ok(more) => count += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(count)
    }

    fn settle(&mut self, path: &Path) -> io::Result<()> {
        let file = File::open(path)?;
        if file.metadata()?.is_dir() {
            return file.sync_all();
        }
        file.sync_data()?;
        // Where an earlier write-back failed the cache holds what the disk does not: let it be read anew.
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)?;
        Ok(())
    }

    fn is_still(&mut self, path: &Path) -> bool {
        // A file system that does not tell keeps nobody from starting.
        File::open(path).is_ok_and(|file| uring::is_still(&file).unwrap_or(false))
    }

    fn write_file(&mut self, path: &Path, contents: &[u8]) -> io::Result<()> {
        directory::write_file(path, contents)
    }

    fn copy_file(
        &mut self,
        from: &Path,
        to: &Path,
        change: &mut dyn FnMut(u64, &mut [u8]),
    ) -> io::Result<()> {
        let mut offset = 0;
        let mut piece = vec![0; COPY_BYTES];
        directory::replace(to, |file| {
            loop {
                let count = self.read_at(from, offset, &mut piece)?;
                if count == 0 {
                    return Ok(());
                }
                change(offset, &mut piece[..count]);
                file.write_all(&piece[..count])?;
                offset += count as u64;
            }
        })
    }

    fn create_directory(&mut self, path: &Path) -> io::Result<()> {
        let is_there = path.is_dir();
        directory::create(path)?;
        match is_there {
            true => directory::settle_name(path),
            false => Ok(()),
        }
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        directory::rename(from, to)
    }

    fn lock(&mut self, path: &Path) -> io::Result<()> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?;
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        self.locks.push(file);
        Ok(())
    }

    fn free_space(&mut self, path: &Path) -> io::Result<u64> {
        directory::free_space(path)
    }

    fn wall_clock(&mut self) -> Option<u64> {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        since.ok().map(|since| since.as_secs())
    }

    fn random(&mut self) -> io::Result<[u8; 16]> {
        let mut bytes = [0; 16];
        // Up to 256 bytes are never interrupted nor cut short, getrandom(2).
        getrandom(&mut bytes, GetRandomFlags::empty())?;
        Ok(bytes)
    }

    fn at_once(&mut self, count: usize, work: &(dyn Fn(usize, &mut dyn Disk) + Sync)) {
        let next = AtomicUsize::new(0);
        let one_after_the_other = |disk: &mut LinuxDisk| {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return;
                }
                work(number, disk);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..count.min(AT_ONCE) {
                let mut disk = LinuxDisk {
                    locks: Vec::new(),
                    mover: self.mover.clone(),
                    write_path: self.write_path,
                    landing: self.landing.clone(),
                };
                // Where there is no thread to be had, the others do it all.
                let begun = std::thread::Builder::new()
                    .name("start".to_owned())
                    .spawn_scoped(scope, move || one_after_the_other(&mut disk));
                drop(begun);
            }
            one_after_the_other(self);
        });
    }

    fn write_path(&mut self, directory: &Path) -> String {
        let path = (self.write_path)(directory);
        match &self.mover {
            Some(mover) => format!("{mover}, {path}"),
            None => path,
        }
    }

    fn landing(&self) -> Option<Arc<dyn Landing>> {
        self.landing.clone()
    }
}
