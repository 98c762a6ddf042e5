//! Members of a hash or a set, each with a value: packed into the key's row while they are few and small, else a row for each.
//!
//! Packed they stand in the order in which they came. Rows stand in the order of their hashes: so a cursor is a hash, and a random place is
//! one.

use std::collections::BTreeMap;

use crate::fail::{Fail, fail};
use crate::rows::{Before, Big, Db, Kind, Meta, Place, Row, hash48, keys, name_of, packed};

/// A member and its value; of a set that is empty.
pub(crate) type Member = (Vec<u8>, Vec<u8>);

pub(crate) struct Members {
    key: Vec<u8>,
    kind: Kind,
    before: Before,
    pub deadline: Option<u64>,
    form: Form,
    is_changed: bool,
}

enum Form {
    Packed(Few),
    Rows(Big),
}

/// Members by name, each with its place in the order in which they came. They are many only as long as the command goes on.
#[derive(Default)]
struct Few {
    members: BTreeMap<Vec<u8>, (u64, Vec<u8>)>,
    next: u64,
}

impl Few {
    fn put(&mut self, member: &[u8], value: &[u8]) -> bool {
        if let Some((_, known)) = self.members.get_mut(member) {
            *known = value.to_vec();
            return false;
        }
        self.members
            .insert(member.to_vec(), (self.next, value.to_vec()));
        self.next += 1;
        true
    }

    fn in_order(&self) -> Vec<Member> {
        let members = self.members.iter();
        let mut members: Vec<_> = members
            .map(|(member, (at, value))| (at, member, value))
            .collect();
        members.sort_unstable();
        let plain =
            |(_, member, value): (&u64, &Vec<u8>, &Vec<u8>)| (member.clone(), value.clone());
        members.into_iter().map(plain).collect()
    }
}

impl Members {
    /// Those of a key that has to be of this kind, to be looked at.
    pub fn peek(db: &mut Db, key: &[u8], kind: Kind) -> Result<Members, Fail> {
        let meta = db.peek_kind(key, kind)?;
        Ok(Members::of(key, kind, meta))
    }

    /// … to be changed.
    pub fn open(db: &mut Db, key: &[u8], kind: Kind) -> Result<Members, Fail> {
        let meta = db.open_kind(key, kind)?;
        Ok(Members::of(key, kind, meta))
    }

    /// Without a row, those of a key that is not there.
    pub fn of(key: &[u8], kind: Kind, meta: Option<Meta>) -> Members {
        let before = Before::of(meta.as_ref());
        let form = match meta.map(|meta| meta.place) {
            None => Form::Packed(Few::default()),
            Some(Place::Inline(bytes)) => Form::Packed(unpacked(kind, &bytes)),
            Some(Place::Rows(big)) => Form::Rows(big),
        };
        Members {
            key: key.to_vec(),
            kind,
            before,
            deadline: before.deadline,
            form,
            is_changed: false,
        }
    }

    pub fn len(&self) -> usize {
        match &self.form {
            Form::Packed(few) => few.members.len(),
            Form::Rows(big) => usize::try_from(big.count).unwrap_or(usize::MAX),
        }
    }

    pub fn is_packed(&self) -> bool {
        matches!(self.form, Form::Packed(_))
    }

    /// Asks for all of these at once.
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

    pub fn get(&self, db: &mut Db, member: &[u8]) -> Result<Option<Vec<u8>>, Fail> {
        let value = match &self.form {
            Form::Packed(few) => few.members.get(member).map(|(_, value)| value.clone()),
            Form::Rows(big) => {
                let life = db.life()?;
                db.view.get(&keys::member(&life, big.id, member))?
            }
        };
        db.charge(value.as_ref().map_or(0, Vec::len))?;
        Ok(value)
    }

    /// Sets a member's value; true if it was not there.
    pub fn put(&mut self, db: &mut Db, member: &[u8], value: &[u8]) -> Result<bool, Fail> {
        self.is_changed = true;
        match &mut self.form {
            Form::Packed(few) => Ok(few.put(member, value)),
            Form::Rows(big) => {
                let is_new = put_row(db, *big, member, value)?;
                big.count += u64::from(is_new);
                Ok(is_new)
            }
        }
    }

    /// Takes a member away; its value, if it was there.
    pub fn remove(&mut self, db: &mut Db, member: &[u8]) -> Result<Option<Vec<u8>>, Fail> {
        let removed = match &mut self.form {
            Form::Packed(few) => few.members.remove(member).map(|(_, value)| value),
            Form::Rows(big) => {
                let row = keys::member(&db.life()?, big.id, member);
                let value = db.view.get(&row)?;
                if value.is_some() {
                    db.view.delete(&row)?;
                    big.count = big.count.saturating_sub(1);
                }
                value
            }
        };
        self.is_changed |= removed.is_some();
        Ok(removed)
    }

