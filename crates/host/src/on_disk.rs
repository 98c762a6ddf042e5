//! Shelves in a directory.

use std::path::PathBuf;
use std::sync::Arc;

use shelf::{Identity, Settings, Shelf, ShelfError, Tree};

use crate::jobs::Shelves;

/// One directory for each log, by its number: `log-7`.
pub struct OnDisk {
    pub directory: PathBuf,
    pub settings: Settings,
}

impl OnDisk {
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
