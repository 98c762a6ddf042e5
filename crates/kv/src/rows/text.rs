//! The bytes of a string: in the key's row, or in chunks, of which a change writes only those that it touches.

use std::ops::Range;

use crate::fail::{Fail, fail, words};
use crate::rows::prepared;
use crate::rows::{Before, Big, Db, Kind, Meta, PAGE_ROWS, Place, Row, keys};

/// The bytes of each chunk but the last one.
const CHUNK: usize = 4096;

pub(crate) struct Text {
    key: Vec<u8>,
    before: Before,
    pub deadline: Option<u64>,
    form: Form,
}

enum Form {
    Inline(Vec<u8>),
    Chunks(Big),
}

impl Text {
    /// The string of a key, to be looked at.
    pub fn peek(db: &mut Db, key: &[u8]) -> Result<Option<Text>, Fail> {
        let meta = db.peek_kind(key, Kind::String)?;
        Ok(meta.map(|meta| Text::of(key, meta)))
    }

    /// … to be changed.
    pub fn open(db: &mut Db, key: &[u8]) -> Result<Option<Text>, Fail> {
        let meta = db.open_kind(key, Kind::String)?;
        Ok(meta.map(|meta| Text::of(key, meta)))
    }

    /// The string of a key that is not there.
    pub fn empty(key: &[u8]) -> Text {
        Text {
            key: key.to_vec(),
            before: Before::default(),
            deadline: None,
            form: Form::Inline(Vec::new()),
        }
    }

    pub fn of(key: &[u8], meta: Meta) -> Text {
        let before = Before::of(Some(&meta));
        let form = match meta.place {
            Place::Inline(bytes) => Form::Inline(bytes),
            Place::Rows(big) => Form::Chunks(big),
        };
        Text {
            key: key.to_vec(),
            before,
            deadline: before.deadline,
            form,
        }
    }

    pub fn len(&self) -> usize {
        match &self.form {
            Form::Inline(bytes) => bytes.len(),
            Form::Chunks(big) => usize::try_from(big.count).unwrap_or(usize::MAX),
        }
    }

    pub fn bytes(&self, db: &mut Db) -> Result<Vec<u8>, Fail> {
        self.range(db, 0..self.len())
    }

    /// The bytes of these places.
    pub fn range(&self, db: &mut Db, places: Range<usize>) -> Result<Vec<u8>, Fail> {
        db.charge(places.len())?;
        let big = match &self.form {
            Form::Inline(bytes) => return Ok(bytes.get(places).unwrap_or_default().to_vec()),
            Form::Chunks(big) => *big,
        };
        if places.is_empty() {
            return Ok(Vec::new());
        }
        let life = db.life()?;
        let first = places.start / CHUNK;
        let from = keys::chunk(&life, big.id, first as u64);
        let to = keys::chunk(&life, big.id, places.end.div_ceil(CHUNK) as u64);
        let rows = chunks(db, from, &to)?;
        let mut bytes = Vec::with_capacity(rows.len() * CHUNK);
        rows.iter()
            .for_each(|(_, chunk)| bytes.extend_from_slice(chunk));
        let skipped = places.start - first * CHUNK;
        if skipped == 0 && bytes.len() == places.len() {
            return Ok(bytes);
        }
        Ok(bytes
            .get(skipped..skipped + places.len())
            .unwrap_or_default()
            .to_vec())
    }

    /// Writes bytes over what is there from a place on; what lies between the end and that place becomes zeros.
    pub fn write(&mut self, db: &mut Db, at: usize, new: &[u8]) -> Result<(), Fail> {
        let length = self.len().max(at.saturating_add(new.len()));
        check_length(db, length)?;
        if let Form::Inline(bytes) = &mut self.form {
            bytes.resize(length, 0);
            if let Some(place) = bytes.get_mut(at..at + new.len()) {
                place.copy_from_slice(new);
            }
            return self.settle(db);
        }
        self.write_chunks(db, at, new, length)?;
        self.settle(db)
    }

