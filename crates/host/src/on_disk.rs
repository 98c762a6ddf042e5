//! Shelves in a directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use shelf::{Identity, Settings, Shelf, ShelfError, Tree};

use crate::jobs::Shelves;

/// One directory for each log, by its number: `log-7`.
pub struct OnDisk {
    pub directory: PathBuf,
    pub settings: Settings,
}

impl OnDisk {
    /// Those of a node that keeps so many bytes of its disk in reserve: compactions leave twice as much.
    pub fn beside(logs: &Path, reserve_bytes: u64) -> OnDisk {
        OnDisk {
            directory: logs.join(shelf::STATES),
            settings: Settings {
                free_bytes_min: 2 * reserve_bytes,
                flush_free_bytes_min: reserve_bytes / 4,
                ..Settings::default()
            },
        }
    }

    fn of(&self, identity: Identity) -> PathBuf {
        self.directory.join(shelf::directory_of(identity.log))
    }
}

impl Shelves for OnDisk {
    fn open(&self, identity: Identity) -> Result<Arc<dyn Shelf>, ShelfError> {
        let tree = Tree::open(&self.of(identity), identity, self.settings)?;
        Ok(Arc::new(tree))
    }

    fn put_aside(&self, identity: Identity) -> Result<PathBuf, ShelfError> {
        Tree::put_aside(&self.of(identity))
    }

    fn remove(&self, identity: Identity) -> Result<(), ShelfError> {
        Tree::remove(&self.of(identity))
    }
}
