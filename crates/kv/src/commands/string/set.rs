//! Whole strings: set, got, taken.

use resp::Value;

use crate::args::{Args, Rest, keyword};
use crate::commands::Done;
use crate::commands::deadline::{EX, PX, Unit};
use crate::fail::{Fail, fail, words};
use crate::rows::{Db, Kind, Meta, Text};

pub(crate) fn get(db: &mut Db, args: &Args) -> Done {
    match Text::peek(db, args.at(1))? {
        Some(text) => Ok(Value::Bulk(text.bytes(db)?)),
        None => Ok(Value::Null),
    }
}

/// When the value is set.
#[derive(Clone, Copy, PartialEq)]
enum When<'a> {
    Always,
    Absent,
    Present,
    /// Only over this value.
    Equal(&'a [u8]),
}

struct Options<'a> {
    when: When<'a>,
    is_get: bool,
    is_kept: bool,
    unit: Option<(Unit, &'a [u8])>,
}

fn options<'a>(rest: &mut Rest<'a>) -> Result<Options<'a>, Fail> {
    let mut options = Options {
        when: When::Always,
        is_get: false,
        is_kept: false,
        unit: None,
    };
    while let Some(word) = rest.next() {
        let keyword = keyword(word);
        let has_time = options.is_kept || options.unit.is_some();
        match keyword.as_slice() {
            b"NX" if matches!(options.when, When::Always | When::Absent) => {
                options.when = When::Absent;
            }
            b"XX" if matches!(options.when, When::Always | When::Present) => {
                options.when = When::Present;
            }
            b"IFEQ" if options.when == When::Always => options.when = When::Equal(rest.need()?),
            b"GET" => options.is_get = true,
            b"KEEPTTL" if options.unit.is_none() => options.is_kept = true,
            other => match Unit::of(other) {
                Some(unit) if !has_time => options.unit = Some((unit, rest.need()?)),
                _ => return fail(words::SYNTAX),
            },
        }
    }
    Ok(options)
}

pub(crate) fn set(db: &mut Db, args: &Args) -> Done {
    let (key, value) = (args.at(1), args.at(2));
    let options = options(&mut args.rest(3))?;
    let deadline = match options.unit {
        Some((unit, time)) => Some(unit.deadline(db, &mut Args::new(&[time]).rest(0), "set")?),
        None => None,
    };
    let old = match options.is_get || matches!(options.when, When::Equal(_)) {
        true => db.open_kind(key, Kind::String)?,
        false => db.open(key)?,
    };
    let before = match options.is_get {
        true => shown(db, key, old.as_ref())?,
        false => Value::Null,
    };
    if !is_due(db, key, options.when, old.as_ref())? {
        return Ok(before);
    }
    let deadline = match options.is_kept {
        true => old.as_ref().and_then(|old| old.deadline),
        false => deadline,
    };
    put(db, key, old.as_ref(), deadline, value)?;
    match options.is_get {
        true => Ok(before),
        false => Ok(Value::OK),
    }
}

/// Sets a value. One whose deadline has passed already is never there.
fn put(
    db: &mut Db,
    key: &[u8],
    old: Option<&Meta>,
    deadline: Option<u64>,
    value: &[u8],
) -> Result<(), Fail> {
    if deadline.is_some_and(|deadline| deadline <= db.now()) {
        return match old {
            Some(old) => db.remove(key, old),
            None => Ok(()),
        };
    }
    Text::replace(db, key, old, deadline, value)
}

fn is_due(db: &mut Db, key: &[u8], when: When, old: Option<&Meta>) -> Result<bool, Fail> {
    match (when, old) {
        (When::Always, _) | (When::Absent, None) | (When::Present, Some(_)) => Ok(true),
        (When::Absent, Some(_)) | (When::Present | When::Equal(_), None) => Ok(false),
        (When::Equal(value), Some(old)) => is_equal(db, key, old, value),
    }
}

