//! Items of a list: packed into the key's row while they are few and small, else a row for each, by an index. Indexes follow one
//! another, so an end costs one row and so does a place; what changes the middle moves the items of the shorter side.

use std::collections::VecDeque;
use std::ops::Range;

use crate::fail::Fail;
use crate::rows::{Before, Big, Db, Kind, Meta, Place, keys, packed};

/// The index of the first item of a new list: both ends have room for ever.
const MIDDLE: u64 = 1 << 63;

pub(crate) struct Items {
    key: Vec<u8>,
    before: Before,
    pub deadline: Option<u64>,
    form: Form,
    is_changed: bool,
}

enum Form {
    Packed(VecDeque<Vec<u8>>),
    Rows(Big),
}

/// The beginning of a list, or its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Left,
    Right,
}

impl Items {
    pub fn peek(db: &mut Db, key: &[u8]) -> Result<Items, Fail> {
        let meta = db.peek_kind(key, Kind::List)?;
        Ok(Items::of(key, meta))
    }

    pub fn open(db: &mut Db, key: &[u8]) -> Result<Items, Fail> {
        let meta = db.open_kind(key, Kind::List)?;
        Ok(Items::of(key, meta))
    }

    /// Without a row, those of a key that is not there.
    pub fn of(key: &[u8], meta: Option<Meta>) -> Items {
        let before = Before::of(meta.as_ref());
        let form = match meta.map(|meta| meta.place) {
            None => Form::Packed(VecDeque::new()),
            Some(Place::Inline(bytes)) => {
                Form::Packed(packed::items(&bytes).map(<[u8]>::to_vec).collect())
            }
            Some(Place::Rows(big)) => Form::Rows(big),
        };
        Items {
            key: key.to_vec(),
            before,
            deadline: before.deadline,
            form,
            is_changed: false,
        }
    }

    pub fn len(&self) -> usize {
        match &self.form {
            Form::Packed(items) => items.len(),
            Form::Rows(big) => usize::try_from(big.count).unwrap_or(usize::MAX),
        }
    }

    pub fn get(&self, db: &mut Db, index: usize) -> Result<Option<Vec<u8>>, Fail> {
        match &self.form {
            Form::Packed(items) => Ok(items.get(index).cloned()),
            Form::Rows(big) if index as u64 >= big.count => Ok(None),
            Form::Rows(big) => {
                let row = keys::item(&db.life()?, big.id, big.first + index as u64);
                Ok(db.view.get(&row)?)
            }
        }
    }

    pub fn push(&mut self, db: &mut Db, end: End, item: &[u8]) -> Result<(), Fail> {
        self.is_changed = true;
        // ‡ The last item was taken a moment ago, and its row is still there.
        if let Form::Rows(big) = self.form
            && big.count == 0
        {
            db.forget(Kind::List, big.id)?;
            self.form = Form::Packed(VecDeque::new());
        }
        match &mut self.form {
            Form::Packed(items) => match end {
                End::Left => items.push_front(item.to_vec()),
                End::Right => items.push_back(item.to_vec()),
            },
            Form::Rows(big) => {
                let index = match end {
                    End::Left => {
                        big.first -= 1;
                        big.first
                    }
                    End::Right => big.first + big.count,
                };
                big.count += 1;
                let row = keys::item(&db.life()?, big.id, index);
                db.view.put(&row, item)?;
            }
        }
        Ok(())
    }

    /// Takes so many items from an end, the outermost first.
    pub fn pop(&mut self, db: &mut Db, end: End, count: usize) -> Result<Vec<Vec<u8>>, Fail> {
        let length = self.len();
        let count = count.min(length);
        let places = match end {
            End::Left => 0..count,
            End::Right => length - count..length,
        };
        let mut popped = self.range(db, places)?;
        if end == End::Right {
            popped.reverse();
        }
        self.cut(db, end, count)?;
        Ok(popped)
    }

    /// Takes so many items away from an end.
    fn cut(&mut self, db: &mut Db, end: End, count: usize) -> Result<(), Fail> {
        if count == 0 {
            return Ok(());
        }
        self.is_changed = true;
        match &mut self.form {
            Form::Packed(items) => match end {
                End::Left => drop(items.drain(..count)),
                End::Right => items.truncate(items.len() - count),
            },
            Form::Rows(big) => {
                let count = count as u64;
                let from = match end {
                    End::Left => big.first,
                    End::Right => big.first + big.count - count,
                };
                big.count -= count;
                if end == End::Left {
                    big.first += count;
                }
                // All of them go: the prefix is forgotten by whoever closes.
                if big.count > 0 {
                    delete_rows(db, big.id, from..from + count)?;
                }
            }
        }
        Ok(())
    }

    pub fn set(&mut self, db: &mut Db, index: usize, item: &[u8]) -> Result<(), Fail> {
        self.is_changed = true;
        match &mut self.form {
            Form::Packed(items) => {
                if let Some(known) = items.get_mut(index) {
                    *known = item.to_vec();
                }
            }
            Form::Rows(big) => {
                let row = keys::item(&db.life()?, big.id, big.first + index as u64);
                db.view.put(&row, item)?;
            }
        }
        Ok(())
    }

