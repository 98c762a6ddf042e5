//! Walks through all keys, or all members, in steps between which the server remembers nothing.
//!
//! ```text
//! a cursor:  slot, 14 bits │ hash, 48 bits   plus one      within a key: hash, 48 bits, plus one
//! ```
//!
//! A cursor is the place where the next step begins, so it means the same after a restart, at another leader, at the slot's next owner.
//! A key that was there all the time is returned once at least.

use resp::{Value, integer_of};

use crate::args::{Args, Rest, keyword};
use crate::commands::Done;
use crate::commands::keyspace::with_keys;
use crate::fail::{Fail, fail, words};
use crate::glob::Pattern;
use crate::rows::{
    Db, Kind, Members, Meta, Row, Sorted, keys_prefix, keys_range, name_of, whole_hashes,
};
use crate::slot::{Life, slot_of};

/// The slots that one step of SCAN looks at.
pub const SCANNED_SLOTS_MAX: usize = 2048;
const SLOTS_ASKED: usize = 256;

/// The most rows that a step returns, whatever COUNT says.
const COUNT_MAX: usize = 100_000;

struct Options<'a> {
    count: usize,
    pattern: Option<Pattern>,
    kind: Option<&'a [u8]>,
}

impl Options<'_> {
    fn fits(&self, name: &[u8]) -> bool {
        self.pattern
            .as_ref()
            .is_none_or(|pattern| pattern.fits(name))
    }
}

/// The longest pattern. Each 64 bytes of it cost a step for each byte of each name.
const PATTERN_BYTES_MAX: usize = 1_024;

/// Checks that a pattern is no longer than patterns may be.
pub(crate) fn pattern(word: &[u8]) -> Result<&[u8], Fail> {
    match word.len() <= PATTERN_BYTES_MAX {
        true => Ok(word),
        false => fail("ERR the pattern is too long: at most 1024 bytes"),
    }
}

fn options<'a>(rest: &mut Rest<'a>, is_scan: bool) -> Result<Options<'a>, Fail> {
    let mut options = Options {
        count: 10,
        pattern: None,
        kind: None,
    };
    while let Some(word) = rest.next() {
        match keyword(word).as_slice() {
            b"COUNT" if rest.left() > 0 => {
                let count = rest.need_integer()?;
                let count = usize::try_from(count).ok().filter(|count| *count > 0);
                options.count = count.ok_or(Fail::from(words::SYNTAX))?.min(COUNT_MAX);
            }
            b"MATCH" if rest.left() > 0 => {
                options.pattern = Some(Pattern::new(pattern(rest.need()?)?))
            }
            b"TYPE" if is_scan && rest.left() > 0 => options.kind = Some(rest.need()?),
            _ => return fail(words::SYNTAX),
        }
    }
    Ok(options)
}

fn cursor_of(word: &[u8]) -> Result<u64, Fail> {
    let cursor = integer_of(word).and_then(|cursor| u64::try_from(cursor).ok());
    cursor.ok_or(Fail::from("ERR invalid cursor"))
}

fn reply(cursor: u64, values: Vec<Value>) -> Done {
    let cursor = Value::bulk(cursor.to_string());
    Ok(Value::Array(vec![cursor, Value::Array(values)]))
}

/// Where a step begins: a slot and a hash.
fn place(cursor: u64) -> (u64, u64) {
    let place = cursor.saturating_sub(1);
    (place >> 48, place & ((1 << 48) - 1))
}

/// The slot in which a step of SCAN begins; `None`: that is no SCAN, or its cursor is none.
pub fn scans_from(words: &[&[u8]]) -> Option<u16> {
    let [name, cursor, ..] = words else {
        return None;
    };
    let cursor = cursor_of(cursor).ok()?;
    let slot = u16::try_from(place(cursor).0).unwrap_or(u16::MAX);
    name.eq_ignore_ascii_case(b"scan").then_some(slot)
}

fn cursor_at(slot: u16, hash: u64) -> u64 {
    (u64::from(slot) << 48 | hash) + 1
}

