//! A map in the order of its keys, which are bytes.
//!
//! ```text
//!  the first 24 bytes of a key, as numbers ─▶ One ⟨key, value⟩
//!                                             Many: those keys that begin alike, in a tree of their own
//! ```
//!
//! Keys of rows begin alike for a dozen bytes or more, and each of them lies somewhere else in memory. A tree that compares whole keys waits for memory at each
//! comparison; the numbers lie beside each other in the tree's nodes.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::collections::btree_map::{Entry, Range};
use std::ops::Bound;

use super::is_empty_range;

/// The first bytes of a key. Of two keys the greater one has the same head, or a greater one.
type Head = [u64; 3];

fn head_of(key: &[u8]) -> Head {
    let mut bytes = [0; 24];
    let count = key.len().min(24);
    bytes[..count].copy_from_slice(&key[..count]);
    let number = |at: usize| {
        let mut eight = [0; 8];
        eight.copy_from_slice(&bytes[at..at + 8]);
        u64::from_be_bytes(eight)
    };
    [number(0), number(8), number(16)]
}

fn head_of_bound(bound: Bound<&[u8]>) -> Bound<Head> {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) => Bound::Included(head_of(key)),
        Bound::Unbounded => Bound::Unbounded,
    }
}

/// Whether a key is behind the bound where a range begins, and before the one where it ends.
fn is_within(key: &[u8], from: Bound<&[u8]>, to: Bound<&[u8]>) -> bool {
    let is_behind = match from {
        Bound::Included(from) => key >= from,
        Bound::Excluded(from) => key > from,
        Bound::Unbounded => true,
    };
    is_behind
        && match to {
            Bound::Included(to) => key <= to,
            Bound::Excluded(to) => key < to,
            Bound::Unbounded => true,
        }
}

#[derive(Debug)]
enum Cell<K, V> {
    One(K, V),
    Many(BTreeMap<K, V>),
}

/// See the module. `K` owns a key, or shares it.
#[derive(Debug)]
pub struct KeyMap<K, V> {
    cells: BTreeMap<Head, Cell<K, V>>,
    count: usize,
}

impl<K, V> Default for KeyMap<K, V> {
    fn default() -> KeyMap<K, V> {
        KeyMap {
            cells: BTreeMap::new(),
            count: 0,
        }
    }
}

impl<K: Borrow<[u8]> + Ord, V> KeyMap<K, V> {
    /// Keys.
    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn get(&self, key: &[u8]) -> Option<&V> {
        match self.cells.get(&head_of(key))? {
            Cell::One(own, value) => (own.borrow() == key).then_some(value),
            Cell::Many(cells) => cells.get(key),
        }
    }

    pub fn get_mut(&mut self, key: &[u8]) -> Option<&mut V> {
        match self.cells.get_mut(&head_of(key))? {
            Cell::One(own, value) => ((*own).borrow() == key).then_some(value),
            Cell::Many(cells) => cells.get_mut(key),
        }
    }

    /// Returns the value that was there. The key that was there stays, as in a map of the standard library.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let before = match self.cells.entry(head_of(key.borrow())) {
            Entry::Vacant(vacant) => {
                vacant.insert(Cell::One(key, value));
                None
            }
            Entry::Occupied(mut cell) => match cell.get_mut() {
                Cell::One(own, there) if *own == key => Some(std::mem::replace(there, value)),
                Cell::Many(cells) => cells.insert(key, value),
                Cell::One(..) => {
                    let one = cell.insert(Cell::Many(BTreeMap::from([(key, value)])));
                    if let (Cell::One(own, there), Cell::Many(cells)) = (one, cell.get_mut()) {
                        cells.insert(own, there);
                    }
                    None
                }
            },
        };
        self.count += usize::from(before.is_none());
        before
    }

    pub fn remove(&mut self, key: &[u8]) -> Option<V> {
        let Entry::Occupied(mut cell) = self.cells.entry(head_of(key)) else {
            return None;
        };
        let gone = match cell.get_mut() {
            Cell::One(own, _) if (*own).borrow() != key => return None,
            Cell::Many(cells) if cells.len() > 1 => cells.remove(key)?,
            Cell::Many(cells) if !cells.contains_key(key) => return None,
            _ => match cell.remove() {
                Cell::One(_, value) => value,
                Cell::Many(mut cells) => cells.remove(key)?,
            },
        };
        self.count -= 1;
        Some(gone)
    }

    /// The keys of a range in their order, from both ends. Bounds of which the second lies before the first are those of an empty range.
    pub fn range<'a>(
        &'a self,
        from: Bound<&'a [u8]>,
        to: Bound<&'a [u8]>,
    ) -> impl DoubleEndedIterator<Item = (&'a K, &'a V)> {
        let heads = match is_empty_range(from, to) {
            true => None,
            false => Some((head_of_bound(from), head_of_bound(to))),
        };
        let cells = heads.map(|heads| self.cells.range(heads));
        let cells = cells.into_iter().flatten();
        cells.flat_map(move |(_, cell)| match cell {
            Cell::One(key, value) if is_within(key.borrow(), from, to) => {
                Within::One(Some((key, value)))
            }
            Cell::One(..) => Within::One(None),
            Cell::Many(cells) => Within::Many(cells.range::<[u8], _>((from, to))),
        })
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.range(Bound::Unbounded, Bound::Unbounded)
    }
}

