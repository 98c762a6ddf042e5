//! `logberg/1 auth TOKEN`, `logberg/1 auth TICKET`: the line that may stand before the first one, in one packet with it or not.
//!
//! `logberg/1 auth certificate NAME UNTIL`: the same, of a node that asks for a client which showed it a certificate.
//!
//! ‡ Nothing here shows what stood there: a token with a letter too many is a secret still.

use crate::line::{LineError, PROTOCOL, decode};

/// The word of the line.
pub const AUTH: &str = "auth";

/// Longer tokens and tickets are none.
pub const TOKEN_BYTES_MAX: usize = 4_096;
/// The name in a certificate is no longer.
const NAME_BYTES_MAX: usize = 256;

/// The line for this token, with its line feed.
pub fn line(token: &str) -> String {
    format!("{PROTOCOL} {AUTH} {token}\n")
}

/// The words of one of these lines.
#[derive(Clone, PartialEq, Eq)]
pub enum Shown {
    /// A token, with its secret.
    Token(String),
    /// A client's certificate of that name, which holds until then, in milliseconds since the beginning of 1970. ‡ It is believed of
    /// nodes alone: whoever shook hands with the client.
    Certificate {
        /// The name in it.
        name: String,
        /// Its end.
        until_ms: u64,
    },
}

/// Before the name of a certificate. No token is a word of these letters: each has an underscore.
const CERTIFICATE: &[u8] = b" certificate ";

/// The line by which a node says whose certificate it was shown.
pub fn certificate_line(name: &str, until_ms: u64) -> String {
    format!("{PROTOCOL} {AUTH} certificate {name} {until_ms}\n")
}

/// The credential that such a line shows.
///
/// Errors: nothing.
pub fn shown(line: &[u8]) -> Result<Shown, LineError> {
    let rest = line
        .get(PROTOCOL.len() + 1 + AUTH.len()..)
        .unwrap_or_default();
    let Some(words) = rest.strip_prefix(CERTIFICATE) else {
        return token(line).map(Shown::Token);
    };
    let wrong = || LineError::Value("auth certificate is followed by a name and a time".to_owned());
    let words = std::str::from_utf8(words).map_err(|_| wrong())?;
    let (name, until) = words.trim_ascii_end().split_once(' ').ok_or_else(wrong)?;
    let until_ms = until.parse().map_err(|_| wrong())?;
    match name.is_empty() || name.len() > NAME_BYTES_MAX {
        true => Err(wrong()),
        false => Ok(Shown::Certificate {
            name: name.to_owned(),
            until_ms,
        }),
    }
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
    let wrong =
        || LineError::Value("auth is followed by a token or a ticket, and nothing else".to_owned());
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
    fn a_certificate_is_read_as_it_was_written() {
        let said = certificate_line("alice", 1_900_000_000_000);
        assert!(is_one(said.as_bytes()));
        let name = "alice".to_owned();
        let until_ms = 1_900_000_000_000;
        let read = shown(said.as_bytes()).ok();
        assert!(read == Some(Shown::Certificate { name, until_ms }));
        let token = shown(line("lgb_certificate_abc").as_bytes()).ok();
        assert!(token == Some(Shown::Token("lgb_certificate_abc".to_owned())));
        for wrong in [
            "certificate ",
            "certificate alice",
            "certificate alice x",
            "certificate  7",
            "certificate alice 7 8",
        ] {
            assert!(shown(format!("logberg/1 auth {wrong}\n").as_bytes()).is_err());
        }
    }

    #[test]
    fn what_is_no_token_is_not_shown() {
        for wrong in [
            "logberg/1 auth",
            "logberg/1 auth ",
            "logberg/1 auth secret secret",
            "logberg/1 auth secr%zz",
            &format!("logberg/1 auth {}", "secret".repeat(700)),
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
            let _ = shown(&[b"logberg/1 auth certificate ".as_slice(), &bytes].concat());
            let _ = shown(&bytes);
        }
    }
}
