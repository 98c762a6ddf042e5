//! Places in a log, as people write them: `@BYTES` of its output, `STREAM`, `STREAM@BYTES`. Bytes may have units.

use client::StreamName;
use node::directory::check_log_name;
use wire::quantity;
use wire::{Before, StreamPlace};

/// The name of a log that may be made; a group of keys is one.
pub fn log_name(text: &str) -> Result<String, String> {
    check_log_name(text).map(|()| text.to_owned())
}

/// A position: bytes, with or without the `@` that stands before them elsewhere.
pub fn position(text: &str) -> Result<u64, String> {
    quantity::bytes(text.strip_prefix('@').unwrap_or(text))
}

/// A stream, or a position of it; its beginning, if none is named.
pub fn in_stream(text: &str) -> Result<StreamPlace, String> {
    let (stream, position) = text.split_once('@').unwrap_or((text, "0"));
    let stream: StreamName = stream
        .parse()
        .map_err(|error: wire::NoStreamName| error.to_string())?;
    let position = quantity::bytes(position)?;
    Ok(StreamPlace { stream, position })
}

/// The first place that a trim keeps.
pub fn before(text: &str) -> Result<Before, String> {
    if let Some(position) = text.strip_prefix('@') {
        return quantity::bytes(position).map(Before::Output);
    }
    if text.contains('@') {
        return in_stream(text).map(Before::Stream);
    }
    text.parse().map_err(|error: wire::NoPlace| {
        match text.bytes().all(|byte| byte.is_ascii_digit()) {
            true => format!("{error}; a bare number could be meant as bytes or as slots"),
            false => error.to_string(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_logs_are_told_from_nonsense() {
        for name in ["kv-4", "a.b_c", &"x".repeat(64)] {
            assert_eq!(log_name(name).as_deref(), Ok(name));
        }
        for name in ["", " ", "a b", "a/b", ".a", &"x".repeat(65)] {
            assert!(log_name(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn places_have_units_and_a_bare_number_is_none_for_a_trim() {
        assert_eq!(position("@1M"), Ok(1_000_000));
        assert_eq!(position("4KiB"), Ok(4096));
        assert_eq!(
            in_stream("1.4.2@1KiB").map(|place| place.position),
            Ok(1024)
        );
        assert_eq!(in_stream("1.4.2").map(|place| place.position), Ok(0));
        assert_eq!(before("@2KiB"), Ok(Before::Output(2048)));
        assert_eq!(before("slot:7"), Ok(Before::Slot(7)));
        assert_eq!(
            before("1.4.2@1k").map(|place| place.to_string()),
            Ok("1.4.2@1000".into())
        );
        let bare = before("999999999999").expect_err("it could be anything");
        assert!(bare.contains("a bare number could be meant as bytes or as slots"));
        for text in ["", "@", "1.4.2@x", "yesterday", "x@5"] {
            assert!(before(text).is_err(), "{text}");
        }
    }
}
