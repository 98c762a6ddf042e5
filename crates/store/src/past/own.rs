//! A directory's word of its own past: whether a node may start from it, and what it must still hold.

use std::io;
use std::path::{Path, PathBuf};

use formats::LogId;
use formats::proof::DiskKey;
use ops::Disk;
use thiserror::Error;

use super::ends::{ENDS_FILE, Ends, Lost};
use super::found::{self, FOUND_FILE};
use super::key::{self, KEY_FILE};
use super::starts::STARTS_FILE;
use formats::past::{Findings, Start};

use super::{refused, starts};
use crate::Manifest;

#[derive(Clone, Debug, Default)]
pub struct Own {
    /// The starts that it lists.
    pub starts: Vec<Start>,
    /// The findings of these starts.
    pub found: Findings,
    /// The key; `None` in a directory of before disks had keys.
    pub key: Option<DiskKey>,
    /// The last start, by the manifest.
    incarnation: u32,
    /// The ends of that start, if it was asked to stop.
    ends: Option<Ends>,
}

/// The reason why no node starts from the directory.
#[derive(Debug, Error)]
pub enum Trouble {
    #[error(
        "{directory} is an old copy, and no node starts from it ({said}): put the newer directory back, or let this node join again as a new one with an empty directory; docs/first-aid.md says what to do if there is no newer one"
    )]
    OldCopy { directory: PathBuf, said: String },
    #[error(
        "the manifest of {directory} is of start {manifest} of this node, and its file {file} is of start {other}: the manifest was replaced by an older one; put the newer directory back as a whole, or let this node join again as a new one with an empty directory"
    )]
    OldManifest {
        directory: PathBuf,
        file: &'static str,
        manifest: u32,
        other: u32,
    },
    #[error(
        "{path} is damaged ({reason}): restore it, or let this node join again as a new one with an empty directory"
    )]
    Damaged { path: PathBuf, reason: String },
    #[error("{path} cannot be read: {error}")]
    Io { path: PathBuf, error: io::Error },
}

impl Own {
    pub fn load(
        disk: &mut dyn Disk,
        directory: &Path,
        manifest: &Manifest,
    ) -> Result<Own, Trouble> {
        let io = |error| Trouble::Io {
            path: directory.to_owned(),
            error,
        };
        if let Some(said) = refused::load(disk, directory).map_err(io)? {
            let directory = directory.to_owned();
            return Err(Trouble::OldCopy { directory, said });
        }
        let damaged = |file: &str| {
            let path = directory.join(file);
            move |reason| Trouble::Damaged { path, reason }
        };
        let key = key::load(disk, directory).map_err(damaged(KEY_FILE))?;
        let fits = key::check(key.as_ref(), manifest.identity.disk);
        fits.map_err(damaged(KEY_FILE))?;
        let starts = starts::load(disk, directory).map_err(damaged(STARTS_FILE))?;
        // The note only adds to what the logs say of themselves: a start can do without it.
        let ends = Ends::load(disk, directory).unwrap_or_else(|reason| {
            let path = directory.join(ENDS_FILE);
            tracing::error!(path = %path.display(), reason, "where the logs ended at the last stop cannot be read, so it is not known whether newer files were cut or removed since");
            None
        });
        // A start can do without it: then only its own findings speak.
        let found = found::load(disk, directory).unwrap_or_else(|reason| {
            let path = directory.join(FOUND_FILE);
            tracing::error!(path = %path.display(), reason, "what earlier starts found cannot be read, and is not told any more");
            Findings::default()
        });
        // ‡ Each start writes its list before its findings. Peers take a disk that has forgotten its starts for an
        // old copy: they know of more. A directory that was made anew has neither file.
        if starts.is_empty() && !found.0.is_empty() {
            return Err(damaged(STARTS_FILE)("it is gone".to_owned()));
        }
        let last = starts.last().map_or(0, |start| start.incarnation);
        let noted = ends.as_ref().map_or(0, |ends| ends.incarnation);
        for (file, other) in [(STARTS_FILE, last), (ENDS_FILE, noted)] {
            // The manifest is written before either file.
            if other > manifest.incarnation {
                return Err(Trouble::OldManifest {
                    directory: directory.to_owned(),
                    file,
                    manifest: manifest.incarnation,
                    other,
                });
            }
        }
        Ok(Own {
            starts,
            found,
            key,
            incarnation: manifest.incarnation,
            ends,
        })
    }

    /// Whether the end of this log was noted, and no start came since.
    pub fn has_noted(&self, log: LogId) -> bool {
        self.lost(log, 0).is_some()
    }

    /// The loss of a log since the node was stopped, if no start came between.
    pub fn lost(&self, log: LogId, last_record: u64) -> Option<Lost> {
        let ends = self.ends.as_ref()?;
        ends.lost(self.incarnation, log, last_record)
    }
}
