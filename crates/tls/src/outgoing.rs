//! Text for the other side, sealed where it was put.
//!
//! ```text
//!   records:  │ place for a key's renewal │ 5 · text · 17 │ 5 · text · 17 │ …        full ones lie side by side, and are sent together
//! ```

use std::io;
use std::ops::Range;
use std::sync::Arc;

use crate::keys::Keys;
use crate::record::{Content, HEADER_BYTES, TAIL_BYTES, TEXT_BYTES_MAX, Way};

/// Records that are sealed and sent at once.
pub const RECORDS: usize = 16;
/// A full one.
const RECORD_BYTES: usize = HEADER_BYTES + TEXT_BYTES_MAX + TAIL_BYTES;
/// ‡ AES-GCM is proved for 2^24 records by one key, which are 256 GiB: a long append has more.
#[cfg(not(test))]
const RECORDS_BY_KEY: u64 = 1 << 23;
#[cfg(test)]
const RECORDS_BY_KEY: u64 = 1 << 6;
/// “A warning: I am done.”
const CLOSE_NOTIFY: [u8; 2] = [1, 0];
/// “The next record is by my next key”, and no need for one of the other side's.
const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];
const KEY_RECORD_BYTES: usize = HEADER_BYTES + KEY_UPDATE.len() + TAIL_BYTES;

pub struct Outgoing {
    way: Way,
    keys: Arc<Keys>,
    records: Vec<u8>,
}

impl Outgoing {
    pub fn new(way: Way, keys: Arc<Keys>) -> Outgoing {
        Outgoing {
            way,
            keys,
            records: vec![0; KEY_RECORD_BYTES + HEADER_BYTES + TAIL_BYTES],
        }
    }

    /// Makes places for so many bytes, or for fewer.
    pub fn make_places(&mut self, bytes: usize) {
        let bytes = bytes.min(RECORDS * TEXT_BYTES_MAX);
        let around = bytes.div_ceil(TEXT_BYTES_MAX) * (HEADER_BYTES + TAIL_BYTES);
        let length = KEY_RECORD_BYTES + bytes + around;
        if self.records.len() < length {
            self.records.resize(length, 0);
        }
    }

    /// Where text may be put: one place is filled before the next.
    pub fn places(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let records = self.records[KEY_RECORD_BYTES..].chunks_mut(RECORD_BYTES);
        let around = HEADER_BYTES + TAIL_BYTES;
        records.map(move |record| {
            let text = record.len().saturating_sub(around);
            record.split_at_mut(HEADER_BYTES).1.split_at_mut(text).0
        })
    }

    /// Seals so many bytes of text that were put there. Returns where they are to be sent from.
    pub fn seal(&mut self, count: usize) -> io::Result<Range<usize>> {
        let from = self.renew_key()?;
        let (mut rest, mut end) = (count, KEY_RECORD_BYTES);
        let records = &mut self.records[KEY_RECORD_BYTES..];
        for record in records.chunks_mut(RECORD_BYTES) {
            if rest == 0 {
                break;
            }
            let text = rest.min(TEXT_BYTES_MAX);
            let length = HEADER_BYTES + text + TAIL_BYTES;
            self.way.seal(Content::Data, &mut record[..length])?;
            // All but the last are full, so nothing lies between them.
            end += length;
            rest -= text;
        }
        Ok(from..end)
    }

    /// Seals the last word.
    pub fn seal_end(&mut self) -> io::Result<Range<usize>> {
        let end = HEADER_BYTES + CLOSE_NOTIFY.len() + TAIL_BYTES;
        self.say(Content::Alert, &CLOSE_NOTIFY, 0..end)
    }

    pub fn sealed(&self, range: Range<usize>) -> &[u8] {
        &self.records[range]
    }

    /// Returns where the next records begin to be sent from: with the renewal of the key, if it is time for one.
    fn renew_key(&mut self) -> io::Result<usize> {
        if !self.keys.is_asked() && self.way.count() < RECORDS_BY_KEY {
            return Ok(KEY_RECORD_BYTES);
        }
        self.say(Content::Handshake, &KEY_UPDATE, 0..KEY_RECORD_BYTES)?;
        self.way = self.keys.next_to_send()?;
        Ok(0)
    }

    fn say(
        &mut self,
        content: Content,
        text: &[u8],
        range: Range<usize>,
    ) -> io::Result<Range<usize>> {
        let record = &mut self.records[range.clone()];
        record[HEADER_BYTES..][..text.len()].copy_from_slice(text);
        self.way.seal(content, record)?;
        Ok(range)
    }
}
