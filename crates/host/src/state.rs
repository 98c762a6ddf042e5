//! The state of a machine, as one command sees it: rows, and the time and the chance of that command.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use shelf::{
    Forgotten, KEY_BYTES_MAX, Page, PageBounds, Row, ShelfError, Snapshot, VALUE_BYTES_MAX, Write,
};

use crate::frame::WRITES_BYTES_MAX;
use crate::overlay::Overlay;

/// The rows that one range gives at most, in bytes; one row may be longer.
pub const RANGE_BYTES_MAX: usize = 1 << 20;

/// A command ends without an answer: it refused, or asks for rows that have to be fetched first.
#[derive(Debug)]
pub struct Stop(pub(crate) Why);

#[derive(Debug)]
pub(crate) enum Why {
    Missing,
    Refused(String),
    Answered(Vec<u8>),
    Later,
}

impl Stop {
    /// The command is refused, for a reason that its caller is told. Nothing of it is written.
    pub fn refused(why: impl Into<String>) -> Stop {
        Stop(Why::Refused(why.into()))
    }

    /// The command ends with this answer, and nothing of it is written. The answer is given once what was read is chosen.
    pub fn answered(answer: Vec<u8>) -> Stop {
        Stop(Why::Answered(answer))
    }

    /// The command can be executed soon, and not now: it waits, and what follows it in its order behind it. After a while it is turned away.
    pub fn later() -> Stop {
        Stop(Why::Later)
    }
}

/// Rows in the order of their keys, or against it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    pub rows: Vec<Row>,
    /// No row stands behind them, within the range.
    pub is_last: bool,
}

/// A range that was asked for: from, and to.
pub(crate) type Span = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// The rows that were fetched from the shelf for one command. They stay with the command: what is kept for all may go before the command
/// has its last row.
#[derive(Debug, Default)]
pub(crate) struct Pinned {
    pub pages: BTreeMap<Key, Fetched>,
    pub rows: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

impl Pinned {
    /// Keys and values together.
    pub fn bytes(&self) -> usize {
        let of_page = |fetched: &Fetched| {
            let rows = fetched.page.rows.iter();
            rows.map(|(key, value)| key.len() + value.len())
                .sum::<usize>()
        };
        let of_row = |(key, value): (&Vec<u8>, &Option<Vec<u8>>)| {
            key.len() + value.as_ref().map_or(0, Vec::len)
        };
        self.pages.values().map(of_page).sum::<usize>()
            + self.rows.iter().map(of_row).sum::<usize>()
    }
}

/// The name of a page, in an order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub from: Vec<u8>,
    pub to: Option<Vec<u8>>,
    /// The last rows are asked for, the last one first.
    pub is_back: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Fetched {
    pub page: Arc<Page>,
    pub rows_max: usize,
}

impl Key {
    /// The page behind this one, as whoever reads on asks for it. Backwards nobody reads so much.
    pub fn behind(&self, page: &Page) -> Option<Key> {
        let (last, _) = page.rows.last().filter(|_| !self.is_back)?;
        Some(Key {
            from: [last, &[0][..]].concat(),
            ..self.clone()
        })
    }

    pub fn span(&self) -> Span {
        let to = self.to.clone();
        (
            Bound::Included(self.from.clone()),
            to.map_or(Bound::Unbounded, Bound::Excluded),
        )
    }
}

/// The rows that a command asked for and nobody has here.
#[derive(Debug, Default)]
pub(crate) struct Missing {
    pub keys: Vec<Vec<u8>>,
    pub ranges: Vec<(Key, usize)>,
    /// How often a command was executed that lacks some of them. One that asks again and again reads on: of its ranges twice as many pages are fetched each time, so
    /// that it is not executed anew for every one of them.
    pub rounds: u32,
}

impl Missing {
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.ranges.is_empty()
    }
}

