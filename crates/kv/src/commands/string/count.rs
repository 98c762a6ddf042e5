//! Strings that are numbers.

use resp::{Value, integer_of};

use crate::args::{Args, integer};
use crate::commands::Done;
use crate::fail::{Fail, fail, words};
use crate::number::Extended;
use crate::rows::{Db, Kind, Text};

pub(crate) fn incr(db: &mut Db, args: &Args) -> Done {
    add(db, args.at(1), 1)
}

pub(crate) fn decr(db: &mut Db, args: &Args) -> Done {
    add(db, args.at(1), -1)
}

pub(crate) fn incrby(db: &mut Db, args: &Args) -> Done {
    add(db, args.at(1), integer(args.at(2))?)
}

pub(crate) fn decrby(db: &mut Db, args: &Args) -> Done {
    match integer(args.at(2))?.checked_neg() {
        Some(change) => add(db, args.at(1), change),
        None => fail("ERR decrement would overflow"),
    }
}

fn add(db: &mut Db, key: &[u8], change: i64) -> Done {
    let old = db.open_kind(key, Kind::String)?;
    let number = match &old {
        Some(meta) => {
            let bytes = Text::of(key, meta.clone()).bytes(db)?;
            integer_of(&bytes).ok_or(Fail::from(words::NOT_AN_INTEGER))?
        }
        None => 0,
    };
    let Some(sum) = number.checked_add(change) else {
        return fail(words::OVERFLOW);
    };
    let deadline = old.as_ref().and_then(|old| old.deadline);
    Text::replace(db, key, old.as_ref(), deadline, sum.to_string().as_bytes())?;
    Ok(Value::Integer(sum))
}

pub(crate) fn incrbyfloat(db: &mut Db, args: &Args) -> Done {
    let key = args.at(1);
    let old = db.open_kind(key, Kind::String)?;
    let number = match &old {
        Some(meta) => Text::of(key, meta.clone()).bytes(db)?,
        None => b"0".to_vec(),
    };
    let not_a_float = || Fail::from(words::NOT_A_FLOAT);
    let number = Extended::parse(&number).ok_or_else(not_a_float)?;
    let change = Extended::parse(args.at(2)).ok_or_else(not_a_float)?;
    let sum = match (number, change) {
        (Ok(number), Ok(change)) => number.plus(change),
        (Err(infinite), _) | (_, Err(infinite)) => Err(infinite),
    };
    let Ok(sum) = sum else {
        return fail(words::NO_NUMBER);
    };
    let text = sum.text();
    let deadline = old.as_ref().and_then(|old| old.deadline);
    Text::replace(db, key, old.as_ref(), deadline, text.as_bytes())?;
    Ok(Value::bulk(text))
}
