//! The lowest and the highest, taken.

use resp::Value;

use super::shown;
use crate::args::{Args, count, is};
use crate::commands::Done;
use crate::commands::list::{numbered_positive, popped_count};
use crate::fail::{Fail, fail, words};
use crate::rows::{Db, Entry, Sorted, Way};

pub(crate) fn zpopmin(db: &mut Db, args: &Args) -> Done {
    pop(db, args, Way::Up)
}

pub(crate) fn zpopmax(db: &mut Db, args: &Args) -> Done {
    pop(db, args, Way::Down)
}

fn pop(db: &mut Db, args: &Args, way: Way) -> Done {
    if args.len() > 3 {
        return fail(words::SYNTAX);
    }
    let wanted = match args.len() {
        2 => 1,
        _ => count(args.at(2), words::NOT_POSITIVE)?,
    };
    let mut set = Sorted::open(db, args.at(1))?;
    let popped = take(db, &mut set, way, wanted)?;
    set.close(db)?;
    match args.len() == 3 && db.context.is_new() {
        true => Ok(shown::pairs(popped)),
        false => Ok(shown::flat(popped, true)),
    }
}

fn take(db: &mut Db, set: &mut Sorted, way: Way, wanted: usize) -> Result<Vec<Entry>, Fail> {
    let popped = set.places(db, 0..wanted, way)?;
    set.remove_all(db, &popped)?;
    Ok(popped)
}

/// ZMPOP numkeys key … MIN|MAX [COUNT count]
pub(crate) fn zmpop(db: &mut Db, args: &Args) -> Done {
    let mut rest = args.rest(1);
    let keys = numbered_positive(&mut rest)?;
    let end = rest.need()?;
    let way = match () {
        () if is(end, "min") => Way::Up,
        () if is(end, "max") => Way::Down,
        () => return fail(words::SYNTAX),
    };
    let wanted = popped_count(&mut rest)?;
    db.ask(keys)?;
    for key in keys {
        let mut set = Sorted::open(db, key)?;
        if set.len() == 0 {
            continue;
        }
        let popped = take(db, &mut set, way, wanted)?;
        set.close(db)?;
        return Ok(Value::Array(vec![
            Value::Bulk(key.to_vec()),
            shown::pairs(popped),
        ]));
    }
    Ok(Value::NullArray)
}
