//! A server's bytes: however they are cut, they are the same replies, and each is read as it is written.

use resp::{Decoder, NoReply, Protocol, Value, encode};

/// `bytes`: the first says how the rest is cut.
pub fn check(bytes: &[u8]) {
    let (step, bytes) = match bytes {
        [step, rest @ ..] => (usize::from(*step).max(1), rest),
        [] => return,
    };
    let whole = read(bytes, bytes.len().max(1));
    assert_eq!(
        shown(&whole),
        shown(&read(bytes, step)),
        "cut into pieces of {step}"
    );
    for value in &whole.0 {
        let mut again = Vec::new();
        encode(value, Protocol::Resp3, &mut again);
        let (values, wrong) = read(&again, step);
        assert_eq!(wrong, None);
        assert_eq!(values.len(), 1);
        let mut third = Vec::new();
        encode(&values[0], Protocol::Resp3, &mut third);
        assert_eq!(again, third);
        let mut old = Vec::new();
        encode(value, Protocol::Resp2, &mut old);
        assert_eq!(read(&old, step).1, None, "RESP 2");
    }
}

/// Not-a-number is not equal to itself.
fn shown(read: &(Vec<Value>, Option<NoReply>)) -> String {
    format!("{read:?}")
}

fn read(bytes: &[u8], step: usize) -> (Vec<Value>, Option<NoReply>) {
    let mut decoder = Decoder::new(300);
    let mut values = Vec::new();
    let mut received: Vec<u8> = Vec::new();
    for piece in bytes.chunks(step) {
        received.extend_from_slice(piece);
        loop {
            match decoder.next(&received) {
                Ok(Some((value, length))) => {
                    assert!(length > 0 && length <= received.len(), "progress");
                    values.push(value);
                    received.drain(..length);
                }
                Ok(None) => break,
                Err(wrong) => return (values, Some(wrong)),
            }
        }
    }
    (values, None)
}
