//! Reading a disk in large steps, for who reads much of it once.

use std::io;
use std::path::{Path, PathBuf};

use node::op::{DirectoryEntry, Disk};

/// A disk that reads in large steps and remembers the last few places it read at.
///
/// Records are looked for through a window, each anew, and the disk below keeps nothing of what it
/// read: without this everything would be read four times, and where a node caught up, its indexes
/// once for every record.
pub struct ReadAhead<'d> {
    disk: &'d mut dyn Disk,
    /// The one used last comes last.
    windows: Vec<Window>,
}

struct Window {
    path: PathBuf,
    start: u64,
    bytes: Vec<u8>,
}

const STEP: usize = 4 << 20;
/// The records being read, and the indexes of segments that overlap there.
const WINDOWS: usize = 4;

impl Window {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// Whether `offset` is here, or would come next.
    fn reaches(&self, path: &Path, offset: u64) -> bool {
        self.path == path && (self.start..=self.end()).contains(&offset)
    }

    /// Forgets what is before `offset`, and reads on until there is a step again, or the file ends.
    fn move_to(&mut self, disk: &mut dyn Disk, offset: u64) -> io::Result<()> {
        self.bytes.drain(..(offset - self.start) as usize);
        self.start = offset;
        let kept = self.bytes.len();
        self.bytes.resize(STEP, 0);
        let at = offset + kept as u64;
        let read = disk.read_at(&self.path, at, &mut self.bytes[kept..]);
        self.bytes.truncate(kept + *read.as_ref().unwrap_or(&0));
        read.map(|_| ())
    }
}

impl<'d> ReadAhead<'d> {
    pub fn new(disk: &'d mut dyn Disk) -> ReadAhead<'d> {
        ReadAhead {
            disk,
            windows: Vec::new(),
        }
    }

    fn take_window(&mut self, path: &Path, offset: u64) -> Window {
        let found = self
            .windows
            .iter()
            .position(|window| window.reaches(path, offset));
        if let Some(at) = found {
            return self.windows.remove(at);
        }
        let mut bytes = match self.windows.len() < WINDOWS {
            true => Vec::with_capacity(STEP),
            false => self.windows.remove(0).bytes,
        };
        bytes.clear();
        Window {
            path: path.to_owned(),
            start: offset,
            bytes,
        }
    }
}

impl Disk for ReadAhead<'_> {
    fn read_at(&mut self, path: &Path, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        if into.len() > STEP {
            return self.disk.read_at(path, offset, into);
        }
        let mut window = self.take_window(path, offset);
        if offset + into.len() as u64 > window.end() {
            window.move_to(self.disk, offset)?;
        }
        let from = (offset - window.start) as usize;
        let count = into.len().min(window.bytes.len() - from);
        into[..count].copy_from_slice(&window.bytes[from..from + count]);
        self.windows.push(window);
        Ok(count)
    }

    fn list(&mut self, directory: &Path) -> io::Result<Vec<DirectoryEntry>> {
        self.disk.list(directory)
    }

    fn write_file(&mut self, path: &Path, contents: &[u8]) -> io::Result<()> {
        self.disk.write_file(path, contents)
    }

    fn create_directory(&mut self, path: &Path) -> io::Result<()> {
        self.disk.create_directory(path)
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn lock(&mut self, path: &Path) -> io::Result<()> {
        self.disk.lock(path)
    }

    fn free_space(&mut self, path: &Path) -> io::Result<u64> {
        self.disk.free_space(path)
    }

    fn random(&mut self) -> io::Result<[u8; 16]> {
        self.disk.random()
    }

    fn write_path(&mut self, directory: &Path) -> String {
        self.disk.write_path(directory)
    }
}
