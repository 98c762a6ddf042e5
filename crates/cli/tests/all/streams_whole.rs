//! A whole stream in one answer, and parts of it.

use std::io::Read;

use crate::http::Answer;
use crate::streams::{JSON, Streams, TEXT, error_of};

const BYTES: (&str, &str) = ("Content-Type", "application/octet-stream");

/// Bytes that tell their place.
fn content(length: usize) -> Vec<u8> {
    let words = (0_u32..).flat_map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes());
    words.take(length).collect()
}

fn length(answer: &Answer) -> usize {
    let length = answer.header("Content-Length").expect("a length");
    length.parse().expect("a number")
}

#[test]
fn a_whole_stream_and_any_part_of_it_come_in_one_answer_from_any_node() {
    let directory = tempfile::tempdir().expect("a directory");
    let streams = Streams::start(directory.path());
    let all = content((3 << 20) + 12_345);
    assert_eq!(streams.ask(0, "PUT", "a", &[BYTES], b"").status, 201);
    let empty = streams.ask(1, "GET", "a?all=1", &[], b"");
    assert_eq!((empty.status, length(&empty)), (200, 0));
    let (mut at, mut middle) = (0, String::new());
    for (turn, piece) in [1, 70_000, 300_000, 17, 1_500_000]
        .iter()
        .cycle()
        .enumerate()
    {
        let to = (at + piece).min(all.len());
        let answer = streams.insist(turn % 3, "POST", "a", &[BYTES], &all[at..to]);
        assert_eq!(answer.status, 204);
        if turn == 2 {
            middle = answer.offset();
        }
        at = to;
        if at == all.len() {
            break;
        }
    }
    for at in 0..3 {
        let mut answer = streams.ask(at, "GET", "a?all=1", &[], b"");
        assert_eq!((answer.status, length(&answer)), (200, all.len()));
        assert_eq!(answer.header("Stream-Up-To-Date"), Some("true"));
        assert_eq!(answer.header("Accept-Ranges"), Some("bytes"));
        let etag = answer.header("ETag").expect("a tag").to_owned();
        assert!(answer.body() == all, "node {at}");
        let known = [("If-None-Match", etag.as_str())];
        assert_eq!(streams.ask(at, "GET", "a?all=1", &known, b"").status, 304);
        let mut rest = streams.ask(at, "GET", &format!("a?all=1&offset={middle}"), &[], b"");
        assert!(rest.body() == all[370_001..], "behind an offset");
    }
    // A fork has the same bytes, though they lie elsewhere.
    let fork = [
        ("Stream-Forked-From", "/v1/stream/a"),
        ("Stream-Fork-Offset", middle.as_str()),
    ];
    assert_eq!(streams.insist(0, "PUT", "b", &fork, b"").status, 201);
    assert_eq!(streams.insist(1, "POST", "b", &[BYTES], b"own").status, 204);
    let forked = [&all[..370_001], b"own"].concat();
    let parts: [(&str, &str, &[u8], &[u8]); 8] = [
        ("a", "bytes=0-0", &all, &all[..1]),
        ("a", "bytes=1-70000", &all, &all[1..70_001]),
        ("a", "bytes=69999-70001", &all, &all[69_999..70_002]),
        ("a", "bytes=1000000-99999999", &all, &all[1_000_000..]),
        ("a", "bytes=-5", &all, &all[all.len() - 5..]),
        ("a", "bytes=300000-", &all, &all[300_000..]),
        (
            "b",
            "bytes=369990-370002",
            &forked,
            &forked[369_990..370_003],
        ),
        ("b", "bytes=-3", &forked, b"own"),
    ];
    for (turn, (name, said, whole, part)) in parts.into_iter().enumerate() {
        let mut answer = streams.ask(turn % 3, "GET", name, &[("Range", said)], b"");
        assert_eq!(
            (answer.status, length(&answer)),
            (206, part.len()),
            "{said}"
        );
        let range = answer.header("Content-Range").expect("it is told");
        assert!(range.ends_with(&format!("/{}", whole.len())), "{range}");
        assert!(answer.body() == part, "{name} {said}");
    }
    let beyond = [("Range", "bytes=99999999-")];
    let mut refused = streams.ask(2, "GET", "a", &beyond, b"");
    let told = format!("bytes */{}", all.len());
    assert_eq!(refused.header("Content-Range"), Some(told.as_str()));
    assert_eq!(error_of(&mut refused), (416, "range".to_owned()));
    // A tag of another stream: what is there is not the rest of what was read.
    let other = [("Range", "bytes=5-9"), ("If-Range", "\"1:0:5\"")];
    let mut page = streams.ask(0, "GET", "b", &other, b"");
    assert!((page.status, page.body()) == (200, forked));
    // A range that is passed over is all of it, and no page of it.
    for said in ["bytes=0-3,5-6", "bytes=0-99999999999999999999", "words=1-2"] {
        let mut whole = streams.ask(1, "GET", "a", &[("Range", said)], b"");
        assert!((whole.status, whole.body()) == (200, all.clone()), "{said}");
    }
    // A node that nobody answers tells what it has.
    streams.cluster.pause(1).expect("it stands still");
    streams.cluster.pause(3).expect("it stands still");
    let mut stale = streams.ask(1, "GET", "a?stale=1&all=1", &[], b"");
    assert!((stale.status, stale.body()) == (200, all.clone()));
    let part = [("Range", "bytes=5-9")];
    let mut stale = streams.ask(1, "GET", "a?stale=1", &part, b"");
    assert!((stale.status, stale.body()) == (206, all[5..10].to_vec()));
    streams.cluster.go_on(1).expect("it goes on");
    streams.cluster.go_on(3).expect("it goes on");
    for wrong in ["a?all=1&live=sse&offset=-1", "a?all=2", "a?all=1&all=1"] {
        let mut refused = streams.ask(0, "GET", wrong, &[], b"");
        assert_eq!(
            error_of(&mut refused),
            (400, "bad-query".to_owned()),
            "{wrong}"
        );
    }
    let mut refused = streams.ask(0, "GET", "a?offset=-1", &[("Range", "bytes=0-1")], b"");
    assert_eq!(error_of(&mut refused), (400, "bad-query".to_owned()));
}

