//! Patterns for names: `*`, `?`, `[a-c]`, `[^a]`, and `\` before what is meant as it is.

/// A pattern, as in Redis, made ready for many names.
///
/// All places of the pattern that a name may have come to are bits, and each byte of the name moves all of them at once. So a name costs its length, for each
/// 64 places of the pattern, however many `*` a stranger says.
///
/// ```
/// assert!(kv::Pattern::new(b"h[^a]l*o").fits(b"hello"));
/// assert!(!kv::Pattern::new(b"a*a*a*a*a*b").fits(&[b'a'; 10_000]));
/// ```
#[derive(Clone, Debug)]
pub struct Pattern {
    /// For each byte the places that it leads on from; as many words for each.
    steps: Vec<u64>,
    /// The places at which there is a `*`: any byte may stay.
    stays: Vec<u64>,
    /// The place behind the last part.
    end: usize,
}

const BITS: usize = u64::BITS as usize;

impl Pattern {
    pub fn new(pattern: &[u8]) -> Pattern {
        let words = pattern.len() / BITS + 1;
        let mut made = Pattern {
            steps: vec![0; 256 * words],
            stays: vec![0; words],
            end: 0,
        };
        let mut rest = pattern;
        while let [first, behind @ ..] = rest {
            let (word, bit) = (made.end / BITS, 1 << (made.end % BITS));
            if *first == b'*' {
                made.stays[word] |= bit;
                rest = behind;
                continue;
            }
            // A part is as long whatever it is held to.
            let part = rest;
            for byte in 0..=u8::MAX {
                let (is_fit, behind) = one(part, byte);
                made.steps[usize::from(byte) * words + word] |= bit * u64::from(is_fit);
                rest = behind;
            }
            made.end += 1;
        }
        made
    }

    pub fn fits(&self, name: &[u8]) -> bool {
        let words = self.stays.len();
        let mut places = vec![0; words];
        places[0] = 1;
        for byte in name {
            let steps = &self.steps[usize::from(*byte) * words..][..words];
            let (mut carry, mut any) = (0, 0);
            for ((place, step), stay) in places.iter_mut().zip(steps).zip(&self.stays) {
                let moved = *place & step;
                let next = moved << 1 | carry | (*place & stay);
                carry = moved >> (BITS - 1);
                any |= next;
                *place = next;
            }
            if any == 0 {
                return false;
            }
        }
        places[self.end / BITS] >> (self.end % BITS) & 1 == 1
    }
}

/// Whether a name fits a pattern, as in Redis.
///
/// Behind a `*` only the last one is tried again: what stands before it has found its first place, and no later one would serve better. So it costs at
/// most the product of both lengths: for names that are short. For others there is [`Pattern`].
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
            ("*", "abc", true),
            ("a", "ab", false),
            ("*a", "ba", true),
            ("*a", "ab", false),
            ("a*", "", false),
            ("***", "", true),
        ];
        for (pattern, name, is_fit) in cases {
            let (pattern_bytes, name_bytes) = (pattern.as_bytes(), name.as_bytes());
            assert_eq!(fits(pattern_bytes, name_bytes), is_fit, "{pattern} {name}");
            let made = Pattern::new(pattern_bytes);
            assert_eq!(made.fits(name_bytes), is_fit, "{pattern} {name}");
        }
    }

    #[test]
    fn long_patterns_have_places_in_several_words() {
        for length in [62, 63, 64, 65, 127, 128, 200, 1_000] {
            let literal = vec![b'a'; length];
            let middle = [b"*".as_slice(), &literal, b"b?"].concat();
            let name = [b"xaa".as_slice(), &literal, b"bc"].concat();
            let (whole, middle) = (Pattern::new(&literal), Pattern::new(&middle));
            assert!(whole.fits(&literal), "{length}");
            assert!(!whole.fits(&literal[1..]), "{length}");
            assert!(middle.fits(&name), "{length}");
            assert!(!middle.fits(&name[..name.len() - 1]), "{length}");
        }
    }

    #[test]
    fn all_short_patterns_fit_what_they_fit_by_trying() {
        let letters = b"ab*?[]^-\\";
        let words = |length: u32, letters: &[u8]| -> Vec<Vec<u8>> {
            let count = letters.len();
            let all = 0..count.pow(length);
            let word = |number: usize| {
                (0..length)
                    .map(|at| letters[number / count.pow(at) % count])
                    .collect()
            };
            all.map(word).collect()
        };
        let names: Vec<Vec<u8>> = (0..=4).flat_map(|length| words(length, b"ab-")).collect();
        for pattern in (0..=4).flat_map(|length| words(length, letters)) {
            let made = Pattern::new(&pattern);
            for name in &names {
                let (pattern, name) = (&pattern[..], &name[..]);
                assert_eq!(
                    made.fits(name),
                    fits(pattern, name),
                    "{} {}",
                    pattern.escape_ascii(),
                    name.escape_ascii()
                );
            }
        }
    }
}
