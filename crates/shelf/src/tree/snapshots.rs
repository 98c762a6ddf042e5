//! What readers see, and which of it somebody still reads.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::lock;
use crate::Applied;
use crate::forgotten::Forgotten;

/// The state after a batch.
#[derive(Clone, Default)]
pub struct Published {
    /// The first sequence number that is not part of it.
    pub version: u64,
    pub applied: Applied,
    pub forgotten: Arc<Forgotten>,
}

#[derive(Default)]
pub struct Snapshots(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    published: Published,
    /// By version: how many read it.
    read: BTreeMap<u64, usize>,
}

/// A state that somebody reads: nothing of it is dropped meanwhile.
pub struct Reading {
    pub state: Published,
    inner: Arc<Mutex<Inner>>,
}

impl Snapshots {
    pub fn publish(&self, published: Published) {
        lock(&self.0).published = published;
    }

    /// Sequence numbers that nobody's rows have are seen as well.
    pub fn publish_version(&self, version: u64) {
        let published = &mut lock(&self.0).published;
        published.version = published.version.max(version);
    }

    pub fn published(&self) -> Published {
        lock(&self.0).published.clone()
    }

    pub fn take(&self) -> Reading {
        let mut inner = lock(&self.0);
        let state = inner.published.clone();
        *inner.read.entry(state.version).or_default() += 1;
        drop(inner);
        Reading {
            state,
            inner: self.0.clone(),
        }
    }

    /// Nobody reads an older version, now or later.
    pub fn oldest(&self) -> u64 {
        let inner = lock(&self.0);
        let oldest = inner.read.keys().next().copied();
        oldest.unwrap_or(inner.published.version)
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        let mut inner = lock(&self.inner);
        if let Some(count) = inner.read.get_mut(&self.state.version) {
            *count -= 1;
            if *count == 0 {
                inner.read.remove(&self.state.version);
            }
        }
    }
}
