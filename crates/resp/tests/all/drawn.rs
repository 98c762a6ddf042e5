//! Drawn requests and drawn bytes. The checks are those of the fuzz targets.

use proptest::collection::vec;
use proptest::prelude::*;

#[path = "../fuzzed/resp_replies.rs"]
mod resp_replies;
#[path = "../fuzzed/resp_requests.rs"]
mod resp_requests;

/// Bytes that are mostly what the protocol is made of.
fn likely() -> impl Strategy<Value = Vec<u8>> {
    let token = prop_oneof![
        Just(b"*".to_vec()),
        Just(b"$".to_vec()),
        Just(b"%1\r\n".to_vec()),
        Just(b"|1\r\n".to_vec()),
        Just(b"~2\r\n".to_vec()),
        Just(b",1.5\r\n".to_vec()),
        Just(b":7\r\n".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"\n".to_vec()),
        Just(b"\"".to_vec()),
        Just(b"*2\r\n".to_vec()),
        Just(b"$3\r\nabc\r\n".to_vec()),
        Just(b"$0\r\n\r\n".to_vec()),
        Just(b"$500\r\n".to_vec()),
        Just([&b"$301\r\n"[..], &[b'x'; 301], b"\r\n"].concat()),
        Just([&b"$250\r\n"[..], &[b'x'; 250], b"\r\n"].concat()),
        Just(b"GET a\r\n".to_vec()),
        "[0-9]{1,3}".prop_map(String::into_bytes),
        vec(any::<u8>(), 0..4),
    ];
    vec(token, 0..20).prop_map(|tokens| tokens.concat())
}

fn requests() -> impl Strategy<Value = Vec<Vec<Vec<u8>>>> {
    vec(vec(vec(any::<u8>(), 0..40), 1..8), 0..6)
}

proptest! {
    #[test]
    fn likely_bytes_are_the_same_requests_however_they_are_cut(step in 1..=255u8, bytes in likely()) {
        resp_requests::check(&[vec![step], bytes].concat());
    }

    #[test]
    fn likely_bytes_are_the_same_replies_however_they_are_cut(step in 1..=255u8, bytes in likely()) {
        resp_replies::check(&[vec![step], bytes].concat());
    }

    #[test]
    fn bytes_of_any_kind_make_nobody_panic(bytes in vec(any::<u8>(), 0..400)) {
        resp_requests::check(&bytes);
        resp_replies::check(&bytes);
    }

    #[test]
    fn requests_are_read_as_they_were_written(step in 1..=20usize, requests in requests()) {
        let mut parser = resp::Parser::new(resp::Limits::default());
        let mut bytes = Vec::new();
        for words in &requests {
            resp::encode(&resp::Value::bulks(words.clone()), resp::Protocol::Resp2, &mut bytes);
        }
        let (mut received, mut found) = (Vec::new(), Vec::new());
        for piece in bytes.chunks(step) {
            received.extend_from_slice(piece);
            while let Ok(resp::Found::Request(request)) = parser.next(&received) {
                found.push(request.arguments().map(<[u8]>::to_vec).collect::<Vec<_>>());
                let length = request.length();
                received.drain(..length);
            }
        }
        prop_assert_eq!(found, requests);
    }
}
