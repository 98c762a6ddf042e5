//! The keys that clients watch (WATCH), at the node that leads their group.
//!
//! ‡ It knows what this node executed, and nothing of what others did while they led. So when a node begins to lead, all that is
//! watched counts as changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use kv::slot_of;

/// The memory of a watched key beside its bytes, in each of the two tables.
const KEY_BYTES: usize = 64;

/// The things that commands changed.
#[derive(Default)]
pub struct Changed {
    pub keys: Vec<Vec<u8>>,
    /// All keys of these were taken away.
    pub slots: BTreeSet<u16>,
}

#[derive(Default)]
pub struct Watched(Mutex<Tables>);

#[derive(Default)]
struct Tables {
    by_key: BTreeMap<Vec<u8>, BTreeSet<u64>>,
    by_client: BTreeMap<u64, Watching>,
}

#[derive(Default)]
struct Watching {
    /// Each, and whether it was there.
    keys: BTreeMap<Vec<u8>, bool>,
    /// The memory that these take.
    bytes: usize,
    has_changed: bool,
}

impl Watched {
    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn watch(&self, client: u64, key: &[u8], is_there: bool) {
        let mut tables = self.lock();
        tables
            .by_key
            .entry(key.to_vec())
            .or_default()
            .insert(client);
        let watching = tables.by_client.entry(client).or_default();
        // ‡ What was seen first counts.
        if !watching.keys.contains_key(key) {
            watching.keys.insert(key.to_vec(), is_there);
            watching.bytes += 2 * (key.len() + KEY_BYTES);
        }
    }

    /// The memory that the keys take which this client watches.
    pub fn bytes_of(&self, client: u64) -> usize {
        let tables = self.lock();
        let watching = tables.by_client.get(&client);
        watching.map_or(0, |watching| watching.bytes)
    }

    /// Ends what a client watches.
    pub fn forget(&self, client: u64) {
        let mut tables = self.lock();
        let Some(watching) = tables.by_client.remove(&client) else {
            return;
        };
        for key in watching.keys.into_keys() {
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

    /// The watched keys that were there. ‡ One whose deadline has passed since has changed, though nobody wrote that down yet.
    pub fn were_there(&self, client: u64) -> Vec<Vec<u8>> {
        let tables = self.lock();
        let watching = tables.by_client.get(&client);
        let keys = watching.into_iter().flat_map(|watching| &watching.keys);
        keys.filter(|(_, is_there)| **is_there)
            .map(|(key, _)| key.clone())
            .collect()
    }

    /// Whether nobody watches anything.
    pub fn is_nothing(&self) -> bool {
        self.lock().by_key.is_empty()
    }

    pub fn on_changed(&self, changed: &Changed) {
        let mut tables = self.lock();
        let Tables { by_key, by_client } = &mut *tables;
        if by_key.is_empty() {
            return;
        }
        let Changed { keys, slots } = changed;
        let of_keys = keys.iter().filter_map(|key| by_key.get(key)).flatten();
        let is_flushed = |key: &[u8]| !slots.is_empty() && slots.contains(&slot_of(key));
        let of_slots = by_key.iter().filter(|(key, _)| is_flushed(key));
        let of_slots = of_slots.flat_map(|(_, clients)| clients);
        for client in of_keys.chain(of_slots) {
            if let Some(watching) = by_client.get_mut(client) {
                watching.has_changed = true;
            }
        }
    }

    /// These were taken away, since their deadlines have passed: for whom they were gone already nothing has changed.
    pub fn on_expired(&self, keys: &[Vec<u8>]) {
        let mut tables = self.lock();
        let Tables { by_key, by_client } = &mut *tables;
        for key in keys {
            for client in by_key.get(key).into_iter().flatten() {
                if let Some(watching) = by_client.get_mut(client) {
                    watching.has_changed |= watching.keys.get(key) == Some(&true);
                }
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
        watched.watch(1, b"a", true);
        watched.watch(2, b"b", false);
        let keys = vec![b"a".to_vec(), b"c".to_vec()];
        watched.on_changed(&Changed {
            keys,
            ..Changed::default()
        });
        assert_eq!(
            [1, 2, 3].map(|client| watched.has_changed(client)),
            [true, false, false]
        );
        watched.forget(1);
        watched.watch(1, b"a", false);
        assert_eq!(watched.were_there(1), Vec::<Vec<u8>>::new());
        assert!(!watched.has_changed(1));
        watched.on_expired(&[b"a".to_vec(), b"b".to_vec()]);
        assert_eq!(
            [1, 2].map(|client| watched.has_changed(client)),
            [false, false]
        );
        let slots = BTreeSet::from([slot_of(b"b")]);
        watched.on_changed(&Changed {
            slots,
            ..Changed::default()
        });
        assert_eq!(
            [1, 2].map(|client| watched.has_changed(client)),
            [false, true]
        );
        watched.on_all_changed();
        assert_eq!(
            [1, 2].map(|client| watched.has_changed(client)),
            [true, true]
        );
    }
}
