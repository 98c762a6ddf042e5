//! A command's words, and how they are read.

use resp::integer_of;

use crate::fail::{Fail, fail, words};
use crate::number;

/// The words of a command; its name is the first one.
#[derive(Clone, Copy)]
pub(crate) struct Args<'a> {
    words: &'a [&'a [u8]],
}

impl<'a> Args<'a> {
    pub fn new(words: &'a [&'a [u8]]) -> Args<'a> {
        Args { words }
    }

    /// A word; an empty one where there is none. The table's arity says which are there.
    pub fn at(&self, index: usize) -> &'a [u8] {
        self.words.get(index).copied().unwrap_or_default()
    }

    pub fn len(&self) -> usize {
        self.words.len()
    }

    pub fn from(&self, index: usize) -> &'a [&'a [u8]] {
        self.words.get(index..).unwrap_or_default()
    }

    /// The words from one on, to be taken one by one.
    pub fn rest(&self, index: usize) -> Rest<'a> {
        Rest {
            words: self.from(index),
        }
    }
}

/// Words that are taken one by one.
#[derive(Clone, Copy)]
pub(crate) struct Rest<'a> {
    words: &'a [&'a [u8]],
}

impl<'a> Rest<'a> {
    pub fn left(&self) -> usize {
        self.words.len()
    }

    pub fn words(&self) -> &'a [&'a [u8]] {
        self.words
    }

    /// The next so many words.
    pub fn several(&mut self, count: usize) -> Option<&'a [&'a [u8]]> {
        let (taken, left) = self.words.split_at_checked(count)?;
        self.words = left;
        Some(taken)
    }

    /// The next word, without which the command says nothing.
    pub fn need(&mut self) -> Result<&'a [u8], Fail> {
        self.next().ok_or(Fail::from(words::SYNTAX))
    }

    /// The number that is the next word.
    pub fn need_integer(&mut self) -> Result<i64, Fail> {
        integer(self.need()?)
    }

    /// Takes the next word if it is this one.
    pub fn takes(&mut self, keyword: &str) -> bool {
        let is = self.words.first().is_some_and(|word| is(word, keyword));
        if is {
            self.words = self.words.get(1..).unwrap_or_default();
        }
        is
    }
}

impl<'a> Iterator for Rest<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (first, rest) = self.words.split_first()?;
        self.words = rest;
        Some(first)
    }
}

pub(crate) fn is(word: &[u8], keyword: &str) -> bool {
    word.eq_ignore_ascii_case(keyword.as_bytes())
}

/// A keyword in capitals. Longer words are none.
pub(crate) fn keyword(word: &[u8]) -> Vec<u8> {
    match word.len() {
        0..=16 => word.to_ascii_uppercase(),
        _ => Vec::new(),
    }
}

pub(crate) fn integer(word: &[u8]) -> Result<i64, Fail> {
    integer_of(word).ok_or(Fail::from(words::NOT_AN_INTEGER))
}

pub(crate) fn float(word: &[u8]) -> Result<f64, Fail> {
    number::double_of(word).ok_or(Fail::from(words::NOT_A_FLOAT))
}

/// A count that may not be negative.
pub(crate) fn count(word: &[u8], otherwise: &'static str) -> Result<usize, Fail> {
    let count = integer_of(word).and_then(|count| usize::try_from(count).ok());
    count.ok_or(Fail::from(otherwise))
}

/// The places from `start` to `stop`, both included, of so many; negative ones count from the end. They are none where the result is
/// empty.
pub(crate) fn span(start: i64, stop: i64, count: usize) -> std::ops::Range<usize> {
    let length = i64::try_from(count).unwrap_or(i64::MAX);
    let placed = |index: i64| {
        if index < 0 {
            index.saturating_add(length)
        } else {
            index
        }
    };
    let (start, stop) = (placed(start).max(0), placed(stop).min(length - 1));
    if start > stop {
        return 0..0;
    }
    let at = |index: i64| usize::try_from(index).unwrap_or(0);
    at(start)..at(stop) + 1
}

/// How many keys follow, where a command says so, and the keys.
pub(crate) fn numbered_keys<'a>(
    rest: &mut Rest<'a>,
    otherwise: &'static str,
) -> Result<&'a [&'a [u8]], Fail> {
    let count = rest.need_integer()?;
    match usize::try_from(count) {
        Ok(count) if count > 0 => rest.several(count).ok_or(Fail::from(words::SYNTAX)),
        _ => fail(otherwise),
    }
}
