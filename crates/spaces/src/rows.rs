//! The rows of a machine, as `streams` sees them.

use host::{State, Stop, View};
use shelf::ShelfError;
use streams::Page;

/// While a request is executed.
pub struct OfState<'a, 's>(pub &'a mut State<'s>);

/// As of one moment, for a reader.
pub struct OfView<'a, 'v>(pub &'a View<'v>);

fn page_of(found: host::Rows) -> Page {
    let host::Rows { rows, is_last } = found;
    Page { rows, is_last }
}

impl streams::View for OfState<'_, '_> {
    type Stop = Stop;

    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Stop> {
        self.0.get(key)
    }

    fn range(&mut self, from: &[u8], to: &[u8], rows_max: usize) -> Result<Page, Stop> {
        self.0.range(from, to, rows_max).map(page_of)
    }
}

impl streams::Rows for OfState<'_, '_> {
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
}

impl streams::View for OfView<'_, '_> {
    type Stop = ShelfError;

    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, ShelfError> {
        self.0.get(key)
    }

    fn range(&mut self, from: &[u8], to: &[u8], rows_max: usize) -> Result<Page, ShelfError> {
        self.0.range(from, to, rows_max).map(page_of)
    }
}