    pub fn all(&self, db: &mut Db) -> Result<Vec<Member>, Fail> {
        match &self.form {
            Form::Packed(few) => Ok(few.in_order()),
            Form::Rows(big) => {
                let (from, to) = keys::members_range(&db.life()?, big.id, 0);
                let rows = db.all(from, &to)?;
                Ok(rows.into_iter().filter_map(member_of).collect())
            }
        }
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
    ///
    /// ‡ Members of one hash come together: the next page begins with another hash, and would leave out the rest of them.
    pub fn page(
        &self,
        db: &mut Db,
        hash: u64,
        count: usize,
    ) -> Result<(Vec<Member>, Option<u64>), Fail> {
        let big = match &self.form {
            Form::Packed(few) => return Ok((few.in_order(), None)),
            Form::Rows(big) => *big,
        };
        let life = db.life()?;
        let (from, to) = keys::members_range(&life, big.id, hash);
        let prefix = keys::members_prefix(&life, big.id).len();
        let (rows, next) = whole_hashes(db, from, &to, prefix, count)?;
        Ok((rows.into_iter().filter_map(member_of).collect(), next))
    }

    /// Writes what became of them. Without members there is no key.
    pub fn close(mut self, db: &mut Db) -> Result<(), Fail> {
        if !self.is_changed {
            return Ok(());
        }
        if self.len() == 0 {
            return self.end(db);
        }
        if let Form::Packed(few) = &self.form {
            let members = few.in_order();
            let bytes = packed_bytes(self.kind, &members);
            let bounds = &db.context.bounds;
            let is_few = members.len() <= bounds.packed_members_max;
            if is_few && bytes.len() <= bounds.packed_bytes_max {
                let meta = Meta::inline(self.kind, self.deadline, bytes);
                return db.save(&self.key, self.before, &meta);
            }
            self.form = Form::Rows(spread(db, &members)?);
        }
        let Form::Rows(big) = self.form else {
            return Ok(());
        };
        let meta = Meta::rows(self.kind, self.deadline, big);
        db.save(&self.key, self.before, &meta)
    }

    fn end(self, db: &mut Db) -> Result<(), Fail> {
        if let Form::Rows(big) = self.form {
            db.forget(self.kind, big.id)?;
        }
        match self.before.exists {
            true => db.remove_row(&self.key, self.before.deadline),
            false => Ok(()),
        }
    }
}

/// Gives each member a row.
fn spread(db: &mut Db, members: &[Member]) -> Result<Big, Fail> {
    let mut big = db.new_big(0)?;
    let life = db.life()?;
    for (member, value) in members {
        check_member(db, member)?;
        // Nothing lies below a new id.
        db.view.put(&keys::member(&life, big.id, member), value)?;
    }
    big.count = members.len() as u64;
    Ok(big)
}

fn put_row(db: &mut Db, big: Big, member: &[u8], value: &[u8]) -> Result<bool, Fail> {
    check_member(db, member)?;
    let row = keys::member(&db.life()?, big.id, member);
    let is_new = db.view.get(&row)?.is_none();
    db.view.put(&row, value)?;
    Ok(is_new)
}

pub(crate) fn check_member(db: &Db, member: &[u8]) -> Result<(), Fail> {
    if member.len() > db.context.bounds.key_bytes_max {
        return fail("ERR the field or member is too long");
    }
    Ok(())
}

fn member_of((row, value): Row) -> Option<Member> {
    let prefix = crate::slot::Life::BYTES + 1 + 8;
    let (_, member) = name_of(&row, prefix)?;
    Some((member.to_vec(), value))
}

fn unpacked(kind: Kind, bytes: &[u8]) -> Few {
    let mut items = packed::items(bytes);
    let mut few = Few::default();
    while let Some(member) = items.next() {
        let value = match kind {
            Kind::Hash => items.next().unwrap_or_default(),
            _ => &[],
        };
        few.put(member, value);
    }
    few
}

fn packed_bytes(kind: Kind, members: &[Member]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (member, value) in members {
        packed::push(&mut bytes, member);
        if kind == Kind::Hash {
            packed::push(&mut bytes, value);
        }
    }
    bytes
}

/// About so many rows from one on, of no hash only some, and the hash at which the next ones begin.
pub(crate) fn whole_hashes(
    db: &mut Db,
    from: Vec<u8>,
    to: &[u8],
    prefix: usize,
    count: usize,
) -> Result<(Vec<Row>, Option<u64>), Fail> {
    let hash_of = |row: &Row| name_of(&row.0, prefix).map_or(0, |(hash, _)| hash);
    let (mut from, mut rows) = (from, Vec::new());
    loop {
        let page = db.view.range(&from, to, count.max(1))?;
        let is_last = page.is_last || page.rows.is_empty();
        db.charge_rows(&page.rows)?;
        rows.extend(page.rows);
        let Some(last) = rows.last() else {
            return Ok((rows, None));
        };
        if is_last {
            return Ok((rows, None));
        }
        let hash = hash_of(last);
        let begins = rows.partition_point(|row| hash_of(row) < hash);
        if begins > 0 {
            rows.truncate(begins);
            return Ok((rows, Some(hash)));
        }
        // All have one hash: there are more of it, or the next one begins behind it.
        from = [last.0.as_slice(), &[0]].concat();
    }
}

/// A place drawn at random among hashes.
pub(crate) fn drawn_hash(db: &mut Db) -> u64 {
    hash48(&db.view.random().to_be_bytes())
}
