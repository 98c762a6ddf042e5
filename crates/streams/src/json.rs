//! Messages of JSON in the body of a request, and a body of messages.
//!
//! A message is kept as its text without white space outside of strings, and a line feed behind it: no message has one within, for strings escape
//! theirs. Numbers and strings keep the text in which they came.

use serde::de::IgnoredAny;

/// Values may lie within values so deep.
pub const DEPTH_MAX: usize = 128;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotJson {
    #[error("the body is not JSON in UTF-8: {0}; send one value, or an array of values")]
    Malformed(String),
    #[error("the body's JSON is nested more than {DEPTH_MAX} deep: send flatter values")]
    Deep,
}

/// The messages in a body: the body's value, or those in it if it is an array. Each is followed by a line feed; an empty array has none.
///
/// Errors: it is no JSON.
pub fn messages(body: &[u8]) -> Result<Vec<u8>, NotJson> {
    let malformed = |why: &dyn std::fmt::Display| NotJson::Malformed(why.to_string());
    std::str::from_utf8(body).map_err(|error| malformed(&error))?;
    check_depth(body)?;
    serde_json::from_slice::<IgnoredAny>(body).map_err(|error| malformed(&error))?;
    let is_space = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    let first = body.iter().find(|byte| !is_space(byte));
    let is_array = first == Some(&b'[');
    let mut messages = Vec::with_capacity(body.len() + 1);
    let mut depth = 0usize;
    let mut scan = Scan::default();
    for byte in body {
        let is_outside = scan.takes(*byte);
        if is_outside && is_space(&byte) {
            continue;
        }
        match byte {
            b'[' | b'{' if is_outside => depth += 1,
            b']' | b'}' if is_outside => depth -= 1,
            _ => {}
        }
        let is_frame = is_array && is_outside;
        match byte {
            // The array's own brackets, and the commas between its values.
            b'[' if is_frame && depth == 1 => {}
            b']' if is_frame && depth == 0 => {}
            b',' if is_frame && depth == 1 => messages.push(b'\n'),
            byte => messages.push(*byte),
        }
    }
    if !messages.is_empty() {
        messages.push(b'\n');
    }
    Ok(messages)
}

