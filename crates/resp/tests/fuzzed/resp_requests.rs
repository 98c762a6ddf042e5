//! A client's bytes: however they are cut, they are the same requests, and each of them says the same when it is written anew.

use resp::{Found, Limits, Parser, Wrong};

const LIMITS: Limits = Limits {
    bulk_bytes_max: 300,
    request_bytes_max: 400,
    dropped_bytes_max: 600,
    arguments_max: 20,
    line_bytes_max: 100,
};

/// Stands for a request that was dropped.
const TOO_LONG: &[u8] = b"too long";

type Words = Vec<Vec<u8>>;

/// `bytes`: the first says how the rest is cut.
pub fn check(bytes: &[u8]) {
    let (step, bytes) = match bytes {
        [step, rest @ ..] => (usize::from(*step).max(1), rest),
        [] => return,
    };
    let whole = read(bytes, bytes.len().max(1));
    assert_eq!(whole, read(bytes, step), "cut into pieces of {step}");
    assert_eq!(whole, read(bytes, 1), "byte by byte");
    let again: Vec<u8> = whole.0.iter().flat_map(written).collect();
    let limits_of_lines = |words: &Words| words.len() <= LIMITS.arguments_max;
    if whole.0.iter().all(limits_of_lines) {
        assert_eq!(read(&again, step).0, whole.0);
    }
}

/// The requests that these bytes hold, when they come in pieces of this length; and what is wrong with what follows.
fn read(bytes: &[u8], step: usize) -> (Vec<Words>, Option<Wrong>) {
    let mut parser = Parser::new(LIMITS);
    let mut requests = Vec::new();
    let mut received: Vec<u8> = Vec::new();
    for piece in bytes.chunks(step) {
        received.extend_from_slice(piece);
        loop {
            let length = match parser.next(&received) {
                Ok(Found::Request(request)) => {
                    let words: Words = request.arguments().map(<[u8]>::to_vec).collect();
                    assert!(!words.is_empty());
                    assert!(words.iter().map(Vec::len).sum::<usize>() <= request.length());
                    requests.push(words);
                    request.length()
                }
                Ok(Found::Nothing { length } | Found::Dropped { length }) => length,
                Ok(Found::TooLong { length }) => {
                    requests.push(vec![TOO_LONG.to_vec()]);
                    length
                }
                Ok(Found::More) => break,
                Err(wrong) => {
                    assert!(wrong.to_string().starts_with("ERR Protocol error: "));
                    return (requests, Some(wrong));
                }
            };
            assert!(length > 0 && length <= received.len(), "progress");
            received.drain(..length);
        }
        assert!(parser.missing(received.len()) <= LIMITS.bulk_bytes_max + 2);
        assert!(
            received.len() <= LIMITS.request_bytes_max + LIMITS.line_bytes_max + 4,
            "what is too long is not kept"
        );
    }
    (requests, None)
}

fn written(words: &Words) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}
