//! Client and node have parsers of their own for the same lines: what the client's accepts, the
//! node's understands in the same way.

use client::request::Request;

type NodeRequest = wire::Request;

/// `bytes`: what follows `logberg/1 ` in a line, up to its line feed.
pub fn check(bytes: &[u8]) {
    let said = bytes.split(|byte| *byte == b'\n').next();
    let said = said.expect("at least nothing");
    let line = [b"logberg/1 ", said].concat();
    let Ok(request) = Request::parse(&line) else {
        return;
    };
    let written = request.to_line();
    let written = written.strip_suffix('\n').expect("a line");
    assert_eq!(Request::parse(written.as_bytes()), Ok(request.clone()));
    let ours = NodeRequest::parse(written.as_bytes()).expect("a line of our client");
    // The same request as somebody else may spell it: other order, defaults written out.
    let theirs = NodeRequest::parse(&line).expect("a line that our client's parser takes");
    assert_eq!(ours.verb, theirs.verb);
    assert_eq!(words(&ours), words(&theirs));
    for key in [
        "label",
        "continues",
        "mode",
        "end",
        "stream",
        "at",
        "from",
        "to",
        "follow",
    ] {
        check_key(&ours, &theirs, key);
    }
    for key in ["stale", "format", "plan", "before", "retention"] {
        check_key(&ours, &theirs, key);
    }
    for name in ["stream", "continues", "before"] {
        if let Some(place) = ours.get(name).filter(|place| place.contains('.')) {
            let name = place.split('@').next().unwrap_or(place);
            // Numbers over 32 bits are no node's.
            let small = |number: &str| number.parse::<u32>().is_ok();
            if name.split('.').all(small) {
                assert!(wire::parse_stream(name).is_some(), "{place}");
            }
        }
    }
}

/// As the node understands them: its members are numbers, however they are written.
fn words(request: &NodeRequest) -> Vec<String> {
    let number = |word: &String| word.parse::<u64>().map(|number| number.to_string());
    let word = |word: &String| match request.verb.as_str() {
        "change-members" => number(word).unwrap_or_else(|_| word.clone()),
        _ => word.clone(),
    };
    request.words.iter().map(word).collect()
}

fn check_key(ours: &NodeRequest, theirs: &NodeRequest, key: &str) {
    let default = match key {
        "mode" => Some("refuse"),
        "end" => Some("cut"),
        "format" => Some("raw"),
        "from" | "follow" | "stale" | "plan" => Some("0"),
        _ => None,
    };
    let value = |request: &NodeRequest| {
        let value = request.get(key).or(default)?;
        // `parse` takes a sign and zeros in front, on both sides.
        let number = value.parse::<u64>().map(|number| number.to_string());
        Some(number.unwrap_or_else(|_| value.to_owned()))
    };
    match key {
        "label" | "mode" | "end" | "format" | "stream" | "retention" => {
            assert_eq!(
                ours.get(key).or(default),
                theirs.get(key).or(default),
                "{key}"
            );
        }
        // SLOT, or NAME with a position that may be left out.
        "before" => {
            let place = |request: &NodeRequest| {
                let place = request.get(key)?;
                if let Ok(slot) = place.parse::<u64>() {
                    return Some((String::new(), slot));
                }
                let (name, position) = place.split_once('@').unwrap_or((place, "0"));
                Some((name.to_owned(), position.parse().ok()?))
            };
            assert_eq!(place(ours), place(theirs));
        }
        // NAME@POSITION, a number in it.
        "continues" => {
            let name = |request: &NodeRequest| {
                let place = request.get(key)?.split_once('@')?;
                let position: u64 = place.1.parse().ok()?;
                Some((place.0.to_owned(), position))
            };
            assert_eq!(name(ours), name(theirs));
        }
        _ => assert_eq!(value(ours), value(theirs), "{key}"),
    }
}
