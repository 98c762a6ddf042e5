//! SORT and SORT_RO. Patterns would name keys of other slots: they are refused, as in Redis Cluster.

use std::cmp::Ordering;

use resp::Value;

use crate::args::{Args, keyword, span};
use crate::commands::Done;
use crate::fail::{Fail, fail, words};
use crate::number;
use crate::rows::{Db, Items, Kind, Members, Sorted, Way};

#[derive(Default)]
struct Options<'a> {
    is_down: bool,
    is_text: bool,
    /// BY something that is no pattern: as it is.
    is_as_is: bool,
    limit: Option<(i64, i64)>,
    stored: Option<&'a [u8]>,
}

fn options<'a>(args: &Args<'a>, is_stored: bool) -> Result<Options<'a>, Fail> {
    let (mut options, mut rest) = (Options::default(), args.rest(2));
    while let Some(word) = rest.next() {
        match keyword(word).as_slice() {
            b"ASC" => options.is_down = false,
            b"DESC" => options.is_down = true,
            b"ALPHA" => options.is_text = true,
            b"LIMIT" if rest.left() >= 2 => {
                options.limit = Some((rest.need_integer()?, rest.need_integer()?));
            }
            b"STORE" if is_stored && rest.left() >= 1 => options.stored = Some(rest.need()?),
            b"BY" if rest.left() >= 1 => {
                if rest.need()?.contains(&b'*') {
                    return fail("ERR BY option of SORT denied in Cluster mode.");
                }
                options.is_as_is = true;
            }
            b"GET" if rest.left() >= 1 => {
                return fail("ERR GET option of SORT denied in Cluster mode.");
            }
            _ => return fail(words::SYNTAX),
        }
    }
    Ok(options)
}

pub(crate) fn sort(db: &mut Db, args: &Args) -> Done {
    let options = options(args, true)?;
    let items = sorted(db, args.at(1), &options)?;
    match options.stored {
        Some(key) => store(db, key, items),
        None => Ok(Value::bulks(items)),
    }
}

pub(crate) fn sort_ro(db: &mut Db, args: &Args) -> Done {
    let options = options(args, false)?;
    Ok(Value::bulks(sorted(db, args.at(1), &options)?))
}

fn store(db: &mut Db, key: &[u8], items: Vec<Vec<u8>>) -> Done {
    if let Some(old) = db.open(key)? {
        db.remove(key, &old)?;
    }
    let count = items.len();
    let mut list = Items::of(key, None);
    list.rewrite(db, items)?;
    list.close(db)?;
    Ok(Value::count(count))
}

fn sorted(db: &mut Db, key: &[u8], options: &Options) -> Result<Vec<Vec<u8>>, Fail> {
    let (items, kind) = items(db, key, options)?;
    // A list has an order, though the set that it is made of has none.
    let is_ordered = options.is_as_is && options.stored.is_some() && kind == Some(Kind::Set);
    let items = match options.is_as_is {
        true if !is_ordered => items,
        _ => in_order(items, options.is_text || is_ordered, options.is_down)?,
    };
    Ok(limited(items, options.limit))
}

fn items(db: &mut Db, key: &[u8], options: &Options) -> Result<(Vec<Vec<u8>>, Option<Kind>), Fail> {
    let Some(meta) = db.peek(key)? else {
        return Ok((Vec::new(), None));
    };
    let kind = meta.kind;
    let items = match kind {
        Kind::List => {
            let mut items = Items::of(key, Some(meta)).all(db)?;
            if options.is_as_is && options.is_down {
                items.reverse();
            }
            items
        }
        Kind::Set => {
            let members = Members::of(key, kind, Some(meta)).all(db)?;
            members.into_iter().map(|(member, _)| member).collect()
        }
        Kind::Sorted => {
            let way = if options.is_down { Way::Down } else { Way::Up };
            let set = Sorted::of(key, Some(meta));
            let entries = set.places(db, 0..set.len(), way)?;
            entries.into_iter().map(|(_, member)| member).collect()
        }
        Kind::String | Kind::Hash => return fail(words::WRONG_TYPE),
    };
    Ok((items, Some(kind)))
}

fn in_order(items: Vec<Vec<u8>>, is_text: bool, is_down: bool) -> Result<Vec<Vec<u8>>, Fail> {
    let weighed = |item: Vec<u8>| -> Result<(f64, Vec<u8>), Fail> {
        let weight = if is_text { Some(0.0) } else { weight(&item) };
        match weight {
            Some(weight) => Ok((weight, item)),
            None => fail("ERR One or more scores can't be converted into double"),
        }
    };
    let mut items = items
        .into_iter()
        .map(weighed)
        .collect::<Result<Vec<_>, Fail>>()?;
    items.sort_by(|a, b| {
        let order = a.0.partial_cmp(&b.0).unwrap_or(Ordering::Equal);
        let order = order.then_with(|| a.1.cmp(&b.1));
        if is_down { order.reverse() } else { order }
    });
    Ok(items.into_iter().map(|(_, item)| item).collect())
}

/// C's `strtod`: spaces in front are none, and nothing is zero.
fn weight(item: &[u8]) -> Option<f64> {
    match item {
        [] => Some(0.0),
        item => number::double_of(item.trim_ascii_start()),
    }
}

fn limited(items: Vec<Vec<u8>>, limit: Option<(i64, i64)>) -> Vec<Vec<u8>> {
    let Some((start, count)) = limit else {
        return items;
    };
    let start = start.max(0);
    let stop = match count {
        0.. => start.saturating_add(count) - 1,
        _ => i64::MAX,
    };
    if stop < start {
        return Vec::new();
    }
    let places = span(start, stop, items.len());
    items
        .into_iter()
        .skip(places.start)
        .take(places.len())
        .collect()
}
