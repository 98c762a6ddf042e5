//! The overlay: what a leader wrote and its shelf does not have yet, and rows of the shelf that were asked for.
//!
//! ```text
//!  execute ─ frame n ─▶ written (n) ──── the shelf has applied n ────▶ may leave, when room is needed
//!  a row read from the shelf at frame p ─▶ learned (p), unless something newer is here ─▶ may leave
//! ```
//!
//! ‡ What was read at frame P is overlaid with all writes after P: a write stays as long as a read that may be older than it
//! is under way. So a row that is read finds all later writes of its key here, or there are none.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

use paxos::mutation::{self, Mutation};
use shelf::{Forgotten, KeyMap};

/// A key's value, and since which frame.
#[derive(Clone, Debug)]
pub struct Entry {
    pub frame: u64,
    /// `None`: there is no such row.
    pub value: Option<Vec<u8>>,
    /// The number under which it is listed.
    listed: u64,
}

/// A row in the order in which rows came. ‡ A row that is listed under another number by now is none of this place: one that stood there twice would never be
/// found old.
#[derive(Debug)]
struct Listed {
    frame: u64,
    number: u64,
    key: Arc<[u8]>,
}

/// So many deleted rows are kept though the shelf has them: whoever asks for a name again hears at once that nothing is there. With more, whoever looks
/// for the first row behind many that are gone, as who pops from a queue does, would walk over all of them.
const DELETED_MAX: usize = 4_096;

#[derive(Debug, Default)]
pub struct Overlay {
    rows: KeyMap<Arc<[u8]>, Entry>,
    order: VecDeque<Listed>,
    /// Rows that are none.
    deleted: VecDeque<Listed>,
    numbers: u64,
    /// Prefixes that were forgotten, and in which frame. ‡ They stay for as long as a write does.
    forgotten: Forgotten,
    bytes: usize,
    /// The last frame of the log, or the one that is being written.
    last_frame: u64,
}

impl Overlay {
    /// The log has so many frames.
    pub fn begin(&mut self, frame: u64) {
        self.last_frame = self.last_frame.max(frame);
    }

    /// Whether nothing was ever written in this log.
    pub fn is_of_new_log(&self) -> bool {
        self.last_frame == 0
    }

    pub fn get(&self, key: &[u8]) -> Option<&Entry> {
        self.rows.get(key)
    }