/// The rows of a machine while one command is executed.
///
/// A command sees all that was written before it, and what it wrote itself. Its writes take effect together, or not at
/// all. Keys and values are bytes: a key at most 32 KiB less one byte, a value at most 16 MiB, all writes of one command
/// together at most 8 MiB.
///
/// A method ends with an error when a row has to be fetched from the disk. Hand that error on (`?`): the command is executed
/// anew once the row is there, and once its answer has room. So a command may be executed several times, and what it did
/// elsewhere than in its state it did as often, but for what it does [once it is done](State::once_done).
pub struct State<'a> {
    overlay: &'a Overlay,
    pinned: &'a Pinned,
    /// Writes of this command.
    own: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    own_forgotten: Forgotten,
    /// By the machine's word that nothing is written below what it forgot.
    pub(crate) may_forget: bool,
    own_bytes: usize,
    pub(crate) missing: Missing,
    /// The latest frame that wrote something that was read.
    seen: u64,
    time_ms: u64,
    random: u64,
    then: Vec<Then>,
}

/// Something that is done once its command is.
pub(crate) type Then = Box<dyn FnOnce()>;

/// The outcome of a command: its writes, and the latest frame of which it read something.
pub(crate) struct Done {
    pub writes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    pub forgotten: Vec<Vec<u8>>,
    pub bytes: usize,
    pub seen: u64,
    pub then: Vec<Then>,
}

/// The bytes that a command which frees room may write beside: a remainder, and counts.
const BESIDE_BYTES_MAX: usize = 1_024;

impl Done {
    /// Whether the state is smaller by it: it takes rows away, and writes next to nothing.
    pub fn frees(&self) -> bool {
        let takes_away = !self.forgotten.is_empty() || self.writes.values().any(Option::is_none);
        let puts = self.writes.iter().filter_map(|(key, value)| {
            let value = value.as_ref()?;
            Some(key.len() + value.len())
        });
        takes_away && puts.sum::<usize>() <= BESIDE_BYTES_MAX
    }

    pub fn without_writes(self) -> Done {
        Done {
            writes: BTreeMap::new(),
            forgotten: Vec::new(),
            bytes: 0,
            then: Vec::new(),
            ..self
        }
    }
}

/// Rows of the machine, apart from those of the host.
pub(crate) const MACHINE: u8 = b'm';

pub(crate) fn machines(key: &[u8]) -> Vec<u8> {
    let mut tagged = Vec::with_capacity(1 + key.len());
    tagged.push(MACHINE);
    tagged.extend_from_slice(key);
    tagged
}

/// The key of a machine's row, as the machine knows it, from that of a shelf's row; `None` if it is a row of the host's own.
pub fn row_of_machine(key: &[u8]) -> Option<&[u8]> {
    key.strip_prefix(&[MACHINE])
}

/// The key behind all that begin with this prefix.
pub(crate) fn behind(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte < u8::MAX)?;
    let mut behind = prefix[..=last].to_vec();
    behind[last] += 1;
    Some(behind)
}

