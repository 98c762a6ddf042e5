//! Members of a sorted set: packed into the key's row while they are few and small, else two rows for each, one by its name and one in
//! the order of scores.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::fail::Fail;
use crate::rows::between::{Between, NameEnd};
use crate::rows::members::check_member;
use crate::rows::{Before, Big, Db, Kind, Meta, PAGE_ROWS, Place, Row, keys, packed};

/// A score and its member.
pub(crate) type Entry = (f64, Vec<u8>);

/// From the lowest score up, or from the highest down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Up,
    Down,
}

pub(crate) struct Sorted {
    key: Vec<u8>,
    before: Before,
    pub deadline: Option<u64>,
    form: Form,
    is_changed: bool,
}

enum Form {
    Packed(Few),
    Rows(Big),
}

/// Members by name and in order. They are many only as long as the command goes on.
#[derive(Default)]
struct Few {
    scores: BTreeMap<Vec<u8>, f64>,
    order: BTreeSet<(u64, Vec<u8>)>,
}

impl Few {
    fn put(&mut self, member: &[u8], score: f64) -> Option<f64> {
        let old = self.remove(member);
        self.scores.insert(member.to_vec(), score);
        self.order.insert((keys::order_of(score), member.to_vec()));
        old
    }

    fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let old = self.scores.remove(member)?;
        self.order.remove(&(keys::order_of(old), member.to_vec()));
        Some(old)
    }

    fn in_order(&self) -> impl DoubleEndedIterator<Item = Entry> {
        let members = self.order.iter().map(|(_, member)| member);
        members.map(|member| {
            (
                self.scores.get(member).copied().unwrap_or(0.0),
                member.clone(),
            )
        })
    }
}

impl Sorted {
    pub fn peek(db: &mut Db, key: &[u8]) -> Result<Sorted, Fail> {
        let meta = db.peek_kind(key, Kind::Sorted)?;
        Ok(Sorted::of(key, meta))
    }

    pub fn open(db: &mut Db, key: &[u8]) -> Result<Sorted, Fail> {
        let meta = db.open_kind(key, Kind::Sorted)?;
        Ok(Sorted::of(key, meta))
    }

    /// Without a row, that of a key that is not there.
    pub fn of(key: &[u8], meta: Option<Meta>) -> Sorted {
        let before = Before::of(meta.as_ref());
        let form = match meta.map(|meta| meta.place) {
            None => Form::Packed(Few::default()),
            Some(Place::Inline(bytes)) => Form::Packed(unpacked(&bytes)),
            Some(Place::Rows(big)) => Form::Rows(big),
        };
        Sorted {
            key: key.to_vec(),
            before,
            deadline: before.deadline,
            form,
            is_changed: false,
        }
    }

    pub fn len(&self) -> usize {
        match &self.form {
            Form::Packed(few) => few.scores.len(),
            Form::Rows(big) => usize::try_from(big.count).unwrap_or(usize::MAX),
        }
    }

    pub fn is_packed(&self) -> bool {
        matches!(self.form, Form::Packed(_))
    }

    /// Asks for all of these members at once.
    pub fn ask(&self, db: &mut Db, members: &[&[u8]]) -> Result<(), Fail> {
        let Form::Rows(big) = self.form else {
            return Ok(());
        };
        let life = db.life()?;
        db.ask_rows(
            members
                .iter()
                .map(|member| keys::member(&life, big.id, member)),
        )
    }

    pub fn score(&self, db: &mut Db, member: &[u8]) -> Result<Option<f64>, Fail> {
        match &self.form {
            Form::Packed(few) => Ok(few.scores.get(member).copied()),
            Form::Rows(big) => {
                let row = keys::member(&db.life()?, big.id, member);
                Ok(db.view.get(&row)?.map(|value| score_of(&value)))
            }
        }
    }

