//! The type of a stream's bytes.

use serde::{Deserialize, Serialize};

/// A media type, as it was said when a stream was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MediaType(String);

impl MediaType {
    /// `None` if the text is no type: it is empty, is not `a/b`, or has characters that a header may not have.
    pub fn new(text: &str) -> Option<MediaType> {
        let text = text.trim();
        let essence = essence(text);
        let (kind, subtype) = essence.split_once('/')?;
        let is_token = |part: &str| {
            let is_of_token =
                |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            !part.is_empty() && part.bytes().all(is_of_token)
        };
        let is_text = text.len() <= 256 && text.bytes().all(|byte| (0x20..0x7f).contains(&byte));
        (is_token(kind) && is_token(subtype) && is_text).then(|| MediaType(text.to_owned()))
    }

    /// The type of bytes of which nothing is said.
    pub fn unsaid() -> MediaType {
        MediaType("application/octet-stream".to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether both are the same but for letters' case and parameters.
    pub fn is_same(&self, other: &MediaType) -> bool {
        essence(&self.0).eq_ignore_ascii_case(essence(&other.0))
    }

    /// Whether appends are messages of JSON.
    pub fn is_json(&self) -> bool {
        essence(&self.0).eq_ignore_ascii_case("application/json")
    }

    /// Whether an event can show it as it is: text, and of UTF-8.
    pub fn is_text(&self) -> bool {
        let kind = self.0.get(..5);
        kind.is_some_and(|kind| kind.eq_ignore_ascii_case("text/")) && self.is_utf8()
    }

    fn is_utf8(&self) -> bool {
        let charset = self.0.split(';').skip(1).find_map(|parameter| {
            let (name, value) = parameter.split_once('=')?;
            let is_it = name.trim().eq_ignore_ascii_case("charset");
            is_it.then(|| value.trim().trim_matches('"'))
        });
        charset.is_none_or(|charset| {
            let known = ["utf-8", "utf8", "us-ascii"];
            known
                .iter()
                .any(|known| charset.eq_ignore_ascii_case(known))
        })
    }
}

fn essence(text: &str) -> &str {
    text.split(';').next().unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_told_from_what_is_none() {
        let of = |text: &str| MediaType::new(text).expect("a type");
        assert!(of("application/json").is_json());
        assert!(of("Application/JSON; charset=utf-8").is_json());
        assert!(!of("application/x-json").is_json());
        assert!(of("text/plain").is_same(&of("TEXT/Plain;charset=utf-8")));
        assert!(!of("text/plain").is_same(&of("text/html")));
        assert!(of("text/plain; charset=\"UTF-8\"").is_text());
        assert!(!of("text/plain; charset=latin1").is_text());
        assert!(!of("image/png").is_text());
        for bad in ["", "text", "/", "a/", "a b/c", "text/plain; a=\r\nb", "é/b"] {
            assert_eq!(MediaType::new(bad), None, "{bad:?}");
        }
    }
}
