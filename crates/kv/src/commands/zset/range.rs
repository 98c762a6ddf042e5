//! Ranges: by place, by score, by name.

use resp::Value;

use super::{ends, shown};
use crate::args::{Args, Rest, integer, keyword, span};
use crate::commands::Done;
use crate::fail::{Fail, fail, words};
use crate::rows::{Between, Db, Entry, Sorted, Way};

#[derive(Clone, Copy, PartialEq)]
enum By {
    Place,
    Score,
    Name,
}

/// The choices that a command's name makes; options make the rest.
#[derive(Clone, Copy, Default)]
struct Given {
    by: Option<By>,
    way: Option<Way>,
    is_stored: bool,
}

pub(crate) fn zrange(db: &mut Db, args: &Args) -> Done {
    reply(db, args, Given::default())
}

pub(crate) fn zrevrange(db: &mut Db, args: &Args) -> Done {
    reply(db, args, given(By::Place, Way::Down))
}

pub(crate) fn zrangebyscore(db: &mut Db, args: &Args) -> Done {
    reply(db, args, given(By::Score, Way::Up))
}

pub(crate) fn zrevrangebyscore(db: &mut Db, args: &Args) -> Done {
    reply(db, args, given(By::Score, Way::Down))
}

pub(crate) fn zrangebylex(db: &mut Db, args: &Args) -> Done {
    reply(db, args, given(By::Name, Way::Up))
}

pub(crate) fn zrevrangebylex(db: &mut Db, args: &Args) -> Done {
    reply(db, args, given(By::Name, Way::Down))
}

fn given(by: By, way: Way) -> Given {
    Given {
        by: Some(by),
        way: Some(way),
        is_stored: false,
    }
}

pub(crate) fn zrangestore(db: &mut Db, args: &Args) -> Done {
    let given = Given {
        is_stored: true,
        ..Given::default()
    };
    let (entries, _) = found(db, args.at(2), args.rest(3), given)?;
    store(db, args.at(1), entries)
}

/// Puts a sorted set in the place of whatever a key has.
pub(super) fn store(db: &mut Db, key: &[u8], entries: Vec<Entry>) -> Done {
    if let Some(old) = db.open(key)? {
        db.remove(key, &old)?;
    }
    let mut set = Sorted::of(key, None);
    for (score, member) in &entries {
        set.put(db, member, *score)?;
    }
    set.close(db)?;
    Ok(Value::count(entries.len()))
}

fn reply(db: &mut Db, args: &Args, given: Given) -> Done {
    let (entries, has_scores) = found(db, args.at(1), args.rest(2), given)?;
    Ok(shown::entries(db, entries, has_scores))
}

struct Options {
    by: By,
    way: Way,
    has_scores: bool,
    limit: Option<(i64, i64)>,
}

fn options(rest: &mut Rest, mut given: Given) -> Result<Options, Fail> {
    let mut options = Options {
        by: By::Place,
        way: Way::Up,
        has_scores: false,
        limit: None,
    };
    while let Some(word) = rest.next() {
        match keyword(word).as_slice() {
            b"WITHSCORES" if !given.is_stored => options.has_scores = true,
            b"LIMIT" if rest.left() >= 2 => {
                options.limit = Some((rest.need_integer()?, rest.need_integer()?));
            }
            b"REV" if given.way.is_none() => given.way = Some(Way::Down),
            b"BYSCORE" if given.by.is_none() => given.by = Some(By::Score),
            b"BYLEX" if given.by.is_none() => given.by = Some(By::Name),
            _ => return fail(words::SYNTAX),
        }
    }
    options.by = given.by.unwrap_or(By::Place);
    options.way = given.way.unwrap_or(Way::Up);
    if options.limit.is_some() && options.by == By::Place {
        return fail(
            "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
        );
    }
    if options.has_scores && options.by == By::Name {
        return fail("ERR syntax error, WITHSCORES not supported in combination with BYLEX");
    }
    Ok(options)
}

/// The entries that are meant, and whether their scores are wanted.
fn found(
    db: &mut Db,
    key: &[u8],
    mut rest: Rest,
    given: Given,
) -> Result<(Vec<Entry>, bool), Fail> {
    let (first, second) = (rest.need()?, rest.need()?);
    let options = options(&mut rest, given)?;
    // From high to low, the higher end is named first.
    let (min, max) = match options.way {
        Way::Up => (first, second),
        Way::Down => (second, first),
    };
    let between = match options.by {
        By::Score => ends::scores(min, max)?,
        By::Name => ends::names(min, max)?,
        By::Place => {
            let (start, stop) = (integer(first)?, integer(second)?);
            let set = Sorted::peek(db, key)?;
            let places = span(start, stop, set.len());
            let entries = set.places(db, places, options.way)?;
            return Ok((entries, options.has_scores));
        }
    };
    let set = Sorted::peek(db, key)?;
    let entries = limited(db, &set, &between, &options)?;
    Ok((entries, options.has_scores))
}

fn limited(
    db: &mut Db,
    set: &Sorted,
    between: &Between,
    options: &Options,
) -> Result<Vec<Entry>, Fail> {
    let Some((offset, count)) = options.limit else {
        return set.between(db, between, options.way, 0, None);
    };
    let Ok(offset) = usize::try_from(offset) else {
        return Ok(Vec::new());
    };
    let count = usize::try_from(count).ok();
    set.between(db, between, options.way, offset, count)
}
