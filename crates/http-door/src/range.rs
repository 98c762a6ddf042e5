//! `Range`: a part of what there is, by RFC 9110.

use hyper::header::{CONTENT_RANGE, HeaderMap, IF_RANGE, RANGE};

use crate::fault::Fault;

/// One range of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range {
    /// From this byte to that one, both in it.
    Between(u64, u64),
    From(u64),
    /// The last so many.
    Last(u64),
}

impl Range {
    /// The range of a request. `None`: all of it. What makes no sense is passed over, and so are several ranges: by the RFC the
    /// answer is the whole then. So it is where `If-Range` has a tag of which `is_ours` knows nothing.
    pub fn of(asked: &HeaderMap, is_ours: impl Fn(&str) -> bool) -> Option<Range> {
        let mut all = asked.get_all(RANGE).iter();
        let said = all.next()?.to_str().ok()?;
        if all.next().is_some() {
            return None;
        }
        if let Some(tag) = asked.get(IF_RANGE) {
            tag.to_str().ok().filter(|tag| is_ours(tag))?;
        }
        let (unit, range) = said.split_once('=')?;
        let (first, last) = range.trim().split_once('-')?;
        if !unit.trim().eq_ignore_ascii_case("bytes") {
            return None;
        }
        let number = |text: &str| {
            let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse::<u64>().ok().filter(|_| is_plain)
        };
        match (first, last) {
            ("", last) => number(last).map(Range::Last),
            (first, "") => number(first).map(Range::From),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                (first <= last).then_some(Range::Between(first, last))
            }
        }
    }

    /// The first byte, and the one behind the last one that is wanted.
    ///
    /// `first`: that is left; `length`: of all, so that it is the position behind the last byte.
    ///
    /// Errors: there is nothing of it.
    pub fn within(self, first: u64, length: u64) -> Result<(u64, u64), Fault> {
        let (from, to) = match self {
            Range::Between(from, last) => (from, last.saturating_add(1).min(length)),
            Range::From(from) => (from, length),
            Range::Last(count) => (length.saturating_sub(count).max(first), length),
        };
        match from < to {
            true => Ok((from, to)),
            false => Err(Fault::new(
                416,
                "range",
                format!("the range has no byte of the {length} that there are"),
                "ask for bytes that there are: HEAD tells how many",
            )
            .header(CONTENT_RANGE, format!("bytes */{length}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn of(said: &str) -> Option<Range> {
        let mut asked = HeaderMap::new();
        asked.insert(RANGE, HeaderValue::from_str(said).expect("text"));
        Range::of(&asked, |_| true)
    }

    #[test]
    fn a_range_is_read_or_passed_over() {
        assert_eq!(of("bytes=0-0"), Some(Range::Between(0, 0)));
        assert_eq!(of("Bytes=5-"), Some(Range::From(5)));
        assert_eq!(of("bytes=-7"), Some(Range::Last(7)));
        for none in [
            "",
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=3-2",
            "bytes=0-1,3-4",
            "bytes=+1-2",
            "lines=1-2",
            "bytes=1-99999999999999999999",
            "bytes=1-2x",
            "bytes=--1",
        ] {
            assert_eq!(of(none), None, "{none}");
        }
        let mut asked = HeaderMap::new();
        asked.insert(RANGE, HeaderValue::from_static("bytes=1-2"));
        asked.insert(IF_RANGE, HeaderValue::from_static("\"x\""));
        assert_eq!(Range::of(&asked, |tag| tag == "\"y\""), None);
        assert!(Range::of(&asked, |tag| tag == "\"x\"").is_some());
    }

    #[test]
    fn a_range_lies_within_what_there_is() {
        let within = |range: Range| range.within(10, 100).map_err(|fault| fault.status);
        assert_eq!(within(Range::Between(20, 29)), Ok((20, 30)));
        assert_eq!(within(Range::Between(20, u64::MAX)), Ok((20, 100)));
        assert_eq!(within(Range::From(99)), Ok((99, 100)));
        assert_eq!(within(Range::From(100)), Err(416));
        assert_eq!(within(Range::Last(5)), Ok((95, 100)));
        assert_eq!(within(Range::Last(1_000)), Ok((10, 100)));
        assert_eq!(within(Range::Last(0)), Err(416));
        // What was trimmed is asked for, and refused where it is read.
        assert_eq!(within(Range::Between(5, 20)), Ok((5, 21)));
    }
}
