//! Parts of strings.

use resp::Value;

use crate::args::{Args, integer, span};
use crate::commands::Done;
use crate::fail::{fail, words};
use crate::rows::{Db, Text};

pub(crate) fn strlen(db: &mut Db, args: &Args) -> Done {
    let text = Text::peek(db, args.at(1))?;
    Ok(Value::count(text.map_or(0, |text| text.len())))
}

pub(crate) fn append(db: &mut Db, args: &Args) -> Done {
    let key = args.at(1);
    let mut text = match Text::open(db, key)? {
        Some(text) => text,
        None => Text::empty(key),
    };
    let end = text.len();
    text.write(db, end, args.at(2))?;
    Ok(Value::count(end + args.at(2).len()))
}

pub(crate) fn getrange(db: &mut Db, args: &Args) -> Done {
    let (start, stop) = (integer(args.at(2))?, integer(args.at(3))?);
    let Some(text) = Text::peek(db, args.at(1))? else {
        return Ok(Value::bulk(""));
    };
    if start < 0 && stop < 0 && start > stop {
        return Ok(Value::bulk(""));
    }
    // An end before the beginning is the beginning.
    let length = i64::try_from(text.len()).unwrap_or(i64::MAX);
    let stop = if stop < 0 {
        stop.saturating_add(length).max(0)
    } else {
        stop
    };
    Ok(Value::Bulk(text.range(db, span(start, stop, text.len()))?))
}

pub(crate) fn setrange(db: &mut Db, args: &Args) -> Done {
    let (key, bytes) = (args.at(1), args.at(3));
    let Ok(at) = usize::try_from(integer(args.at(2))?) else {
        return fail("ERR offset is out of range");
    };
    let found = Text::open(db, key)?;
    if bytes.is_empty() {
        return Ok(Value::count(found.map_or(0, |text| text.len())));
    }
    if at.saturating_add(bytes.len()) > db.context.bounds.string_bytes_max {
        return fail(words::TOO_LONG);
    }
    let mut text = found.unwrap_or_else(|| Text::empty(key));
    let length = text.len().max(at + bytes.len());
    text.write(db, at, bytes)?;
    Ok(Value::count(length))
}