impl<'a> State<'a> {
    pub(crate) fn new(
        overlay: &'a Overlay,
        pinned: &'a Pinned,
        time_ms: u64,
        random: u64,
    ) -> State<'a> {
        State {
            overlay,
            pinned,
            own: BTreeMap::new(),
            own_forgotten: Forgotten::default(),
            may_forget: false,
            own_bytes: 0,
            missing: Missing::default(),
            seen: 0,
            time_ms,
            random,
            then: Vec::new(),
        }
    }

    pub(crate) fn done(self) -> Done {
        Done {
            writes: self.own,
            forgotten: self.own_forgotten.prefixes().cloned().collect(),
            bytes: self.own_bytes,
            seen: self.seen,
            then: self.then,
        }
    }

    /// Does this once the command is done: not if it ends without an answer, and once however often it is executed. For machines that keep something in
    /// memory beside their rows.
    pub fn once_done(&mut self, then: impl FnOnce() + 'static) {
        self.then.push(Box::new(then));
    }

    /// The value of this key.
    ///
    /// A row that is not in memory is fetched, and the command executed anew, up to 1,000 times: rows that belong together are
    /// better read as a range.
    ///
    /// Errors: it has to be fetched.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Stop> {
        self.get_row(&machines(key))
    }

    /// The rows from one key on and before another, at most so many and about 1 MiB.
    ///
    /// Errors: they have to be fetched.
    pub fn range(&mut self, from: &[u8], to: &[u8], rows_max: usize) -> Result<Rows, Stop> {
        let key = Key {
            from: machines(from),
            to: Some(machines(to)),
            is_back: false,
        };
        self.rows_of(key, rows_max)
    }

    /// The last rows from one key on and before another, the last one first, at most so many and about 1 MiB.
    ///
    /// Errors: they have to be fetched.
    pub fn range_back(&mut self, from: &[u8], to: &[u8], rows_max: usize) -> Result<Rows, Stop> {
        let key = Key {
            from: machines(from),
            to: Some(machines(to)),
            is_back: true,
        };
        self.rows_of(key, rows_max)
    }

    /// The rows whose keys begin so, at most so many and about 1 MiB.
    ///
    /// Errors: they have to be fetched.
    pub fn prefix(&mut self, prefix: &[u8], rows_max: usize) -> Result<Rows, Stop> {
        let from = machines(prefix);
        let to = behind(&from);
        let is_back = false;
        self.rows_of(Key { from, to, is_back }, rows_max)
    }

    /// Writes a row.
    ///
    /// Errors: the command is refused, since the key, the value, or all its writes are too long.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Stop> {
        if key.len() >= KEY_BYTES_MAX {
            return Err(Stop::refused(format!(
                "a key of {} bytes is too long: a key has at most {} bytes",
                key.len(),
                KEY_BYTES_MAX - 1
            )));
        }
        self.write(machines(key), Some(value.to_vec()))
    }

    /// Takes a row away; one that is not there may be.
    ///
    /// Errors: the command is refused, since all its writes together are too long.
    pub fn delete(&mut self, key: &[u8]) -> Result<(), Stop> {
        // ‡ No row has a longer key, and no shelf takes a batch with one: the log would have what no state can apply.
        if key.len() >= KEY_BYTES_MAX {
            return Ok(());
        }
        self.write(machines(key), None)
    }

    /// Takes all rows away whose keys begin so, however many: that costs no more than one.
    ///
    /// ‡ Nothing may be written below that prefix ever again. Draw a new one, as of a number that grows, for what comes after. A machine promises that
    /// by [`Machine::forgets`](crate::Machine::forgets).
    ///
    /// Errors: the command is refused, since its machine promised nothing; or the prefix, or all its writes together, are too long.
    pub fn forget(&mut self, prefix: &[u8]) -> Result<(), Stop> {
        if !self.may_forget {
            let why = "this machine forgets no prefixes: it has not promised to write nothing below them (Machine::forgets)";
            return Err(Stop::refused(why));
        }
        let prefix = machines(prefix);
        if prefix.len() > KEY_BYTES_MAX {
            return Err(Stop::refused(format!(
                "a prefix of {} bytes is too long",
                prefix.len() - 1
            )));
        }
        self.take_room(prefix.len())?;
        self.own_forgotten.add(&prefix, 0);
        let below = self.own.range::<Vec<u8>, _>(&prefix..);
        let below: Vec<Vec<u8>> = below
            .map(|(key, _)| key.clone())
            .take_while(|key| key.starts_with(&prefix))
            .collect();
        for key in below {
            if let Some(gone) = self.own.remove(&key) {
                self.own_bytes -= key.len() + gone.as_ref().map_or(0, Vec::len);
            }
        }
        Ok(())
    }

    /// The time of the log, in milliseconds since the beginning of 1970: that of the leader's clock, and never earlier
    /// than a command before this one had it.
    pub fn time_ms(&self) -> u64 {
        self.time_ms
    }

    /// A number that nobody chose. It differs from call to call. A command that is executed anew draws the same ones again.
    pub fn random(&mut self) -> u64 {
        // SplitMix64 (Steele, Lea, Flood 2014).
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn get_row(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Stop> {
        if let Some(value) = self.own.get(key) {
            return Ok(value.clone());
        }
        if self.own_forgotten.covers(key) {
            return Ok(None);
        }
        if let Some(frame) = self.overlay.forgotten_in(key) {
            self.seen = self.seen.max(frame);
            return Ok(None);
        }
        if let Some(entry) = self.overlay.get(key) {
            self.seen = self.seen.max(entry.frame);
            return Ok(entry.value.clone());
        }
        // A later write of the key is in the overlay.
        if let Some(value) = self.pinned.rows.get(key) {
            return Ok(value.clone());
        }
        self.missing.keys.push(key.to_vec());
        Err(Stop(Why::Missing))
    }

    pub(crate) fn rows_of(&mut self, key: Key, rows_max: usize) -> Result<Rows, Stop> {
        let mut found = Rows {
            rows: Vec::new(),
            is_last: true,
        };
        if key.to.as_ref().is_some_and(|to| *to <= key.from) || rows_max == 0 {
            return Ok(found);
        }
        let Some(fetched) = self.pinned.pages.get(&key) else {
            self.missing.ranges.push((key, rows_max));
            return Err(Stop(Why::Missing));
        };
        let Fetched { page, .. } = fetched;
        let (mut from, mut to) = key.span();
        // Beyond the page's last row nobody knows what the shelf has.
        if let Some((last, _)) = page.rows.last().filter(|_| !page.is_last) {
            let known = if key.is_back { &mut from } else { &mut to };
            *known = Bound::Included(last.clone());
        }
        let (from, to) = (as_slice(&from), as_slice(&to));
        let page_rows = page.rows.iter().map(|(key, value)| (&key[..], Some(value)));
        let mut merged: BTreeMap<&[u8], Option<&Vec<u8>>> = page_rows.collect();
        let mut seen = self.seen;
        for (key, entry) in self.overlay.range(from, to) {
            merged.insert(key, entry.value.as_ref());
            seen = seen.max(entry.frame);
        }
        for (key, value) in self.own.range::<[u8], _>((from, to)) {
            merged.insert(key, value.as_ref());
        }
        merged.retain(|key, _| {
            let frame = self.overlay.forgotten_in(key);
            seen = seen.max(frame.unwrap_or(0));
            frame.is_none() && !self.own_forgotten.covers(key)
        });
        let rows = merged
            .into_iter()
            .filter_map(|(key, value)| Some((key, value?)));
        let mut rows: Vec<(&[u8], &Vec<u8>)> = rows.collect();
        if key.is_back {
            rows.reverse();
        }
        found.is_last = page.is_last;
        let mut bytes = 0;
        for (key, value) in rows {
            bytes += key.len() + value.len();
            let is_full = found.rows.len() >= rows_max || bytes > RANGE_BYTES_MAX;
            if is_full && !found.rows.is_empty() {
                found.is_last = false;
                break;
            }
            // Without the tag.
            found.rows.push((key[1..].to_vec(), value.clone()));
        }
        if found.rows.is_empty() && !found.is_last {
            // All rows of the page are deleted: a longer one may show others.
            let more = fetched.rows_max.max(1).saturating_mul(4);
            self.missing.ranges.push((key, more));
            return Err(Stop(Why::Missing));
        }
        self.seen = seen;
        Ok(found)
    }

    pub(crate) fn write(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) -> Result<(), Stop> {
        let length = |value: &Option<Vec<u8>>| value.as_ref().map_or(0, Vec::len);
        if length(&value) > VALUE_BYTES_MAX {
            return Err(Stop::refused(format!(
                "a value of {} bytes is too long: a value has at most {VALUE_BYTES_MAX} bytes",
                length(&value)
            )));
        }
        if self.own_forgotten.covers(&key) || self.overlay.forgotten_in(&key).is_some() {
            let why = "the command writes below a prefix that was forgotten";
            return Err(Stop::refused(why));
        }
        if let Some(before) = self.own.get(&key) {
            self.own_bytes -= key.len() + length(before);
        }
        self.take_room(key.len() + length(&value))?;
        self.own.insert(key, value);
        Ok(())
    }

    fn take_room(&mut self, bytes: usize) -> Result<(), Stop> {
        self.own_bytes += bytes;
        match self.own_bytes > WRITES_BYTES_MAX {
            true => Err(Stop::refused(format!(
                "the command writes more than {WRITES_BYTES_MAX} bytes: do it in several"
            ))),
            false => Ok(()),
        }
    }

    /// Whether nothing was ever written in this log.
    pub(crate) fn is_of_new_log(&self) -> bool {
        self.own.is_empty() && self.overlay.is_of_new_log()
    }

    /// Writes a short row of the host's own, which a command's bounds leave room for.
    pub(crate) fn write_beside(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.own.insert(key, Some(value));
    }
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    match bound {
        Bound::Included(key) => Bound::Included(key),
        Bound::Excluded(key) => Bound::Excluded(key),
        Bound::Unbounded => Bound::Unbounded,
    }
}

/// The writes of a frame, from those of its commands: of each key the last one. Prefixes are forgotten at the end, for nothing is written
/// below them any more.
pub(crate) fn writes_of(
    rows: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    forgotten: Vec<Vec<u8>>,
) -> Vec<Write> {
    let write = |(key, value)| match value {
        Some(value) => Write::Put { key, value },
        None => Write::Delete { key },
    };
    let forget = |prefix| Write::Forget { prefix };
    let rows = rows.into_iter().map(write);
    rows.chain(forgotten.into_iter().map(forget)).collect()
}

/// The rows of a machine as of one moment, for a reader.
pub struct View<'a>(pub(crate) &'a dyn Snapshot);

