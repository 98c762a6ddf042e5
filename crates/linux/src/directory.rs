//! Durable changes of names: each is on the disk when its function returns.
//!
//! A file's own fsync says nothing about its name; the directory that holds the name is synced for
//! that.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::leftover::{Leftover, Pace};

/// The directory that holds the name of a file, opened before that name is changed: a process that is
/// out of descriptors has changed nothing, and can try again.
pub(crate) struct Holder(OwnedFd);

impl Holder {
    pub fn of(path: &Path) -> io::Result<Holder> {
        Holder::open(parent_of(path))
    }

    fn open(directory: &Path) -> io::Result<Holder> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Holder(rustix::fs::open(directory, flags, Mode::empty())?))
    }

    pub fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.0)?)
    }
}

fn sync_directory(directory: &Path) -> io::Result<()> {
    Holder::open(directory)?.sync()
}

/// The directory that holds the name of `path`.
pub(crate) fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Makes `path` and what is missing above it, each with mode 0700. One that exists keeps its mode.
pub(crate) fn create(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = parent_of(path);
    if !parent.is_dir() {
        create(parent)?;
    }
    match rustix::fs::mkdir(path, Mode::RWXU) {
        Ok(()) => {}
        Err(rustix::io::Errno::EXIST) if path.is_dir() => {}
        Err(errno) => return Err(errno.into()),
    }
    sync_directory(parent)
}

/// Makes the name of a directory durable that somebody else may have made a moment ago: an operator, an
/// installer, or this program before it was killed. Without that all that is in it goes with its name.
pub(crate) fn settle_name(path: &Path) -> io::Result<()> {
    match sync_directory(parent_of(path)) {
        // The name is another user's, and who may not look at it cannot sync it either.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            tracing::debug!(path = %path.display(), "the directory above may not be opened, and is not synced");
            Ok(())
        }
        synced => synced,
    }
}

/// Replaces a file: after a crash its old or its new contents are there, never a mixture.
pub(crate) fn write_file(path: &Path, contents: &[u8]) -> io::Result<()> {
    replace(path, |file| file.write_all(contents))
}

/// As `write_file`, with what `write` writes.
pub(crate) fn replace(
    path: &Path,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let (aside, holder) = (aside_of(path)?, Holder::of(path)?);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::open(&aside, flags, Mode::RUSR | Mode::WUSR)?);
    let written = write(&mut file).and_then(|()| file.sync_all());
    if let Err(error) = written.and_then(|()| std::fs::rename(&aside, path)) {
        // What stands aside is ours alone; the next attempt would replace it anyway.
        let _ = std::fs::remove_file(&aside);
        return Err(error);
    }
    holder.sync()
}

pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    let (left, entered) = (Holder::of(from)?, Holder::of(to)?);
    known_gone(std::fs::rename(from, to), &left)?;
    entered.sync()?;
    match parent_of(from) == parent_of(to) {
        true => Ok(()),
        false => left.sync(),
    }
}

pub(crate) fn remove(path: &Path) -> io::Result<()> {
    let holder = Holder::of(path)?;
    known_gone(std::fs::remove_file(path), &holder)?;
    holder.sync()
}

/// That a name is not there may be our own doing, of which the directory's sync failed: who hears that
/// it is gone goes on, so it has to be gone for good.
fn known_gone(result: io::Result<()>, holder: &Holder) -> io::Result<()> {
    if let Err(error) = &result
        && error.kind() == io::ErrorKind::NotFound
    {
        holder.sync()?;
    }
    result
}

/// The large files of a directory that is to be removed.
pub(crate) fn remove_large_files(directory: &Path, pace: &Pace) {
    // What cannot be listed or removed is left to the removal of the directory, which says why.
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if let Some(leftover) = Leftover::of(&path)
            && std::fs::remove_file(&path).is_ok()
        {
            leftover.let_go(pace, false);
        }
        if pace.is_ending() {
            return;
        }
    }
}

/// A directory and all that is in it. One that is not there is removed already.
pub(crate) fn remove_directory(path: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        removed => removed?,
    }
    sync_directory(parent_of(path))
}

/// Bytes that an unprivileged process may still use.
pub(crate) fn free_space(path: &Path) -> io::Result<u64> {
    let space = rustix::fs::statvfs(path)?;
    Ok(space.f_bavail.saturating_mul(space.f_frsize))
}

/// The size of the file system on which the directory is, or is going to be made.
pub fn disk_bytes(path: &Path) -> io::Result<u64> {
    let absolute = std::path::absolute(path)?;
    let mut there = absolute.ancestors().filter(|place| place.exists());
    let space = rustix::fs::statvfs(there.next().unwrap_or(Path::new("/")))?;
    Ok(space.f_blocks.saturating_mul(space.f_frsize))
}

/// `directory/.name.new`, in the same directory so that the rename stays in one file system.
fn aside_of(path: &Path) -> io::Result<PathBuf> {
    let Some(name) = path.file_name() else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{} does not name a file", path.display()),
        ));
    };
    let mut aside = std::ffi::OsString::from(".");
    aside.push(name);
    aside.push(".new");
    Ok(parent_of(path).join(aside))
}
