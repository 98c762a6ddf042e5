//! Slots beside each other.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// How many slots there are.
pub const SLOTS: u16 = 16_384;

/// Slots from the first to the last, both among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "(u16, u16)", into = "(u16, u16)")]
pub struct Span {
    first: u16,
    last: u16,
}

/// These are no slots.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{0} are no slots: say one, as 5, or from the first to the last, as 0-5460; there are 0 to 16383"
)]
pub struct NoSpan(String);

impl Span {
    /// `None`: the last is before the first, or there is no such slot.
    pub fn new(first: u16, last: u16) -> Option<Span> {
        (first <= last && last < SLOTS).then_some(Span { first, last })
    }

    pub fn first(self) -> u16 {
        self.first
    }

    pub fn last(self) -> u16 {
        self.last
    }

    /// How many slots these are: one at least.
    pub fn count(self) -> u32 {
        u32::from(self.last - self.first) + 1
    }

    pub fn contains(self, slot: u16) -> bool {
        (self.first..=self.last).contains(&slot)
    }

    pub fn slots(self) -> impl Iterator<Item = u16> + Clone {
        self.first..=self.last
    }
}

impl TryFrom<(u16, u16)> for Span {
    type Error = NoSpan;

    fn try_from((first, last): (u16, u16)) -> Result<Span, NoSpan> {
        Span::new(first, last).ok_or_else(|| NoSpan(format!("{first}-{last}")))
    }
}

impl From<Span> for (u16, u16) {
    fn from(span: Span) -> (u16, u16) {
        (span.first, span.last)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first == self.last {
            true => write!(f, "{}", self.first),
            false => write!(f, "{}-{}", self.first, self.last),
        }
    }
}

impl FromStr for Span {
    type Err = NoSpan;

    fn from_str(text: &str) -> Result<Span, NoSpan> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let number = |text: &str| {
            let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            is_plain.then(|| text.parse().ok()).flatten()
        };
        let span = number(first).zip(number(last));
        let span = span.and_then(|(first, last)| Span::new(first, last));
        span.ok_or_else(|| NoSpan(format!("{text:?}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_and_written() {
        for (text, first, last) in [("5", 5, 5), ("0-5460", 0, 5_460), ("16383", 16_383, 16_383)] {
            let span: Span = text.parse().unwrap();
            assert_eq!((span.first(), span.last()), (first, last));
            assert_eq!(span.to_string(), text);
        }
        for text in [
            "", "-", "5-", "-5", "5-4", "16384", "0-16384", "+1", " 1", "1-2-3", "a",
        ] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
        assert!(serde_json::from_str::<Span>("[5,4]").is_err());
    }
}
