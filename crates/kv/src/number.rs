//! Numbers that are text: how Redis reads and writes them.

mod big;
mod extended;

pub(crate) use extended::Extended;

/// A double, as `strtod` reads all of a word: no space in front, nothing behind, no not-a-number, and nothing that is too large or too small
/// to be told from infinity or zero. Numbers in base 16 are not read, other than there.
pub(crate) fn double_of(word: &[u8]) -> Option<f64> {
    let text = text_of(word)?;
    let number: f64 = text.parse().ok()?;
    let is_exact = number.is_finite() || names_infinity(text);
    let is_lost = number == 0.0 && has_digits(text);
    (!number.is_nan() && is_exact && !is_lost).then_some(number)
}

/// The end of a range of scores: like [`double_of`], but what is too large is infinity, and what is empty is zero.
pub(crate) fn score_end_of(word: &[u8]) -> Option<f64> {
    if word.is_empty() {
        return Some(0.0);
    }
    let number: f64 = text_of(word)?.parse().ok()?;
    (!number.is_nan()).then_some(number)
}

fn text_of(word: &[u8]) -> Option<&str> {
    std::str::from_utf8(word).ok()
}

fn names_infinity(text: &str) -> bool {
    text.to_ascii_lowercase().contains("inf")
}

/// Some digit before the exponent is not zero.
fn has_digits(text: &str) -> bool {
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    mantissa.bytes().any(|byte| (b'1'..=b'9').contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_whole_words() {
        for (word, number) in [
            ("1", 1.0),
            ("+1.5e3", 1500.0),
            (".5", 0.5),
            ("5.", 5.0),
            ("-inf", f64::NEG_INFINITY),
            ("Infinity", f64::INFINITY),
            ("0e5", 0.0),
        ] {
            assert_eq!(double_of(word.as_bytes()), Some(number), "{word}");
        }
        for word in [
            "", " 1", "1 ", "nan", "1e400", "1e-400", "abc", "1x", "--1", "e5",
        ] {
            assert_eq!(double_of(word.as_bytes()), None, "{word}");
        }
        assert_eq!(score_end_of(b"1e400"), Some(f64::INFINITY));
    }
}
