//! A shelf of one cluster is carried over to another, when a majority was lost for good.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::{Identity, ShelfError};

/// The directory of all shelves in a node's.
pub const STATES: &str = "state";

/// The directory of a log's shelf among all.
pub fn directory_of(log: u32) -> String {
    format!("log-{log}")
}

/// Copies the shelf `from`, which nobody uses, to `to`, where nothing is yet, and makes it that of another cluster. The old one is
/// not changed. `copied` hears of the bytes.
///
/// Errors: `from` is no shelf, or not that of `was`; files cannot be read or written.
pub fn carry(
    from: &Path,
    to: &Path,
    was: Identity,
    is: Identity,
    copied: &mut dyn FnMut(u64),
) -> Result<(), ShelfError> {
    was.check(from)?;
    copy(from, to, copied)?;
    is.replace(to).map_err(|source| ShelfError::Io {
        path: to.to_owned(),
        source,
    })
}

/// The bytes of all files below a directory: what [`carry`] copies. None where it is not.
pub fn bytes_below(directory: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        let entries = match fs::read_dir(&directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let metadata = entry.metadata()?;
            match metadata.is_dir() {
                true => directories.push(entry.path()),
                false => bytes += metadata.len(),
            }
        }
    }
    Ok(bytes)
}

fn copy(from: &Path, to: &Path, copied: &mut dyn FnMut(u64)) -> Result<(), ShelfError> {
    let mut directories = vec![(from.to_owned(), to.to_owned())];
    while let Some((from, to)) = directories.pop() {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| ShelfError::Io { path, source }
        };
        fs::create_dir_all(&to).map_err(failed(&to))?;
        for entry in fs::read_dir(&from).map_err(failed(&from))? {
            let entry = entry.map_err(failed(&from))?;
            let (path, target): (PathBuf, PathBuf) = (entry.path(), to.join(entry.file_name()));
            if entry.file_type().map_err(failed(&path))?.is_dir() {
                directories.push((path, target));
                continue;
            }
            let bytes = fs::copy(&path, &target).map_err(failed(&path))?;
            fs::File::open(&target)
                .and_then(|file| file.sync_all())
                .map_err(failed(&target))?;
            copied(bytes);
        }
        sync(&to).map_err(failed(&to))?;
    }
    Ok(())
}

fn sync(directory: &Path) -> io::Result<()> {
    fs::File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Applied, Batch, Settings, Shelf, Tree};

    #[test]
    fn a_carried_shelf_is_the_same_in_another_cluster() {
        let here = tempfile::tempdir().unwrap();
        let (from, to) = (here.path().join("old"), here.path().join("new"));
        let was = Identity {
            cluster: [1; 16],
            log: 7,
        };
        let is = Identity {
            cluster: [2; 16],
            ..was
        };
        let applied = Applied {
            position: 9,
            ..Applied::default()
        };
        let tree = Tree::open(&from, was, Settings::default()).unwrap();
        tree.apply(Batch::default().put("a", "1"), applied).unwrap();
        tree.flush().unwrap();
        drop(tree);
        assert!(matches!(
            carry(&from, &to, is, was, &mut |_| ()),
            Err(ShelfError::AnotherLog { .. })
        ));
        let mut bytes = 0;
        carry(&from, &to, was, is, &mut |count| bytes += count).unwrap();
        assert!(bytes > 0);
        assert_eq!(bytes, bytes_below(&from).unwrap());
        for (directory, identity) in [(&from, was), (&to, is)] {
            let tree = Tree::open(directory, identity, Settings::default()).unwrap();
            assert_eq!(tree.applied(), applied);
            assert_eq!(tree.get(b"a").unwrap(), Some(b"1".to_vec()));
        }
    }
}