    fn write_chunks(
        &mut self,
        db: &mut Db,
        at: usize,
        new: &[u8],
        length: usize,
    ) -> Result<(), Fail> {
        let old = self.len();
        let Form::Chunks(big) = &mut self.form else {
            return Ok(());
        };
        let (first, last) = (
            at.min(old) / CHUNK,
            length.min(at + new.len()).div_ceil(CHUNK),
        );
        let life = db.life()?;
        let row = |number: usize| keys::chunk(&life, big.id, number as u64);
        db.ask_rows([first, last.saturating_sub(1)].into_iter().map(row))?;
        for number in first..last {
            let begin = number * CHUNK;
            let end = length.min(begin + CHUNK);
            let from = at.clamp(begin, end);
            let to = (at + new.len()).clamp(begin, end);
            let is_whole = from == begin && to == end;
            let mut chunk = match is_whole || begin >= old {
                true => Vec::new(),
                false => db.view.get(&row(number))?.unwrap_or_default(),
            };
            chunk.resize(end - begin, 0);
            if let (Some(place), Some(bytes)) = (
                chunk.get_mut(from - begin..to - begin),
                new.get(from - at.min(from)..to.saturating_sub(at)),
            ) {
                place.copy_from_slice(bytes);
            }
            db.view.put(&row(number), &chunk)?;
        }
        big.count = length as u64;
        Ok(())
    }

    /// Writes the key's row.
    fn settle(&mut self, db: &mut Db) -> Result<(), Fail> {
        let meta = match &mut self.form {
            Form::Inline(bytes) => {
                let bytes = std::mem::take(bytes);
                Text::placed(db, self.deadline, bytes)?
            }
            Form::Chunks(big) => Meta::rows(Kind::String, self.deadline, *big),
        };
        db.save(&self.key, self.before, &meta)
    }

    /// A string as a value of a key: a long one goes into chunks.
    fn placed(db: &mut Db, deadline: Option<u64>, bytes: Vec<u8>) -> Result<Meta, Fail> {
        check_length(db, bytes.len())?;
        if bytes.len() <= db.context.bounds.inline_bytes_max {
            return Ok(Meta::inline(Kind::String, deadline, bytes));
        }
        let mut big = db.new_big(0)?;
        put_chunks(db, big.id, 0, &bytes)?;
        big.count = bytes.len() as u64;
        Ok(Meta::rows(Kind::String, deadline, big))
    }

    /// Puts a string in the place of whatever a key had: these bytes, or what was prepared for this command.
    pub fn replace(
        db: &mut Db,
        key: &[u8],
        old: Option<&Meta>,
        deadline: Option<u64>,
        bytes: &[u8],
    ) -> Result<(), Fail> {
        if old.is_none() {
            db.check_new(key)?;
        }
        let meta = match db.context.prepared {
            Some(prepared) => Meta::rows(Kind::String, deadline, prepared::take(db, prepared)?),
            None => Text::placed(db, deadline, bytes.to_vec())?,
        };
        db.replace(key, old, &meta)
    }
}

/// Writes the chunks of an id from a place on, which is a whole number of chunks.
pub(super) fn put_chunks(db: &mut Db, id: u64, at: u64, bytes: &[u8]) -> Result<(), Fail> {
    let life = db.life()?;
    let first = at / CHUNK as u64;
    for (number, chunk) in (first..).zip(bytes.chunks(CHUNK)) {
        db.view.put(&keys::chunk(&life, id, number), chunk)?;
    }
    Ok(())
}

/// The chunks of these rows. What is read of them was charged.
fn chunks(db: &mut Db, from: Vec<u8>, to: &[u8]) -> Result<Vec<Row>, Fail> {
    let (mut from, mut all) = (from, Vec::new());
    loop {
        let page = db.view.range(&from, to, PAGE_ROWS)?;
        let Some((last, _)) = page.rows.last() else {
            return Ok(all);
        };
        from = [last.as_slice(), &[0]].concat();
        all.extend(page.rows);
        if page.is_last {
            return Ok(all);
        }
    }
}

fn check_length(db: &Db, length: usize) -> Result<(), Fail> {
    match length > db.context.bounds.string_bytes_max {
        true => fail(words::TOO_LONG),
        false => Ok(()),
    }
}
