//! A machine's rows, as commands see them.

use host::{State, Stop};
use kv::{Page, Rows};

/// Rows of slots lie behind this letter, apart from those of the group.
const SLOTS: u8 = b's';

pub struct OfSlots<'a, 's>(pub &'a mut State<'s>);

fn tagged(key: &[u8]) -> Vec<u8> {
    [&[SLOTS], key].concat()
}

fn untagged(found: host::Rows) -> Page {
    let rows = found.rows.into_iter().map(|(mut key, value)| {
        key.remove(0);
        (key, value)
    });
    Page {
        rows: rows.collect(),
        is_last: found.is_last,
    }
}

impl Rows for OfSlots<'_, '_> {
    type Stop = Stop;

    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Stop> {
        self.0.get(&tagged(key))
    }

    fn range(&mut self, from: &[u8], to: &[u8], rows_max: usize) -> Result<Page, Stop> {
        let found = self.0.range(&tagged(from), &tagged(to), rows_max)?;
        Ok(untagged(found))
    }

    fn range_back(&mut self, from: &[u8], to: &[u8], rows_max: usize) -> Result<Page, Stop> {
        let found = self.0.range_back(&tagged(from), &tagged(to), rows_max)?;
        Ok(untagged(found))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Stop> {
        self.0.put(&tagged(key), value)
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), Stop> {
        self.0.delete(&tagged(key))
    }

    fn forget(&mut self, prefix: &[u8]) -> Result<(), Stop> {
        self.0.forget(&tagged(prefix))
    }

    fn time_ms(&self) -> u64 {
        self.0.time_ms()
    }

    fn random(&mut self) -> u64 {
        self.0.random()
    }
}
