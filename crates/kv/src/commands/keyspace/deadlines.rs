//! Until when keys are there.

use resp::Value;

use crate::args::{Args, integer, keyword};
use crate::commands::Done;
use crate::commands::deadline::{EX, EXAT, PX, PXAT, Unit};
use crate::fail::{Fail, fail};
use crate::rows::{Before, Db, Meta};

pub(crate) fn expire(db: &mut Db, args: &Args) -> Done {
    set_deadline(db, args, EX, "expire")
}

pub(crate) fn pexpire(db: &mut Db, args: &Args) -> Done {
    set_deadline(db, args, PX, "pexpire")
}

pub(crate) fn expireat(db: &mut Db, args: &Args) -> Done {
    set_deadline(db, args, EXAT, "expireat")
}

pub(crate) fn pexpireat(db: &mut Db, args: &Args) -> Done {
    set_deadline(db, args, PXAT, "pexpireat")
}

#[derive(Default)]
struct When {
    is_absent: bool,
    is_present: bool,
    is_greater: bool,
    is_less: bool,
}

fn when(args: &Args) -> Result<When, Fail> {
    let mut when = When::default();
    for word in args.from(3) {
        match keyword(word).as_slice() {
            b"NX" => when.is_absent = true,
            b"XX" => when.is_present = true,
            b"GT" => when.is_greater = true,
            b"LT" => when.is_less = true,
            _ => {
                let word = String::from_utf8_lossy(word);
                return fail(format!("ERR Unsupported option {word}"));
            }
        }
    }
    if when.is_absent && (when.is_present || when.is_greater || when.is_less) {
        return fail("ERR NX and XX, GT or LT options at the same time are not compatible");
    }
    if when.is_greater && when.is_less {
        return fail("ERR GT and LT options at the same time are not compatible");
    }
    Ok(when)
}

impl When {
    fn allows(&self, old: Option<u64>, new: i64) -> bool {
        // A key without a deadline has one at the end of time.
        let old_ms = old.map_or(i64::MAX, |old| i64::try_from(old).unwrap_or(i64::MAX));
        match old {
            Some(_) if self.is_absent => return false,
            None if self.is_present => return false,
            None if self.is_greater => return false,
            None if self.is_less => return true,
            _ => {}
        }
        !(self.is_greater && new <= old_ms || self.is_less && new >= old_ms)
    }
}

fn set_deadline(db: &mut Db, args: &Args, unit: Unit, command: &str) -> Done {
    let when = when(args)?;
    let time = integer(args.at(2))?;
    let Some(moment) = unit.moment(time, db.now()) else {
        return fail(format!("ERR invalid expire time in '{command}' command"));
    };
    let key = args.at(1);
    let Some(meta) = db.open(key)? else {
        return Ok(Value::Integer(0));
    };
    if !when.allows(meta.deadline, moment) {
        return Ok(Value::Integer(0));
    }
    let deadline = u64::try_from(moment).unwrap_or(0);
    if deadline <= db.now() {
        db.remove(key, &meta)?;
        return Ok(Value::Integer(1));
    }
    keep_until(db, key, meta, Some(deadline))?;
    Ok(Value::Integer(1))
}

fn keep_until(db: &mut Db, key: &[u8], meta: Meta, deadline: Option<u64>) -> Result<(), Fail> {
    let before = Before::of(Some(&meta));
    db.save(key, before, &Meta { deadline, ..meta })
}

pub(crate) fn persist(db: &mut Db, args: &Args) -> Done {
    let key = args.at(1);
    match db.open(key)? {
        Some(meta) if meta.deadline.is_some() => {
            keep_until(db, key, meta, None)?;
            Ok(Value::Integer(1))
        }
        _ => Ok(Value::Integer(0)),
    }
}

pub(crate) fn ttl(db: &mut Db, args: &Args) -> Done {
    left(db, args, true, false)
}

pub(crate) fn pttl(db: &mut Db, args: &Args) -> Done {
    left(db, args, false, false)
}

pub(crate) fn expiretime(db: &mut Db, args: &Args) -> Done {
    left(db, args, true, true)
}

pub(crate) fn pexpiretime(db: &mut Db, args: &Args) -> Done {
    left(db, args, false, true)
}

fn left(db: &mut Db, args: &Args, is_seconds: bool, is_absolute: bool) -> Done {
    let Some(meta) = db.peek(args.at(1))? else {
        return Ok(Value::Integer(-2));
    };
    let Some(deadline) = meta.deadline else {
        return Ok(Value::Integer(-1));
    };
    let time = match is_absolute {
        true => deadline,
        false => deadline.saturating_sub(db.now()),
    };
    let time = if is_seconds {
        (time + 500) / 1000
    } else {
        time
    };
    Ok(Value::Integer(i64::try_from(time).unwrap_or(i64::MAX)))
}
