//! A space has limits, and every node keeps to them.

use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use crate::http::{self, Answer};
use crate::streams::{Streams, TEXT, error_of};

fn limits(streams: &Streams, words: &[&str]) -> Json {
    let doors = streams.doors.join(",");
    let all = ["stream", "--http", &doors, "--json", "limits"];
    let said = streams.logberg(&[&all[..], words].concat());
    serde_json::from_str(&said).expect("JSON")
}

/// Asks until the node answers so: it hears of other limits after a moment.
fn until(streams: &Streams, at: usize, status: u16) -> Answer {
    let begun = Instant::now();
    loop {
        let answer = streams.ask(at, "HEAD", "first", &[], b"");
        if answer.status == status {
            return answer;
        }
        assert!(
            matches!(answer.status, 200 | 429 | 503),
            "{}",
            answer.status
        );
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "it is never {status}"
        );
    }
}

fn code(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

#[test]
fn a_space_holds_as_many_streams_and_bytes_as_it_may_whichever_node_is_asked() {
    let directory = tempfile::tempdir().expect("a directory");
    let streams = Streams::start(directory.path());
    assert_eq!(streams.ask(0, "PUT", "a", &[TEXT], b"x").status, 201);
    let set = limits(&streams, &["--streams", "3", "--keep", "12KiB"]);
    assert_eq!(
        (&set["streams"], &set["bytes"]),
        (&json!(3), &json!(12 << 10))
    );
    assert_eq!(set["used"], json!({"streams": 2, "bytes": 4_096}));
    assert_eq!(streams.ask(1, "PUT", "b", &[TEXT], b"").status, 201);
    let mut refused = streams.ask(2, "PUT", "c", &[TEXT], b"");
    assert_eq!(refused.header("Retry-After"), Some("60"));
    assert_eq!(error_of(&mut refused), code(429, "many-streams"));
    let two_blocks = vec![b'y'; 2 << 12];
    for (at, sequence) in ["0", "1", "2"].into_iter().enumerate() {
        let producer = [
            TEXT,
            ("Producer-Id", "p"),
            ("Producer-Epoch", "0"),
            ("Producer-Seq", sequence),
        ];
        let appended = streams.ask(at, "POST", "b", &producer, &two_blocks);
        match at {
            0 => assert_eq!(appended.status, 200),
            _ => assert_eq!(appended.status, if at == 1 { 429 } else { 409 }),
        }
    }
    let mut refused = streams.ask(1, "POST", "b", &[TEXT], b"z");
    assert_eq!(refused.header("Retry-After"), Some("60"));
    assert_eq!(error_of(&mut refused), code(429, "many-bytes"));
    // A block that was begun has room, and reads are no bytes that are kept.
    assert_eq!(streams.ask(2, "POST", "a", &[TEXT], b"z").status, 204);
    assert_eq!(streams.text(0, "b").len(), 2 << 12);
    // The nodes are killed, and know it still.
    streams.cluster.kill_all().expect("they are killed");
    for node in 1..=3 {
        streams.cluster.restart(node).expect("it starts");
    }
    let ready = streams.cluster.wait_ready(Duration::from_secs(60));
    ready.expect("all are there");
    let mut refused = streams.insist(0, "POST", "b", &[TEXT], b"z");
    assert_eq!(error_of(&mut refused), code(429, "many-bytes"));
    assert_eq!(streams.insist(1, "DELETE", "b", &[], b"").status, 204);
    assert_eq!(
        streams
            .insist(2, "PUT", "c", &[TEXT], b"there is room")
            .status,
        201
    );
    let none = limits(&streams, &["--streams", "none", "--keep", "none"]);
    assert_eq!(
        (&none["streams"], &none["bytes"]),
        (&json!(1_000_000), &Json::Null)
    );
    assert_eq!(none["used"], json!({"streams": 3, "bytes": 8_192}));
}

#[test]
fn whoever_asks_too_fast_is_told_when_to_ask_again_at_every_node() {
    let directory = tempfile::tempdir().expect("a directory");
    let streams = Streams::start(directory.path());
    limits(&streams, &["--requests", "3"]);
    for at in 0..3 {
        let refused = until(&streams, at, 429);
        let wait = refused
            .header("Retry-After")
            .and_then(|wait| wait.parse::<u64>().ok());
        assert!(matches!(wait, Some(1..=2)), "{wait:?}");
        let mut refused = loop {
            let refused = streams.ask(at, "POST", "first", &[TEXT], b"x");
            if refused.status == 429 {
                break refused;
            }
        };
        let text = refused.text();
        assert!(
            text.contains("slow-down") && text.contains("3 requests a second"),
            "{text}"
        );
        // What is no request on streams is answered.
        for path in ["/v1/limits/default", "/healthz", "/v1/openapi.json"] {
            let answer = http::ask(&streams.doors[at], "GET", path, &[], b"");
            assert_eq!(answer.expect("an answer").status, 200, "{path}");
        }
        let log = http::ask(&streams.doors[at], "GET", "/v1/log/none", &[], b"");
        assert_eq!(log.expect("an answer").status, 404);
    }
    // The command waits as it is told.
    let doors = streams.doors.join(",");
    for _ in 0..5 {
        streams.logberg(&["stream", "--http", &doors, "ls"]);
    }
    limits(&streams, &["--requests", "none"]);
    for at in 0..3 {
        until(&streams, at, 200);
    }
    // Bytes are waited for behind the request that brought them.
    limits(&streams, &["--each", "--bytes", "1KiB"]);
    let body = vec![b'x'; 64 << 10];
    let begun = Instant::now();
    loop {
        let answer = streams.ask(1, "POST", "first", &[TEXT], &body);
        // Until it has heard, the limit of before may be the one that refuses.
        let wait = answer.header("Retry-After");
        let wait = wait.map_or(0, |wait| wait.parse().expect("seconds"));
        if answer.status == 429 && wait > 30 {
            break;
        }
        assert!(matches!(answer.status, 204 | 429), "{}", answer.status);
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "it is never refused"
        );
    }
    limits(&streams, &["--each", "--bytes", "none"]);
    until(&streams, 1, 200);
}

#[test]
fn a_change_of_limits_that_makes_no_sense_changes_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let streams = Streams::without_a_space(directory.path(), 3);
    let ask = |method: &str, body: &[u8]| {
        let answer = http::ask(&streams.doors[1], method, "/v1/limits/default", &[], body);
        answer.expect("an answer")
    };
    // There is no space yet, and it has no limits.
    let mut shown = ask("GET", b"");
    let shown: Json = serde_json::from_str(&shown.text()).expect("JSON");
    assert_eq!(shown["used"], json!({"streams": 0, "bytes": 0}));
    for body in [
        &b"no JSON"[..],
        br#"{"bytes":0}"#,
        br#"{"streams":100000001}"#,
        br#"{"kept":7}"#,
    ] {
        let begun = Instant::now();
        // The first of them that a node understands makes the space.
        let mut answer = loop {
            let answer = ask("PATCH", body);
            if answer.status != 503 || begun.elapsed() > Duration::from_secs(60) {
                break answer;
            }
        };
        assert_eq!(error_of(&mut answer), code(400, "bad-limits"));
    }
    assert_eq!(ask("PUT", b"{}").status, 405);
    let mut after = ask("GET", b"");
    let after: Json = serde_json::from_str(&after.text()).expect("JSON");
    assert_eq!(after, shown);
    let words = ["stream", "--http", &*streams.doors[0], "limits", "--each"];
    let (exit, _, said) = streams.run(&words);
    assert_eq!(exit, Some(2), "{said}");
    assert!(said.contains("--requests N"), "{said}");
}
