//! Hashes: fields and their values.

use resp::{Value, integer_of};

use crate::args::{Args, integer, is};
use crate::commands::Done;
use crate::commands::set::{Picked, drawn};
use crate::fail::{Fail, fail, words};
use crate::number::Extended;
use crate::rows::{Db, Kind, Members};

fn peek(db: &mut Db, args: &Args) -> Result<Members, Fail> {
    Members::peek(db, args.at(1), Kind::Hash)
}

fn open(db: &mut Db, args: &Args) -> Result<Members, Fail> {
    Members::open(db, args.at(1), Kind::Hash)
}

fn bulk_or_null(value: Option<Vec<u8>>) -> Value {
    value.map_or(Value::Null, Value::Bulk)
}

pub(crate) fn hget(db: &mut Db, args: &Args) -> Done {
    let hash = peek(db, args)?;
    Ok(bulk_or_null(hash.get(db, args.at(2))?))
}

pub(crate) fn hmget(db: &mut Db, args: &Args) -> Done {
    let hash = peek(db, args)?;
    hash.ask(db, args.from(2))?;
    let values = args.from(2).iter().map(|field| hash.get(db, field));
    let values: Result<Vec<_>, Fail> = values.collect();
    Ok(Value::Array(
        values?.into_iter().map(bulk_or_null).collect(),
    ))
}

pub(crate) fn hexists(db: &mut Db, args: &Args) -> Done {
    let value = peek(db, args)?.get(db, args.at(2))?;
    Ok(Value::Integer(i64::from(value.is_some())))
}

pub(crate) fn hstrlen(db: &mut Db, args: &Args) -> Done {
    let value = peek(db, args)?.get(db, args.at(2))?;
    Ok(Value::count(value.map_or(0, |value| value.len())))
}

pub(crate) fn hlen(db: &mut Db, args: &Args) -> Done {
    Ok(Value::count(peek(db, args)?.len()))
}

pub(crate) fn hgetall(db: &mut Db, args: &Args) -> Done {
    let members = peek(db, args)?.all(db)?;
    let pair = |(field, value)| (Value::Bulk(field), Value::Bulk(value));
    Ok(Value::Map(members.into_iter().map(pair).collect()))
}

pub(crate) fn hkeys(db: &mut Db, args: &Args) -> Done {
    let members = peek(db, args)?.all(db)?;
    Ok(Value::bulks(members.into_iter().map(|(field, _)| field)))
}

pub(crate) fn hvals(db: &mut Db, args: &Args) -> Done {
    let members = peek(db, args)?.all(db)?;
    Ok(Value::bulks(members.into_iter().map(|(_, value)| value)))
}

pub(crate) fn hset(db: &mut Db, args: &Args) -> Done {
    Ok(Value::Integer(put_all(db, args, "hset")?))
}

pub(crate) fn hmset(db: &mut Db, args: &Args) -> Done {
    put_all(db, args, "hmset")?;
    Ok(Value::OK)
}

fn put_all(db: &mut Db, args: &Args, command: &str) -> Result<i64, Fail> {
    if !args.len().is_multiple_of(2) {
        return fail(format!(
            "ERR wrong number of arguments for '{command}' command"
        ));
    }
    let mut hash = open(db, args)?;
    let fields: Vec<_> = args.from(2).iter().copied().step_by(2).collect();
    hash.ask(db, &fields)?;
    let (mut rest, mut added) = (args.rest(2), 0);
    while let Some([field, value]) = rest.several(2) {
        added += i64::from(hash.put(db, field, value)?);
    }
    hash.close(db)?;
    Ok(added)
}

pub(crate) fn hsetnx(db: &mut Db, args: &Args) -> Done {
    let mut hash = open(db, args)?;
    if hash.get(db, args.at(2))?.is_some() {
        return Ok(Value::Integer(0));
    }
    hash.put(db, args.at(2), args.at(3))?;
    hash.close(db)?;
    Ok(Value::Integer(1))
}

pub(crate) fn hdel(db: &mut Db, args: &Args) -> Done {
    let mut hash = open(db, args)?;
    hash.ask(db, args.from(2))?;
    let mut removed = 0;
    for field in args.from(2) {
        removed += i64::from(hash.remove(db, field)?.is_some());
    }
    hash.close(db)?;
    Ok(Value::Integer(removed))
}

pub(crate) fn hincrby(db: &mut Db, args: &Args) -> Done {
    let change = integer(args.at(3))?;
    let mut hash = open(db, args)?;
    let number = match hash.get(db, args.at(2))? {
        Some(value) => integer_of(&value).ok_or(Fail::from("ERR hash value is not an integer"))?,
        None => 0,
    };
    let Some(sum) = number.checked_add(change) else {
        return fail(words::OVERFLOW);
    };
    hash.put(db, args.at(2), sum.to_string().as_bytes())?;
    hash.close(db)?;
    Ok(Value::Integer(sum))
}

pub(crate) fn hincrbyfloat(db: &mut Db, args: &Args) -> Done {
    let change = Extended::parse(args.at(3)).ok_or(Fail::from(words::NOT_A_FLOAT))?;
    let Ok(change) = change else {
        return fail("ERR value is NaN or Infinity");
    };
    let mut hash = open(db, args)?;
    let number = hash.get(db, args.at(2))?.unwrap_or(b"0".to_vec());
    let number = Extended::parse(&number).ok_or(Fail::from("ERR hash value is not a float"))?;
    let Ok(sum) = number.and_then(|number| number.plus(change)) else {
        return fail(words::NO_NUMBER);
    };
    let text = sum.text();
    hash.put(db, args.at(2), text.as_bytes())?;
    hash.close(db)?;
    Ok(Value::bulk(text))
}

pub(crate) fn hrandfield(db: &mut Db, args: &Args) -> Done {
    if args.len() == 2 {
        let hash = peek(db, args)?;
        let picked = drawn(db, &hash, Picked::Distinct(1))?;
        let first = picked.into_iter().next();
        return Ok(bulk_or_null(first.map(|(field, _)| field)));
    }
    let picked = Picked::of(args.at(2))?;
    let has_values = args.len() == 4 && is(args.at(3), "withvalues");
    if args.len() > 3 && !has_values {
        return fail(words::SYNTAX);
    }
    if has_values && !picked.is_doubled() {
        return fail(words::OUT_OF_RANGE);
    }
    let hash = peek(db, args)?;
    let picked = drawn(db, &hash, picked)?;
    let is_nested = has_values && db.context.is_new();
    let mut values = Vec::new();
    for (field, value) in picked {
        match (has_values, is_nested) {
            (false, _) => values.push(Value::Bulk(field)),
            (true, true) => values.push(Value::bulks([field, value])),
            (true, false) => values.extend([Value::Bulk(field), Value::Bulk(value)]),
        }
    }
    Ok(Value::Array(values))
}
