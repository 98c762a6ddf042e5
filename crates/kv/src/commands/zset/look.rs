//! Looks at a sorted set.

use resp::Value;

use super::{ends, shown};
use crate::args::{Args, is};
use crate::commands::Done;
use crate::commands::set::{Picked, drawn};
use crate::fail::{fail, words};
use crate::rows::{Db, Sorted, Way};

pub(crate) fn zcard(db: &mut Db, args: &Args) -> Done {
    Ok(Value::count(Sorted::peek(db, args.at(1))?.len()))
}

pub(crate) fn zscore(db: &mut Db, args: &Args) -> Done {
    let score = Sorted::peek(db, args.at(1))?.score(db, args.at(2))?;
    Ok(score.map_or(Value::Null, Value::Double))
}

pub(crate) fn zmscore(db: &mut Db, args: &Args) -> Done {
    let set = Sorted::peek(db, args.at(1))?;
    set.ask(db, args.from(2))?;
    let mut scores = Vec::new();
    for member in args.from(2) {
        let score = set.score(db, member)?;
        scores.push(score.map_or(Value::Null, Value::Double));
    }
    Ok(Value::Array(scores))
}

pub(crate) fn zrank(db: &mut Db, args: &Args) -> Done {
    rank(db, args, Way::Up)
}

pub(crate) fn zrevrank(db: &mut Db, args: &Args) -> Done {
    rank(db, args, Way::Down)
}

fn rank(db: &mut Db, args: &Args, way: Way) -> Done {
    let rank = Sorted::peek(db, args.at(1))?.rank(db, args.at(2), way)?;
    Ok(rank.map_or(Value::Null, Value::count))
}

pub(crate) fn zcount(db: &mut Db, args: &Args) -> Done {
    let between = ends::scores(args.at(2), args.at(3))?;
    let set = Sorted::peek(db, args.at(1))?;
    Ok(Value::count(set.count(db, &between)?))
}

pub(crate) fn zlexcount(db: &mut Db, args: &Args) -> Done {
    let between = ends::names(args.at(2), args.at(3))?;
    let set = Sorted::peek(db, args.at(1))?;
    Ok(Value::count(set.count(db, &between)?))
}

pub(crate) fn zrandmember(db: &mut Db, args: &Args) -> Done {
    if args.len() == 2 {
        let set = Sorted::peek(db, args.at(1))?;
        let picked = drawn(db, &set, Picked::Distinct(1))?;
        let first = picked.into_iter().next();
        return Ok(first.map_or(Value::Null, |(_, member)| Value::Bulk(member)));
    }
    let picked = Picked::of(args.at(2))?;
    let has_scores = args.len() == 4 && is(args.at(3), "withscores");
    if args.len() > 3 && !has_scores {
        return fail(words::SYNTAX);
    }
    if has_scores && !picked.is_doubled() {
        return fail(words::OUT_OF_RANGE);
    }
    let set = Sorted::peek(db, args.at(1))?;
    let picked = drawn(db, &set, picked)?;
    Ok(shown::entries(db, picked, has_scores))
}
