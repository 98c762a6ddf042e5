//! A machine's rows: as the group sees them, and as commands on slots do.

use host::{State, Stop};
use kv::{Page, Rows};
use paxos::mutation::{self, Mutation};

use crate::slots::changes;

/// Rows of slots lie behind this letter, apart from those of the group.
pub const SLOTS: u8 = b's';

/// All rows of a group.
pub struct OfGroup<'a, 's>(pub &'a mut State<'s>);

fn page_of(found: host::Rows) -> Page {
    let host::Rows { rows, is_last } = found;
    Page { rows, is_last }
}

impl Rows for OfGroup<'_, '_> {
    type Stop = Stop;

    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Stop> {
        self.0.get(key)
    }

    fn range(&mut self, from: &[u8], to: &[u8], rows_max: usize) -> Result<Page, Stop> {
        self.0.range(from, to, rows_max).map(page_of)
    }

    fn range_back(&mut self, from: &[u8], to: &[u8], rows_max: usize) -> Result<Page, Stop> {
        self.0.range_back(from, to, rows_max).map(page_of)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Stop> {
        self.0.put(key, value)
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), Stop> {
        self.0.delete(key)
    }

    fn forget(&mut self, prefix: &[u8]) -> Result<(), Stop> {
        self.0.forget(prefix)
    }

    fn time_ms(&self) -> u64 {
        self.0.time_ms()
    }

    fn random(&mut self) -> u64 {
        self.0.random()
    }
}

/// The rows of slots among those of a group.
pub struct OfSlots<'a, R> {
    rows: &'a mut R,
    /// ‡ Slots that are being copied, and under which number their changes are noted: whoever copies them has to hear of each.
    leaving: &'a [(u16, u64)],
}

impl<'a, R: Rows> OfSlots<'a, R> {
    pub fn new(rows: &'a mut R, leaving: &'a [(u16, u64)]) -> OfSlots<'a, R> {
        OfSlots { rows, leaving }
    }

    fn note(&mut self, key: &[u8], is_prefix: bool) -> Result<(), R::Stop> {
        let Some(slot) = key.first_chunk().map(|slot| u16::from_be_bytes(*slot)) else {
            return Ok(());
        };
        if is_prefix && mutation::is(Mutation::PrefixesNotNoted) {
            return Ok(());
        }
        match self.leaving.iter().find(|(leaving, _)| *leaving == slot) {
            Some((_, number)) => changes::note(self.rows, *number, key, is_prefix),
            None => Ok(()),
        }
    }
}

pub fn tagged(key: &[u8]) -> Vec<u8> {
    [&[SLOTS], key].concat()
}

fn untagged(mut page: Page) -> Page {
    for (key, _) in &mut page.rows {
        key.remove(0);
    }
    page
}

impl<R: Rows> Rows for OfSlots<'_, R> {
    type Stop = R::Stop;

    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, R::Stop> {
        self.rows.get(&tagged(key))
    }

    fn range(&mut self, from: &[u8], to: &[u8], rows_max: usize) -> Result<Page, R::Stop> {
        let found = self.rows.range(&tagged(from), &tagged(to), rows_max)?;
        Ok(untagged(found))
    }

    fn range_back(&mut self, from: &[u8], to: &[u8], rows_max: usize) -> Result<Page, R::Stop> {
        let found = self.rows.range_back(&tagged(from), &tagged(to), rows_max)?;
        Ok(untagged(found))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), R::Stop> {
        self.note(key, false)?;
        self.rows.put(&tagged(key), value)
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), R::Stop> {
        self.note(key, false)?;
        self.rows.delete(&tagged(key))
    }

    fn forget(&mut self, prefix: &[u8]) -> Result<(), R::Stop> {
        self.note(prefix, true)?;
        self.rows.forget(&tagged(prefix))
    }

    fn time_ms(&self) -> u64 {
        self.rows.time_ms()
    }

    fn random(&mut self) -> u64 {
        self.rows.random()
    }
}
