//! Members that come, go, and are asked for.

use resp::Value;

use crate::args::Args;
use crate::commands::Done;
use crate::fail::Fail;
use crate::rows::{Db, Kind, Members};

fn peek(db: &mut Db, args: &Args) -> Result<Members, Fail> {
    Members::peek(db, args.at(1), Kind::Set)
}

pub(crate) fn sadd(db: &mut Db, args: &Args) -> Done {
    let mut set = Members::open(db, args.at(1), Kind::Set)?;
    set.ask(db, args.from(2))?;
    let mut added = 0;
    for member in args.from(2) {
        if set.get(db, member)?.is_none() {
            set.put(db, member, &[])?;
            added += 1;
        }
    }
    set.close(db)?;
    Ok(Value::Integer(added))
}

pub(crate) fn srem(db: &mut Db, args: &Args) -> Done {
    let mut set = Members::open(db, args.at(1), Kind::Set)?;
    set.ask(db, args.from(2))?;
    let mut removed = 0;
    for member in args.from(2) {
        removed += i64::from(set.remove(db, member)?.is_some());
    }
    set.close(db)?;
    Ok(Value::Integer(removed))
}

pub(crate) fn smove(db: &mut Db, args: &Args) -> Done {
    let (from, to, member) = (args.at(1), args.at(2), args.at(3));
    let mut source = Members::open(db, from, Kind::Set)?;
    if source.len() == 0 {
        return Ok(Value::Integer(0));
    }
    let mut target = Members::open(db, to, Kind::Set)?;
    if from == to {
        let is_in = source.get(db, member)?.is_some();
        return Ok(Value::Integer(i64::from(is_in)));
    }
    if source.remove(db, member)?.is_none() {
        return Ok(Value::Integer(0));
    }
    source.close(db)?;
    if target.get(db, member)?.is_none() {
        target.put(db, member, &[])?;
        target.close(db)?;
    }
    Ok(Value::Integer(1))
}

pub(crate) fn scard(db: &mut Db, args: &Args) -> Done {
    Ok(Value::count(peek(db, args)?.len()))
}

pub(crate) fn sismember(db: &mut Db, args: &Args) -> Done {
    let found = peek(db, args)?.get(db, args.at(2))?;
    Ok(Value::Integer(i64::from(found.is_some())))
}

pub(crate) fn smismember(db: &mut Db, args: &Args) -> Done {
    let set = peek(db, args)?;
    set.ask(db, args.from(2))?;
    let mut found = Vec::new();
    for member in args.from(2) {
        let is_in = set.get(db, member)?.is_some();
        found.push(Value::Integer(i64::from(is_in)));
    }
    Ok(Value::Array(found))
}

pub(crate) fn smembers(db: &mut Db, args: &Args) -> Done {
    let members = peek(db, args)?.all(db)?;
    let members = members.into_iter().map(|(member, _)| Value::Bulk(member));
    Ok(Value::Set(members.collect()))
}