impl View<'_> {
    /// The value of this key.
    ///
    /// Errors: the disk fails, or what is on it is damaged.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, ShelfError> {
        self.0.get(&machines(key))
    }

    /// The rows from one key on and before another, at most so many and about 1 MiB.
    ///
    /// Errors: as of [`View::get`].
    pub fn range(&self, from: &[u8], to: &[u8], rows_max: usize) -> Result<Rows, ShelfError> {
        let (from, to) = (machines(from), machines(to));
        self.rows(&from, Bound::Excluded(&to), rows_max)
    }

    /// The rows whose keys begin so, at most so many and about 1 MiB.
    ///
    /// Errors: as of [`View::get`].
    pub fn prefix(&self, prefix: &[u8], rows_max: usize) -> Result<Rows, ShelfError> {
        let from = machines(prefix);
        let to = behind(&from);
        let to = to.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        self.rows(&from, to, rows_max)
    }

    fn rows(&self, from: &[u8], to: Bound<&[u8]>, rows_max: usize) -> Result<Rows, ShelfError> {
        let bounds = PageBounds {
            rows_max,
            bytes_max: RANGE_BYTES_MAX,
        };
        let page = self.0.scan(Bound::Included(from), to, bounds)?;
        let rows = page.rows.into_iter();
        Ok(Rows {
            rows: rows
                .map(|(key, value)| (key[1..].to_vec(), value))
                .collect(),
            is_last: page.is_last,
        })
    }

    /// The number of the last frame of the log that the state has.
    pub fn frame(&self) -> u64 {
        self.0.applied().frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs;
    use shelf::{Applied, Batch, Identity, Media, Memory, Shelf};

    #[test]
    fn who_reads_on_is_given_twice_as_many_pages_each_time() {
        let identity = Identity {
            cluster: [1; 16],
            log: 1,
        };
        let shelf = Memory::open(&Media::default(), identity).expect("it opens");
        let mut batch = Batch::default();
        for key in 0..200 {
            batch.put(machines(&[key]), []);
        }
        shelf.apply(&batch, Applied::default()).expect("it applies");
        let pages = |rounds: u32| {
            let overlay = Overlay::default();
            let pinned = Pinned::default();
            let mut state = State::new(&overlay, &pinned, 0, 0);
            assert!(state.range(&[0], &[200], 10).is_err());
            state.missing.rounds = rounds;
            let fetched = jobs::rows(&*shelf.snapshot(), state.missing);
            fetched.expect("it reads").pages.len()
        };
        // The last one finds nothing more.
        assert_eq!([0, 1, 2, 4, 30].map(pages), [1, 2, 4, 16, 21]);
    }

    /// All rows of the range, page by page.
    fn all(
        shelf: &Memory,
        overlay: &Overlay,
        own: &[(u8, Option<u8>)],
        (from, to): (u8, u8),
        rows_max: usize,
        is_back: bool,
    ) -> Vec<(u8, u8)> {
        let mut pinned = Pinned::default();
        let mut found = Vec::new();
        let (mut from, mut to) = (vec![from], vec![to]);
        loop {
            let mut state = State::new(overlay, &pinned, 0, 0);
            for (key, value) in own {
                match value {
                    Some(value) => state.put(&[*key], &[*value]).expect("it is short"),
                    None => state.delete(&[*key]).expect("it is short"),
                }
            }
            let rows = match is_back {
                true => state.range_back(&from, &to, rows_max),
                false => state.range(&from, &to, rows_max),
            };
            let Ok(rows) = rows else {
                let fetched = jobs::rows(&*shelf.snapshot(), state.missing).expect("it reads");
                pinned.pages.extend(fetched.pages);
                continue;
            };
            let pairs = rows.rows.iter().map(|(key, value)| (key[0], value[0]));
            found.extend(pairs);
            if rows.is_last {
                return found;
            }
            let last = found.last().map_or(0, |(key, _)| *key);
            match is_back {
                true => to = vec![last],
                false => from = vec![last + 1],
            }
        }
    }

    #[test]
    fn a_range_is_the_same_from_both_ends_whatever_lies_over_the_shelf() {
        let identity = Identity {
            cluster: [1; 16],
            log: 1,
        };
        for seed in 0..200u64 {
            let mut drawn = seed;
            let mut below = |bound: u64| {
                drawn = drawn
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (drawn >> 33) % bound
            };
            let shelf = Memory::open(&Media::default(), identity).expect("it opens");
            let mut overlay = Overlay::default();
            let mut naive = BTreeMap::new();
            let (mut batch, mut own) = (Batch::default(), Vec::new());
            for key in 0..40u8 {
                let value = below(250) as u8;
                if below(3) > 0 {
                    batch.put(machines(&[key]), [value]);
                    naive.insert(key, value);
                }
                let over = (below(3) > 0).then_some(value.wrapping_add(1));
                match below(4) {
                    0 => overlay.write(
                        5,
                        &machines(&[key]),
                        over.map(|value| vec![value]).as_deref(),
                    ),
                    1 => own.push((key, over)),
                    _ => continue,
                }
                match over {
                    Some(value) => naive.insert(key, value),
                    None => naive.remove(&key),
                };
            }
            shelf.apply(&batch, Applied::default()).expect("it applies");
            let (from, to) = (below(20) as u8, 20 + below(25) as u8);
            let expected: Vec<(u8, u8)> = naive
                .into_iter()
                .filter(|(key, _)| (from..to).contains(key))
                .collect();
            for rows_max in [1, 2, 7, 100] {
                let forth = all(&shelf, &overlay, &own, (from, to), rows_max, false);
                assert_eq!(forth, expected, "seed {seed}, pages of {rows_max}");
                let mut back = all(&shelf, &overlay, &own, (from, to), rows_max, true);
                back.reverse();
                assert_eq!(
                    back, expected,
                    "seed {seed}, pages of {rows_max}, from the end"
                );
            }
        }
    }
}