    pub fn range<'a>(
        &'a self,
        from: Bound<&'a [u8]>,
        to: Bound<&'a [u8]>,
    ) -> impl Iterator<Item = (&'a Arc<[u8]>, &'a Entry)> {
        self.rows.range(from, to)
    }

    pub fn write(&mut self, frame: u64, key: &[u8], value: Option<&[u8]>) {
        self.begin(frame);
        self.put(frame, key, value.map(<[u8]>::to_vec));
    }

    /// Takes all rows away whose keys begin so.
    pub fn forget(&mut self, frame: u64, prefix: &[u8]) {
        self.begin(frame);
        self.forgotten.add(prefix, frame);
        let below = self.rows.range(Bound::Included(prefix), Bound::Unbounded);
        let below: Vec<Arc<[u8]>> = below
            .map(|(key, _)| key.clone())
            .take_while(|key| key.starts_with(prefix))
            .collect();
        for key in below {
            if let Some(gone) = self.rows.remove(&key) {
                self.bytes -= cost(&key, &gone);
            }
        }
    }

    /// The frame that forgot a prefix of this key, if one did.
    pub fn forgotten_in(&self, key: &[u8]) -> Option<u64> {
        match mutation::is(Mutation::HostSeesForgotten) {
            true => None,
            false => self.forgotten.since(key),
        }
    }

    /// Takes a row as the shelf had it after that frame.
    pub fn learn(&mut self, frame: u64, key: &[u8], value: Option<Vec<u8>>) {
        if self.rows.get(key).is_none() && !self.forgotten.covers(key) {
            self.put(frame, key, value);
        }
    }

    fn put(&mut self, frame: u64, key: &[u8], value: Option<Vec<u8>>) {
        let is_deleted = value.is_none();
        let before = self.rows.get(key);
        let is_listed = before
            .filter(|before| before.frame == frame && before.value.is_none() == is_deleted)
            .map(|before| before.listed);
        let own: Arc<[u8]> = key.into();
        let listed = is_listed.unwrap_or_else(|| {
            self.numbers += 1;
            let listed = Listed {
                frame,
                number: self.numbers,
                key: own.clone(),
            };
            match is_deleted {
                true => self.deleted.push_back(listed),
                false => self.order.push_back(listed),
            }
            self.numbers
        });
        let entry = Entry {
            frame,
            value,
            listed,
        };
        self.bytes += cost(key, &entry);
        if let Some(before) = self.rows.insert(own, entry) {
            self.bytes -= cost(key, &before);
        }
    }

    /// Lets rows go that the shelf has, oldest first, while more is kept than `bytes_max`.
    ///
    /// `until`: the frame that the shelf had applied when the oldest read that is under way began, or has applied.
    pub fn shrink(&mut self, until: u64, bytes_max: usize) {
        if !self.forgotten.is_empty() {
            self.forgotten.remove_until(until);
        }
        self.drop_deleted(until, DELETED_MAX);
        self.drop_in_order(until, bytes_max);
        if self.bytes > bytes_max {
            self.drop_deleted(until, 0);
        }
    }

    fn drop_deleted(&mut self, until: u64, left_max: usize) {
        while self.deleted.len() > left_max
            && let Some(listed) = self.deleted.pop_front_if(|listed| listed.frame <= until)
        {
            if self.stands(&listed) {
                self.remove(&listed.key);
            }
        }
    }

    fn drop_in_order(&mut self, until: u64, bytes_max: usize) {
        // Each of them is looked at once at most.
        for _ in 0..self.order.len() {
            let has_room = self.bytes <= bytes_max;
            if has_room && self.order.len() <= 2 * self.rows.len() + 64 {
                return;
            }
            let Some(listed) = self.order.pop_front_if(|listed| listed.frame <= until) else {
                return;
            };
            match self.stands(&listed) {
                // There is room: the order alone has grown long, by rows that were written again.
                true if has_room => self.order.push_back(listed),
                true => self.remove(&listed.key),
                false => {}
            }
        }
    }

    /// Whether it is the newest of its key.
    fn stands(&self, listed: &Listed) -> bool {
        let row = self.rows.get(&listed.key);
        row.is_some_and(|row| row.listed == listed.number)
    }

    fn remove(&mut self, key: &[u8]) {
        if let Some(gone) = self.rows.remove(key) {
            self.bytes -= cost(key, &gone);
        }
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

fn cost(key: &[u8], entry: &Entry) -> usize {
    // Maps and vectors have their own.
    key.len() + entry.value.as_ref().map_or(0, Vec::len) + 192
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(overlay: &Overlay, key: &[u8]) -> Option<Option<Vec<u8>>> {
        overlay.get(key).map(|entry| entry.value.clone())
    }

    #[test]
    fn a_row_of_the_shelf_does_not_hide_what_was_written_since() {
        let mut overlay = Overlay::default();
        overlay.write(5, b"a", Some(b"new"));
        overlay.learn(4, b"a", Some(b"old".to_vec()));
        overlay.learn(4, b"b", None);
        assert_eq!(value(&overlay, b"a"), Some(Some(b"new".to_vec())));
        assert_eq!(value(&overlay, b"b"), Some(None));
        overlay.write(6, b"b", Some(b"born"));
        assert_eq!(value(&overlay, b"b"), Some(Some(b"born".to_vec())));
    }

    #[test]
    fn what_a_read_under_way_may_not_have_seen_stays() {
        let mut overlay = Overlay::default();
        overlay.write(5, b"a", Some(b"1"));
        overlay.write(6, b"a", Some(b"2"));
        overlay.write(7, b"b", None);
        overlay.shrink(5, 0);
        assert_eq!(value(&overlay, b"a"), Some(Some(b"2".to_vec())));
        overlay.shrink(6, 0);
        assert_eq!(value(&overlay, b"a"), None);
        assert_eq!(value(&overlay, b"b"), Some(None));
        overlay.shrink(7, 0);
        assert_eq!(overlay.bytes(), 0);
    }

    #[test]
    fn what_was_forgotten_is_not_learned_from_a_read_of_before() {
        let mut overlay = Overlay::default();
        overlay.write(5, b"ab", Some(b"1"));
        overlay.forget(6, b"a");
        assert_eq!((overlay.get(b"ab").is_none(), overlay.bytes()), (true, 0));
        overlay.shrink(5, 0);
        overlay.learn(5, b"ac", Some(b"of before".to_vec()));
        assert!(overlay.get(b"ac").is_none());
        assert_eq!(overlay.forgotten_in(b"ac"), Some(6));
        overlay.shrink(6, 0);
        assert_eq!(overlay.forgotten_in(b"ac"), None);
    }

    #[test]
    fn a_row_stays_while_there_is_room_however_often_others_are_written() {
        let mut overlay = Overlay::default();
        overlay.write(1, b"cold", Some(b"x"));
        for frame in 2..10_000 {
            overlay.write(frame, b"hot", Some(b"x"));
            overlay.shrink(frame, 1 << 20);
        }
        assert_eq!(value(&overlay, b"cold"), Some(Some(b"x".to_vec())));
        overlay.shrink(10_000, 0);
        assert_eq!((overlay.bytes(), overlay.order.len()), (0, 0));
    }

    #[test]
    fn a_key_that_one_frame_writes_often_stands_in_the_order_once() {
        let mut overlay = Overlay::default();
        for _ in 0..1_000 {
            overlay.write(1, b"hot", Some(b"x"));
        }
        assert_eq!(overlay.order.len(), 1);
        overlay.shrink(1, 1 << 20);
        assert_eq!(value(&overlay, b"hot"), Some(Some(b"x".to_vec())));
        overlay.shrink(1, 0);
        assert_eq!((overlay.bytes(), overlay.order.len()), (0, 0));
    }

    #[test]
    fn rows_that_are_gone_are_few_though_there_is_room() {
        let mut overlay = Overlay::default();
        overlay.write(1, b"stays", Some(b"x"));
        for frame in 2..20_002_u64 {
            let key = frame.to_be_bytes();
            overlay.write(frame, &key, Some(b"x"));
            overlay.write(frame, &key, None);
            overlay.shrink(frame, 64 << 20);
        }
        let gone = overlay.range(Bound::Unbounded, Bound::Unbounded).count() - 1;
        assert_eq!(gone, DELETED_MAX);
        assert_eq!(value(&overlay, b"stays"), Some(Some(b"x".to_vec())));
        assert_eq!(value(&overlay, &20_001_u64.to_be_bytes()), Some(None));
        // What a read may not have seen stays, however much it is.
        overlay.write(30_000, b"late", None);
        overlay.shrink(29_999, 0);
        assert_eq!(value(&overlay, b"late"), Some(None));
        overlay.shrink(30_000, 0);
        assert_eq!((overlay.bytes(), overlay.deleted.len()), (0, 0));
    }

    #[test]
    fn a_row_that_comes_and_goes_in_one_frame_is_found_old() {
        let mut overlay = Overlay::default();
        for value in [Some(b"x".as_slice()), None, Some(b"y"), None, Some(b"z")] {
            overlay.write(1, b"a", value);
        }
        overlay.shrink(1, 0);
        assert_eq!((overlay.bytes(), overlay.order.len()), (0, 0));
        assert!(overlay.rows.get(b"a").is_none());
    }

    #[test]
    fn a_hot_key_takes_no_more_room_than_a_cold_one() {
        let mut overlay = Overlay::default();
        for frame in 1..10_000 {
            overlay.write(frame, b"hot", Some(b"x"));
            overlay.shrink(frame, 1 << 20);
        }
        assert!(overlay.order.len() < 100, "{}", overlay.order.len());
        assert_eq!(value(&overlay, b"hot"), Some(Some(b"x".to_vec())));
    }
}
