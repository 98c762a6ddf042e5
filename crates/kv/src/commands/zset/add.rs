//! Members that come, and scores that change.

use resp::Value;

use crate::args::{Args, Rest, float, keyword};
use crate::commands::Done;
use crate::fail::{Fail, fail, words};
use crate::rows::{Db, Sorted};

#[derive(Clone, Copy, Default)]
struct Options {
    is_absent: bool,
    is_present: bool,
    is_greater: bool,
    is_less: bool,
    counts_changed: bool,
    is_increment: bool,
}

fn options(rest: &mut Rest) -> Options {
    let mut options = Options::default();
    while let Some(word) = rest.words().first() {
        match keyword(word).as_slice() {
            b"NX" => options.is_absent = true,
            b"XX" => options.is_present = true,
            b"GT" => options.is_greater = true,
            b"LT" => options.is_less = true,
            b"CH" => options.counts_changed = true,
            b"INCR" => options.is_increment = true,
            _ => break,
        }
        rest.next();
    }
    options
}

impl Options {
    fn check(&self, pairs: usize) -> Result<(), Fail> {
        let (greater, less) = (self.is_greater, self.is_less);
        if self.is_absent && self.is_present {
            return fail("ERR XX and NX options at the same time are not compatible");
        }
        if self.is_absent && (greater || less) || greater && less {
            return fail("ERR GT, LT, and/or NX options at the same time are not compatible");
        }
        if self.is_increment && pairs > 1 {
            return fail("ERR INCR option supports a single increment-element pair");
        }
        Ok(())
    }
}

pub(crate) fn zadd(db: &mut Db, args: &Args) -> Done {
    let mut rest = args.rest(2);
    let options = options(&mut rest);
    add(db, args.at(1), options, rest.words())
}

pub(crate) fn zincrby(db: &mut Db, args: &Args) -> Done {
    let options = Options {
        is_increment: true,
        ..Options::default()
    };
    add(db, args.at(1), options, args.from(2))
}

fn add(db: &mut Db, key: &[u8], options: Options, words: &[&[u8]]) -> Done {
    if words.is_empty() || !words.len().is_multiple_of(2) {
        return fail(words::SYNTAX);
    }
    options.check(words.len() / 2)?;
    let mut pairs = Vec::new();
    for pair in words.chunks_exact(2) {
        if let [score, member] = pair {
            pairs.push((float(score)?, *member));
        }
    }
    let mut set = Sorted::open(db, key)?;
    let members: Vec<&[u8]> = pairs.iter().map(|(_, member)| *member).collect();
    set.ask(db, &members)?;
    let (mut added, mut updated, mut last) = (0, 0, None);
    for (score, member) in pairs {
        let old = set.score(db, member)?;
        last = due(options, old, score)?;
        if let Some(score) = last.filter(|score| old != Some(*score)) {
            set.put(db, member, score)?;
            added += i64::from(old.is_none());
            updated += i64::from(old.is_some());
        }
    }
    set.close(db)?;
    match (options.is_increment, options.counts_changed) {
        (true, _) => Ok(last.map_or(Value::Null, Value::Double)),
        (false, true) => Ok(Value::Integer(added + updated)),
        (false, false) => Ok(Value::Integer(added)),
    }
}

/// The score that a member is to have, if the options let it.
fn due(options: Options, old: Option<f64>, score: f64) -> Result<Option<f64>, Fail> {
    let Some(old) = old else {
        return Ok((!options.is_present).then_some(score));
    };
    if options.is_absent {
        return Ok(None);
    }
    let score = if options.is_increment {
        old + score
    } else {
        score
    };
    if score.is_nan() {
        return fail(words::NAN_SCORE);
    }
    let is_worse = options.is_greater && score <= old || options.is_less && score >= old;
    Ok((!is_worse).then_some(score))
}
