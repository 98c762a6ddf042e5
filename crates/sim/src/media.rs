//! The part of a disk that survives a crash: files, directories, and the remains of a broken write.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use ops::{BLOCK, DirectoryEntry, Place, Slice};
use serde::{Deserialize, Serialize};

use crate::landing;
use crate::random::Random;

/// The smallest part that a device writes as a whole.
const SECTOR: usize = 512;

/// Shared by the name and by every process that holds the file open, as an inode is.
pub(crate) type Contents = Rc<RefCell<Vec<u8>>>;

/// Everything here is durable; what is not yet is an op in flight (see `disk`).
#[derive(Default)]
pub(crate) struct Media {
    files: BTreeMap<PathBuf, Contents>,
    directories: BTreeSet<PathBuf>,
}

/// The fate of the blocks of a write that the device did not finish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TornBlocks {
    /// Every sector is old or new: bytes that the write does not change survive.
    KeepSectors,
    /// A block may also be zero or garbage.
    LoseBlocks,
}

impl Media {
    /// With inodes of its own: what is written here from now on is not seen there.
    pub fn copy(&self) -> Media {
        let files = self.files.iter().map(|(path, contents)| {
            let contents = contents.borrow().clone();
            (path.clone(), Rc::new(RefCell::new(contents)))
        });
        Media {
            files: files.collect(),
            directories: self.directories.clone(),
        }
    }

    pub fn exists(&self, path: &Path) -> bool {
        self.files.contains_key(path) || self.is_directory(path)
    }

    pub fn is_directory(&self, path: &Path) -> bool {
        path.parent().is_none() || self.directories.contains(path)
    }

    pub fn file(&self, path: &Path) -> io::Result<Contents> {
        match self.files.get(path) {
            Some(contents) => Ok(contents.clone()),
            None if self.is_directory(path) => Err(refusal(io::ErrorKind::IsADirectory, path)),
            None => {
                self.way_to(path)?;
                Err(refusal(io::ErrorKind::NotFound, path))
            }
        }
    }

    /// All above `path` are directories.
    pub fn way_to(&self, path: &Path) -> io::Result<()> {
        let above: Vec<&Path> = path.ancestors().skip(1).collect();
        for directory in above.into_iter().rev() {
            if self.files.contains_key(directory) {
                return Err(refusal(io::ErrorKind::NotADirectory, path));
            }
            if !self.is_directory(directory) {
                return Err(refusal(io::ErrorKind::NotFound, path));
            }
        }
        Ok(())
    }

    pub fn files(&self) -> impl Iterator<Item = (&Path, &Contents)> {
        self.files
            .iter()
            .map(|(path, contents)| (&**path, contents))
    }

    pub fn used_bytes(&self) -> u64 {
        self.files
            .values()
            .map(|contents| contents.borrow().len().next_multiple_of(BLOCK) as u64)
            .sum()
    }

    pub fn list(&self, directory: &Path) -> io::Result<Vec<DirectoryEntry>> {
        if self.files.contains_key(directory) {
            return Err(refusal(io::ErrorKind::NotADirectory, directory));
        }
        self.way_to(directory)?;
        if !self.is_directory(directory) {
            return Err(refusal(io::ErrorKind::NotFound, directory));
        }
        let below = |path: &Path| path.parent() == Some(directory);
        let files = self.files.iter().map(|(path, contents)| {
            let length = contents.borrow().len() as u64;
            (path, false, length)
        });
        let directories = self.directories.iter().map(|path| (path, true, 0));
        let mut entries: Vec<DirectoryEntry> = files
            .chain(directories)
            .filter(|(path, _, _)| below(path))
            .filter_map(|(path, is_directory, length)| {
                Some(DirectoryEntry {
                    name: path.file_name()?.to_string_lossy().into_owned(),
                    is_directory,
                    length,
                })
            })
            .collect();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    pub fn create(&mut self, path: &Path) -> io::Result<Contents> {
        self.way_to(path)?;
        if self.exists(path) {
            return Err(refusal(io::ErrorKind::AlreadyExists, path));
        }
        let contents = Contents::default();
        self.files.insert(path.to_owned(), contents.clone());
        Ok(contents)
    }

    pub fn create_directory(&mut self, path: &Path) -> io::Result<()> {
        for path in path.ancestors() {
            if self.files.contains_key(path) {
                return Err(refusal(io::ErrorKind::AlreadyExists, path));
            }
        }
        for path in path.ancestors().filter(|path| path.parent().is_some()) {
            self.directories.insert(path.to_owned());
        }
        Ok(())
    }

    /// A new inode under the name: a process that holds the old one open keeps it. The remains of an attempt
    /// that did not come so far are gone: this one was written over them.
    pub fn replace(&mut self, path: &Path, contents: &[u8]) -> io::Result<()> {
        self.way_to(path)?;
        if self.is_directory(path) {
            return Err(refusal(io::ErrorKind::IsADirectory, path));
        }
        let contents = Rc::new(RefCell::new(contents.to_vec()));
        self.files.insert(path.to_owned(), contents);
        self.files.remove(&aside_of(path));
        Ok(())
    }

    /// As rename(2): over a file, or a directory over an empty one.
    pub fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.way_to(from)?;
        self.way_to(to)?;
        if !self.exists(from) {
            return Err(refusal(io::ErrorKind::NotFound, from));
        }
        if from == to {
            return Ok(());
        }
        if to.starts_with(from) {
            return Err(refusal(io::ErrorKind::InvalidInput, to));
        }
        if from.starts_with(to) {
            return Err(refusal(io::ErrorKind::DirectoryNotEmpty, to));
        }
        if let Some(contents) = self.files.get(from).cloned() {
            if self.is_directory(to) {
                return Err(refusal(io::ErrorKind::IsADirectory, to));
            }
            self.files.remove(from);
            self.files.insert(to.to_owned(), contents);
            return Ok(());
        }
        if self.files.contains_key(to) {
            return Err(refusal(io::ErrorKind::NotADirectory, to));
        }
        if self.is_directory(to) && !self.list(to)?.is_empty() {
            return Err(refusal(io::ErrorKind::DirectoryNotEmpty, to));
        }
        let moved = |path: &Path| match path.strip_prefix(from) {
            Ok(rest) if rest.as_os_str().is_empty() => to.to_owned(),
            Ok(rest) => to.join(rest),
            Err(_) => path.to_owned(),
        };
        let files = std::mem::take(&mut self.files);
        self.files = files.into_iter().map(|(p, c)| (moved(&p), c)).collect();
        self.directories = self.directories.iter().map(|p| moved(p)).collect();
        Ok(())
    }

