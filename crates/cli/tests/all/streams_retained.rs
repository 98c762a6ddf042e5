//! A stream that keeps a part of itself.

use std::thread;
use std::time::{Duration, Instant};

use crate::http::Answer;
use crate::streams::{Streams, TEXT, error_of};

fn first(answer: &Answer) -> String {
    let first = answer.header("Logberg-First-Offset");
    first.expect("it is told").to_owned()
}

#[test]
fn a_stream_keeps_its_last_bytes_and_tells_where_they_begin_on_every_node() {
    let directory = tempfile::tempdir().expect("a directory");
    let streams = Streams::start(directory.path());
    let keeps = [TEXT, ("Logberg-Retention", "10kB")];
    let put = |at, keeps: &[_]| streams.insist(at, "PUT", "ticks", keeps, b"").status;
    assert_eq!(put(0, &keeps), 201);
    assert_eq!(put(1, &keeps), 200);
    let other = [TEXT, ("Logberg-Retention", "20kB")];
    assert_eq!(put(2, &other), 409);
    let begin = streams.ask(0, "HEAD", "ticks", &[], b"");
    assert_eq!(begin.header("Logberg-Retention"), Some("10kB"));
    let mut early = String::new();
    for number in 0..100 {
        let body = format!("{number:0>200}");
        let answer = streams.insist(number % 3, "POST", "ticks", &[TEXT], body.as_bytes());
        assert_eq!(answer.status, 204);
        if number == 3 {
            early = answer.offset();
        }
    }
    for at in 0..3 {
        let begin = first(&streams.insist(at, "HEAD", "ticks", &[], b""));
        let text = streams.text(at, "ticks?all=1");
        assert!((10_000..=11_500).contains(&text.len()), "{}", text.len());
        assert!(text.len().is_multiple_of(200) && text.ends_with(&format!("{:0>200}", 99)));
        // An offset of what is gone is refused, and not read as another place.
        let mut gone = streams.ask(at, "GET", &format!("ticks?offset={early}"), &[], b"");
        assert_eq!(first(&gone), begin);
        assert_eq!(error_of(&mut gone), (410, "trimmed".to_owned()));
        let mut rest = streams.ask(at, "GET", &format!("ticks?offset={begin}"), &[], b"");
        assert_eq!(rest.text(), text);
    }
    let used = streams.logberg(&["stream", "--http", &streams.doors[0], "limits"]);
    assert!(used.contains("12.0 KiB"), "{used}");
    for wrong in ["7", "0B", "7d,7d"] {
        let keeps = [TEXT, ("Logberg-Retention", wrong)];
        let mut refused = streams.ask(0, "PUT", "wrong", &keeps, b"");
        assert_eq!(
            error_of(&mut refused),
            (400, "bad-header".to_owned()),
            "{wrong}"
        );
    }
}

#[test]
fn what_is_older_than_a_streams_age_goes_though_nobody_appends_and_its_leader_dies() {
    let directory = tempfile::tempdir().expect("a directory");
    let streams = Streams::start(directory.path());
    let doors = streams.doors.join(",");
    streams.logberg(&[
        "stream",
        "--http",
        &doors,
        "put",
        "ticks",
        "--type",
        "text/plain",
        "--retention",
        "2s",
    ]);
    let appended = streams.insist(1, "POST", "ticks", &[TEXT], b"old");
    assert_eq!(appended.status, 204);
    streams.lead("default", 2);
    streams.cluster.kill(2).expect("it is killed");
    let begun = Instant::now();
    // The tail stays where it was, and nothing is left before it.
    loop {
        let mut answer = streams.insist(0, "GET", "ticks", &[], b"");
        assert_eq!(answer.status, 200);
        assert_eq!(answer.offset(), appended.offset());
        match answer.text().as_str() {
            "" => break,
            text => assert_eq!(text, "old"),
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "it stays");
        thread::sleep(Duration::from_millis(100));
    }
    let appended = streams.insist(2, "POST", "ticks", &[TEXT], b"new");
    assert_eq!(appended.status, 204);
    assert_eq!(streams.text(0, "ticks"), "new");
}
