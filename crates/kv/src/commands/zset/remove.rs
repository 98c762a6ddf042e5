//! Members that go: by name, by place, by score.

use resp::Value;

use super::ends;
use crate::args::{Args, integer, span};
use crate::commands::Done;
use crate::rows::{Between, Db, Sorted, Way};

pub(crate) fn zrem(db: &mut Db, args: &Args) -> Done {
    let mut set = Sorted::open(db, args.at(1))?;
    set.ask(db, args.from(2))?;
    let mut removed = 0;
    for member in args.from(2) {
        removed += i64::from(set.remove(db, member)?.is_some());
    }
    set.close(db)?;
    Ok(Value::Integer(removed))
}

pub(crate) fn zremrangebyrank(db: &mut Db, args: &Args) -> Done {
    let (start, stop) = (integer(args.at(2))?, integer(args.at(3))?);
    let mut set = Sorted::open(db, args.at(1))?;
    let places = span(start, stop, set.len());
    let entries = set.places(db, places, Way::Up)?;
    set.remove_all(db, &entries)?;
    set.close(db)?;
    Ok(Value::count(entries.len()))
}

pub(crate) fn zremrangebyscore(db: &mut Db, args: &Args) -> Done {
    remove(db, args, ends::scores(args.at(2), args.at(3))?)
}

pub(crate) fn zremrangebylex(db: &mut Db, args: &Args) -> Done {
    remove(db, args, ends::names(args.at(2), args.at(3))?)
}

fn remove(db: &mut Db, args: &Args, between: Between) -> Done {
    let mut set = Sorted::open(db, args.at(1))?;
    let entries = set.between(db, &between, Way::Up, 0, None)?;
    set.remove_all(db, &entries)?;
    set.close(db)?;
    Ok(Value::count(entries.len()))
}