pub(crate) fn scan(db: &mut Db, args: &Args) -> Done {
    let (slot, hash) = place(cursor_of(args.at(1))?);
    let options = options(&mut args.rest(2), true)?;
    let lives = db.context.lives;
    let first = lives.partition_point(|life| u64::from(life.slot) < slot);
    let last = lives.len().min(first.saturating_add(SCANNED_SLOTS_MAX));
    let looked = lives.get(first..last).unwrap_or_default();
    let mut found = Vec::new();
    let mut left = options.count;
    for some in looked.chunks(SLOTS_ASKED) {
        let full = with_keys(db, some)?;
        let from = |life: &Life| {
            if u64::from(life.slot) == slot {
                hash
            } else {
                0
            }
        };
        // As many slots as it takes to have enough keys.
        let mut known = 0;
        let asked = full.iter().take_while(|(_, header)| {
            let is_asked = known < left as u64;
            known += header.keys;
            is_asked
        });
        let ranges = asked.map(|(life, _)| keys_range(life, from(life)));
        db.ask_ranges(ranges, left)?;
        for (life, _) in full {
            if left == 0 {
                return reply(cursor_at(life.slot, 0), found);
            }
            let hash = from(&life);
            let (rows, next) = keys_from(db, &life, hash, left)?;
            left = left.saturating_sub(rows.len());
            show_keys(db, &life, rows, &options, &mut found)?;
            if let Some(next) = next {
                return reply(cursor_at(life.slot, next), found);
            }
        }
    }
    match lives.get(last) {
        Some(life) => reply(cursor_at(life.slot, 0), found),
        None => reply(0, found),
    }
}

fn keys_from(
    db: &mut Db,
    life: &Life,
    hash: u64,
    count: usize,
) -> Result<(Vec<Row>, Option<u64>), Fail> {
    let (from, to) = keys_range(life, hash);
    whole_hashes(db, from, &to, keys_prefix(life).len(), count)
}

fn show_keys(
    db: &mut Db,
    life: &Life,
    rows: Vec<Row>,
    options: &Options,
    found: &mut Vec<Value>,
) -> Result<(), Fail> {
    let prefix = keys_prefix(life).len();
    for (row, value) in rows {
        let Some((_, name)) = name_of(&row, prefix) else {
            continue;
        };
        if !options.fits(name) {
            continue;
        }
        let meta = Meta::decode(&value)?;
        let is_kind = |kind: &[u8]| kind.eq_ignore_ascii_case(meta.kind.name().as_bytes());
        if options.kind.is_none_or(is_kind) && !db.is_expired(&meta) {
            found.push(Value::bulk(name));
        }
    }
    Ok(())
}

/// Keys of a slot, at most so many, for CLUSTER GETKEYSINSLOT.
pub(crate) fn keys_in_slot(db: &mut Db, count: usize) -> Result<Vec<Vec<u8>>, Fail> {
    let life = db.life()?;
    let (from, to) = keys_range(&life, 0);
    let prefix = keys_prefix(&life).len();
    let rows = db.view.range(&from, &to, count)?.rows;
    let names = rows.iter().filter_map(|(row, _)| name_of(row, prefix));
    let names = names.map(|(_, name)| name.to_vec());
    Ok(names
        .filter(|name| slot_of(name) == life.slot)
        .take(count)
        .collect())
}

pub(crate) fn hscan(db: &mut Db, args: &Args) -> Done {
    scan_members(db, args, Kind::Hash)
}

pub(crate) fn sscan(db: &mut Db, args: &Args) -> Done {
    scan_members(db, args, Kind::Set)
}

fn scan_members(db: &mut Db, args: &Args, kind: Kind) -> Done {
    let (_, hash) = place(cursor_of(args.at(2))?);
    let members = Members::peek(db, args.at(1), kind)?;
    if members.len() == 0 {
        return reply(0, Vec::new());
    }
    let options = options(&mut args.rest(3), false)?;
    let (page, next) = members.page(db, hash, options.count)?;
    let mut values = Vec::new();
    for (member, value) in page {
        if options.fits(&member) {
            values.push(Value::Bulk(member));
            if kind == Kind::Hash {
                values.push(Value::Bulk(value));
            }
        }
    }
    reply(next.map_or(0, |hash| hash + 1), values)
}

/// A whole number stands without an exponent where Redis would keep it as an integer.
fn score_text(score: f64, is_small: bool) -> String {
    let is_whole = score.trunc() == score && score.abs() < (1_u64 << 62) as f64;
    match is_small && is_whole {
        true => (score as i64).to_string(),
        false => resp::double_text(score),
    }
}

pub(crate) fn zscan(db: &mut Db, args: &Args) -> Done {
    let (_, hash) = place(cursor_of(args.at(2))?);
    let set = Sorted::peek(db, args.at(1))?;
    if set.len() == 0 {
        return reply(0, Vec::new());
    }
    let options = options(&mut args.rest(3), false)?;
    let (page, next) = set.page(db, hash, options.count)?;
    let is_small = set.is_packed() && page.iter().all(|(_, member)| member.len() <= 64);
    let mut values = Vec::new();
    for (score, member) in page {
        if options.fits(&member) {
            values.push(Value::Bulk(member));
            values.push(Value::bulk(score_text(score, is_small)));
        }
    }
    reply(next.map_or(0, |hash| hash + 1), values)
}