fn is_equal(db: &mut Db, key: &[u8], old: &Meta, value: &[u8]) -> Result<bool, Fail> {
    let text = Text::of(key, old.clone());
    Ok(text.len() == value.len() && text.bytes(db)? == value)
}

/// A string, or that there is none.
fn shown(db: &mut Db, key: &[u8], meta: Option<&Meta>) -> Done {
    match meta {
        Some(meta) => Ok(Value::Bulk(Text::of(key, meta.clone()).bytes(db)?)),
        None => Ok(Value::Null),
    }
}

pub(crate) fn setnx(db: &mut Db, args: &Args) -> Done {
    let key = args.at(1);
    if db.open(key)?.is_some() {
        return Ok(Value::Integer(0));
    }
    Text::replace(db, key, None, None, args.at(2))?;
    Ok(Value::Integer(1))
}

pub(crate) fn setex(db: &mut Db, args: &Args) -> Done {
    set_until(db, args, EX, "setex")
}

pub(crate) fn psetex(db: &mut Db, args: &Args) -> Done {
    set_until(db, args, PX, "psetex")
}

fn set_until(db: &mut Db, args: &Args, unit: Unit, command: &str) -> Done {
    let deadline = unit.deadline(db, &mut args.rest(2), command)?;
    let old = db.open(args.at(1))?;
    Text::replace(db, args.at(1), old.as_ref(), Some(deadline), args.at(3))?;
    Ok(Value::OK)
}

pub(crate) fn getset(db: &mut Db, args: &Args) -> Done {
    let key = args.at(1);
    let old = db.open_kind(key, Kind::String)?;
    let before = shown(db, key, old.as_ref())?;
    Text::replace(db, key, old.as_ref(), None, args.at(2))?;
    Ok(before)
}

pub(crate) fn getdel(db: &mut Db, args: &Args) -> Done {
    let key = args.at(1);
    let Some(old) = db.open_kind(key, Kind::String)? else {
        return Ok(Value::Null);
    };
    let before = shown(db, key, Some(&old))?;
    db.remove(key, &old)?;
    Ok(before)
}

pub(crate) fn getex(db: &mut Db, args: &Args) -> Done {
    let (key, mut rest) = (args.at(1), args.rest(2));
    // Redis reads all options first, then looks for the key, and at the time only if the key is there.
    let (mut unit, mut is_persist) = (None, false);
    while let Some(word) = rest.next() {
        match keyword(word).as_slice() {
            b"PERSIST" if unit.is_none() => is_persist = true,
            other => match Unit::of(other) {
                Some(found) if unit.is_none() && !is_persist => unit = Some((found, rest.need()?)),
                _ => return fail(words::SYNTAX),
            },
        }
    }
    let Some(meta) = db.open_kind(key, Kind::String)? else {
        return Ok(Value::Null);
    };
    let deadline = match unit {
        Some((unit, time)) => Some(unit.deadline(db, &mut Args::new(&[time]).rest(0), "getex")?),
        None => None,
    };
    let value = shown(db, key, Some(&meta))?;
    if deadline.is_some_and(|deadline| deadline <= db.now()) {
        db.remove(key, &meta)?;
    } else if deadline.is_some() || is_persist && meta.deadline.is_some() {
        let before = crate::rows::Before::of(Some(&meta));
        db.save(key, before, &Meta { deadline, ..meta })?;
    }
    Ok(value)
}

/// Takes a key away if it has this value.
pub(crate) fn delifeq(db: &mut Db, args: &Args) -> Done {
    let key = args.at(1);
    let Some(old) = db.open_kind(key, Kind::String)? else {
        return Ok(Value::Integer(0));
    };
    if !is_equal(db, key, &old, args.at(2))? {
        return Ok(Value::Integer(0));
    }
    db.remove(key, &old)?;
    Ok(Value::Integer(1))
}
