//! The tree reads files that may have rotted, and panics over some of them: no panic leaves the shelf.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::OnceLock;

use crate::ShelfError;

/// After the first damage that is seen, nothing is done any more: what is damaged is not written on with.
pub struct Guarded {
    path: PathBuf,
    damaged: OnceLock<String>,
}

impl Guarded {
    pub fn new(path: PathBuf) -> Guarded {
        Guarded {
            path,
            damaged: OnceLock::new(),
        }
    }

    pub fn run<T>(&self, what: impl FnOnce() -> Result<T, ShelfError>) -> Result<T, ShelfError> {
        if let Some(what) = self.damaged.get() {
            return Err(self.damage(what.clone()));
        }
        // A lock that the panic poisoned makes the tree panic again, and is not taken here any more.
        let done = catch_unwind(AssertUnwindSafe(what));
        let done = done.unwrap_or_else(|panic| {
            let what = panic.downcast_ref::<String>().cloned();
            let what = what.or_else(|| panic.downcast_ref::<&str>().map(|&what| what.to_owned()));
            Err(self.damage(what.unwrap_or_else(|| "its files make no sense".to_owned())))
        });
        if let Err(ShelfError::Damaged { what, .. }) = &done {
            _ = self.damaged.set(what.clone());
        }
        done
    }

    pub fn failed(&self, error: lsm_tree::Error) -> ShelfError {
        match error {
            // A file that the tree names and that is not there is damage; any other failure is the device's.
            lsm_tree::Error::Io(source) if !is_damage(&source) => ShelfError::Io {
                path: self.path.clone(),
                source,
            },
            error => self.damage(error.to_string()),
        }
    }

    pub fn damage(&self, what: String) -> ShelfError {
        ShelfError::Damaged {
            path: self.path.clone(),
            what,
        }
    }
}

fn is_damage(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{InvalidData, InvalidInput, NotFound, UnexpectedEof};
    matches!(
        error.kind(),
        InvalidData | InvalidInput | NotFound | UnexpectedEof
    )
}
