//! Writes that are applied together.

use super::ShelfError;

/// Longer ones do not fit into the tree's blocks.
pub const KEY_BYTES_MAX: usize = 32 << 10;
pub const VALUE_BYTES_MAX: usize = 16 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    Put {
        key: Vec<u8>,
        value: Vec<u8>,
    },
    Delete {
        key: Vec<u8>,
    },
    /// Every row whose key begins so, now; and none comes again.
    Forget {
        prefix: Vec<u8>,
    },
}

impl Write {
    pub fn key(&self) -> &[u8] {
        match self {
            Write::Put { key, .. } | Write::Delete { key } | Write::Forget { prefix: key } => key,
        }
    }
}

/// In order: the last write of a key wins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    writes: Vec<Write>,
}

impl Batch {
    pub fn put(&mut self, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> &mut Batch {
        let (key, value) = (key.into(), value.into());
        self.push(Write::Put { key, value })
    }

    pub fn delete(&mut self, key: impl Into<Vec<u8>>) -> &mut Batch {
        self.push(Write::Delete { key: key.into() })
    }

    pub fn forget(&mut self, prefix: impl Into<Vec<u8>>) -> &mut Batch {
        let prefix = prefix.into();
        self.push(Write::Forget { prefix })
    }

    pub fn push(&mut self, write: Write) -> &mut Batch {
        self.writes.push(write);
        self
    }

    pub fn writes(&self) -> &[Write] {
        &self.writes
    }

    /// What no shelf takes is found before anything of the batch is done.
    pub(crate) fn check(&self) -> Result<(), ShelfError> {
        for write in &self.writes {
            let (key, value) = match write {
                Write::Put { key, value } => (key, value.len()),
                Write::Delete { key } | Write::Forget { prefix: key } => (key, 0),
            };
            if key.len() > KEY_BYTES_MAX {
                return Err(ShelfError::KeyTooLong(key.len()));
            }
            if value > VALUE_BYTES_MAX {
                return Err(ShelfError::ValueTooLong(value));
            }
        }
        Ok(())
    }
}