    /// The items of these places.
    pub fn range(&self, db: &mut Db, places: Range<usize>) -> Result<Vec<Vec<u8>>, Fail> {
        if places.is_empty() {
            return Ok(Vec::new());
        }
        match &self.form {
            Form::Packed(items) => {
                let held = items.iter().skip(places.start).take(places.len());
                Ok(held.cloned().collect())
            }
            Form::Rows(big) => {
                let life = db.life()?;
                let at = |place: usize| keys::item(&life, big.id, big.first + place as u64);
                let rows = db.all(at(places.start), &at(places.end))?;
                Ok(rows.into_iter().map(|(_, item)| item).collect())
            }
        }
    }

    pub fn all(&self, db: &mut Db) -> Result<Vec<Vec<u8>>, Fail> {
        self.range(db, 0..self.len())
    }

    /// Leaves only the items of these places.
    pub fn trim(&mut self, db: &mut Db, places: Range<usize>) -> Result<(), Fail> {
        let length = self.len();
        let behind = length - places.end;
        let is_short = places.len() < length / 2;
        let Form::Rows(big) = self.form else {
            self.cut(db, End::Right, behind)?;
            return self.cut(db, End::Left, places.start);
        };
        if is_short && !places.is_empty() {
            // Fewer rows are written anew than would be deleted.
            let kept = self.range(db, places)?;
            db.forget(Kind::List, big.id)?;
            self.form = Form::Packed(kept.into());
            self.is_changed = true;
            return Ok(());
        }
        self.cut(db, End::Right, behind)?;
        self.cut(db, End::Left, places.start)
    }

    /// Puts other items in the place of all: what both begin or end with stays where it is.
    pub fn rewrite(&mut self, db: &mut Db, new: Vec<Vec<u8>>) -> Result<(), Fail> {
        self.is_changed = true;
        let Form::Rows(big) = self.form else {
            self.form = Form::Packed(new.into());
            return Ok(());
        };
        let old = self.all(db)?;
        let same = |pair: &(&Vec<u8>, &Vec<u8>)| pair.0 == pair.1;
        let begin = old.iter().zip(&new).take_while(same).count();
        let end = old
            .iter()
            .rev()
            .zip(new.iter().rev())
            .take_while(same)
            .count();
        let mut next = big;
        next.count = new.len() as u64;
        if end > begin {
            // The end stays: the first index moves.
            next.first = (big.first + big.count) - next.count;
        }
        let life = db.life()?;
        let was = |index: u64| old.get(index.wrapping_sub(big.first) as usize);
        for (place, item) in new.iter().enumerate() {
            let index = next.first + place as u64;
            if was(index) != Some(item) {
                db.view.put(&keys::item(&life, big.id, index), item)?;
            }
        }
        delete_rows(db, big.id, big.first..next.first)?;
        delete_rows(db, big.id, next.first + next.count..big.first + big.count)?;
        self.form = Form::Rows(next);
        Ok(())
    }

    /// Writes what became of it. Without items there is no key.
    pub fn close(mut self, db: &mut Db) -> Result<(), Fail> {
        if !self.is_changed {
            return Ok(());
        }
        if self.len() == 0 {
            return self.end(db);
        }
        if let Form::Packed(items) = &self.form {
            let mut bytes = Vec::new();
            items.iter().for_each(|item| packed::push(&mut bytes, item));
            let bounds = &db.context.bounds;
            let is_few = items.len() <= bounds.packed_members_max;
            if is_few && bytes.len() <= bounds.packed_bytes_max {
                let meta = Meta::inline(Kind::List, self.deadline, bytes);
                return db.save(&self.key, self.before, &meta);
            }
            self.form = Form::Rows(spread(db, items)?);
        }
        let Form::Rows(big) = self.form else {
            return Ok(());
        };
        let meta = Meta::rows(Kind::List, self.deadline, big);
        db.save(&self.key, self.before, &meta)
    }

    fn end(self, db: &mut Db) -> Result<(), Fail> {
        if let Form::Rows(big) = self.form {
            db.forget(Kind::List, big.id)?;
        }
        match self.before.exists {
            true => db.remove_row(&self.key, self.before.deadline),
            false => Ok(()),
        }
    }
}

fn spread(db: &mut Db, items: &VecDeque<Vec<u8>>) -> Result<Big, Fail> {
    let mut big = db.new_big(MIDDLE)?;
    let life = db.life()?;
    for item in items {
        let index = big.first + big.count;
        db.view.put(&keys::item(&life, big.id, index), item)?;
        big.count += 1;
    }
    Ok(big)
}

fn delete_rows(db: &mut Db, id: u64, indexes: Range<u64>) -> Result<(), Fail> {
    let life = db.life()?;
    for index in indexes {
        db.view.delete(&keys::item(&life, id, index))?;
    }
    Ok(())
}