    /// Sets a member's score; the one it had.
    ///
    /// Both zeros are one, as in the small sorted sets of Redis.
    pub fn put(&mut self, db: &mut Db, member: &[u8], score: f64) -> Result<Option<f64>, Fail> {
        let score = if score == 0.0 { 0.0 } else { score };
        self.is_changed = true;
        let big = match &mut self.form {
            Form::Packed(few) => return Ok(few.put(member, score)),
            Form::Rows(big) => *big,
        };
        check_member(db, member)?;
        let old = self.score(db, member)?;
        let life = db.life()?;
        match old {
            Some(old) => db.view.delete(&keys::sorted(&life, big.id, old, member))?,
            None => self.grow(1),
        }
        put_rows(db, big, member, score)?;
        Ok(old)
    }

    /// Takes a member away; the score that it had.
    pub fn remove(&mut self, db: &mut Db, member: &[u8]) -> Result<Option<f64>, Fail> {
        let big = match &mut self.form {
            Form::Packed(few) => {
                let old = few.remove(member);
                self.is_changed |= old.is_some();
                return Ok(old);
            }
            Form::Rows(big) => *big,
        };
        let old = self.score(db, member)?;
        if let Some(old) = old {
            self.remove_known(db, big, &(old, member.to_vec()))?;
        }
        Ok(old)
    }

    /// Takes entries away that are known to be there.
    pub fn remove_all(&mut self, db: &mut Db, entries: &[Entry]) -> Result<(), Fail> {
        for entry in entries {
            match &mut self.form {
                Form::Packed(few) => {
                    few.remove(&entry.1);
                    self.is_changed = true;
                }
                Form::Rows(big) => {
                    let big = *big;
                    self.remove_known(db, big, entry)?;
                }
            }
        }
        Ok(())
    }

    fn remove_known(&mut self, db: &mut Db, big: Big, entry: &Entry) -> Result<(), Fail> {
        let life = db.life()?;
        let (score, member) = entry;
        db.view
            .delete(&keys::sorted(&life, big.id, *score, member))?;
        db.view.delete(&keys::member(&life, big.id, member))?;
        self.grow(-1);
        self.is_changed = true;
        Ok(())
    }

    fn grow(&mut self, change: i64) {
        if let Form::Rows(big) = &mut self.form {
            big.count = big.count.saturating_add_signed(change);
        }
    }

    pub fn all(&self, db: &mut Db) -> Result<Vec<Entry>, Fail> {
        self.between(db, &Between::ALL, Way::Up, 0, None)
    }

    /// The entries of these places, counted from the end at which the way begins.
    pub fn places(&self, db: &mut Db, places: Range<usize>, way: Way) -> Result<Vec<Entry>, Fail> {
        let length = self.len();
        let (start, stop) = (places.start, places.end.min(length));
        if start >= stop {
            return Ok(Vec::new());
        }
        let count = stop - start;
        // From the nearer end.
        if self.is_packed() || start <= length - stop {
            return self.between(db, &Between::ALL, way, start, Some(count));
        }
        let other = match way {
            Way::Up => Way::Down,
            Way::Down => Way::Up,
        };
        let mut entries = self.between(db, &Between::ALL, other, length - stop, Some(count))?;
        entries.reverse();
        Ok(entries)
    }

    /// The entries of a range, but for the first few, and at most so many.
    pub fn between(
        &self,
        db: &mut Db,
        between: &Between,
        way: Way,
        skipped: usize,
        limit: Option<usize>,
    ) -> Result<Vec<Entry>, Fail> {
        let limit = limit.unwrap_or(usize::MAX);
        match &self.form {
            Form::Packed(few) => {
                let held = few.in_order();
                let held = held.filter(|(score, member)| between.holds(*score, member));
                Ok(match way {
                    Way::Up => held.skip(skipped).take(limit).collect(),
                    Way::Down => held.rev().skip(skipped).take(limit).collect(),
                })
            }
            Form::Rows(big) => {
                let wanted = skipped.saturating_add(limit);
                let Some((from, to)) = rows_between(db, big, between)? else {
                    return Ok(Vec::new());
                };
                let rows = walk(db, from, to, way, wanted)?;
                Ok(rows.into_iter().skip(skipped).map(entry_of).collect())
            }
        }
    }

