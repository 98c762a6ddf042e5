//! Request lines: a line is read as it would be written, and a refusal is one short line.

use formats::{ClusterId, parse_hex16};
use wire::{Ask, LINE_BYTES_MAX, Refusal, Request, parse_stream};

/// `bytes`: a line, up to its line feed.
pub fn check(bytes: &[u8]) {
    let line = bytes.split(|byte| *byte == b'\n').next();
    let line = line.expect("at least nothing");
    check_line(line);
    // Most drawn lines are another protocol's: the rest of such a line is looked at all the same.
    check_line(&[b"logberg/1 ", line].concat());
}

fn check_line(line: &[u8]) {
    let line = &line[..line.len().min(LINE_BYTES_MAX - 1)];
    match Request::parse(line) {
        Ok(request) => {
            let again = request.encode();
            let (end, again) = again.split_last().expect("it has a line feed");
            assert_eq!(*end, b'\n');
            assert!(again.iter().all(|byte| *byte != b'\n'));
            assert_eq!(Request::parse(again), Ok(request.clone()));
            // The refusal of a verb that knows no keys.
            if let Err(error) = request.check() {
                check_refusal(&Refusal::from(error));
            }
            check_ask(&request);
            for word in &request.words {
                check_word(word);
            }
        }
        Err(error) => check_refusal(&Refusal::from(error)),
    }
}

/// A client's request is written in one way, and means the same when it is read again.
fn check_ask(request: &Request) {
    match Ask::read(request) {
        Ok(ask) => assert_eq!(Ask::parse(ask.to_line().as_bytes()), Ok(ask)),
        Err(error) => check_refusal(&Refusal::from(error)),
    }
}

fn check_refusal(refusal: &Refusal) {
    let line = refusal.encode();
    let text = std::str::from_utf8(&line).expect("text");
    assert!(text.starts_with("error ") && text.contains(": "));
    assert!(text.ends_with('\n') && text.matches('\n').count() == 1);
    assert!(line.len() <= LINE_BYTES_MAX, "{} bytes", line.len());
}

fn check_word(word: &str) {
    if let Some(name) = parse_stream(word) {
        let (owner, sequence) = (name.owner.0, name.sequence);
        let spelt = format!("{owner}.{}.{}", sequence.incarnation, sequence.counter);
        assert_eq!(spelt, word, "a name has one spelling");
    }
    if let Some(id) = parse_hex16(word) {
        let plain = |text: &str| text.replace('-', "").to_ascii_lowercase();
        assert_eq!(plain(&ClusterId(id).to_string()), plain(word));
    }
}