/// The keys of a cell that are within a range.
enum Within<'a, K, V> {
    One(Option<(&'a K, &'a V)>),
    Many(Range<'a, K, V>),
}

impl<'a, K, V> Iterator for Within<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Within::One(one) => one.take(),
            Within::Many(many) => many.next(),
        }
    }
}

impl<K, V> DoubleEndedIterator for Within<'_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        match self {
            Within::One(one) => one.take(),
            Within::Many(many) => many.next_back(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALIKE: &[u8] = b"twenty-four bytes, alike";

    fn keys() -> Vec<Vec<u8>> {
        let mut keys: Vec<Vec<u8>> = [
            &b""[..],
            b"\0",
            b"a",
            b"a\0",
            b"a\0\0\0\0\0\0\0\0",
            b"a\0\0\0b",
            b"abcdefgh",
            b"abcdefghi",
            b"abcdefgi",
            &[0xff; 30],
        ]
        .map(<[u8]>::to_vec)
        .to_vec();
        keys.push(ALIKE.to_vec());
        keys.extend((0..4u8).map(|last| [ALIKE, &[last]].concat()));
        keys
    }

    /// Drawn writes, and every range between two of the keys, beside a map of the standard library.
    #[test]
    fn it_is_the_map_of_the_standard_library() {
        let keys = keys();
        let mut bounds = vec![Bound::Unbounded];
        bounds.extend(keys.iter().map(|key| Bound::Included(&key[..])));
        bounds.extend(keys.iter().map(|key| Bound::Excluded(&key[..])));
        let (mut map, mut model) = (KeyMap::default(), BTreeMap::new());
        let mut random = 1u64;
        for step in 0..600u64 {
            random = random
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let key = &keys[(random >> 33) as usize % keys.len()];
            match random >> 62 {
                0 => assert_eq!(map.remove(key), model.remove(key)),
                _ => assert_eq!(
                    map.insert(key.clone(), step),
                    model.insert(key.clone(), step)
                ),
            }
            assert_eq!((map.len(), map.is_empty()), (model.len(), model.is_empty()));
            for key in &keys {
                assert_eq!(map.get(key), model.get(key));
            }
            if step % 50 != 0 {
                continue;
            }
            for (from, to) in bounds
                .iter()
                .flat_map(|from| bounds.iter().map(move |to| (*from, *to)))
            {
                let within = |(key, _): &(&Vec<u8>, &u64)| is_within(key, from, to);
                let expected: Vec<_> = model.iter().filter(within).collect();
                let found: Vec<_> = map.range(from, to).collect();
                assert_eq!(found, expected, "{from:?} to {to:?}");
                let mut back: Vec<_> = map.range(from, to).rev().collect();
                back.reverse();
                assert_eq!(back, expected, "back from {to:?} to {from:?}");
            }
        }
        for key in &keys {
            if let Some(value) = map.get_mut(key) {
                *value = 7;
            }
        }
        assert!(map.iter().all(|(_, value)| *value == 7));
        for key in &keys {
            map.remove(key);
        }
        assert!(map.is_empty() && map.cells.is_empty());
    }
}
