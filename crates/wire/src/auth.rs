//! `logberg/1 auth TOKEN`: the line that may stand before the first one, in one packet with it or not.
//!
//! ‡ Nothing here shows what stood there: a token with a letter too many is a secret still.

use crate::line::{LineError, PROTOCOL, decode};

/// The word of the line.
pub const AUTH: &str = "auth";

/// Longer tokens are none.
pub const TOKEN_BYTES_MAX: usize = 256;

/// The line for this token, with its line feed.
pub fn line(token: &str) -> String {
    format!("{PROTOCOL} {AUTH} {token}\n")
}

/// Whether a line, or its beginning, is of this kind.
pub fn is_one(line: &[u8]) -> bool {
    line.strip_prefix(PROTOCOL.as_bytes())
        .and_then(|rest| rest.strip_prefix(b" auth"))
        .is_some_and(|rest| matches!(rest.first(), None | Some(b' ' | b'\r' | b'\n')))
}

/// The token, as it was shown.
///
/// Errors: one that does not show it.
pub fn token(line: &[u8]) -> Result<String, LineError> {
    let wrong = || LineError::Value("auth is followed by a token, and nothing else".to_owned());
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let begin = PROTOCOL.len() + 1 + AUTH.len();
    let rest = line.get(begin..).and_then(|rest| rest.strip_prefix(b" "));
    let token = rest.filter(|token| !token.is_empty() && token.len() <= TOKEN_BYTES_MAX);
    let token = token.and_then(|token| std::str::from_utf8(token).ok());
    let token = token.ok_or_else(wrong)?;
    decode(token).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_token_is_read_as_it_was_written() {
        let said = line("lgb_ci_abc-_");
        assert!(is_one(said.as_bytes()));
        assert_eq!(token(said.as_bytes()).as_deref(), Ok("lgb_ci_abc-_"));
        assert!(!is_one(b"logberg/1 authors x"));
        assert!(!is_one(b"logberg/1 append main"));
        assert!(is_one(b"logberg/1 auth"));
    }

    #[test]
    fn what_is_no_token_is_not_shown() {
        for wrong in [
            "logberg/1 auth",
            "logberg/1 auth ",
            "logberg/1 auth secret secret",
            "logberg/1 auth secr%zz",
            &format!("logberg/1 auth {}", "secret".repeat(50)),
        ] {
            let error = token(wrong.as_bytes()).expect_err("it is none").to_string();
            assert!(!error.contains("secr"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let whole = [b"logberg/1 auth ".as_slice(), &bytes].concat();
            let _ = token(&whole);
            let _ = token(&bytes);
        }
    }
}
