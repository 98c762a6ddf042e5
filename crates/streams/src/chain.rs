//! The bytes of a stream, and of those that it was forked from.
//!
//! ```text
//!  position   0 ········ 400 ······ 900 ··········· tail
//!  fork        [ root's   ][ source's ][ its own    ]      inherited: root to 400, source to 900
//! ```
//!
//! A fork may begin within an append of its source: then the last row before is cut there.

use paxos::mutation::{self, Mutation};

use crate::keys;
use crate::offset::Offset;
use crate::rows::View;
use crate::stored::{BEGINS, Segment, Stream};

/// The bytes of one row: a longer append has several.
pub const CHUNK_BYTES: usize = 256 << 10;
/// The rows that are asked for at a time.
const PAGE_ROWS: usize = 256;

/// The segments of a stream, its own last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain(Vec<Segment>);

/// The bytes of one row.
pub struct Piece<'a> {
    /// They begin an append, and do not go on with one.
    pub begins: bool,
    pub bytes: &'a [u8],
}

impl Chain {
    pub fn of(id: u64, stream: &Stream, tail: u64) -> Chain {
        let own = Segment { id, to: tail };
        let inherited = stream.inherited.iter().copied();
        Chain(inherited.chain([own]).collect())
    }

    /// The offset at this position: the bytes that end there tell its lineage.
    pub fn offset(&self, position: u64) -> Offset {
        let of_it = self.0.iter().find(|segment| position <= segment.to);
        let of_it = of_it.filter(|_| !mutation::is(Mutation::InheritedRenamed));
        let lineage = of_it.or(self.0.last()).map_or(0, |segment| segment.id);
        Offset { lineage, position }
    }

    /// The segments of a fork at this position.
    pub fn until(&self, position: u64) -> Vec<Segment> {
        let mut inherited = Vec::new();
        for segment in &self.0 {
            let to = segment.to.min(position);
            inherited.push(Segment { to, ..*segment });
            if segment.to >= position {
                break;
            }
        }
        inherited
    }

    /// Hands out the rows from a position on, in order, until `takes` has enough or there are no more.
    ///
    /// `rows_first`: so many are asked for at first.
    pub fn read<V: View>(
        &self,
        view: &mut V,
        from: u64,
        rows_first: usize,
        mut takes: impl FnMut(Piece<'_>) -> bool,
    ) -> Result<(), V::Stop> {
        let mut begin = 0;
        let mut rows_max = rows_first;
        for segment in &self.0 {
            let (low, to) = (from.max(begin), segment.to);
            begin = to;
            if low >= to {
                continue;
            }
            let mut next = keys::data(segment.id, low);
            let end = keys::data(segment.id, to);
            let mut is_first = true;
            loop {
                let page = view.range(&next, &end, rows_max)?;
                rows_max = PAGE_ROWS;
                let begins_here = |key: &[u8]| keys::position_in(key) == Some(low);
                let has_first = page.rows.first().is_some_and(|(key, _)| begins_here(key));
                // ‡ A place within an append is that of no row: the row before has it.
                if std::mem::take(&mut is_first) && !has_first {
                    let before = last_before(view, segment.id, low)?;
                    if let Some((at, value)) = before
                        && !hand(at, &value, low, to, &mut takes)
                    {
                        return Ok(());
                    }
                }
                for (key, value) in &page.rows {
                    let Some(at) = keys::position_in(key) else {
                        continue;
                    };
                    if !hand(at, value, low, to, &mut takes) {
                        return Ok(());
                    }
                }
                match page.rows.last() {
                    Some((last, _)) if !page.is_last => next = [last, &[0][..]].concat(),
                    _ => break,
                }
            }
        }
        Ok(())
    }

    /// The rest of the append at this position.
    pub fn append_at<V: View>(&self, view: &mut V, position: u64) -> Result<Vec<u8>, V::Stop> {
        let mut bytes = Vec::new();
        self.read(view, position, 2, |piece| {
            let is_of_it = bytes.is_empty() || !piece.begins;
            if is_of_it {
                bytes.extend_from_slice(piece.bytes);
            }
            is_of_it
        })?;
        Ok(bytes)
    }

    /// Whether a message of JSON ends here, or nothing is before.
    pub fn ends_message<V: View>(&self, view: &mut V, position: u64) -> Result<bool, V::Stop> {
        // A fork begins at an end, and a tail is one.
        let is_end = self.0.iter().any(|segment| segment.to == position)
            || mutation::is(Mutation::MessageCut);
        let Some(before) = position.checked_sub(1).filter(|_| !is_end) else {
            return Ok(true);
        };
        let of_it = self.0.iter().find(|segment| position < segment.to);
        if let Some(Segment { id, .. }) = of_it {
            let row = view.get(&keys::data(*id, position))?;
            // Appends are whole messages. To look for the row before costs as much as all rows of a chunk.
            if row.is_some_and(|row| row.first() == Some(&BEGINS)) {
                return Ok(true);
            }
        }
        let mut last = None;
        self.read(view, before, 1, |piece| {
            last = piece.bytes.first().copied();
            false
        })?;
        Ok(last == Some(b'\n'))
    }
}

/// Hands out what of a row lies in a range.
fn hand(
    at: u64,
    value: &[u8],
    low: u64,
    to: u64,
    takes: &mut impl FnMut(Piece<'_>) -> bool,
) -> bool {
    let Some((tag, bytes)) = value.split_first() else {
        return true;
    };
    let skipped = usize::try_from(low.saturating_sub(at)).unwrap_or(usize::MAX);
    let kept = usize::try_from(to.saturating_sub(at)).unwrap_or(usize::MAX);
    let kept = bytes.get(..kept).unwrap_or(bytes);
    match kept.get(skipped..) {
        Some(bytes) if !bytes.is_empty() => takes(Piece {
            begins: *tag == BEGINS && skipped == 0,
            bytes,
        }),
        _ => true,
    }
}

/// The last row before a position.
fn last_before<V: View>(
    view: &mut V,
    id: u64,
    position: u64,
) -> Result<Option<(u64, Vec<u8>)>, V::Stop> {
    let mut next = keys::data(id, position.saturating_sub(CHUNK_BYTES as u64));
    let end = keys::data(id, position);
    let mut found = None;
    loop {
        let page = view.range(&next, &end, PAGE_ROWS)?;
        let Some((last, value)) = page.rows.last() else {
            return Ok(found);
        };
        next = [last, &[0][..]].concat();
        found = keys::position_in(last).map(|at| (at, value.clone()));
        if page.is_last {
            return Ok(found);
        }
    }
}
