//! What every shelf keeps to, as drawn operations beside a naive model.
//!
//! A shelf of one's own is held to it by a test that opens it over the same place again and again:
//!
//! ```
//! use std::sync::Arc;
//!
//! use shelf::{Identity, Media, Memory, contract};
//!
//! let media = Media::default();
//! let identity = Identity { cluster: [7; 16], log: 7 };
//! contract::drawn(1, 200, &mut || Memory::open(&media, identity).map(|shelf| Arc::new(shelf) as _));
//! ```

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::{
    Applied, Batch, Cursor, KEY_BYTES_MAX, Page, PageBounds, Row, Shelf, ShelfError, Write,
};

/// Opens the shelf over what the last one left. That one was dropped, as a crash would.
pub type Open<'a> = &'a mut dyn FnMut() -> Result<Arc<dyn Shelf>, ShelfError>;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

const ALL: PageBounds = PageBounds {
    rows_max: usize::MAX,
    bytes_max: usize::MAX,
};

/// The state after each batch, by the position of the log that it brings the shelf to.
#[derive(Clone)]
pub struct History {
    states: BTreeMap<u64, (Applied, Rows)>,
    draws: Draws,
    forgotten: Vec<Vec<u8>>,
}

impl History {
    pub fn new(seed: u64) -> History {
        History {
            states: BTreeMap::from([(0, (Applied::default(), Rows::new()))]),
            draws: Draws(seed),
            forgotten: Vec::new(),
        }
    }

    /// The next batch of the log. A history with the same seed draws the same.
    pub fn draw(&mut self) -> (Batch, Applied) {
        let (_, (mut applied, mut rows)) = self.last();
        let mut batch = Batch::default();
        for _ in 0..=self.draws.below(8) {
            let write = self.write();
            match &write {
                Write::Put { key, value } => _ = rows.insert(key.clone(), value.clone()),
                Write::Delete { key } => _ = rows.remove(key),
                Write::Forget { prefix } => {
                    rows.retain(|key, _| !key.starts_with(prefix));
                    self.forgotten.push(prefix.clone());
                }
            }
            batch.push(write);
        }
        applied.position += 1 + self.draws.below(1000);
        applied.frame += 1;
        applied.time_ms += self.draws.below(3);
        applied.stream[0] = self.draws.below(3) as u8;
        self.states.insert(applied.position, (applied, rows));
        (batch, applied)
    }

    /// Mostly puts; a life of some keys is forgotten now and then, and then begins another.
    fn write(&mut self) -> Write {
        let life = |draws: &mut Draws, forgotten: &[Vec<u8>]| {
            let place = draws.below(4) as u8;
            let is_over = |epoch: u16| {
                let life = [&[place][..], &epoch.to_be_bytes()].concat();
                forgotten.contains(&life)
            };
            let epoch = (0..u16::MAX)
                .find(|epoch| !is_over(*epoch))
                .unwrap_or_default();
            [&[place][..], &epoch.to_be_bytes()].concat()
        };
        let mut key = life(&mut self.draws, &self.forgotten);
        match self.draws.below(40) {
            0 => return Write::Forget { prefix: key },
            1..8 => {
                key.push(self.draws.below(24) as u8);
                return Write::Delete { key };
            }
            _ => key.push(self.draws.below(24) as u8),
        }
        let length = self.draws.below(60) * self.draws.below(30);
        let byte = self.draws.below(256) as u8;
        Write::Put {
            key,
            value: vec![byte; length as usize],
        }
    }

    fn last(&self) -> (u64, (Applied, Rows)) {
        let last = self.states.last_key_value();
        last.map(|(at, state)| (*at, state.clone()))
            .unwrap_or_default()
    }

    fn rows(&self, applied: Applied) -> &Rows {
        let (known, rows) = &self.states[&applied.position];
        assert_eq!(*known, applied, "all of it, not its position alone");
        rows
    }

    /// The batches behind that position are drawn again, as the log would hand them out again.
    pub fn back_to(&mut self, seed: u64, applied: Applied) {
        let mut again = History::new(seed);
        while again.last().0 < applied.position {
            again.draw();
        }
        assert_eq!(again.last().1.0, applied, "a border between batches");
        *self = again;
    }

    /// All rows of the shelf, read in pages, are those of the prefix of the log that it names.
    pub fn holds(&self, shelf: &dyn Shelf) -> Applied {
        let applied = shelf.applied();
        let mut rows = Rows::new();
        let mut from = Bound::Unbounded;
        let mut last: Vec<u8>;
        let max = PageBounds {
            rows_max: 7,
            bytes_max: 4000,
        };
        loop {
            let page = shelf.scan(from, Bound::Unbounded, max).expect("it reads");
            assert_eq!(page.applied, applied, "nobody applies meanwhile");
            assert!(page.rows.len() <= 7 && (page.is_last || !page.rows.is_empty()));
            rows.extend(page.rows.iter().cloned());
            let Some((key, _)) = page.rows.last().filter(|_| !page.is_last) else {
                break;
            };
            last = key.clone();
            from = Bound::Excluded(&last);
        }
        let expected = self.rows(applied);
        assert_eq!(&rows, expected, "at {applied}");
        let keys: Vec<Vec<u8>> = expected.keys().cloned().collect();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let read = shelf.read(&keys).expect("it reads");
        assert_eq!(read.applied, applied);
        assert!(
            read.values
                .into_iter()
                .eq(expected.values().cloned().map(Some))
        );
        self.has_no_longer_keys(shelf);
        applied
    }