/// Before it is parsed.
fn check_depth(body: &[u8]) -> Result<(), NotJson> {
    let (mut depth, mut scan) = (0usize, Scan::default());
    for byte in body {
        match (scan.takes(*byte), byte) {
            (true, b'[' | b'{') => depth += 1,
            (true, b']' | b'}') => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEPTH_MAX {
            return Err(NotJson::Deep);
        }
    }
    Ok(())
}

/// Tells what is within a string.
#[derive(Default)]
struct Scan {
    in_string: bool,
    is_escaped: bool,
}

impl Scan {
    /// Whether this byte is outside of strings. Their quotes are not.
    fn takes(&mut self, byte: u8) -> bool {
        if !self.in_string {
            self.in_string = byte == b'"';
            return !self.in_string;
        }
        if self.is_escaped {
            self.is_escaped = false;
        } else if byte == b'\\' {
            self.is_escaped = true;
        } else if byte == b'"' {
            self.in_string = false;
        }
        false
    }
}

/// An array of these messages.
pub fn array(messages: &[u8]) -> Vec<u8> {
    let mut array = Vec::with_capacity(messages.len() + 2);
    array.push(b'[');
    let within = messages.strip_suffix(b"\n").unwrap_or(messages);
    array.extend(within.iter().map(|byte| match byte {
        b'\n' => b',',
        byte => *byte,
    }));
    array.push(b']');
    array
}

/// The bytes of an array of so many bytes of messages.
pub fn array_length(messages: u64) -> u64 {
    match messages {
        0 => 2,
        // The last LF stands for the bracket behind.
        messages => messages + 1,
    }
}

/// Makes messages a part of an array, behind its first bracket.
///
/// `is_last`: the array ends with them.
pub fn join(messages: &mut [u8], is_last: bool) {
    for byte in messages.iter_mut().filter(|byte| **byte == b'\n') {
        *byte = b',';
    }
    if let Some(last) = messages.last_mut().filter(|_| is_last) {
        *last = b']';
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn text(body: &str) -> String {
        String::from_utf8(messages(body.as_bytes()).expect("it is JSON")).expect("UTF-8")
    }

    #[test]
    fn an_array_in_parts_is_the_array_and_its_length_is_known() {
        for (first, second) in [("1\n", "{\"a\":2}\n[3]\n"), ("1\n2\n", "\"x\"\n")] {
            let (mut begin, mut end) = (first.as_bytes().to_vec(), second.as_bytes().to_vec());
            join(&mut begin, false);
            join(&mut end, true);
            let joined = [&b"["[..], &begin, &end].concat();
            let all = array(format!("{first}{second}").as_bytes());
            assert_eq!(joined, all);
            let length = (first.len() + second.len()) as u64;
            assert_eq!(array_length(length), all.len() as u64);
        }
        assert_eq!(array_length(0), array(b"").len() as u64);
    }

    #[test]
    fn one_level_of_an_array_is_taken_apart() {
        assert_eq!(text(r#"{"a": 1}"#), "{\"a\":1}\n");
        assert_eq!(
            text(r#" [ {"a":[1, 2]} , "x, y]" ] "#),
            "{\"a\":[1,2]}\n\"x, y]\"\n"
        );
        assert_eq!(text("[[1,2],[3]]"), "[1,2]\n[3]\n");
        assert_eq!(text("[[[1]]]"), "[[1]]\n");
        assert_eq!(text("[]"), "");
        assert_eq!(text("[[]]"), "[]\n");
        assert_eq!(text(r#""a \" \\""#), "\"a \\\" \\\\\"\n");
        assert_eq!(text("1.50e+07"), "1.50e+07\n");
        assert_eq!(array(b"1\n2\n"), b"[1,2]");
        assert_eq!(array(b""), b"[]");
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for bad in [
            "",
            " ",
            "{",
            "[1,]",
            "01",
            "1 2",
            "\"a\nb\"",
            "nul",
            "\u{feff}1",
            "'a'",
            "[1]]",
        ] {
            assert!(messages(bad.as_bytes()).is_err(), "{bad:?}");
        }
        assert!(messages(b"\"\xff\"").is_err());
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(messages(nested(DEPTH_MAX).as_bytes()).is_ok());
        assert_eq!(
            messages(nested(DEPTH_MAX + 1).as_bytes()),
            Err(NotJson::Deep)
        );
        assert_eq!(messages("[".repeat(1 << 20).as_bytes()), Err(NotJson::Deep));
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn messages_are_those_that_another_parser_finds(value in value(), pretty in any::<bool>()) {
            let body = match pretty {
                true => serde_json::to_string_pretty(&value),
                false => serde_json::to_string(&value),
            };
            let found = messages(body.expect("text").as_bytes()).expect("it is JSON");
            let lines: Vec<&[u8]> = found.split_inclusive(|byte| *byte == b'\n').collect();
            let parsed: Result<Vec<Value>, _> = lines.iter().map(|line| serde_json::from_slice(line)).collect();
            let expected = match &value {
                Value::Array(values) => values.clone(),
                value => vec![value.clone()],
            };
            // A number is read back as it was written.
            let expected: Vec<Value> = expected
                .iter()
                .map(|value| serde_json::from_str(&value.to_string()).expect("JSON"))
                .collect();
            prop_assert_eq!(parsed.expect("each is JSON"), expected.clone());
            let all: Value = serde_json::from_slice(&array(&found)).expect("an array");
            prop_assert_eq!(all, Value::from(expected));
        }

        #[test]
        fn whatever_comes_is_taken_exactly_if_it_is_json(body in prop::collection::vec(prop::sample::select(&b"[]{},:\" \n\\1e-.truenl\xc3\xa9u0"[..]), 0..24)) {
            let is_json = serde_json::from_slice::<Value>(&body).is_ok();
            match messages(&body) {
                Ok(found) => {
                    for line in found.split_inclusive(|byte| *byte == b'\n') {
                        prop_assert!(serde_json::from_slice::<IgnoredAny>(line).is_ok());
                    }
                }
                // What refuses more is no looser parser: numbers that do not fit are text to us.
                Err(_) => prop_assert!(!is_json),
            }
        }
    }
}
