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

const FILE: &str = "shelf";
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
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io(error)),
            Err(_) => fs::create_dir_all(directory).map_err(io)?,
        }
        let claimed = directory.join(CLAIMED);
        let mut entries = fs::read_dir(directory).map_err(io)?;
        // A claim is written first: what stands beside one was never whole.
        if entries.next().is_some() && !claimed.exists() {
            return Err(ShelfError::NotAShelf {
                path: directory.to_owned(),
                what: format!("there are files in it, and none of them is called {FILE:?}"),
            });
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
        let bytes = fs::read(directory.join(FILE)).map_err(|source| ShelfError::Io {
            path: directory.join(FILE),
            source,
        })?;
        self.compare(directory, &bytes)
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

    fn compare(&self, directory: &Path, bytes: &[u8]) -> Result<(), ShelfError> {
        let path = || directory.to_owned();
        if bytes == self.lines().as_bytes() {
            return Ok(());
        }
        let damaged = || ShelfError::Damaged {
            path: path(),
            what: format!("its file {FILE:?} is not whole"),
        };
        let text = std::str::from_utf8(bytes).map_err(|_| damaged())?;
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
        Err(ShelfError::AnotherLog {
            path: path(),
            found: Identity::parse(lines).ok_or_else(damaged)?,
            expected: *self,
        })
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