    pub fn count(&self, db: &mut Db, between: &Between) -> Result<usize, Fail> {
        match &self.form {
            Form::Packed(_) => Ok(self.between(db, between, Way::Up, 0, None)?.len()),
            Form::Rows(big) => match rows_between(db, big, between)? {
                Some((from, to)) => db.count_rows(from, &to),
                None => Ok(0),
            },
        }
    }

    /// How many entries stand before this one.
    pub fn rank(&self, db: &mut Db, member: &[u8], way: Way) -> Result<Option<usize>, Fail> {
        let Some(score) = self.score(db, member)? else {
            return Ok(None);
        };
        let before = match &self.form {
            Form::Packed(few) => few
                .order
                .range(..(keys::order_of(score), member.to_vec()))
                .count(),
            Form::Rows(big) => {
                let life = db.life()?;
                let to = keys::sorted(&life, big.id, score, member);
                db.count_rows(keys::sorted_prefix(&life, big.id), &to)?
            }
        };
        Ok(Some(match way {
            Way::Up => before,
            Way::Down => self.len().saturating_sub(before + 1),
        }))
    }

    /// Asks for some members from each of these hashes on, at once.
    pub fn ask_pages(&self, db: &mut Db, hashes: &[u64], count: usize) -> Result<(), Fail> {
        let Form::Rows(big) = self.form else {
            return Ok(());
        };
        let life = db.life()?;
        let ranges = hashes
            .iter()
            .map(|hash| keys::members_range(&life, big.id, *hash));
        db.ask_ranges(ranges, count)
    }

    /// About so many members from a hash on, and the hash at which the next ones begin. Packed ones come all at once.
    pub fn page(
        &self,
        db: &mut Db,
        hash: u64,
        count: usize,
    ) -> Result<(Vec<Entry>, Option<u64>), Fail> {
        let big = match &self.form {
            Form::Packed(few) => return Ok((few.in_order().collect(), None)),
            Form::Rows(big) => *big,
        };
        let life = db.life()?;
        let (from, to) = keys::members_range(&life, big.id, hash);
        let prefix = keys::members_prefix(&life, big.id).len();
        let (rows, next) = super::members::whole_hashes(db, from, &to, prefix, count)?;
        let entry = |(row, value): Row| {
            let (_, member) = keys::name_of(&row, prefix)?;
            Some((score_of(&value), member.to_vec()))
        };
        Ok((rows.into_iter().filter_map(entry).collect(), next))
    }

    /// Writes what became of it. Without members there is no key.
    pub fn close(mut self, db: &mut Db) -> Result<(), Fail> {
        if !self.is_changed {
            return Ok(());
        }
        if self.len() == 0 {
            return self.end(db);
        }
        if let Form::Packed(few) = &self.form {
            let bytes = packed_bytes(few);
            let bounds = &db.context.bounds;
            let is_few = few.scores.len() <= bounds.packed_members_max;
            if is_few && bytes.len() <= bounds.packed_bytes_max {
                let meta = Meta::inline(Kind::Sorted, self.deadline, bytes);
                return db.save(&self.key, self.before, &meta);
            }
            self.form = Form::Rows(spread(db, few)?);
        }
        let Form::Rows(big) = self.form else {
            return Ok(());
        };
        let meta = Meta::rows(Kind::Sorted, self.deadline, big);
        db.save(&self.key, self.before, &meta)
    }

    fn end(self, db: &mut Db) -> Result<(), Fail> {
        if let Form::Rows(big) = self.form {
            db.forget(Kind::Sorted, big.id)?;
        }
        match self.before.exists {
            true => db.remove_row(&self.key, self.before.deadline),
            false => Ok(()),
        }
    }
}

