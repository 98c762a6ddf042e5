//! The cells of the paper's grid that are measured: target rates and sizes of writes.

use super::published;
use wire::quantity;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    pub write_bytes: u64,
    pub rate: Rate,
}

/// In an order in which flat out is the fastest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rate {
    BytesPerSecond(u64),
    FlatOut,
}

const MB: u64 = 1_000_000;
/// Beyond the paper's rates, in MB/s, before flat out.
const FASTER_MB: [u64; 4] = [300, 400, 600, 800];
/// Beyond the paper's sizes.
const LARGER_BYTES: u64 = 64 << 10;
/// Those of the paper's rates at which larger writes are measured too.
const LARGER_RATES_MB: [u64; 4] = [5, 20, 100, 220];

impl Rate {
    pub fn bytes_per_second(self) -> Option<u64> {
        match self {
            Rate::BytesPerSecond(rate) => Some(rate),
            Rate::FlatOut => None,
        }
    }

    /// `20 MB/s`.
    pub fn shown(self) -> String {
        match self {
            Rate::BytesPerSecond(rate) => format!("{} MB/s", rate as f64 / MB as f64),
            Rate::FlatOut => "flat out".to_owned(),
        }
    }
}

impl Cell {
    fn new(rate_mb: u64, write_bytes: u64) -> Cell {
        Cell {
            write_bytes,
            rate: Rate::BytesPerSecond(rate_mb * MB),
        }
    }

    pub fn published(self) -> Option<published::Published> {
        let rate = self.rate.bytes_per_second()?;
        (rate % MB == 0).then(|| published::at(rate / MB, self.write_bytes))?
    }

    pub fn shown(self) -> String {
        format!("{}, {} B", self.rate.shown(), self.write_bytes)
    }
}

/// Reads `100M:1000` or `flat:64KiB`.
pub fn cell(text: &str) -> Result<Cell, String> {
    let wrong =
        || format!("{text:?} is no cell; write RATE:WRITE-SIZE such as 100M:1000 or flat:64KiB");
    let (rate, write_bytes) = text.split_once(':').ok_or_else(wrong)?;
    let rate = match rate {
        "flat" => Rate::FlatOut,
        rate => Rate::BytesPerSecond(quantity::bytes_per_second(rate)?),
    };
    let write_bytes = quantity::at_least_one(write_bytes)?;
    if write_bytes > 16 << 20 {
        return Err("a write of more than 16 MiB is more than the client keeps".to_owned());
    }
    Ok(Cell { write_bytes, rate })
}

/// Those that were published, row by row.
pub fn of_the_paper() -> Vec<Cell> {
    let rates = published::RATES_MB.into_iter();
    let cells = rates.flat_map(|rate| published::WRITE_BYTES.map(|bytes| Cell::new(rate, bytes)));
    cells.filter(|cell| cell.published().is_some()).collect()
}

/// The cells that the paper left out, because its client was too slow or its machine was.
pub fn beyond() -> Vec<Cell> {
    let mut cells = Vec::new();
    for rate in published::RATES_MB {
        cells.extend(published::WRITE_BYTES.map(|bytes| Cell::new(rate, bytes)));
    }
    cells.retain(|cell| cell.published().is_none());
    for rate in FASTER_MB {
        cells.extend(published::WRITE_BYTES.map(|bytes| Cell::new(rate, bytes)));
    }
    let rates = LARGER_RATES_MB.into_iter().chain(FASTER_MB);
    cells.extend(rates.map(|rate| Cell::new(rate, LARGER_BYTES)));
    let sizes = published::WRITE_BYTES.into_iter().chain([LARGER_BYTES]);
    cells.extend(sizes.map(|write_bytes| Cell {
        write_bytes,
        rate: Rate::FlatOut,
    }));
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paper_has_92_cells_and_none_lies_beyond() {
        let (paper, beyond) = (of_the_paper(), beyond());
        assert_eq!(paper.len(), 92);
        assert!(beyond.iter().all(|cell| !paper.contains(cell)));
        assert!(
            beyond.contains(&cell("50M:1").unwrap()),
            "not measured there"
        );
        assert!(beyond.contains(&cell("flat:64KiB").unwrap()));
    }

    #[test]
    fn a_cell_is_a_rate_and_a_size() {
        assert_eq!(cell("100M:1000"), Ok(Cell::new(100, 1000)));
        for wrong in ["", "100M", "100M:", "flat:0", ":1", "fast:1", "1M:1GiB"] {
            assert!(cell(wrong).is_err(), "{wrong}");
        }
    }
}
