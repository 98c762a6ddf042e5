//! Sorted sets of sorted sets, and of sets, whose members have the score 1.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use resp::Value;

use super::range::store;
use super::shown;
use crate::args::{Args, Rest, count, keyword};
use crate::commands::Done;
use crate::fail::{Fail, fail, words};
use crate::number;
use crate::rows::{Db, Entry, Kind, Members, Sorted};

#[derive(Clone, Copy, PartialEq)]
enum Way {
    Union,
    Inter,
    Diff,
}

pub(crate) fn zunion(db: &mut Db, args: &Args) -> Done {
    reply(db, args, Way::Union, "zunion")
}

pub(crate) fn zinter(db: &mut Db, args: &Args) -> Done {
    reply(db, args, Way::Inter, "zinter")
}

pub(crate) fn zdiff(db: &mut Db, args: &Args) -> Done {
    reply(db, args, Way::Diff, "zdiff")
}

fn reply(db: &mut Db, args: &Args, way: Way, command: &str) -> Done {
    let (entries, options) = combined(db, args.rest(1), way, command, Purpose::Shown)?;
    Ok(shown::entries(db, entries, options.has_scores))
}

pub(crate) fn zunionstore(db: &mut Db, args: &Args) -> Done {
    stored(db, args, Way::Union, "zunionstore")
}

pub(crate) fn zinterstore(db: &mut Db, args: &Args) -> Done {
    stored(db, args, Way::Inter, "zinterstore")
}

pub(crate) fn zdiffstore(db: &mut Db, args: &Args) -> Done {
    stored(db, args, Way::Diff, "zdiffstore")
}

fn stored(db: &mut Db, args: &Args, way: Way, command: &str) -> Done {
    let (entries, _) = combined(db, args.rest(2), way, command, Purpose::Stored)?;
    store(db, args.at(1), entries)
}

pub(crate) fn zintercard(db: &mut Db, args: &Args) -> Done {
    let rest = args.rest(1);
    let (entries, options) = combined(db, rest, Way::Inter, "zintercard", Purpose::Counted)?;
    let found = entries.len();
    Ok(Value::count(match options.limit {
        0 => found,
        limit => found.min(limit),
    }))
}

#[derive(Clone, Copy, PartialEq)]
enum Purpose {
    Shown,
    Stored,
    Counted,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum Aggregate {
    #[default]
    Sum,
    Min,
    Max,
}

impl Aggregate {
    fn of(self, a: f64, b: f64) -> f64 {
        match self {
            // Infinity and its opposite are nothing together.
            Aggregate::Sum => not_nan(a + b),
            Aggregate::Min => {
                if b < a {
                    b
                } else {
                    a
                }
            }
            Aggregate::Max => {
                if b > a {
                    b
                } else {
                    a
                }
            }
        }
    }
}

fn not_nan(number: f64) -> f64 {
    if number.is_nan() { 0.0 } else { number }
}

#[derive(Default)]
struct Options {
    weights: Option<Vec<f64>>,
    aggregate: Aggregate,
    has_scores: bool,
    limit: usize,
}

fn options(rest: &mut Rest, sets: usize, way: Way, purpose: Purpose) -> Result<Options, Fail> {
    let mut options = Options::default();
    let is_weighed = way != Way::Diff && purpose != Purpose::Counted;
    while let Some(word) = rest.next() {
        match keyword(word).as_slice() {
            b"WEIGHTS" if is_weighed && rest.left() >= sets => {
                let weight = |word: &&[u8]| {
                    number::double_of(word).ok_or(Fail::from("ERR weight value is not a float"))
                };
                let weights = rest.several(sets).unwrap_or_default().iter().map(weight);
                options.weights = Some(weights.collect::<Result<_, Fail>>()?);
            }
            b"AGGREGATE" if is_weighed && rest.left() >= 1 => {
                options.aggregate = match keyword(rest.need()?).as_slice() {
                    b"SUM" => Aggregate::Sum,
                    b"MIN" => Aggregate::Min,
                    b"MAX" => Aggregate::Max,
                    _ => return fail(words::SYNTAX),
                };
            }
            b"WITHSCORES" if purpose == Purpose::Shown => options.has_scores = true,
            b"LIMIT" if purpose == Purpose::Counted && rest.left() >= 1 => {
                options.limit = count(rest.need()?, "ERR LIMIT can't be negative")?;
            }
            _ => return fail(words::SYNTAX),
        }
    }
    Ok(options)
}

fn combined(
    db: &mut Db,
    mut rest: Rest,
    way: Way,
    command: &str,
    purpose: Purpose,
) -> Result<(Vec<Entry>, Options), Fail> {
    let number = rest.need_integer()?;
    if number < 1 {
        return fail(format!(
            "ERR at least 1 input key is needed for '{command}' command"
        ));
    }
    let number = usize::try_from(number).unwrap_or(usize::MAX);
    let keys = rest.several(number).ok_or(Fail::from(words::SYNTAX))?;
    db.ask(keys)?;
    let inputs: Result<Vec<_>, Fail> = keys.iter().map(|key| input(db, key)).collect();
    let inputs = inputs?;
    let options = options(&mut rest, keys.len(), way, purpose)?;
    let weights = options.weights.clone().unwrap_or(vec![1.0; keys.len()]);
    let mut inputs: Vec<(Vec<Entry>, f64)> = inputs.into_iter().zip(weights).collect();
    if way != Way::Diff {
        // As in Redis, sums are reckoned from the smallest set on.
        inputs.sort_by_key(|(entries, _)| entries.len());
    }
    let scores = scores(inputs, way, options.aggregate);
    let mut entries: Vec<Entry> = scores
        .into_iter()
        .map(|(name, score)| (score, name))
        .collect();
    entries.sort_by(|a, b| {
        let order = a.0.partial_cmp(&b.0).unwrap_or(Ordering::Equal);
        order.then_with(|| a.1.cmp(&b.1))
    });
    Ok((entries, options))
}

/// The entries of a key: a sorted set, a set, or nothing.
fn input(db: &mut Db, key: &[u8]) -> Result<Vec<Entry>, Fail> {
    let Some(meta) = db.peek(key)? else {
        return Ok(Vec::new());
    };
    match meta.kind {
        Kind::Sorted => Sorted::of(key, Some(meta)).all(db),
        Kind::Set => {
            let members = Members::of(key, Kind::Set, Some(meta)).all(db)?;
            Ok(members
                .into_iter()
                .map(|(member, _)| (1.0, member))
                .collect())
        }
        _ => fail(words::WRONG_TYPE),
    }
}

type Scores = BTreeMap<Vec<u8>, f64>;

fn scores(inputs: Vec<(Vec<Entry>, f64)>, way: Way, aggregate: Aggregate) -> Scores {
    let mut inputs = inputs.into_iter().map(|(entries, weight)| {
        let weighed = |(score, name)| (name, not_nan(weight * score));
        entries.into_iter().map(weighed).collect::<Scores>()
    });
    let mut result = inputs.next().unwrap_or_default();
    for mut input in inputs {
        match way {
            Way::Union => {
                for (name, score) in input {
                    let known = result.get(&name).copied();
                    let score = known.map_or(score, |known| aggregate.of(known, score));
                    result.insert(name, score);
                }
            }
            Way::Inter => result.retain(|name, known| {
                let other = input.remove(name);
                *known = other.map_or(*known, |score| aggregate.of(*known, score));
                other.is_some()
            }),
            Way::Diff => result.retain(|name, _| !input.contains_key(name)),
        }
    }
    result
}
