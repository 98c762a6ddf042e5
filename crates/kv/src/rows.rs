//! The rows that commands read and write, as whoever keeps them lends them.

mod between;
mod db;
pub(crate) mod due;
mod header;
mod items;
pub(crate) mod keys;
mod members;
mod meta;
mod packed;
pub(crate) mod prepared;
mod session;
mod sorted;
mod text;

pub(crate) use between::{Between, NameEnd, ScoreEnd};
pub(crate) use db::{Db, Effects};
pub(crate) use header::Header;
pub(crate) use items::{End, Items};
pub(crate) use keys::{hash48, keys_prefix, keys_range, members_of, name_of};
pub(crate) use members::{Member, Members, drawn_hash, whole_hashes};
pub(crate) use meta::{Before, Big, Kind, Meta, Place};
pub use prepared::Prepared;
pub(crate) use session::Session;
pub(crate) use sorted::{Entry, Sorted, Way};
pub(crate) use text::Text;

/// A row: its key and its value.
pub type Row = (Vec<u8>, Vec<u8>);

/// Rows in the order of their keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    pub rows: Vec<Row>,
    /// No row stands behind them, within what was asked for.
    pub is_last: bool,
}

/// The rows of a group, as one command sees them: what was written before it, and what it wrote itself.
///
/// A method ends with a `Stop` when a row is not in memory, or when the command may not go on. A command hands it on, and is executed
/// anew once the rows are there. It may ask for more rows after a `Stop`, so that all of them are fetched at once.
///
/// ‡ A command that is executed anew draws the same numbers from `random`, in the same order: else a command that looks at
/// a drawn place would find it missing for ever.
///
/// ‡ Below a prefix that was forgotten nothing is written or read any more.
pub trait Rows {
    type Stop;

    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Self::Stop>;

    /// The rows from one key on and before another: at most so many, and at least one if there is one.
    fn range(&mut self, from: &[u8], to: &[u8], rows_max: usize) -> Result<Page, Self::Stop>;

    /// The last rows from one key on and before another, the last one first.
    ///
    /// This reads all of the range. Who can read backwards should.
    fn range_back(&mut self, from: &[u8], to: &[u8], rows_max: usize) -> Result<Page, Self::Stop> {
        let (mut from, mut all) = (from.to_vec(), Vec::new());
        loop {
            let page = self.range(&from, to, PAGE_ROWS)?;
            if let Some((last, _)) = page.rows.last() {
                from = [last.as_slice(), &[0]].concat();
            }
            all.extend(page.rows);
            if page.is_last {
                break;
            }
        }
        let is_last = all.len() <= rows_max;
        all.reverse();
        all.truncate(rows_max);
        Ok(Page { rows: all, is_last })
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Self::Stop>;

    fn delete(&mut self, key: &[u8]) -> Result<(), Self::Stop>;

    /// Takes all rows away whose keys begin so.
    fn forget(&mut self, prefix: &[u8]) -> Result<(), Self::Stop>;

    /// The log's time: milliseconds since the beginning of 1970. It never goes back.
    fn time_ms(&self) -> u64;

    /// A number that nobody chose, another one at each call.
    fn random(&mut self) -> u64;
}

/// The rows that one page of a long range is to have.
pub(crate) const PAGE_ROWS: usize = 1024;

/// The rows ended the command; why, is kept where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stopped;

/// [`Rows`] without the type of its end, so that commands need not be compiled for each.
pub(crate) trait View {
    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Stopped>;
    fn range(&mut self, from: &[u8], to: &[u8], rows_max: usize) -> Result<Page, Stopped>;
    fn range_back(&mut self, from: &[u8], to: &[u8], rows_max: usize) -> Result<Page, Stopped>;
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Stopped>;
    fn delete(&mut self, key: &[u8]) -> Result<(), Stopped>;
    fn forget(&mut self, prefix: &[u8]) -> Result<(), Stopped>;
    fn time_ms(&self) -> u64;
    fn random(&mut self) -> u64;
}

/// Rows, the first reason for which they ended the command, and whether it wrote.
pub(crate) struct Kept<'a, R: Rows> {
    rows: &'a mut R,
    pub stop: Option<R::Stop>,
    pub wrote: bool,
}

