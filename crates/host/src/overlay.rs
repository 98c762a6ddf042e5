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
}

#[derive(Debug, Default)]
pub struct Overlay {
    rows: KeyMap<Arc<[u8]>, Entry>,
    /// In the order in which they came: the frame, and the key.
    order: VecDeque<(u64, Arc<[u8]>)>,
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
        let value = value.map(<[u8]>::to_vec);
        self.put(key, Entry { frame, value });
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
            self.put(key, Entry { frame, value });
        }
    }

    fn put(&mut self, key: &[u8], entry: Entry) {
        let (own, frame): (Arc<[u8]>, u64) = (key.into(), entry.frame);
        self.bytes += cost(key, &entry);
        let before = self.rows.insert(own.clone(), entry);
        if let Some(before) = &before {
            self.bytes -= cost(key, before);
        }
        // ‡ Once for each frame: a row that stands in the order twice as its newest would never be found old.
        if before.is_none_or(|before| before.frame != frame) {
            self.order.push_back((frame, own));
        }
    }

    /// Lets rows go that the shelf has, oldest first, while more is kept than `bytes_max`.
    ///
    /// `until`: the frame that the shelf had applied when the oldest read that is under way began, or has applied.
    pub fn shrink(&mut self, until: u64, bytes_max: usize) {
        if !self.forgotten.is_empty() {
            self.forgotten.remove_until(until);
        }
        // Each of them is looked at once at most.
        for _ in 0..self.order.len() {
            let has_room = self.bytes <= bytes_max;
            if has_room && self.order.len() <= 2 * self.rows.len() + 64 {
                return;
            }
            let Some((frame, key)) = self.order.pop_front_if(|(frame, _)| *frame <= until) else {
                return;
            };
            if self.rows.get(&key).is_none_or(|row| row.frame != frame) {
                continue;
            }
            if has_room {
                // It is the newest of its key, and there is room: the order alone has grown long, by rows that were written again.
                self.order.push_back((frame, key));
            } else if let Some(gone) = self.rows.remove(&key) {
                self.bytes -= cost(&key, &gone);
            }
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
