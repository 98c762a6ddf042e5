//! A request that is a line: words, as a person types them.

use std::ops::Range;

use crate::wrong::Wrong;

/// Splits a line into words as Redis does (`sdssplitargs`), their bytes one behind the other into `bytes`.
///
/// A word in double quotes knows `\n \r \t \b \a`, `\x41`, and any other byte behind a backslash as itself; one in single quotes knows `\'`.
///
/// Errors: a quote is not closed, or not followed by a space.
pub(crate) fn split(
    line: &[u8],
    bytes: &mut Vec<u8>,
    words: &mut Vec<Range<usize>>,
) -> Result<(), Wrong> {
    let mut rest = line;
    loop {
        rest = rest.trim_ascii_start();
        // C's `isspace` counts the vertical tab, too.
        while let [0x0b, after @ ..] = rest {
            rest = after.trim_ascii_start();
        }
        if rest.is_empty() {
            return Ok(());
        }
        let begin = bytes.len();
        rest = word(rest, bytes)?;
        words.push(begin..bytes.len());
    }
}

fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

/// One word; returns what follows.
fn word<'a>(mut rest: &'a [u8], bytes: &mut Vec<u8>) -> Result<&'a [u8], Wrong> {
    while let [byte, after @ ..] = rest {
        match byte {
            b'"' => return closed(double_quoted(after, bytes)?),
            b'\'' => return closed(single_quoted(after, bytes)?),
            byte if is_space(*byte) => return Ok(rest),
            byte => bytes.push(*byte),
        }
        rest = after;
    }
    Ok(rest)
}

/// A closed quote ends a word.
fn closed(rest: &[u8]) -> Result<&[u8], Wrong> {
    match rest.first() {
        Some(byte) if !is_space(*byte) => Err(Wrong::Quotes),
        _ => Ok(rest),
    }
}

fn double_quoted<'a>(mut rest: &'a [u8], bytes: &mut Vec<u8>) -> Result<&'a [u8], Wrong> {
    loop {
        rest = match rest {
            [] => return Err(Wrong::Quotes),
            [b'"', after @ ..] => return Ok(after),
            [b'\\', b'x', high, low, after @ ..]
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                bytes.push(hex(*high) << 4 | hex(*low));
                after
            }
            [b'\\', escaped, after @ ..] => {
                bytes.push(unescaped(*escaped));
                after
            }
            [byte, after @ ..] => {
                bytes.push(*byte);
                after
            }
        }
    }
}

fn single_quoted<'a>(mut rest: &'a [u8], bytes: &mut Vec<u8>) -> Result<&'a [u8], Wrong> {
    loop {
        rest = match rest {
            [] => return Err(Wrong::Quotes),
            [b'\'', after @ ..] => return Ok(after),
            [b'\\', b'\'', after @ ..] => {
                bytes.push(b'\'');
                after
            }
            [byte, after @ ..] => {
                bytes.push(*byte);
                after
            }
        }
    }
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        b'A'..=b'F' => digit - b'A' + 10,
        _ => 0,
    }
}

fn unescaped(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        byte => byte,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Result<Vec<String>, Wrong> {
        let (mut bytes, mut ranges) = (Vec::new(), Vec::new());
        split(line.as_bytes(), &mut bytes, &mut ranges)?;
        let text = |range: Range<usize>| String::from_utf8_lossy(&bytes[range]).into_owned();
        Ok(ranges.into_iter().map(text).collect())
    }

    #[test]
    fn words_stand_between_spaces_and_quotes_hold_them_together() {
        assert_eq!(
            words("  SET a\tb \r"),
            Ok(vec!["SET".into(), "a".into(), "b".into()])
        );
        assert_eq!(
            words(r#""a b" 'c "d'"#),
            Ok(vec!["a b".into(), "c \"d".into()])
        );
        assert_eq!(
            words(r#""\x41\n\"\q" '\'\n'"#),
            Ok(vec!["A\n\"q".into(), "'\\n".into()])
        );
        assert_eq!(words(r#"a"b c""#), Ok(vec!["ab c".into()]));
        assert_eq!(words(r#""""#), Ok(vec!["".into()]));
        assert_eq!(words("\x0b a \x0b \x0b"), Ok(vec!["a".into()]));
    }

    #[test]
    fn an_open_quote_and_one_that_something_follows_are_wrong() {
        for line in ["\"a", "'a", "\"a\"b", "'a'b", "\"a\\"] {
            assert_eq!(words(line), Err(Wrong::Quotes), "{line}");
        }
    }
}