    /// Keys that are longer than a row's may be are nowhere, and bound ranges as others do.
    fn has_no_longer_keys(&self, shelf: &dyn Shelf) {
        let expected = self.rows(shelf.applied());
        let Some(middle) = expected.keys().nth(expected.len() / 2) else {
            return;
        };
        let long = [&middle[..], &vec![0; 80_000]].concat();
        let read = shelf.read(&[&long, middle]).expect("it reads");
        assert_eq!(read.values, [None, expected.get(middle).cloned()]);
        let max = PageBounds {
            rows_max: 7,
            bytes_max: 4000,
        };
        let behind = shelf.scan(Bound::Included(&long), Bound::Unbounded, max);
        let behind = behind.expect("it reads").rows;
        let next = expected.range::<[u8], _>((Bound::Excluded(&long[..]), Bound::Unbounded));
        assert_eq!(
            behind.first().map(|(key, _)| key),
            next.into_iter().next().map(|(key, _)| key)
        );
        let snapshot = shelf.snapshot();
        let before = snapshot.scan_back(Bound::Unbounded, Bound::Excluded(&long), max);
        let before = before.expect("it reads").rows;
        assert_eq!(before.first().map(|(key, _)| key), Some(middle));
    }
}

impl History {
    /// The rows of then, whatever was applied, flushed and compacted since, and on whichever thread.
    fn is_followed(&self, mut followed: Followed) {
        let (_, to) = &followed.range;
        let expected = self.rows(followed.cursor.applied());
        let expected = expected.range::<[u8], _>((
            Bound::Included(followed.range.0.as_slice()),
            to.as_ref().map(Vec::as_slice),
        ));
        let read = || {
            while !followed.read(10) {}
            followed.rows
        };
        let found = thread::scope(|scope| scope.spawn(read).join().expect("it reads"));
        let expected = expected.map(|(key, value)| (key.clone(), value.clone()));
        assert!(found.into_iter().eq(expected), "as it was");
    }
}

/// A cursor, and what it gave so far.
struct Followed {
    cursor: Cursor,
    range: (Vec<u8>, Bound<Vec<u8>>),
    rows: Vec<Row>,
}

impl Followed {
    fn begin(draws: &mut Draws, shelf: &dyn Shelf) -> Followed {
        let from = vec![draws.below(3) as u8];
        let to = match draws.below(2) {
            0 => Bound::Unbounded,
            _ => Bound::Excluded(vec![2]),
        };
        let end = to.as_ref().map(Vec::as_slice);
        let snapshot = shelf.snapshot();
        let cursor = snapshot.cursor(Bound::Included(&from), end);
        Followed {
            cursor: cursor.expect("it is followed"),
            range: (from, to),
            rows: Vec::new(),
        }
    }

    /// True behind the last page.
    fn read(&mut self, rows_max: usize) -> bool {
        let max = PageBounds { rows_max, ..ALL };
        let page = self.cursor.next_page(max).expect("it reads");
        assert!(page.rows.len() <= rows_max);
        assert_eq!(page.applied, self.cursor.applied());
        self.rows.extend(page.rows);
        page.is_last
    }
}

/// Batches, reads, flushes, compactions and crashes in a drawn order.
///
/// # Panics
///
/// If the shelf does not keep to what [`Shelf`] says.
pub fn drawn(seed: u64, steps: u32, open: Open<'_>) {
    let mut draws = Draws(seed ^ 0x0073_6865_6c66);
    let mut history = History::new(seed);
    let mut shelf = open().expect("it opens");
    assert_eq!(shelf.applied(), Applied::default(), "a new one");
    let mut followed: Option<Followed> = None;
    for _ in 0..steps {
        match draws.below(20) {
            0 => {
                let asked = shelf.applied();
                let durable = shelf.flush().expect("it flushes");
                assert_eq!((durable, shelf.durable()), (asked, asked));
            }
            1 => shelf.compact().expect("it compacts"),
            2 => {
                let durable = shelf.durable();
                drop(followed.take());
                drop(shelf);
                shelf = open().expect("it opens again");
                assert_eq!(
                    shelf.applied(),
                    durable,
                    "a crash takes it to its last flush"
                );
                assert_eq!(shelf.durable(), durable);
                history.back_to(seed, durable);
            }
            3 => refuses(&history, &*shelf),
            4 => ranges(&mut draws, &history, &*shelf),
            5 => _ = history.holds(&*shelf),
            6 => match followed.take() {
                None => followed = Some(Followed::begin(&mut draws, &*shelf)),
                Some(followed) => history.is_followed(followed),
            },
            7 => {
                if let Some(followed) = &mut followed {
                    followed.read(1 + draws.below(5) as usize);
                }
            }
            _ => {
                let (batch, applied) = history.draw();
                shelf.apply(&batch, applied).expect("it applies");
                assert_eq!(shelf.applied(), applied);
                assert!(shelf.durable().position <= applied.position);
            }
        }
    }
    history.holds(&*shelf);
}

