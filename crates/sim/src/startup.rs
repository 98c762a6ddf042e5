//! The same files for a process that starts: synchronous, and over before it runs.

use std::io;
use std::path::Path;
use std::sync::Arc;

use ops::{DirectoryEntry, Disk, Landing};

use crate::disk::{self, SimDisk};
use crate::random::Random;

/// Takes no time. Fails where the disk is broken or full, as ops do, and reads as badly as the
/// faults say.
pub(crate) struct StartUp<'a> {
    pub disk: &'a mut SimDisk,
    pub random: &'a mut Random,
    /// The process is to run on what it reads.
    pub runs: bool,
    /// The second that a clock on the wall shows.
    pub second: u64,
}

/// At the beginning of the world, since that of 1970.
pub(crate) const FIRST_SECOND: u64 = 1_800_000_000;

impl StartUp<'_> {
    fn check_settled(&self, path: &Path) {
        if self.runs {
            self.disk.check_settled(path);
        }
    }

    /// Flips a bit of what is read. Bytes at rest stay as they are.
    fn flip(&mut self, path: &Path, offset: u64, read: &mut [u8]) {
        if !self.random.chance(self.disk.faults.start_flips) {
            return;
        }
        let settled = self.disk.settled_below(path).saturating_sub(offset);
        let settled = settled.min(read.len() as u64);
        if settled > 0 {
            self.disk.counts.flipped_start_reads += 1;
            let at = self.random.below(settled) as usize;
            read[at] ^= 1 << self.random.below(8);
        }
    }
}

impl Disk for StartUp<'_> {
    fn list(&mut self, directory: &Path) -> io::Result<Vec<DirectoryEntry>> {
        let name = directory.file_name().and_then(|name| name.to_str());
        if name.is_some_and(|name| name.starts_with("log-")) {
            self.check_settled(directory);
        }
        self.disk.media.list(directory)
    }

    fn read_at(&mut self, path: &Path, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        if self.random.chance(self.disk.faults.start_read_errors) {
            self.disk.counts.failed_start_reads += 1;
            return Err(io::ErrorKind::Other.into());
        }
        let read = offset..offset + into.len() as u64;
        if self.disk.is_bad(path, &read) {
            self.disk.counts.failed_start_reads += 1;
            return Err(io::Error::from_raw_os_error(disk::EIO));
        }
        let contents = self.disk.media.file(path)?;
        if path.extension().is_some_and(|extension| extension == "seg") {
            self.check_settled(path);
        }
        let count = disk::read_at(&contents.borrow(), offset, into);
        self.flip(path, offset, &mut into[..count]);
        Ok(count)
    }

    fn settle(&mut self, path: &Path) -> io::Result<()> {
        self.disk.strike(true, self.random)?;
        self.disk.unsettled.remove(path);
        Ok(())
    }

    /// The fate of writes in flight was decided when their process died.
    fn is_still(&mut self, _: &Path) -> bool {
        true
    }

    fn write_file(&mut self, path: &Path, contents: &[u8]) -> io::Result<()> {
        self.disk.strike(true, self.random)?;
        self.disk.replace(path, contents)
    }

    fn create_directory(&mut self, path: &Path) -> io::Result<()> {
        self.disk.strike(true, self.random)?;
        self.disk.media.create_directory(path)
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.strike(true, self.random)?;
        self.disk.media.rename(from, to)?;
        // Files of a directory that is put aside are not those of another of its name.
        let unsettled = std::mem::take(&mut self.disk.unsettled).into_iter();
        let renamed = unsettled.map(|path| match path.strip_prefix(from) {
            Ok(rest) if rest.as_os_str().is_empty() => to.to_owned(),
            Ok(rest) => to.join(rest),
            Err(_) => path,
        });
        self.disk.unsettled = renamed.collect();
        Ok(())
    }

    fn lock(&mut self, path: &Path) -> io::Result<()> {
        if self.disk.locks.contains(path) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        match self.disk.media.file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.disk.media.create(path)?;
            }
            found => drop(found?),
        }
        self.disk.locks.insert(path.to_owned());
        Ok(())
    }

    fn free_space(&mut self, path: &Path) -> io::Result<u64> {
        self.disk.free_space(path)
    }

    fn wall_clock(&mut self) -> Option<u64> {
        Some(self.second)
    }

    fn random(&mut self) -> io::Result<[u8; 16]> {
        let mut bytes = [0; 16];
        self.random.fill(&mut bytes);
        Ok(bytes)
    }

    fn write_path(&mut self, _directory: &Path) -> String {
        "simulated".to_owned()
    }

    fn landing(&self) -> Option<Arc<dyn Landing>> {
        let landing = self.disk.landing.clone()?;
        Some(landing)
    }
}
