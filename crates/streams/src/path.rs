//! The name of a stream in its space.

use std::fmt;

use serde::{Deserialize, Serialize};

pub const PATH_BYTES_MAX: usize = 1_024;

/// The first segment below which the protocol itself keeps names.
const RESERVED: &str = "__ds";

/// Segments of UTF-8 between slashes, none of them empty, `.` or `..`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Path(String);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPath {
    #[error("a stream's name is empty: name it behind /v1/stream/, as in /v1/stream/orders")]
    Empty,
    #[error("a stream's name has at most 1024 bytes: choose a shorter one")]
    Long,
    #[error(
        "a stream's name has no empty, \".\" or \"..\" part between its slashes: leave them out"
    )]
    Segment,
    #[error("a stream's name has no control characters: leave them out")]
    Control,
    #[error("names below __ds are the protocol's own: begin the stream's name with something else")]
    Reserved,
    #[error(
        "a name that begins with @ is that of a space: begin the stream's name with something else"
    )]
    Space,
}

impl Path {
    /// Errors: it is no name.
    pub fn new(text: &str) -> Result<Path, BadPath> {
        if text.is_empty() {
            return Err(BadPath::Empty);
        }
        if text.len() > PATH_BYTES_MAX {
            return Err(BadPath::Long);
        }
        if text.chars().any(char::is_control) {
            return Err(BadPath::Control);
        }
        if text.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(BadPath::Segment);
        }
        if text.starts_with('@') {
            return Err(BadPath::Space);
        }
        match text.split('/').next() {
            Some(RESERVED) => Err(BadPath::Reserved),
            _ => Ok(Path(text.to_owned())),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Path {
    type Error = BadPath;

    fn try_from(text: String) -> Result<Path, BadPath> {
        Path::new(&text)
    }
}

impl From<Path> for String {
    fn from(path: Path) -> String {
        path.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_segments_between_slashes() {
        for good in ["a", "chat/42", "a b", "ü/é", "a/__ds", "a@b"] {
            assert_eq!(
                Path::new(good).map(|path| path.to_string()),
                Ok(good.to_owned())
            );
        }
        let bad = [
            ("", BadPath::Empty),
            ("a//b", BadPath::Segment),
            ("/a", BadPath::Segment),
            ("a/", BadPath::Segment),
            ("a/../b", BadPath::Segment),
            (".", BadPath::Segment),
            ("a\nb", BadPath::Control),
            ("__ds", BadPath::Reserved),
            ("__ds/subscriptions/x", BadPath::Reserved),
            ("@other/a", BadPath::Space),
        ];
        for (text, why) in bad {
            assert_eq!(Path::new(text), Err(why), "{text:?}");
        }
        assert_eq!(Path::new(&"a".repeat(1_025)), Err(BadPath::Long));
    }
}
