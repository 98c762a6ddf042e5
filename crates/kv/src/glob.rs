//! Patterns for names: `*`, `?`, `[a-c]`, `[^a]`, and `\` before what is meant as it is.

/// Whether a name fits a pattern, as in Redis.
///
/// Behind a `*` only the last one is tried again: what stands before it has found its first place, and no later one would serve better. So it costs at
/// most the product of both lengths, whatever a stranger asks for; and whoever takes patterns from strangers bounds theirs.
///
/// ```
/// assert!(kv::fits(b"h[^a]l*o", b"hello"));
/// assert!(!kv::fits(b"a*a*a*a*a*b", &[b'a'; 10_000]));
/// ```
pub fn fits(pattern: &[u8], name: &[u8]) -> bool {
    let (mut pattern, mut name) = (pattern, name);
    // The pattern behind the last `*`, and where in the name it was tried.
    let mut again: Option<(&[u8], &[u8])> = None;
    loop {
        if let [b'*', behind @ ..] = pattern {
            pattern = behind;
            again = Some((pattern, name));
            if pattern.is_empty() {
                return true;
            }
            continue;
        }
        if let ([byte, rest @ ..], false) = (name, pattern.is_empty()) {
            let (is_fit, behind) = one(pattern, *byte);
            if is_fit {
                (pattern, name) = (behind, rest);
                continue;
            }
        } else if name.is_empty() && pattern.is_empty() {
            return true;
        } else if name.is_empty() {
            return false;
        }
        let Some((behind, tried)) = again else {
            return false;
        };
        let [_, next @ ..] = tried else {
            return false;
        };
        (pattern, name) = (behind, next);
        again = Some((behind, next));
    }
}

/// Whether the pattern's first part fits this byte, and what is behind that part.
fn one(pattern: &[u8], byte: u8) -> (bool, &[u8]) {
    match pattern {
        [b'?', rest @ ..] => (true, rest),
        [b'[', rest @ ..] => class(rest, byte),
        [b'\\', literal, rest @ ..] => (*literal == byte, rest),
        [literal, rest @ ..] => (*literal == byte, rest),
        [] => (false, &[]),
    }
}

/// Behind a `[`: a class that is not closed goes to the end of the pattern.
fn class(pattern: &[u8], byte: u8) -> (bool, &[u8]) {
    let (is_not, mut rest) = match pattern {
        [b'^', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let mut is_in = false;
    loop {
        rest = match rest {
            [] => return (is_in != is_not, rest),
            [b']', behind @ ..] => return (is_in != is_not, behind),
            [b'\\', literal, behind @ ..] => {
                is_in |= *literal == byte;
                behind
            }
            [from, b'-', to, behind @ ..] => {
                let (from, to) = (from.min(to), from.max(to));
                is_in |= (*from..=*to).contains(&byte);
                behind
            }
            [literal, behind @ ..] => {
                is_in |= *literal == byte;
                behind
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_as_in_redis() {
        let cases = [
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("a*", "a", true),
            ("*b", "ab", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("h[ae]llo", "hallo", true),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            ("h[^e]llo", "hello", false),
            ("h\\*llo", "h*llo", true),
            ("h\\*llo", "hxllo", false),
            ("[\\]]", "]", true),
            ("[a", "a", true),
            ("[a-", "-", true),
            ("[^", "a", true),
            ("\\", "\\", true),
            ("**a**", "bab", true),
            ("*a*b*c", "xaybzbc", true),
            ("*[a-c]?x", "zzbyx", true),
        ];
        for (pattern, name, is_fit) in cases {
            assert_eq!(
                fits(pattern.as_bytes(), name.as_bytes()),
                is_fit,
                "{pattern} {name}"
            );
        }
    }
}
