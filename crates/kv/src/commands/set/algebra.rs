//! Sets of sets.

use std::collections::BTreeSet;

use resp::Value;

use crate::args::{Args, count};
use crate::commands::Done;
use crate::fail::{Fail, fail, words};
use crate::rows::{Db, Kind, Members};

type Names = BTreeSet<Vec<u8>>;

#[derive(Clone, Copy, PartialEq)]
enum Way {
    Union,
    Inter,
    Diff,
}

pub(crate) fn sunion(db: &mut Db, args: &Args) -> Done {
    shown(combined(db, args.from(1), Way::Union)?)
}

pub(crate) fn sinter(db: &mut Db, args: &Args) -> Done {
    shown(combined(db, args.from(1), Way::Inter)?)
}

pub(crate) fn sdiff(db: &mut Db, args: &Args) -> Done {
    shown(combined(db, args.from(1), Way::Diff)?)
}

pub(crate) fn sunionstore(db: &mut Db, args: &Args) -> Done {
    store(db, args, Way::Union)
}

pub(crate) fn sinterstore(db: &mut Db, args: &Args) -> Done {
    store(db, args, Way::Inter)
}

pub(crate) fn sdiffstore(db: &mut Db, args: &Args) -> Done {
    store(db, args, Way::Diff)
}

pub(crate) fn sintercard(db: &mut Db, args: &Args) -> Done {
    let mut rest = args.rest(1);
    let few = "ERR numkeys should be greater than 0";
    let many = "ERR Number of keys can't be greater than number of args";
    let number = count(rest.need()?, few)?;
    if number == 0 {
        return fail(few);
    }
    let Some(keys) = rest.several(number) else {
        return fail(many);
    };
    let mut limit = 0;
    while rest.left() > 0 {
        match rest.takes("limit") {
            true => limit = count(rest.need()?, "ERR LIMIT can't be negative")?,
            false => return fail(words::SYNTAX),
        }
    }
    let found = combined(db, keys, Way::Inter)?.len();
    Ok(Value::count(if limit > 0 {
        found.min(limit)
    } else {
        found
    }))
}

fn shown(names: Names) -> Done {
    Ok(Value::Set(names.into_iter().map(Value::Bulk).collect()))
}

fn store(db: &mut Db, args: &Args, way: Way) -> Done {
    let names = combined(db, args.from(2), way)?;
    let key = args.at(1);
    if let Some(old) = db.open(key)? {
        db.remove(key, &old)?;
    }
    let mut set = Members::of(key, Kind::Set, None);
    for name in &names {
        set.put(db, name, &[])?;
    }
    set.close(db)?;
    Ok(Value::count(names.len()))
}

/// All sets are looked at, so that each has to be one.
fn combined(db: &mut Db, keys: &[&[u8]], way: Way) -> Result<Names, Fail> {
    db.ask(keys)?;
    let sets: Result<Vec<_>, Fail> = keys
        .iter()
        .map(|key| Members::peek(db, key, Kind::Set))
        .collect();
    let mut sets = sets?;
    if way == Way::Inter {
        // The smallest set bounds what has to be asked for.
        sets.sort_by_key(Members::len);
    }
    let mut sets = sets.into_iter();
    let Some(first) = sets.next() else {
        return Ok(Names::new());
    };
    let mut names: Names = first.all(db)?.into_iter().map(|(name, _)| name).collect();
    for set in sets {
        match way {
            Way::Union => names.extend(set.all(db)?.into_iter().map(|(name, _)| name)),
            Way::Inter => keep(db, &mut names, &set, true)?,
            Way::Diff => keep(db, &mut names, &set, false)?,
        }
    }
    Ok(names)
}

/// Keeps the names that are in a set, or those that are not.
fn keep(db: &mut Db, names: &mut Names, set: &Members, is_in: bool) -> Result<(), Fail> {
    // More rows would be asked for one by one than the set has.
    if set.is_packed() || names.len() > 64 {
        let others: Names = set.all(db)?.into_iter().map(|(name, _)| name).collect();
        names.retain(|name| others.contains(name) == is_in);
        return Ok(());
    }
    let asked: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
    set.ask(db, &asked)?;
    let mut kept = Names::new();
    for name in std::mem::take(names) {
        if set.get(db, &name)?.is_some() == is_in {
            kept.insert(name);
        }
    }
    *names = kept;
    Ok(())
}
