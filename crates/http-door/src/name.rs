//! The full name of a stream: its space, and its path there.

use std::fmt;

use percent_encoding::percent_decode_str;
use streams::Path;

use crate::fault::Fault;

/// The space whose streams are named by their paths alone.
pub const SPACE: &str = "default";
/// Before the name of any other space.
const OTHER_SPACE: char = '@';

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    pub space: String,
    pub path: Path,
}

impl Name {
    /// The name in an address, behind `/v1/stream/`.
    ///
    /// Errors: it is none.
    pub fn in_address(encoded: &str) -> Result<Name, Fault> {
        let lower = encoded.to_ascii_lowercase();
        // ‡ One stream has one address: a slash that is hidden would be another for proxies.
        if lower.contains("%2f") {
            return Err(bad(
                "a stream's name has an encoded slash",
                "write / as it is",
            ));
        }
        let decoded = percent_decode_str(encoded).decode_utf8();
        let decoded = decoded.map_err(|_| {
            bad(
                "a stream's name is not UTF-8",
                "encode its characters as UTF-8",
            )
        })?;
        let (space, path) = match decoded.strip_prefix(OTHER_SPACE) {
            None => (SPACE, &*decoded),
            Some(rest) => rest.split_once('/').ok_or_else(|| {
                bad(
                    "a space is named, and no stream of it",
                    "name the stream behind it, as in /v1/stream/@team/orders",
                )
            })?,
        };
        // ‡ One stream has one address.
        if decoded.starts_with(OTHER_SPACE) && space == SPACE {
            return Err(bad(
                "streams of the space default are named without it",
                "leave @default/ away",
            ));
        }
        let path = Path::new(path);
        let path = path.map_err(|why| Fault::sentence(400, "bad-path", &why.to_string()))?;
        Ok(Name {
            space: space_name(space)?,
            path,
        })
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.space.as_str() {
            SPACE => write!(f, "{}", self.path),
            space => write!(f, "{OTHER_SPACE}{space}/{}", self.path),
        }
    }
}

fn bad(why: &str, remedy: &str) -> Fault {
    Fault::new(400, "bad-path", why, remedy)
}

fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    // None of these need be encoded, so a name has one address.
    !text.is_empty() && text.bytes().all(is_plain)
}

/// The name of a log, as it stands in an address.
///
/// Errors: it is none. (Which names there may be is said by whoever makes one.)
pub fn log_name(encoded: &str) -> Result<String, Fault> {
    let why = "this is no name of a log";
    let remedy = "a log's name has letters, digits, '-', '_' and '.', as they are";
    match is_name(encoded) {
        true => Ok(encoded.to_owned()),
        false => Err(bad(why, remedy)),
    }
}

/// The name of a space, which is a log's.
///
/// Errors: it is none.
pub fn space_name(text: &str) -> Result<String, Fault> {
    let why = "this is no name of a space";
    let remedy = "a space's name has letters, digits, '-', '_' and '.', as they are";
    match is_name(text) {
        true => Ok(text.to_owned()),
        false => Err(bad(why, remedy)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_of_another_space_is_named_behind_it() {
        let of = |encoded: &str| {
            let name = Name::in_address(encoded).map_err(|fault| fault.message)?;
            Ok::<_, String>((name.space.clone(), name.path.to_string(), name.to_string()))
        };
        let told = |space: &str, path: &str, name: &str| {
            Ok((space.to_owned(), path.to_owned(), name.to_owned()))
        };
        assert_eq!(of("a%20b/c"), told("default", "a b/c", "a b/c"));
        assert_eq!(of("@team/a/b"), told("team", "a/b", "@team/a/b"));
        assert_eq!(of("%40team/a"), told("team", "a", "@team/a"));
        for wrong in [
            "@team",
            "@team/",
            "@/a",
            "@default/a",
            "@te am/a",
            "@team//a",
            "@team/@other/a",
            "@team/__ds/a",
            "a%2Fb",
            "%ff",
            "",
        ] {
            assert!(of(wrong).is_err(), "{wrong:?}");
        }
    }
}
