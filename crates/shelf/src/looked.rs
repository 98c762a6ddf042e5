//! A shelf that nobody uses is looked at, and not changed.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use tempfile::TempDir;

use crate::{Applied, Identity, Settings, Shelf, ShelfError, Tree};

/// A shelf as it is found on disk. Who opens a [`Tree`] removes what a crash left in it, so this one stands in a directory of its own, of
/// links to the files: what is removed there is a link.
pub struct Looked {
    identity: Identity,
    tree: Tree,
    _links: TempDir,
}

impl Looked {
    /// `None` where one was begun and never finished: nothing is in it.
    ///
    /// Errors: see [`ShelfError`]; there is none, it is damaged, or links to it cannot be made.
    pub fn at(directory: &Path) -> Result<Option<Looked>, ShelfError> {
        let io = |source| ShelfError::Io {
            path: directory.to_owned(),
            source,
        };
        if Identity::is_unfinished(directory).map_err(io)? {
            return Ok(None);
        }
        let identity = Identity::of(directory)?;
        let links = TempDir::with_prefix("logberg-shelf-").map_err(|source| ShelfError::Io {
            path: std::env::temp_dir(),
            source,
        })?;
        let directory = fs::canonicalize(directory).map_err(io)?;
        link(&directory, links.path()).map_err(io)?;
        let opened = Tree::open(links.path(), identity, Settings::default());
        let tree = opened.map_err(|error| located(error, &directory))?;
        Ok(Some(Looked {
            identity,
            tree,
            _links: links,
        }))
    }

    /// Whose it is, as it says itself.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// The place in its log that it stands for.
    pub fn applied(&self) -> Applied {
        self.tree.applied()
    }

    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, ShelfError> {
        self.tree.get(key)
    }

    /// Reads all of it. `progress` hears how many bytes of rows it has read.
    pub fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<(), ShelfError> {
        self.tree.verify(progress)
    }
}

/// The same error, of the directory that was looked at.
fn located(error: ShelfError, directory: &Path) -> ShelfError {
    let path = directory.to_owned();
    match error {
        ShelfError::Io { source, .. } => ShelfError::Io { path, source },
        ShelfError::Damaged { what, .. } => ShelfError::Damaged { path, what },
        other => other,
    }
}

/// Makes links in `to` to all files below `from`.
fn link(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => {
                fs::create_dir(&target)?;
                link(&entry.path(), &target)?;
            }
            false => symlink(entry.path(), &target)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Batch;

    const IDENTITY: Identity = Identity {
        cluster: [1; 16],
        log: 7,
    };

    fn at(position: u64) -> Applied {
        Applied {
            position,
            ..Applied::default()
        }
    }

    /// The names and contents of all files below.
    fn all(directory: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
        let mut files = Vec::new();
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => files.extend(all(&path)),
                false => files.push((path.clone(), fs::read(&path).unwrap())),
            }
        }
        files.sort();
        files
    }

    #[test]
    fn a_look_changes_nothing_and_finds_what_a_start_would_find() {
        let here = tempfile::tempdir().unwrap();
        let tree = Tree::open(here.path(), IDENTITY, Settings::default()).unwrap();
        for round in 1..=3 {
            tree.apply(Batch::default().put("a", vec![7; 3_000]), at(round))
                .unwrap();
            tree.flush().unwrap();
        }
        drop(tree);
        // A crash left a table that no version names: a start would remove it.
        let mut files = all(here.path()).into_iter().map(|(path, _)| path);
        let tables = files.find(|path| path.parent().unwrap().ends_with("tables"));
        let left_over = tables.expect("it has one").with_file_name("900");
        fs::write(&left_over, b"half of a table").unwrap();
        let before = all(here.path());
        let looked = Looked::at(here.path()).unwrap().expect("it is whole");
        assert_eq!(looked.identity(), IDENTITY);
        assert_eq!(looked.applied(), at(3));
        assert_eq!(looked.get(b"a").unwrap(), Some(vec![7; 3_000]));
        looked.verify(&mut |_| ()).unwrap();
        drop(looked);
        assert_eq!(all(here.path()), before);
        drop(Tree::open(here.path(), IDENTITY, Settings::default()).unwrap());
        assert!(!left_over.exists(), "a start removes it");
    }

    #[test]
    fn what_a_look_finds_damaged_is_named_where_it_stands() {
        let here = tempfile::tempdir().unwrap();
        let tree = Tree::open(here.path(), IDENTITY, Settings::default()).unwrap();
        tree.apply(Batch::default().put("a", vec![7; 9_000]), at(1))
            .unwrap();
        tree.flush().unwrap();
        drop(tree);
        for (path, mut bytes) in all(here.path()) {
            if path.parent().unwrap().ends_with("tables") {
                bytes[100] ^= 1;
                fs::write(&path, bytes).unwrap();
            }
        }
        let looked = Looked::at(here.path());
        let found = looked.and_then(|looked| looked.expect("it is whole").verify(&mut |_| ()));
        let Err(ShelfError::Damaged { what, .. }) = found else {
            panic!("{found:?}");
        };
        assert!(!what.is_empty());
    }

    #[test]
    fn a_file_in_the_place_of_a_shelf_is_none() {
        let here = tempfile::tempdir().unwrap();
        let place = here.path().join("log-7");
        fs::write(&place, b"something else's").unwrap();
        let is_none = |error| matches!(error, Some(ShelfError::NotAShelf { .. }));
        assert!(is_none(Looked::at(&place).err()));
        let opened = Tree::open(&place, IDENTITY, Settings::default());
        assert!(is_none(opened.err()));
    }

    #[test]
    fn a_file_of_ours_that_lost_its_end_is_damage() {
        let here = tempfile::tempdir().unwrap();
        drop(Tree::open(here.path(), IDENTITY, Settings::default()).unwrap());
        for left in [0, 3, 20] {
            let whole = fs::read(here.path().join("shelf")).unwrap();
            fs::write(here.path().join("shelf"), &whole[..left]).unwrap();
            let opened = Tree::open(here.path(), IDENTITY, Settings::default());
            assert!(matches!(opened, Err(ShelfError::Damaged { .. })), "{left}");
            fs::write(here.path().join("shelf"), whole).unwrap();
        }
    }
}
