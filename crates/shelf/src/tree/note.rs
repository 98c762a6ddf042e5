//! A note beside the tree: short bytes, and their crc32c behind them. Whoever replaces it writes aside first.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

const FILE: &str = "note";
const ASIDE: &str = "note.new";

pub fn write(directory: &Path, note: &[u8]) -> io::Result<()> {
    let aside = directory.join(ASIDE);
    let mut file = fs::File::create(&aside)?;
    file.write_all(note)?;
    file.write_all(&crc32c::crc32c(note).to_le_bytes())?;
    file.sync_all()?;
    fs::rename(aside, directory.join(FILE))?;
    fs::File::open(directory)?.sync_all()
}

/// `None`: there is none, or it is not whole.
pub fn read(directory: &Path) -> Option<Vec<u8>> {
    let mut bytes = fs::read(directory.join(FILE)).ok()?;
    let note = bytes.len().checked_sub(4)?;
    let checksum = bytes.split_off(note);
    (checksum == crc32c::crc32c(&bytes).to_le_bytes()).then_some(bytes)
}
