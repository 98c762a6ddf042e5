//! Several strings at once.

use resp::Value;

use crate::args::Args;
use crate::commands::Done;
use crate::fail::{Fail, fail};
use crate::rows::{Db, Kind, Text};

pub(crate) fn mget(db: &mut Db, args: &Args) -> Done {
    let keys = args.from(1);
    db.ask(keys)?;
    let mut values = Vec::new();
    for key in keys {
        let meta = db.peek(key)?.filter(|meta| meta.kind == Kind::String);
        values.push(match meta {
            Some(meta) => Value::Bulk(Text::of(key, meta).bytes(db)?),
            None => Value::Null,
        });
    }
    Ok(Value::Array(values))
}

pub(crate) fn mset(db: &mut Db, args: &Args) -> Done {
    put_all(db, pairs(args, "mset")?)?;
    Ok(Value::OK)
}

pub(crate) fn msetnx(db: &mut Db, args: &Args) -> Done {
    let pairs = pairs(args, "msetnx")?;
    ask(db, &pairs)?;
    for (key, _) in &pairs {
        if db.open(key)?.is_some() {
            return Ok(Value::Integer(0));
        }
    }
    put_all(db, pairs)?;
    Ok(Value::Integer(1))
}

type Pairs<'a> = Vec<(&'a [u8], &'a [u8])>;

fn pairs<'a>(args: &Args<'a>, command: &str) -> Result<Pairs<'a>, Fail> {
    if args.len().is_multiple_of(2) {
        return fail(format!(
            "ERR wrong number of arguments for '{command}' command"
        ));
    }
    let pairs = args.from(1).chunks_exact(2);
    Ok(pairs
        .filter_map(|pair| Some((*pair.first()?, *pair.get(1)?)))
        .collect())
}

fn ask(db: &mut Db, pairs: &Pairs) -> Result<(), Fail> {
    let keys: Vec<_> = pairs.iter().map(|(key, _)| *key).collect();
    db.ask(&keys)
}

fn put_all(db: &mut Db, pairs: Pairs) -> Result<(), Fail> {
    ask(db, &pairs)?;
    for (key, value) in pairs {
        let old = db.open(key)?;
        Text::replace(db, key, old.as_ref(), None, value)?;
    }
    Ok(())
}
