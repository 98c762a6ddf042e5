//! The room on the disk that compactions leave to others: a compaction writes what it merged before it gives back what it merged from.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::{Settings, lock};

/// A compaction that found no room is not tried again for so long: it would write until there is none, again and again.
const AGAIN_AFTER: Duration = Duration::from_secs(60);

/// A flush of so few bytes takes no log's room.
const SHORT_BYTES: u64 = 1 << 20;

pub(super) struct Room {
    directory: PathBuf,
    free_bytes_min: u64,
    flush_free_bytes_min: u64,
    scarce_until: Mutex<Option<Instant>>,
}

impl Room {
    pub fn new(directory: &Path, settings: &Settings) -> Room {
        Room {
            directory: directory.to_owned(),
            free_bytes_min: settings.free_bytes_min,
            flush_free_bytes_min: settings.flush_free_bytes_min,
            scarce_until: Mutex::new(None),
        }
    }

    /// Errors: no room is left for a compaction.
    pub fn check(&self) -> io::Result<()> {
        let disk = rustix::fs::statvfs(&self.directory)?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        if free >= self.free_bytes_min {
            return Ok(());
        }
        let mut scarce_until = lock(&self.scarce_until);
        if scarce_until.is_none() {
            tracing::warn!(
                directory = %self.directory.display(),
                "a state is not compacted, for {free} bytes are free on the disk, and others need {}: free space there, or what was deleted from the state takes room as before",
                self.free_bytes_min
            );
        }
        *scarce_until = Some(Instant::now() + AGAIN_AFTER);
        Err(io::Error::new(
            ErrorKind::StorageFull,
            "a compaction leaves the room that is left to others",
        ))
    }

    /// Errors: a flush of so many bytes would leave too few to others. A short one is tried all the same: it gives back what was deleted.
    pub fn check_flush(&self, bytes: u64) -> io::Result<()> {
        if bytes <= SHORT_BYTES {
            return Ok(());
        }
        let disk = rustix::fs::statvfs(&self.directory)?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        let needed = bytes.saturating_add(self.flush_free_bytes_min);
        match free >= needed {
            true => Ok(()),
            false => Err(io::Error::new(
                ErrorKind::StorageFull,
                format!(
                    "{free} bytes are free on the disk, and writing what changed needs {needed} with what is left to logs"
                ),
            )),
        }
    }

    /// A compaction found no room, and nothing was done about that yet, or not for long.
    pub fn is_scarce(&self) -> bool {
        let until = *lock(&self.scarce_until);
        until.is_some_and(|until| Instant::now() < until)
    }

    /// A compaction came to its end.
    pub fn on_compacted(&self) {
        *lock(&self.scarce_until) = None;
    }
}
