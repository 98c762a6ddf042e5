//! Rows of a machine's state, as a page of them goes to a client and comes back: between nodes and clients, and in backups.
//!
//! ```text
//! page = row *row
//! row  = key length u32 │ value length u32 │ key │ value        little-endian; keys rise, without the host's tag
//! ```

use std::fmt;

/// The most bytes of a page. A page is about 1 MiB long, or one row, which may be as long as all writes of a command.
pub const PAGE_BYTES_MAX: usize = 9 << 20;

/// These bytes are no page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoPage;

impl fmt::Display for NoPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("these bytes are no page of rows")
    }
}

impl std::error::Error for NoPage {}

pub fn push(page: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    page.extend_from_slice(&(key.len() as u32).to_le_bytes());
    page.extend_from_slice(&(value.len() as u32).to_le_bytes());
    page.extend_from_slice(key);
    page.extend_from_slice(value);
}

/// A key and its value, where they stand.
pub type RowAt<'a> = (&'a [u8], &'a [u8]);

/// The rows of a page, which rise, and stand behind `after`.
pub fn decode<'a>(page: &'a [u8], after: Option<&[u8]>) -> Result<Vec<RowAt<'a>>, NoPage> {
    let mut rows: Vec<RowAt<'a>> = Vec::new();
    let mut rest = page;
    while !rest.is_empty() {
        let (row, behind) = row(rest).ok_or(NoPage)?;
        let before = rows.last().map(|(key, _)| *key).or(after);
        if before.is_some_and(|before| before >= row.0) {
            return Err(NoPage);
        }
        rows.push(row);
        rest = behind;
    }
    match rows.is_empty() || page.len() > PAGE_BYTES_MAX {
        true => Err(NoPage),
        false => Ok(rows),
    }
}

fn row(bytes: &[u8]) -> Option<(RowAt<'_>, &[u8])> {
    let (key, rest) = bytes.split_first_chunk()?;
    let (value, rest) = rest.split_first_chunk()?;
    let (key, rest) = rest.split_at_checked(u32::from_le_bytes(*key) as usize)?;
    let (value, rest) = rest.split_at_checked(u32::from_le_bytes(*value) as usize)?;
    Some(((key, value), rest))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_page_is_these_bytes() {
        let mut page = Vec::new();
        push(&mut page, b"k", b"vv");
        assert_eq!(page, [1, 0, 0, 0, 2, 0, 0, 0, b'k', b'v', b'v']);
        assert_eq!(decode(&page, None), Ok(vec![(&b"k"[..], &b"vv"[..])]));
        assert_eq!(decode(&page, Some(b"k")), Err(NoPage));
        assert_eq!(decode(&[], None), Err(NoPage));
    }

    proptest! {
        #[test]
        fn rows_come_back_in_their_order(rows in proptest::collection::btree_map(
            proptest::collection::vec(any::<u8>(), 0..20),
            proptest::collection::vec(any::<u8>(), 0..20),
            1..8,
        )) {
            let rows: BTreeMap<Vec<u8>, Vec<u8>> = rows;
            let mut page = Vec::new();
            for (key, value) in &rows {
                push(&mut page, key, value);
            }
            let found = decode(&page, None).unwrap();
            let found = found.into_iter().map(|(key, value)| (key.to_vec(), value.to_vec()));
            prop_assert_eq!(found.collect::<BTreeMap<_, _>>(), rows);
        }

        #[test]
        fn no_bytes_are_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes, None);
        }
    }
}
