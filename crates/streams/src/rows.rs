//! The rows of a space, as whoever keeps them lends them.

/// A row: its key and its value.
pub type Row = (Vec<u8>, Vec<u8>);

/// Rows in the order of their keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    pub rows: Vec<Row>,
    /// No row stands behind them, within what was asked for.
    pub is_last: bool,
}

/// Rows that are read, all as of one moment.
pub trait View {
    /// Why a row is not here: it has to be fetched first, or the disk failed.
    type Stop;

    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Self::Stop>;

    /// The rows from one key on and before another: at most so many, and at least one if there is one.
    fn range(&mut self, from: &[u8], to: &[u8], rows_max: usize) -> Result<Page, Self::Stop>;
}

/// Rows that one request reads and writes: it sees what was written before it, and what it wrote itself. A request that ends with a `Stop` has
/// written nothing, and may be executed anew.
///
/// ‡ Below a prefix that was forgotten nothing is written any more.
pub trait Rows: View {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Self::Stop>;

    fn delete(&mut self, key: &[u8]) -> Result<(), Self::Stop>;

    /// Takes all rows away whose keys begin so, however many.
    fn forget(&mut self, prefix: &[u8]) -> Result<(), Self::Stop>;

    /// The time of the log, in milliseconds since the beginning of 1970. It never goes back.
    fn time_ms(&self) -> u64;
}
