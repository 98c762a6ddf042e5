//! All keys of the slots that are served here.

use resp::Value;

use crate::args::Args;
use crate::commands::{Done, scan};
use crate::fail::Fail;
use crate::glob::Pattern;
use crate::rows::{Db, Header, Meta, PAGE_ROWS, drawn_hash, keys_prefix, keys_range, name_of};
use crate::slot::{Life, slot_of};

pub(crate) fn dbsize(db: &mut Db, _: &Args) -> Done {
    let headers = db.headers(db.context.lives)?;
    let keys: u64 = headers.iter().map(|header| header.keys).sum();
    Ok(Value::Integer(i64::try_from(keys).unwrap_or(i64::MAX)))
}

/// The slots with keys.
pub(in crate::commands) fn with_keys(
    db: &mut Db,
    lives: &[Life],
) -> Result<Vec<(Life, Header)>, Fail> {
    let headers = db.headers(lives)?;
    let pairs = lives.iter().copied().zip(headers);
    Ok(pairs.filter(|(_, header)| header.keys > 0).collect())
}

pub(crate) fn keys(db: &mut Db, args: &Args) -> Done {
    let pattern = scan::pattern(args.at(1))?;
    // Such a pattern fits names of one slot only.
    let one = tagged(pattern).and_then(|slot| db.context.life_of(slot));
    let lives = match one {
        Some(life) => vec![life],
        None => db.context.lives.to_vec(),
    };
    let mut found = Vec::new();
    let pattern = Pattern::new(pattern);
    for some in with_keys(db, &lives)?.chunks(SLOTS_ASKED) {
        let ranges = some.iter().map(|(life, _)| keys_range(life, 0));
        db.ask_ranges(ranges, PAGE_ROWS)?;
        for (life, _) in some {
            find_keys(db, life, &pattern, &mut found)?;
        }
    }
    Ok(Value::Array(found))
}

/// The slots whose keys are asked for at once.
const SLOTS_ASKED: usize = 256;

fn find_keys(
    db: &mut Db,
    life: &Life,
    pattern: &Pattern,
    found: &mut Vec<Value>,
) -> Result<(), Fail> {
    let (from, to) = keys_range(life, 0);
    let prefix = keys_prefix(life).len();
    for (row, value) in db.all(from, &to)? {
        let Some((_, name)) = name_of(&row, prefix) else {
            continue;
        };
        if pattern.fits(name) && !db.is_expired(&Meta::decode(&value)?) {
            found.push(Value::bulk(name));
        }
    }
    Ok(())
}

/// The slot of all names that fit a pattern, if it begins with a tag in braces that is meant as it is.
fn tagged(pattern: &[u8]) -> Option<u16> {
    let rest = pattern.strip_prefix(b"{")?;
    let close = rest.iter().position(|byte| *byte == b'}')?;
    let tag = rest.get(..close)?;
    let is_plain = !tag.is_empty() && !tag.iter().any(|byte| b"*?[]\\".contains(byte));
    is_plain.then(|| slot_of(tag))
}

/// How often RANDOMKEY looks for a key that is not expired.
const TRIES: usize = 100;

pub(crate) fn randomkey(db: &mut Db, _: &Args) -> Done {
    let lives = with_keys(db, db.context.lives)?;
    let total: u64 = lives.iter().map(|(_, header)| header.keys).sum();
    if total == 0 {
        return Ok(Value::Null);
    }
    for _ in 0..TRIES {
        let drawn = db.draw(usize::try_from(total).unwrap_or(usize::MAX)) as u64;
        let hash = drawn_hash(db);
        let Some(life) = holder(&lives, drawn) else {
            break;
        };
        if let Some(name) = near(db, &life, hash)? {
            return Ok(Value::Bulk(name));
        }
    }
    Ok(Value::Null)
}

/// The slot that has the key of this number.
fn holder(lives: &[(Life, Header)], number: u64) -> Option<Life> {
    let mut left = number;
    for (life, header) in lives {
        if left < header.keys {
            return Some(*life);
        }
        left -= header.keys;
    }
    None
}

/// A key near a place among the hashes. Of a few keys there each is as likely as another.
fn near(db: &mut Db, life: &Life, hash: u64) -> Result<Option<Vec<u8>>, Fail> {
    const FEW: usize = 16;
    let prefix = keys_prefix(life).len();
    let (from, to) = keys_range(life, hash);
    let mut rows = db.view.range(&from, &to, FEW)?.rows;
    if rows.len() < FEW {
        // From the beginning on, as if the hashes stood in a circle.
        let (first, _) = keys_range(life, 0);
        let more = db.view.range(&first, &from, FEW - rows.len())?;
        rows.extend(more.rows);
    }
    if rows.is_empty() {
        return Ok(None);
    }
    let drawn = db.draw(rows.len());
    let Some((row, value)) = rows.get(drawn) else {
        return Ok(None);
    };
    if db.is_expired(&Meta::decode(value)?) {
        return Ok(None);
    }
    Ok(name_of(row, prefix).map(|(_, name)| name.to_vec()))
}
