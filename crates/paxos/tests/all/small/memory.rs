//! Worlds are many, and made of few different nodes: a node's step is reckoned once.
//!
//! The keys are fingerprints, so this leaves out nothing that the search itself does not.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, RwLock};

use super::Broken;
use super::observer::Observer;
use super::turn::Turn;

/// The node, the step, and whether it may die.
type TurnKey = (u64, u64, bool);

#[derive(Clone, Default)]
pub struct Memory {
    turns: Table<TurnKey, Option<Arc<Turn>>>,
    observers: Table<(u64, u64), Arc<(u64, Observer)>>,
}

type Table<K, V> = Arc<RwLock<HashMap<K, Result<V, Broken>>>>;

impl Memory {
    pub fn turn(
        &self,
        key: TurnKey,
        make: impl FnOnce() -> Result<Option<Turn>, Broken>,
    ) -> Result<Option<Arc<Turn>>, Broken> {
        recall(&self.turns, key, || make().map(|turn| turn.map(Arc::new)))
    }

    pub fn observer(
        &self,
        key: (u64, u64),
        make: impl FnOnce() -> Result<Observer, Broken>,
    ) -> Result<Arc<(u64, Observer)>, Broken> {
        let print = |observer: Observer| Arc::new((observer.fingerprint(), observer));
        recall(&self.observers, key, || make().map(print))
    }
}

fn recall<K: Eq + Hash, V: Clone>(
    table: &Table<K, V>,
    key: K,
    make: impl FnOnce() -> Result<V, Broken>,
) -> Result<V, Broken> {
    if let Some(known) = table.read().unwrap().get(&key) {
        return known.clone();
    }
    // The engine's asserts are invariants too.
    let made = catch_unwind(AssertUnwindSafe(make)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(Broken("assert", text.unwrap_or_default()))
    });
    table.write().unwrap().insert(key, made.clone());
    made
}

impl Memory {
    /// The number of different histories of durable records that were seen.
    pub fn histories(&self) -> usize {
        let observers = self.observers.read().unwrap();
        let seen = observers.values().flatten().map(|observer| observer.0);
        seen.collect::<HashSet<u64>>().len()
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let turns = self.turns.read().unwrap().len();
        write!(f, "{turns} turns of nodes, {} histories", self.histories())
    }
}
