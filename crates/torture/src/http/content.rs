//! Records: each says which chain it is of, and where it stands in it.

use history::Extent;

/// A record: 8 digits, 13 digits, and an end of line.
pub const RECORD_BYTES: u64 = 24;
const CHAIN_DIGITS: usize = 8;
const POSITION_DIGITS: usize = 13;

/// So many records of a chain from a position on.
pub fn records(chain: u32, from: u64, count: u64) -> Vec<u8> {
    let positions = (0..count).map(|number| from + number * RECORD_BYTES);
    let record = |position| format!("{chain:0CHAIN_DIGITS$}.{position:0POSITION_DIGITS$}.\n");
    positions.map(record).collect::<String>().into_bytes()
}

/// Whose the bytes are. `None`: they are no whole records.
pub fn extents(bytes: &[u8]) -> Option<Vec<Extent>> {
    let mut extents: Vec<Extent> = Vec::new();
    let records = bytes.chunks(RECORD_BYTES as usize);
    for record in records {
        let (chain, from) = read(record)?;
        let to = from + RECORD_BYTES;
        match extents.last_mut() {
            Some(last) if last.chain == chain && last.to == from => last.to = to,
            _ => extents.push(Extent { chain, from, to }),
        }
    }
    Some(extents)
}

fn read(record: &[u8]) -> Option<(u32, u64)> {
    let text = std::str::from_utf8(record).ok()?;
    let (chain, rest) = text.strip_suffix(".\n")?.split_once('.')?;
    let is_whole = chain.len() == CHAIN_DIGITS && rest.len() == POSITION_DIGITS;
    is_whole.then_some(())?;
    Some((chain.parse().ok()?, rest.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_they_were_written() {
        let all = [records(7, 0, 2), records(8, 48, 1), records(7, 48, 1)].concat();
        let extent = |chain, from, to| Extent { chain, from, to };
        let found = extents(&all).expect("records");
        assert_eq!(
            found,
            [extent(7, 0, 48), extent(8, 48, 72), extent(7, 48, 72)]
        );
        assert_eq!(records(1, 0, 1).len() as u64, RECORD_BYTES);
        assert_eq!(extents(&all[..30]), None);
        assert_eq!(extents(&all[1..25]), None);
        assert_eq!(extents(b""), Some(Vec::new()));
    }
}