impl<'a, R: Rows> Kept<'a, R> {
    pub fn new(rows: &'a mut R) -> Kept<'a, R> {
        Kept {
            rows,
            stop: None,
            wrote: false,
        }
    }

    fn keep<T>(&mut self, result: Result<T, R::Stop>) -> Result<T, Stopped> {
        result.map_err(|stop| {
            self.stop.get_or_insert(stop);
            Stopped
        })
    }
}

impl<R: Rows> View for Kept<'_, R> {
    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Stopped> {
        let result = self.rows.get(key);
        self.keep(result)
    }

    fn range(&mut self, from: &[u8], to: &[u8], rows_max: usize) -> Result<Page, Stopped> {
        let result = self.rows.range(from, to, rows_max);
        self.keep(result)
    }

    fn range_back(&mut self, from: &[u8], to: &[u8], rows_max: usize) -> Result<Page, Stopped> {
        let result = self.rows.range_back(from, to, rows_max);
        self.keep(result)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Stopped> {
        self.wrote = true;
        let result = self.rows.put(key, value);
        self.keep(result)
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), Stopped> {
        self.wrote = true;
        let result = self.rows.delete(key);
        self.keep(result)
    }

    fn forget(&mut self, prefix: &[u8]) -> Result<(), Stopped> {
        self.wrote = true;
        let result = self.rows.forget(prefix);
        self.keep(result)
    }

    fn time_ms(&self) -> u64 {
        self.rows.time_ms()
    }

    fn random(&mut self) -> u64 {
        self.rows.random()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::convert::Infallible;

    use super::*;

    struct Map(BTreeMap<Vec<u8>, Vec<u8>>);

    impl Rows for Map {
        type Stop = Infallible;

        fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Infallible> {
            Ok(self.0.get(key).cloned())
        }

        fn range(&mut self, from: &[u8], to: &[u8], rows_max: usize) -> Result<Page, Infallible> {
            // Fewer than are asked for, as a bound in bytes makes them.
            let rows_max = rows_max.min(7);
            let mut rows = self.0.range(from.to_vec()..to.to_vec());
            let found = rows.by_ref().take(rows_max);
            let found = found
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect();
            let is_last = rows.next().is_none();
            Ok(Page {
                rows: found,
                is_last,
            })
        }

        fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Infallible> {
            self.0.insert(key.to_vec(), value.to_vec());
            Ok(())
        }

        fn delete(&mut self, key: &[u8]) -> Result<(), Infallible> {
            self.0.remove(key);
            Ok(())
        }

        fn forget(&mut self, prefix: &[u8]) -> Result<(), Infallible> {
            self.0.retain(|key, _| !key.starts_with(prefix));
            Ok(())
        }

        fn time_ms(&self) -> u64 {
            0
        }

        fn random(&mut self) -> u64 {
            0
        }
    }

    #[test]
    fn who_reads_forwards_alone_finds_the_last_rows_too() {
        let rows = (0..50).map(|number| (vec![number], vec![number]));
        let mut map = Map(rows.collect());
        let Ok(page) = map.range_back(&[3], &[40], 3);
        let keys: Vec<u8> = page.rows.iter().map(|(key, _)| key[0]).collect();
        assert_eq!((keys, page.is_last), (vec![39, 38, 37], false));
        let Ok(page) = map.range_back(&[48], &[90], 3);
        assert_eq!((page.rows.len(), page.is_last), (2, true));
        let Ok(page) = map.range_back(&[60], &[90], 3);
        assert_eq!(
            page,
            Page {
                rows: Vec::new(),
                is_last: true
            }
        );
    }
}
