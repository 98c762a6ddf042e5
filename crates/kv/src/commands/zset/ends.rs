//! The ends of ranges, as commands name them.

use crate::fail::{Fail, fail};
use crate::number;
use crate::rows::{Between, NameEnd, ScoreEnd};

pub(super) fn scores(min: &[u8], max: &[u8]) -> Result<Between, Fail> {
    Ok(Between::Scores(score_end(min)?, score_end(max)?))
}

fn score_end(word: &[u8]) -> Result<ScoreEnd, Fail> {
    let (is_open, number) = match word {
        [b'(', number @ ..] => (true, number),
        number => (false, number),
    };
    match number::score_end_of(number) {
        Some(score) => Ok(ScoreEnd { score, is_open }),
        None => fail("ERR min or max is not a float"),
    }
}

pub(super) fn names(min: &[u8], max: &[u8]) -> Result<Between, Fail> {
    Ok(Between::Names(name_end(min)?, name_end(max)?))
}

fn name_end(word: &[u8]) -> Result<NameEnd, Fail> {
    let at = |name: &[u8], is_open| NameEnd::At {
        name: name.to_vec(),
        is_open,
    };
    match word {
        b"-" => Ok(NameEnd::Lowest),
        b"+" => Ok(NameEnd::Highest),
        [b'(', name @ ..] => Ok(at(name, true)),
        [b'[', name @ ..] => Ok(at(name, false)),
        _ => fail("ERR min or max not valid string range item"),
    }
}