#[test]
fn a_whole_array_is_json_and_what_cannot_be_finished_breaks_off() {
    let directory = tempfile::tempdir().expect("a directory");
    let streams = Streams::start(directory.path());
    assert_eq!(streams.ask(0, "PUT", "json", &[JSON], b"").status, 201);
    assert_eq!(streams.ask(1, "GET", "json?all=1", &[], b"").text(), "[]");
    let text = "x".repeat(900_000);
    for number in 0..3 {
        let body = format!("[{number},\"{text}\",{{\"a\":[1,2]}}]");
        let answer = streams.insist(number % 3, "POST", "json", &[JSON], body.as_bytes());
        assert_eq!(answer.status, 204);
    }
    let mut whole = streams.ask(2, "GET", "json?all=1", &[("Range", "bytes=0-4")], b"");
    assert_eq!(whole.status, 200);
    let values: Vec<serde_json::Value> = serde_json::from_str(&whole.text()).expect("JSON");
    assert_eq!(values.len(), 9);
    assert_eq!((&values[6], values[7].as_str()), (&2.into(), Some(&*text)));
    // Its bytes go while somebody reads them: he sees that they are not all.
    assert_eq!(streams.ask(0, "PUT", "long", &[TEXT], b"").status, 201);
    let part = vec![b'y'; 8_000_000];
    for _ in 0..8 {
        assert_eq!(
            streams.insist(0, "POST", "long", &[TEXT], &part).status,
            204
        );
    }
    let mut reader = streams.ask(0, "GET", "long?all=1", &[], b"");
    assert_eq!(length(&reader), 64_000_000);
    assert_eq!(streams.ask(1, "DELETE", "long", &[], b"").status, 204);
    assert_eq!(streams.insist(0, "HEAD", "long", &[], b"").status, 404);
    let mut came = Vec::new();
    let ended = reader.rest.read_to_end(&mut came);
    assert!(came.len() < 64_000_000, "{ended:?}");
    assert!(came.iter().all(|byte| *byte == b'y'));
}
