//! Prefixes below which nothing is any more.

use std::collections::BTreeMap;
use std::ops::Bound::{Included, Unbounded};

/// Forgotten prefixes, none of which begins with another.
#[derive(Clone, Debug, Default)]
pub struct Forgotten {
    /// With the version as of which they are.
    prefixes: BTreeMap<Vec<u8>, u64>,
}

impl Forgotten {
    pub fn add(&mut self, prefix: &[u8], version: u64) {
        if self.covers(prefix) {
            return;
        }
        // Those that begin with it say nothing more.
        let longer: Vec<Vec<u8>> = self
            .prefixes
            .range::<[u8], _>((Included(prefix), Unbounded))
            .map(|(longer, _)| longer.clone())
            .take_while(|longer| longer.starts_with(prefix))
            .collect();
        for longer in longer {
            self.prefixes.remove(&longer);
        }
        self.prefixes.insert(prefix.to_vec(), version);
    }

    pub fn remove(&mut self, prefix: &[u8]) {
        self.prefixes.remove(prefix);
    }

    /// Whether the key begins with one of them.
    pub fn covers(&self, key: &[u8]) -> bool {
        self.covering(key).is_some()
    }

    /// The version as of which the key begins with one of them.
    pub fn since(&self, key: &[u8]) -> Option<u64> {
        self.covering(key).map(|(_, since)| since)
    }

    /// Forgets those of this version, and of earlier ones.
    pub fn remove_until(&mut self, version: u64) {
        self.prefixes.retain(|_, since| *since > version);
    }

    pub fn prefixes(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.prefixes.keys()
    }

    pub fn is_empty(&self) -> bool {
        self.prefixes.is_empty()
    }

    /// The prefix that the key begins with, and the version as of which it is.
    ///
    /// The greatest prefix that is not behind the key is the only one that can be: a prefix of the key that is less
    /// would be a prefix of that one too.
    pub fn covering(&self, key: &[u8]) -> Option<(&Vec<u8>, u64)> {
        let before = self
            .prefixes
            .range::<[u8], _>((Unbounded, Included(key)))
            .next_back();
        before
            .map(|(prefix, since)| (prefix, *since))
            .filter(|(prefix, _)| key.starts_with(prefix))
    }

    /// Those of before this version.
    pub fn before(&self, version: u64) -> impl Iterator<Item = &Vec<u8>> {
        let before = self.prefixes.iter();
        before
            .filter(move |(_, since)| **since < version)
            .map(|(prefix, _)| prefix)
    }

    pub fn len(&self) -> usize {
        self.prefixes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::Forgotten;

    #[test]
    fn a_key_is_below_a_prefix_however_many_others_there_are() {
        let mut forgotten = Forgotten::default();
        for prefix in ["b", "bb", "d\u{7f}", "da", "d"] {
            forgotten.add(prefix.as_bytes(), 1);
        }
        assert_eq!(forgotten.len(), 2, "the others begin with these");
        for key in ["b", "bz", "d", "dzz"] {
            assert!(forgotten.covers(key.as_bytes()), "{key}");
        }
        for key in ["", "a", "c", "e"] {
            assert!(!forgotten.covers(key.as_bytes()), "{key}");
        }
        forgotten.remove(b"b");
        assert!(!forgotten.covers(b"bz") && forgotten.covers(b"da"));
        assert_eq!(forgotten.before(1).count(), 0);
        assert_eq!(forgotten.before(2).count(), 1);
    }
}
