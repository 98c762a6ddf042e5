//! Names in memory: a tree of directories, whose errors are those of a file system.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path};
use std::sync::{Arc, Mutex, MutexGuard};

use ops::OpenMode;
use rustix::io::Errno;

use super::free_memory::free_memory;
use super::ram_file::RamFile;
use crate::directory::parent_of;
use crate::ink_file::ReadOnly;
use crate::leftover::{Leftover, Pace};
use crate::medium::{Names, Opened};

pub(super) struct Ram {
    root: Mutex<Directory>,
}

type Directory = BTreeMap<OsString, Entry>;

pub(super) enum Entry {
    Directory(Directory),
    File(Arc<RamFile>),
}

impl Ram {
    pub fn new() -> Ram {
        Ram {
            root: Mutex::default(),
        }
    }

    fn root(&self) -> MutexGuard<'_, Directory> {
        self.root.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Opened> {
        if let OpenMode::Create { .. } = mode {
            let mut root = self.root();
            let (parent, name) = parent_and_name(&mut root, path)?;
            if parent.contains_key(name) {
                return Err(Errno::EXIST.into());
            }
            let file = Arc::new(RamFile::default());
            parent.insert(name.to_owned(), Entry::File(file.clone()));
            return Ok(Opened::Other(file));
        }
        let file = self.file(path)?;
        match mode {
            OpenMode::Read => Ok(Opened::Other(Arc::new(ReadOnly(file)))),
            _ => Ok(Opened::Other(file)),
        }
    }

    pub fn file(&self, path: &Path) -> io::Result<Arc<RamFile>> {
        let mut root = self.root();
        match find(&mut root, path)? {
            Entry::File(file) => Ok(file.clone()),
            Entry::Directory(_) => Err(Errno::ISDIR.into()),
        }
    }

    /// Name, whether a directory, and length, of what a directory holds, by name.
    pub fn list(&self, path: &Path) -> io::Result<Vec<(String, bool, u64)>> {
        let mut root = self.root();
        let entries = directory(&mut root, path)?.iter();
        Ok(entries
            .map(|(name, entry)| {
                let name = name.to_string_lossy().into_owned();
                match entry {
                    Entry::Directory(_) => (name, true, 0),
                    Entry::File(file) => (name, false, file.length()),
                }
            })
            .collect())
    }
}

impl Names for Ram {
    fn create_directory(&self, path: &Path) -> io::Result<()> {
        let mut here = &mut *self.root();
        for name in names(path) {
            let entry = here
                .entry(name.to_owned())
                .or_insert_with(|| Entry::Directory(Directory::new()));
            match entry {
                Entry::Directory(below) => here = below,
                Entry::File(_) => return Err(Errno::EXIST.into()),
            }
        }
        Ok(())
    }

    fn write_file(&self, path: &Path, contents: &[u8]) -> io::Result<()> {
        let mut root = self.root();
        let (parent, name) = parent_and_name(&mut root, path)?;
        if let Some(Entry::Directory(_)) = parent.get(name) {
            return Err(Errno::ISDIR.into());
        }
        // Another file: who has the old one open goes on seeing that.
        let file = Arc::new(RamFile::holding(contents)?);
        parent.insert(name.to_owned(), Entry::File(file));
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut root = self.root();
        // As a file system goes about it: both places first, then what stands there.
        parent_and_name(&mut root, from)?;
        parent_and_name(&mut root, to)?;
        let moved_is_directory = matches!(find(&mut root, from)?, Entry::Directory(_));
        if to != from && to.starts_with(from) {
            return Err(Errno::INVAL.into());
        }
        if to != from && from.starts_with(to) {
            return Err(Errno::NOTEMPTY.into());
        }
        let (parent, name) = parent_and_name(&mut root, to)?;
        match parent.get(name) {
            Some(Entry::Directory(_)) if !moved_is_directory => return Err(Errno::ISDIR.into()),
            Some(Entry::File(_)) if moved_is_directory => return Err(Errno::NOTDIR.into()),
            Some(Entry::Directory(below)) if to != from && !below.is_empty() => {
                return Err(Errno::NOTEMPTY.into());
            }
            _ => {}
        }
        let (parent, name) = parent_and_name(&mut root, from)?;
        let moved = parent.remove(name).ok_or(Errno::NOENT)?;
        let (parent, name) = parent_and_name(&mut root, to)?;
        parent.insert(name.to_owned(), moved);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<Option<Leftover>> {
        let mut root = self.root();
        if let Entry::Directory(_) = find(&mut root, path)? {
            return Err(Errno::ISDIR.into());
        }
        let (parent, name) = parent_and_name(&mut root, path)?;
        parent.remove(name);
        Ok(None)
    }

    fn remove_directory(&self, path: &Path, _: &Pace) -> io::Result<()> {
        let mut root = self.root();
        match find(&mut root, path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                directory(&mut root, parent_of(path))?;
                return Ok(());
            }
            Ok(Entry::File(_)) => return Err(Errno::NOTDIR.into()),
            found => found?,
        };
        let (parent, name) = parent_and_name(&mut root, path)?;
        parent.remove(name);
        Ok(())
    }

    fn free_space(&self, path: &Path) -> io::Result<u64> {
        find_or_root(&mut self.root(), path)?;
        free_memory()
    }
}

/// Relative paths begin at the root too: there is no other place.
fn names(path: &Path) -> impl Iterator<Item = &OsStr> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name),
        _ => None,
    })
}

fn directory<'a>(root: &'a mut Directory, path: &Path) -> io::Result<&'a mut Directory> {
    let mut here = root;
    for name in names(path) {
        match here.get_mut(name) {
            Some(Entry::Directory(below)) => here = below,
            Some(Entry::File(_)) => return Err(Errno::NOTDIR.into()),
            None => return Err(Errno::NOENT.into()),
        }
    }
    Ok(here)
}

/// Where a name stands, or would.
fn parent_and_name<'a, 'p>(
    root: &'a mut Directory,
    path: &'p Path,
) -> io::Result<(&'a mut Directory, &'p OsStr)> {
    let name = path.file_name().ok_or(Errno::INVAL)?;
    Ok((directory(root, parent_of(path))?, name))
}

fn find<'a>(root: &'a mut Directory, path: &Path) -> io::Result<&'a mut Entry> {
    let (parent, name) = parent_and_name(root, path)?;
    parent.get_mut(name).ok_or_else(|| Errno::NOENT.into())
}

fn find_or_root(root: &mut Directory, path: &Path) -> io::Result<()> {
    match names(path).next() {
        Some(_) => find(root, path).map(drop),
        None => Ok(()),
    }
}
