//! The ends of lists: pushed, popped, moved.

use resp::{Value, integer_of};

use crate::args::{Args, count, is, numbered_keys};
use crate::commands::Done;
use crate::fail::{Fail, fail, words};
use crate::rows::{Db, End, Items};

pub(crate) fn lpush(db: &mut Db, args: &Args) -> Done {
    push(db, args, End::Left, false)
}

pub(crate) fn rpush(db: &mut Db, args: &Args) -> Done {
    push(db, args, End::Right, false)
}

pub(crate) fn lpushx(db: &mut Db, args: &Args) -> Done {
    push(db, args, End::Left, true)
}

pub(crate) fn rpushx(db: &mut Db, args: &Args) -> Done {
    push(db, args, End::Right, true)
}

fn push(db: &mut Db, args: &Args, end: End, is_present: bool) -> Done {
    let mut list = Items::open(db, args.at(1))?;
    if is_present && list.len() == 0 {
        return Ok(Value::Integer(0));
    }
    for item in args.from(2) {
        list.push(db, end, item)?;
    }
    let length = list.len();
    list.close(db)?;
    Ok(Value::count(length))
}

pub(crate) fn lpop(db: &mut Db, args: &Args) -> Done {
    pop(db, args, End::Left, "lpop")
}

pub(crate) fn rpop(db: &mut Db, args: &Args) -> Done {
    pop(db, args, End::Right, "rpop")
}

fn pop(db: &mut Db, args: &Args, end: End, command: &str) -> Done {
    if args.len() > 3 {
        return fail(format!(
            "ERR wrong number of arguments for '{command}' command"
        ));
    }
    let wanted = match args.len() {
        2 => None,
        _ => Some(count(args.at(2), words::NOT_POSITIVE)?),
    };
    let mut list = Items::open(db, args.at(1))?;
    if list.len() == 0 {
        return Ok(match wanted {
            None => Value::Null,
            Some(_) => Value::NullArray,
        });
    }
    let popped = list.pop(db, end, wanted.unwrap_or(1))?;
    list.close(db)?;
    match wanted {
        None => Ok(popped.into_iter().next().map_or(Value::Null, Value::Bulk)),
        Some(_) => Ok(Value::bulks(popped)),
    }
}

/// LEFT or RIGHT.
fn end_of(word: &[u8]) -> Result<End, Fail> {
    match () {
        () if is(word, "left") => Ok(End::Left),
        () if is(word, "right") => Ok(End::Right),
        () => fail(words::SYNTAX),
    }
}

pub(crate) fn lmove(db: &mut Db, args: &Args) -> Done {
    let (from, to) = (end_of(args.at(3))?, end_of(args.at(4))?);
    moved(db, args.at(1), args.at(2), from, to)
}

pub(crate) fn rpoplpush(db: &mut Db, args: &Args) -> Done {
    moved(db, args.at(1), args.at(2), End::Right, End::Left)
}

fn moved(db: &mut Db, source: &[u8], target: &[u8], from: End, to: End) -> Done {
    let mut list = Items::open(db, source)?;
    if list.len() == 0 {
        return Ok(Value::Null);
    }
    // Nothing may be taken before it is known that the target is a list.
    let other = Items::open(db, target)?;
    let Some(item) = list.pop(db, from, 1)?.into_iter().next() else {
        return Ok(Value::Null);
    };
    if source == target {
        list.push(db, to, &item)?;
        list.close(db)?;
        return Ok(Value::Bulk(item));
    }
    list.close(db)?;
    let mut other = other;
    other.push(db, to, &item)?;
    other.close(db)?;
    Ok(Value::Bulk(item))
}

/// LMPOP numkeys key … LEFT|RIGHT [COUNT count]
pub(crate) fn lmpop(db: &mut Db, args: &Args) -> Done {
    let mut rest = args.rest(1);
    let keys = numbered_positive(&mut rest)?;
    let end = end_of(rest.need()?)?;
    let wanted = popped_count(&mut rest)?;
    db.ask(keys)?;
    for key in keys {
        let mut list = Items::open(db, key)?;
        if list.len() == 0 {
            continue;
        }
        let popped = list.pop(db, end, wanted)?;
        list.close(db)?;
        return Ok(Value::Array(vec![
            Value::Bulk(key.to_vec()),
            Value::bulks(popped),
        ]));
    }
    Ok(Value::NullArray)
}

/// The keys of LMPOP and ZMPOP.
pub(in crate::commands) fn numbered_positive<'a>(
    rest: &mut crate::args::Rest<'a>,
) -> Result<&'a [&'a [u8]], Fail> {
    let words = rest.words().first().copied().unwrap_or_default();
    match integer_of(words) {
        Some(1..) => numbered_keys(rest, words::SYNTAX),
        _ => fail("ERR numkeys should be greater than 0"),
    }
}

/// COUNT count, at the end of LMPOP and ZMPOP.
pub(in crate::commands) fn popped_count(rest: &mut crate::args::Rest) -> Result<usize, Fail> {
    let few = "ERR count should be greater than 0";
    let mut wanted = None;
    while rest.left() > 0 {
        if wanted.is_some() || rest.left() < 2 || !rest.takes("count") {
            return fail(words::SYNTAX);
        }
        match count(rest.need()?, few)? {
            0 => return fail(few),
            count => wanted = Some(count),
        }
    }
    Ok(wanted.unwrap_or(1))
}