/// The rows of a range in their way, at most so many.
fn walk(
    db: &mut Db,
    mut from: Vec<u8>,
    mut to: Vec<u8>,
    way: Way,
    wanted: usize,
) -> Result<Vec<Row>, Fail> {
    let mut rows: Vec<Row> = Vec::new();
    while rows.len() < wanted {
        let rows_max = (wanted - rows.len()).min(PAGE_ROWS);
        let page = match way {
            Way::Up => db.view.range(&from, &to, rows_max)?,
            Way::Down => db.view.range_back(&from, &to, rows_max)?,
        };
        let Some((last, _)) = page.rows.last() else {
            break;
        };
        match way {
            Way::Up => from = [last.as_slice(), &[0]].concat(),
            Way::Down => to = last.clone(),
        }
        db.charge_rows(&page.rows)?;
        rows.extend(page.rows);
        if page.is_last {
            break;
        }
    }
    rows.truncate(wanted);
    Ok(rows)
}

/// From this row on, and before that one.
type Ends = (Vec<u8>, Vec<u8>);

/// The range of rows that this range is, if it can hold any.
fn rows_between(db: &mut Db, big: &Big, between: &Between) -> Result<Option<Ends>, Fail> {
    let life = db.life()?;
    let prefix = keys::sorted_prefix(&life, big.id);
    let at = |order: u64| [prefix.as_slice(), &order.to_be_bytes()].concat();
    let (from, to) = match between {
        Between::Scores(min, max) => {
            let from = keys::order_of(min.score) + u64::from(min.is_open);
            let to = keys::order_of(max.score) + u64::from(!max.is_open);
            (at(from), at(to))
        }
        Between::Names(min, max) => {
            let behind = keys::sorted_prefix(&life, big.id + 1);
            let page = db.view.range(&prefix, &behind, 1)?;
            let Some((first, _)) = page.rows.first() else {
                return Ok(None);
            };
            let order = first
                .get(prefix.len()..)
                .and_then(|rest| rest.first_chunk());
            let order = u64::from_be_bytes(order.copied().unwrap_or_default());
            let end = |end: &NameEnd, is_min: bool| match end {
                NameEnd::Lowest => at(order),
                NameEnd::Highest => at(order + 1),
                NameEnd::At { name, is_open } => {
                    let mut row = [at(order).as_slice(), name].concat();
                    if *is_open == is_min {
                        row.push(0);
                    }
                    row
                }
            };
            (end(min, true), end(max, false))
        }
    };
    Ok((from < to).then_some((from, to)))
}

fn put_rows(db: &mut Db, big: Big, member: &[u8], score: f64) -> Result<(), Fail> {
    let life = db.life()?;
    let value = score.to_bits().to_be_bytes();
    db.view.put(&keys::member(&life, big.id, member), &value)?;
    db.view
        .put(&keys::sorted(&life, big.id, score, member), &value)?;
    Ok(())
}

fn spread(db: &mut Db, few: &Few) -> Result<Big, Fail> {
    let mut big = db.new_big(0)?;
    for (member, score) in &few.scores {
        check_member(db, member)?;
        put_rows(db, big, member, *score)?;
    }
    big.count = few.scores.len() as u64;
    Ok(big)
}

fn entry_of((row, value): Row) -> Entry {
    (score_of(&value), keys::sorted_member(&row).to_vec())
}

fn score_of(value: &[u8]) -> f64 {
    let bits = value.first_chunk().copied().unwrap_or_default();
    f64::from_bits(u64::from_be_bytes(bits))
}

fn unpacked(bytes: &[u8]) -> Few {
    let mut few = Few::default();
    for item in packed::items(bytes) {
        if let Some((score, member)) = item.split_at_checked(8) {
            few.put(member, score_of(score));
        }
    }
    few
}

fn packed_bytes(few: &Few) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (score, member) in few.in_order() {
        let item = [&score.to_bits().to_be_bytes(), member.as_slice()].concat();
        packed::push(&mut bytes, &item);
    }
    bytes
}
