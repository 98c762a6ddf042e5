//! The insides of lists: looked at, set, cut, searched.

use resp::Value;

use crate::args::{Args, integer, is, keyword, span};
use crate::commands::Done;
use crate::fail::{Fail, fail, words};
use crate::rows::{Db, Items};

pub(crate) fn llen(db: &mut Db, args: &Args) -> Done {
    Ok(Value::count(Items::peek(db, args.at(1))?.len()))
}

/// The place that an index means, if it is one.
fn place(index: i64, length: usize) -> Option<usize> {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let index = if index < 0 {
        index.checked_add(length)?
    } else {
        index
    };
    let place = usize::try_from(index).ok()?;
    (index < length).then_some(place)
}

pub(crate) fn lindex(db: &mut Db, args: &Args) -> Done {
    let list = Items::peek(db, args.at(1))?;
    if list.len() == 0 {
        return Ok(Value::Null);
    }
    let index = integer(args.at(2))?;
    let item = match place(index, list.len()) {
        Some(place) => list.get(db, place)?,
        None => None,
    };
    Ok(item.map_or(Value::Null, Value::Bulk))
}

pub(crate) fn lset(db: &mut Db, args: &Args) -> Done {
    let mut list = Items::open(db, args.at(1))?;
    if list.len() == 0 {
        return fail(words::NO_KEY);
    }
    let index = integer(args.at(2))?;
    let Some(place) = place(index, list.len()) else {
        return fail(words::INDEX_RANGE);
    };
    list.set(db, place, args.at(3))?;
    list.close(db)?;
    Ok(Value::OK)
}

pub(crate) fn lrange(db: &mut Db, args: &Args) -> Done {
    let (start, stop) = (integer(args.at(2))?, integer(args.at(3))?);
    let list = Items::peek(db, args.at(1))?;
    let items = list.range(db, span(start, stop, list.len()))?;
    Ok(Value::bulks(items))
}

pub(crate) fn ltrim(db: &mut Db, args: &Args) -> Done {
    let (start, stop) = (integer(args.at(2))?, integer(args.at(3))?);
    let mut list = Items::open(db, args.at(1))?;
    if list.len() == 0 {
        return Ok(Value::OK);
    }
    let places = span(start, stop, list.len());
    list.trim(db, places)?;
    list.close(db)?;
    Ok(Value::OK)
}

pub(crate) fn linsert(db: &mut Db, args: &Args) -> Done {
    let is_behind = match () {
        () if is(args.at(2), "after") => true,
        () if is(args.at(2), "before") => false,
        () => return fail(words::SYNTAX),
    };
    let mut list = Items::open(db, args.at(1))?;
    if list.len() == 0 {
        return Ok(Value::Integer(0));
    }
    let mut items = list.all(db)?;
    let Some(at) = items.iter().position(|item| item == args.at(3)) else {
        return Ok(Value::Integer(-1));
    };
    items.insert(at + usize::from(is_behind), args.at(4).to_vec());
    let length = items.len();
    list.rewrite(db, items)?;
    list.close(db)?;
    Ok(Value::count(length))
}

pub(crate) fn lrem(db: &mut Db, args: &Args) -> Done {
    let count = integer(args.at(2))?;
    let mut list = Items::open(db, args.at(1))?;
    let mut items = list.all(db)?;
    let before = items.len();
    let mut left = match count {
        0 => u64::MAX,
        count => count.unsigned_abs(),
    };
    let mut is_kept = |item: &Vec<u8>| {
        let is_gone = left > 0 && item == args.at(3);
        left -= u64::from(is_gone);
        !is_gone
    };
    if count < 0 {
        items.reverse();
        items.retain(&mut is_kept);
        items.reverse();
    } else {
        items.retain(&mut is_kept);
    }
    let removed = before - items.len();
    if removed > 0 {
        list.rewrite(db, items)?;
        list.close(db)?;
    }
    Ok(Value::count(removed))
}

struct Search {
    /// Which match is the first one that counts; negative from the end.
    rank: i64,
    /// How many are wanted, 0 for all; without it, one and not in an array.
    count: Option<usize>,
    /// How many items are looked at, 0 for all.
    looked_max: usize,
}

fn search(args: &Args) -> Result<Search, Fail> {
    let mut search = Search {
        rank: 1,
        count: None,
        looked_max: 0,
    };
    let mut rest = args.rest(3);
    while let Some(word) = rest.next() {
        let option = keyword(word);
        match option.as_slice() {
            b"RANK" if rest.left() > 0 => {
                search.rank = rest.need_integer()?;
                if search.rank == 0 {
                    return fail(
                        "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list",
                    );
                }
            }
            b"COUNT" if rest.left() > 0 => {
                search.count = Some(not_negative(rest.need()?, "ERR COUNT can't be negative")?);
            }
            b"MAXLEN" if rest.left() > 0 => {
                search.looked_max = not_negative(rest.need()?, "ERR MAXLEN can't be negative")?;
            }
            _ => return fail(words::SYNTAX),
        }
    }
    Ok(search)
}

fn not_negative(word: &[u8], otherwise: &'static str) -> Result<usize, Fail> {
    crate::args::count(word, otherwise)
}

pub(crate) fn lpos(db: &mut Db, args: &Args) -> Done {
    let search = search(args)?;
    let items = Items::peek(db, args.at(1))?.all(db)?;
    let length = items.len();
    let looked = match search.looked_max {
        0 => length,
        max => max.min(length),
    };
    let skipped = match search.rank {
        // Its opposite cannot be said: Redis takes the first match.
        i64::MIN => 0,
        rank => usize::try_from(rank.unsigned_abs() - 1).unwrap_or(usize::MAX),
    };
    let wanted = match search.count {
        None => 1,
        Some(0) => usize::MAX,
        Some(count) => count,
    };
    let is_match = |place: &usize| items.get(*place).is_some_and(|item| item == args.at(2));
    let places = 0..length;
    let found: Vec<usize> = match search.rank {
        0.. => places
            .take(looked)
            .filter(is_match)
            .skip(skipped)
            .take(wanted)
            .collect(),
        _ => places
            .rev()
            .take(looked)
            .filter(is_match)
            .skip(skipped)
            .take(wanted)
            .collect(),
    };
    let found: Vec<Value> = found.into_iter().map(Value::count).collect();
    match search.count {
        None => Ok(found.into_iter().next().unwrap_or(Value::Null)),
        Some(_) => Ok(Value::Array(found)),
    }
}