/// What is refused changes nothing.
fn refuses(history: &History, shelf: &dyn Shelf) {
    let before = shelf.applied();
    let beyond = Applied {
        position: before.position + 1,
        ..before
    };
    let mut long = Batch::default();
    long.put(b"\x09never".to_vec(), "")
        .put(vec![9; KEY_BYTES_MAX + 1], "");
    let refused = shelf.apply(&long, beyond);
    assert!(
        matches!(refused, Err(ShelfError::KeyTooLong(_))),
        "{refused:?}"
    );
    let mut both = Batch::default();
    both.put(b"\x09never".to_vec(), "")
        .forget(b"\x0a".to_vec())
        .put(b"\x0ax".to_vec(), "");
    let refused = shelf.apply(&both, beyond);
    assert!(matches!(refused, Err(ShelfError::Forgotten)), "{refused:?}");
    if let Some(position) = before.position.checked_sub(1) {
        let back = Applied { position, ..before };
        let refused = shelf.apply(&Batch::default(), back);
        assert!(
            matches!(refused, Err(ShelfError::GoesBack { .. })),
            "{refused:?}"
        );
    }
    history.holds(shelf);
}

fn ranges(draws: &mut Draws, history: &History, shelf: &dyn Shelf) {
    let mut bound = || {
        let key = vec![
            draws.below(5) as u8,
            0,
            draws.below(3) as u8,
            draws.below(24) as u8,
        ];
        match draws.below(3) {
            0 => Bound::Unbounded,
            1 => Bound::Included(key),
            _ => Bound::Excluded(key),
        }
    };
    let (from, to) = (bound(), bound());
    let as_slice = |bound: &'_ Bound<Vec<u8>>| bound.clone();
    let (f, t) = (as_slice(&from), as_slice(&to));
    let (f, t) = (f.as_ref().map(Vec::as_slice), t.as_ref().map(Vec::as_slice));
    let page = shelf.scan(f, t, ALL).expect("it reads");
    let is_in = |key: &[u8]| {
        let after = match f {
            Bound::Unbounded => true,
            Bound::Included(from) => from <= key,
            Bound::Excluded(from) => from < key,
        };
        after
            && match t {
                Bound::Unbounded => true,
                Bound::Included(to) => key <= to,
                Bound::Excluded(to) => key < to,
            }
    };
    let expected = history.rows(page.applied).iter();
    let expected = expected.filter(|(key, _)| is_in(key));
    let expected: Vec<Row> = expected
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    assert!(page.is_last);
    assert_eq!(page.rows, expected, "{from:?} {to:?}");
    let rows_max = 1 + draws.below(8) as usize;
    let last = shelf
        .snapshot()
        .scan_back(f, t, PageBounds { rows_max, ..ALL });
    let last = last.expect("it reads");
    assert!(last.rows.iter().eq(expected.iter().rev().take(rows_max)));
    assert_eq!(last.is_last, expected.len() <= rows_max);
}

/// One applies, another flushes and compacts, and every page that a third reads is the state after some batch.
///
/// # Panics
///
/// If a page is not.
pub fn beside_each_other(seed: u64, batches: u32, shelf: &dyn Shelf) {
    let mut whole = History::new(seed);
    let log: Vec<(Batch, Applied)> = (0..batches).map(|_| whole.draw()).collect();
    let is_over = AtomicBool::new(false);
    let pages: Vec<Page> = thread::scope(|scope| {
        scope.spawn(|| {
            let mut kept = 0;
            while !is_over.load(Ordering::Relaxed) {
                let durable = shelf.flush().expect("it flushes");
                assert!(durable.position >= kept, "what is durable stays so");
                kept = durable.position;
                shelf.compact().expect("it compacts");
            }
        });
        let reader = scope.spawn(|| {
            let mut pages = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                pages.push(
                    shelf
                        .scan(Bound::Unbounded, Bound::Unbounded, ALL)
                        .expect("it reads"),
                );
            }
            pages
        });
        for (batch, applied) in &log {
            shelf.apply(batch, *applied).expect("it applies");
        }
        is_over.store(true, Ordering::Relaxed);
        reader.join().expect("the reader lives")
    });
    for page in pages {
        let expected = whole.rows(page.applied);
        let rows: Rows = page.rows.into_iter().collect();
        assert_eq!(&rows, expected, "at {}", page.applied);
    }
    whole.holds(shelf);
}

/// SplitMix64.
#[derive(Clone)]
struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}
