//! Keys: what there is of one, and what becomes of it. It keeps the slot's count, the deadlines and the ids right.

use std::collections::BTreeSet;

use crate::context::Context;
use crate::fail::{Fail, fail, words};
use crate::rows::keys;
use crate::rows::{Before, Big, Header, Kind, Meta, PAGE_ROWS, Page, Place, Row, View};
use crate::slot::Life;

/// The effects of a command beside its reply.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    pub changed: BTreeSet<Vec<u8>>,
    pub saw_expired: bool,
    pub flushed: Vec<Life>,
    pub read_bytes: usize,
    /// A key has what was prepared.
    pub has_named: bool,
}

/// The keys of a slot, as one command sees and changes them.
pub(crate) struct Db<'a> {
    pub view: &'a mut dyn View,
    pub context: &'a Context<'a>,
    pub life: Option<Life>,
    /// The command may write.
    pub writes: bool,
    pub effects: Effects,
    /// Bytes that may still be read into the reply.
    left: usize,
}

impl<'a> Db<'a> {
    pub fn new(view: &'a mut dyn View, context: &'a Context<'a>, life: Option<Life>) -> Db<'a> {
        Db {
            view,
            context,
            life,
            writes: false,
            effects: Effects::default(),
            left: context.bounds.reply_bytes_max,
        }
    }

    /// The life of the command's slot.
    pub fn life(&self) -> Result<Life, Fail> {
        self.life.ok_or(Fail::from("ERR the command names no key"))
    }

    pub fn now(&self) -> u64 {
        self.view.time_ms()
    }

    /// The key, if it is there and not expired.
    pub fn peek(&mut self, key: &[u8]) -> Result<Option<Meta>, Fail> {
        let meta = self.row_of(key)?;
        Ok(meta.filter(|meta| !self.is_expired(meta)))
    }

    /// The key, if it is there; an expired one is taken away. For commands that write.
    pub fn open(&mut self, key: &[u8]) -> Result<Option<Meta>, Fail> {
        let Some(meta) = self.row_of(key)? else {
            return Ok(None);
        };
        if self.is_expired(&meta) {
            self.remove(key, &meta)?;
            return Ok(None);
        }
        Ok(Some(meta))
    }

    /// Like [`Db::peek`], of a key that has to be of this kind.
    pub fn peek_kind(&mut self, key: &[u8], kind: Kind) -> Result<Option<Meta>, Fail> {
        of_kind(self.peek(key)?, kind)
    }

    pub fn open_kind(&mut self, key: &[u8], kind: Kind) -> Result<Option<Meta>, Fail> {
        of_kind(self.open(key)?, kind)
    }

    fn row_of(&mut self, key: &[u8]) -> Result<Option<Meta>, Fail> {
        let life = self.life()?;
        let row = self.view.get(&keys::meta(&life, key));
        if row.is_err() && self.writes {
            // A command that makes a key or takes it away counts it: that row is fetched together with its own.
            _ = self.view.get(&keys::header(&life));
        }
        row?.map(|row| Meta::decode(&row)).transpose()
    }

    pub fn is_expired(&mut self, meta: &Meta) -> bool {
        let is = meta.deadline.is_some_and(|deadline| self.now() >= deadline);
        self.effects.saw_expired |= is;
        is
    }

    /// Asks for all of these keys at once, so that they are fetched together.
    pub fn ask(&mut self, keys: &[&[u8]]) -> Result<(), Fail> {
        let life = self.life()?;
        let rows = keys.iter().map(|key| keys::meta(&life, key));
        self.ask_rows(rows)
    }

    pub fn ask_rows(&mut self, rows: impl Iterator<Item = Vec<u8>>) -> Result<(), Fail> {
        let mut asked = Ok(());
        for row in rows {
            asked = asked.and(self.view.get(&row).map(|_| ()));
        }
        Ok(asked?)
    }

    /// Asks for the beginnings of ranges at once.
    pub fn ask_ranges(
        &mut self,
        ranges: impl Iterator<Item = (Vec<u8>, Vec<u8>)>,
        rows_max: usize,
    ) -> Result<(), Fail> {
        let mut asked = Ok(());
        for (from, to) in ranges {
            asked = asked.and(self.view.range(&from, &to, rows_max).map(|_| ()));
        }
        Ok(asked?)
    }

    /// Writes the row of a key.
    pub fn save(&mut self, key: &[u8], before: Before, meta: &Meta) -> Result<(), Fail> {
        let life = self.life()?;
        if !before.exists {
            self.check_new(key)?;
            self.count_key(1)?;
        }
        if before.deadline != meta.deadline {
            if let Some(deadline) = before.deadline {
                self.view.delete(&keys::deadline(&life, deadline, key))?;
            }
            if let Some(deadline) = meta.deadline {
                self.view.put(&keys::deadline(&life, deadline, key), &[])?;
            }
        }
        self.view.put(&keys::meta(&life, key), &meta.encode())?;
        self.changed(key);
        Ok(())
    }

    /// Whether a key may be made. ‡ Asked before anything is written: a command that fails has written nothing.
    pub fn check_new(&self, key: &[u8]) -> Result<(), Fail> {
        match key.len() > self.context.bounds.key_bytes_max {
            true => fail("ERR the key is too long"),
            false => Ok(()),
        }
    }

    /// Takes a key away, in constant time.
    pub fn remove(&mut self, key: &[u8], meta: &Meta) -> Result<(), Fail> {
        self.forget_rows(meta)?;
        self.remove_row(key, meta.deadline)
    }

    /// Takes the row of a key away, and leaves those of its value.
    pub fn remove_row(&mut self, key: &[u8], deadline: Option<u64>) -> Result<(), Fail> {
        let life = self.life()?;
        if let Some(deadline) = deadline {
            self.view.delete(&keys::deadline(&life, deadline, key))?;
        }
        self.view.delete(&keys::meta(&life, key))?;
        self.count_key(-1)?;
        self.changed(key);
        Ok(())
    }

    /// Puts a value in the place of what the key had.
    pub fn replace(&mut self, key: &[u8], old: Option<&Meta>, new: &Meta) -> Result<(), Fail> {
        if let Some(old) = old {
            self.forget_rows(old)?;
        }
        self.save(key, Before::of(old), new)
    }

    fn forget_rows(&mut self, meta: &Meta) -> Result<(), Fail> {
        match meta.place {
            Place::Rows(big) => self.forget(meta.kind, big.id),
            Place::Inline(_) => Ok(()),
        }
    }

    /// Forgets the rows of a value.
    pub fn forget(&mut self, kind: Kind, id: u64) -> Result<(), Fail> {
        let life = self.life()?;
        match kind {
            Kind::String => self.view.forget(&keys::chunks_prefix(&life, id))?,
            Kind::List | Kind::Hash | Kind::Set => {
                self.view.forget(&keys::members_prefix(&life, id))?;
            }
            Kind::Sorted => {
                self.view.forget(&keys::members_prefix(&life, id))?;
                self.view.forget(&keys::sorted_prefix(&life, id))?;
            }
        }
        Ok(())
    }

    fn changed(&mut self, key: &[u8]) {
        if !self.effects.changed.contains(key) {
            self.effects.changed.insert(key.to_vec());
        }
    }

    fn count_key(&mut self, change: i64) -> Result<(), Fail> {
        let life = self.life()?;
        let mut header = self.header(&life)?;
        header.keys = header.keys.saturating_add_signed(change);
        self.put_header(&life, header)
    }

    pub fn header(&mut self, life: &Life) -> Result<Header, Fail> {
        let row = self.view.get(&keys::header(life))?;
        Header::decode(row.as_deref())
    }

    pub fn put_header(&mut self, life: &Life, header: Header) -> Result<(), Fail> {
        Ok(self.view.put(&keys::header(life), &header.encode())?)
    }

    /// Asks for the headers of slots at once, then reads them.
    pub fn headers(&mut self, lives: &[Life]) -> Result<Vec<Header>, Fail> {
        self.ask_rows(lives.iter().map(keys::header))?;
        lives.iter().map(|life| self.header(life)).collect()
    }

    /// An id that this slot never had.
    pub fn new_id(&mut self) -> Result<u64, Fail> {
        let life = self.life()?;
        let mut header = self.header(&life)?;
        let id = header.next_id;
        header.next_id += 1;
        self.put_header(&life, header)?;
        Ok(id)
    }

    /// A place for a value in rows of its own.
    pub fn new_big(&mut self, first: u64) -> Result<Big, Fail> {
        let id = self.new_id()?;
        let count = 0;
        Ok(Big { id, count, first })
    }

    /// Takes so much of what the command may read into its reply.
    ///
    /// ‡ Commands read before they write: one that may read no more has written nothing.
    pub fn charge(&mut self, bytes: usize) -> Result<(), Fail> {
        match self.left.checked_sub(bytes) {
            Some(left) => {
                self.left = left;
                self.effects.read_bytes += bytes;
                Ok(())
            }
            None => {
                self.effects.read_bytes += std::mem::take(&mut self.left);
                fail("ERR the command reads more than one reply may hold")
            }
        }
    }

    /// From now on it may read no more than this into its reply.
    pub fn bound_reply(&mut self, bytes_max: usize) {
        self.left = self.left.min(bytes_max);
    }

    pub fn charge_rows(&mut self, rows: &[Row]) -> Result<(), Fail> {
        self.charge(
            rows.iter()
                .map(|(key, value)| key.len() + value.len())
                .sum(),
        )
    }

    /// How many rows a range has.
    pub fn count_rows(&mut self, from: Vec<u8>, to: &[u8]) -> Result<usize, Fail> {
        let (mut from, mut count) = (from, 0);
        loop {
            let Page { rows, is_last } = self.view.range(&from, to, PAGE_ROWS)?;
            let Some((last, _)) = rows.last() else {
                return Ok(count);
            };
            from = [last.as_slice(), &[0]].concat();
            count += rows.len();
            if is_last {
                return Ok(count);
            }
        }
    }

    /// All rows of a range, page by page.
    pub fn all(&mut self, from: Vec<u8>, to: &[u8]) -> Result<Vec<Row>, Fail> {
        let (mut from, mut all) = (from, Vec::new());
        loop {
            let Page { rows, is_last } = self.view.range(&from, to, PAGE_ROWS)?;
            if let Some((last, _)) = rows.last() {
                from = [last.as_slice(), &[0]].concat();
            }
            let is_last = is_last || rows.is_empty();
            self.charge_rows(&rows)?;
            all.extend(rows);
            if is_last {
                return Ok(all);
            }
        }
    }

    /// A drawn number below this one.
    pub fn draw(&mut self, below: usize) -> usize {
        let below = below.max(1) as u128;
        // Multiplied, not divided: all results are equally likely but for one part in 2^64.
        ((u128::from(self.view.random()) * below) >> 64) as usize
    }
}

fn of_kind(meta: Option<Meta>, kind: Kind) -> Result<Option<Meta>, Fail> {
    match meta {
        Some(meta) if meta.kind != kind => fail(words::WRONG_TYPE),
        meta => Ok(meta),
    }
}