    /// With all below it. One that is not there is removed already.
    pub fn remove_directory(&mut self, path: &Path) -> io::Result<()> {
        self.way_to(path)?;
        if self.files.contains_key(path) {
            return Err(refusal(io::ErrorKind::NotADirectory, path));
        }
        self.files.retain(|file, _| !file.starts_with(path));
        self.directories
            .retain(|directory| !directory.starts_with(path));
        Ok(())
    }

    /// A file.
    pub fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.file(path)?;
        self.files.remove(path);
        Ok(())
    }
}

/// The path where a file's new contents are written before they take its name.
pub(crate) fn aside_of(path: &Path) -> PathBuf {
    let mut aside = std::ffi::OsString::from(".");
    aside.push(path.file_name().unwrap_or_default());
    aside.push(".new");
    path.with_file_name(aside)
}

fn refusal(kind: io::ErrorKind, path: &Path) -> io::Error {
    io::Error::new(kind, format!("{}: {kind}", path.display()))
}

pub(crate) fn length_of(slices: &[Slice]) -> usize {
    slices.iter().map(|slice| slice.len()).sum()
}

/// A write that was finished.
pub(crate) fn write(contents: &mut Vec<u8>, place: Place, slices: &[Slice]) {
    let mut at = place;
    for slice in slices {
        for range in landing::unwritten(slice, at) {
            put(contents, at.offset as usize + range.start, &slice[range]);
        }
        at.offset += slice.len() as u64;
    }
}

/// A write that was not finished: of the whole, a beginning or any of its blocks may be there.
pub(crate) fn tear(
    contents: &mut Vec<u8>,
    offset: u64,
    bytes: &[u8],
    torn: TornBlocks,
    random: &mut Random,
) {
    let blocks = bytes.len() / BLOCK;
    let (certain, doubtful): (Range<usize>, Range<usize>) = match random.below(4) {
        0 => (0..0, 0..0),
        1 => (0..blocks, 0..0),
        2 => {
            let first = random.below(blocks as u64 + 1) as usize;
            (0..first, first..(first + 1).min(blocks))
        }
        _ => (0..0, 0..blocks),
    };
    for block in 0..blocks {
        let new = &bytes[block * BLOCK..(block + 1) * BLOCK];
        let at = offset as usize + block * BLOCK;
        if certain.contains(&block) {
            put(contents, at, new);
        } else if doubtful.contains(&block) {
            tear_block(contents, at, new, torn, random);
        }
    }
}

pub(crate) fn tear_block(
    contents: &mut Vec<u8>,
    at: usize,
    new: &[u8],
    torn: TornBlocks,
    random: &mut Random,
) {
    let outcomes = match torn {
        TornBlocks::KeepSectors => 3,
        TornBlocks::LoseBlocks => 5,
    };
    match random.below(outcomes) {
        0 => {}
        1 => put(contents, at, new),
        2 => {
            for sector in (0..BLOCK).step_by(SECTOR) {
                if random.coin() {
                    put(contents, at + sector, &new[sector..sector + SECTOR]);
                }
            }
            let blocks = contents.len().next_multiple_of(BLOCK);
            contents.resize(blocks, 0);
        }
        3 => put(contents, at, &[0; BLOCK]),
        _ => {
            let mut garbage = [0; BLOCK];
            random.fill(&mut garbage);
            put(contents, at, &garbage);
        }
    }
}

pub(crate) fn put(contents: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    let end = at + bytes.len();
    if contents.len() < end {
        contents.resize(end, 0);
    }
    contents[at..end].copy_from_slice(bytes);
}
