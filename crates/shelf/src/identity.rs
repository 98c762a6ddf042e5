//! Whose shelf a directory is.
//!
//! ```text
//!  logberg shelf 1
//!  cluster 0123…ef                 32 hex digits
//!  log 7
//!  checksum 89abcdef               crc32c of the lines before
//! ```

use std::fmt;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use super::ShelfError;

pub(crate) const FILE: &str = "shelf";
/// The same while the shelf is being made.
const CLAIMED: &str = "shelf.new";
const FIRST_LINE: &str = "logberg shelf ";
const VERSION: u32 = 1;

/// The log whose state a shelf is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    pub cluster: [u8; 16],
    pub log: u32,
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "log {} in cluster ", self.log)?;
        self.cluster
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Identity {
    fn lines(&self) -> String {
        let cluster: String = self
            .cluster
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let lines = format!(
            "{FIRST_LINE}{VERSION}\ncluster {cluster}\nlog {}\n",
            self.log
        );
        let checksum = crc32c::crc32c(lines.as_bytes());
        format!("{lines}checksum {checksum:08x}\n")
    }

    /// Whether the directory is a whole shelf already. If it is none yet, it is claimed, and [sealed](Identity::seal) once
    /// all that a shelf has is in it.
    pub(crate) fn claim(&self, directory: &Path) -> Result<bool, ShelfError> {
        let io = |source: io::Error| ShelfError::Io {
            path: directory.to_owned(),
            source,
        };
        match fs::read(directory.join(FILE)) {
            Ok(bytes) => return self.compare(directory, &bytes).map(|()| true),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return Err(no_file_of_ours(directory));
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io(error)),
            Err(_) => fs::create_dir_all(directory).map_err(io)?,
        }
        let claimed = directory.join(CLAIMED);
        let mut entries = fs::read_dir(directory).map_err(io)?;
        // A claim is written first: what stands beside one was never whole.
        if entries.next().is_some() && !claimed.exists() {
            return Err(no_file_of_ours(directory));
        }
        let write = || {
            let mut file = fs::File::create(&claimed)?;
            file.write_all(self.lines().as_bytes())?;
            file.sync_all()
        };
        write().map_err(io)?;
        Ok(false)
    }

    /// Refuses a directory that is no whole shelf, or another log's.
    pub(crate) fn check(&self, directory: &Path) -> Result<(), ShelfError> {
        self.expect(directory, Identity::of(directory)?)
    }

    /// Makes a whole shelf that of this log, whosever it was.
    pub(crate) fn replace(&self, directory: &Path) -> io::Result<()> {
        let mut file = fs::File::create(directory.join(CLAIMED))?;
        file.write_all(self.lines().as_bytes())?;
        file.sync_all()?;
        Identity::seal(directory)
    }

    /// Makes a whole shelf one that was never finished: what stands beside a claim may go in any order.
    pub(crate) fn give_up(directory: &Path) -> io::Result<()> {
        match fs::rename(directory.join(FILE), directory.join(CLAIMED)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(()) => fs::File::open(directory)?.sync_all(),
        }
    }

    /// Removes all but the claim, and then that.
    pub(crate) fn remove(directory: &Path) -> io::Result<()> {
        Identity::give_up(directory)?;
        let entries = match fs::read_dir(directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            if entry.file_name() == CLAIMED {
                continue;
            }
            match entry.file_type()?.is_dir() {
                true => fs::remove_dir_all(entry.path())?,
                false => fs::remove_file(entry.path())?,
            }
        }
        fs::remove_dir_all(directory)
    }

    pub(crate) fn seal(directory: &Path) -> io::Result<()> {
        fs::rename(directory.join(CLAIMED), directory.join(FILE))?;
        fs::File::open(directory)?.sync_all()?;
        match directory.parent() {
            Some(parent) if parent != Path::new("") => fs::File::open(parent)?.sync_all(),
            _ => Ok(()),
        }
    }

    /// Whether the directory was claimed for a shelf that was never finished, or is empty: the next [`Tree::open`](crate::Tree::open)
    /// begins one there.
    pub(crate) fn is_unfinished(directory: &Path) -> io::Result<bool> {
        if directory.join(FILE).exists() || !directory.is_dir() {
            return Ok(false);
        }
        let is_empty = fs::read_dir(directory)?.next().is_none();
        Ok(is_empty || directory.join(CLAIMED).exists())
    }

    /// Whose a whole shelf is.
    pub(crate) fn of(directory: &Path) -> Result<Identity, ShelfError> {
        match fs::read(directory.join(FILE)) {
            Ok(bytes) => Identity::read(directory, &bytes),
            Err(error)
                if [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory]
                    .contains(&error.kind()) =>
            {
                Err(no_file_of_ours(directory))
            }
            Err(source) => Err(ShelfError::Io {
                path: directory.join(FILE),
                source,
            }),
        }
    }

    fn compare(&self, directory: &Path, bytes: &[u8]) -> Result<(), ShelfError> {
        self.expect(directory, Identity::read(directory, bytes)?)
    }

    fn expect(&self, directory: &Path, found: Identity) -> Result<(), ShelfError> {
        match found == *self {
            true => Ok(()),
            false => Err(ShelfError::AnotherLog {
                path: directory.to_owned(),
                found,
                expected: *self,
            }),
        }
    }

    fn read(directory: &Path, bytes: &[u8]) -> Result<Identity, ShelfError> {
        let path = || directory.to_owned();
        let damaged = || ShelfError::Damaged {
            path: path(),
            what: format!("its file {FILE:?} is not whole"),
        };
        let text = std::str::from_utf8(bytes).map_err(|_| damaged())?;
        // A file that lost its end, or all of it, is ours: it stands in the place of ours.
        if FIRST_LINE.starts_with(text) {
            return Err(damaged());
        }
        let Some(first) = text.strip_prefix(FIRST_LINE) else {
            return Err(ShelfError::NotAShelf {
                path: path(),
                what: format!("its file {FILE:?} is something else's"),
            });
        };
        let (lines, checksum) = text.rsplit_once("checksum ").ok_or_else(damaged)?;
        let expected = format!("{:08x}\n", crc32c::crc32c(lines.as_bytes()));
        if checksum != expected {
            return Err(damaged());
        }
        let version = first.lines().next().and_then(|found| found.parse().ok());
        let found: u32 = version.ok_or_else(damaged)?;
        if found != VERSION {
            return Err(ShelfError::Newer {
                path: path(),
                found,
                known: VERSION,
            });
        }
        Identity::parse(lines).ok_or_else(damaged)
    }

    fn parse(lines: &str) -> Option<Identity> {
        let word = |name: &str| {
            let mut found = lines.lines().filter_map(|line| line.strip_prefix(name));
            found.next()
        };
        let hex = word("cluster ")?;
        let mut cluster = [0; 16];
        for (at, byte) in cluster.iter_mut().enumerate() {
            *byte = u8::from_str_radix(hex.get(2 * at..2 * at + 2)?, 16).ok()?;
        }
        let log = word("log ")?.parse().ok()?;
        Some(Identity { cluster, log })
    }
}

fn no_file_of_ours(directory: &Path) -> ShelfError {
    ShelfError::NotAShelf {
        path: directory.to_owned(),
        what: format!("it is no directory with a file {FILE:?}"),
    }
}
