//! The keys that clients watch (WATCH), at the node that leads their group.
//!
//! ‡ It knows what this node executed, and nothing of what others did while they led. So when a node begins to lead, all that is
//! watched counts as changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Default)]
pub struct Watched(Mutex<Tables>);

#[derive(Default)]
struct Tables {
    by_key: BTreeMap<Vec<u8>, BTreeSet<u64>>,
    by_client: BTreeMap<u64, Watching>,
}

#[derive(Default)]
struct Watching {
    keys: BTreeSet<Vec<u8>>,
    has_changed: bool,
}

impl Watched {
    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn watch(&self, client: u64, key: &[u8]) {
        let mut tables = self.lock();
        tables
            .by_key
            .entry(key.to_vec())
            .or_default()
            .insert(client);
        let watching = tables.by_client.entry(client).or_default();
        watching.keys.insert(key.to_vec());
    }

    /// Ends what a client watches.
    pub fn forget(&self, client: u64) {
        let mut tables = self.lock();
        let Some(watching) = tables.by_client.remove(&client) else {
            return;
        };
        for key in watching.keys {
            if let Some(clients) = tables.by_key.get_mut(&key) {
                clients.remove(&client);
                if clients.is_empty() {
                    tables.by_key.remove(&key);
                }
            }
        }
    }

    pub fn has_changed(&self, client: u64) -> bool {
        let tables = self.lock();
        let watching = tables.by_client.get(&client);
        watching.is_some_and(|watching| watching.has_changed)
    }

    pub fn on_changed(&self, keys: &[Vec<u8>]) {
        let mut tables = self.lock();
        let Tables { by_key, by_client } = &mut *tables;
        if by_key.is_empty() {
            return;
        }
        let clients = keys.iter().filter_map(|key| by_key.get(key)).flatten();
        for client in clients {
            if let Some(watching) = by_client.get_mut(client) {
                watching.has_changed = true;
            }
        }
    }

    /// Nothing that was noted is known to be all.
    pub fn on_all_changed(&self) {
        let mut tables = self.lock();
        for watching in tables.by_client.values_mut() {
            watching.has_changed = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_hears_of_its_own_keys_until_it_watches_no_more() {
        let watched = Watched::default();
        watched.watch(1, b"a");
        watched.watch(2, b"b");
        watched.on_changed(&[b"a".to_vec(), b"c".to_vec()]);
        assert_eq!(
            [1, 2, 3].map(|client| watched.has_changed(client)),
            [true, false, false]
        );
        watched.forget(1);
        watched.watch(1, b"a");
        assert!(!watched.has_changed(1));
        watched.on_all_changed();
        assert_eq!(
            [1, 2].map(|client| watched.has_changed(client)),
            [true, true]
        );
    }
}
