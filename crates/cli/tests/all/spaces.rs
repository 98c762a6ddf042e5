//! Spaces beside `default`: each has streams, an order, limits and a leader of its own.

use streams::sse::Decoder;

use crate::http::Answer;
use crate::streams::{Streams, TEXT, error_of};

fn status_and_code(mut answer: Answer) -> (u16, String) {
    error_of(&mut answer)
}

/// The data of a live read, up to so many bytes.
fn data(answer: &mut Answer, length: usize) -> String {
    let (mut decoder, mut data) = (Decoder::default(), String::new());
    while data.len() < length {
        let piece = answer.piece().expect("it goes on").expect("it goes on");
        let events = decoder.push(&piece).into_iter();
        data.extend(
            events
                .filter(|event| event.name == "data")
                .map(|event| event.data),
        );
    }
    data
}

#[test]
fn a_space_beside_default_has_streams_readers_limits_and_a_leader_of_its_own() {
    let directory = tempfile::tempdir().expect("a directory");
    let streams = Streams::start(&directory.path().join("cluster"));
    let put = |at, name: &str, body: &[u8]| streams.insist(at, "PUT", name, &[TEXT], body).status;
    // It is made as a log is, and not by a wrong letter in an address.
    for (method, name) in [
        ("PUT", "@team/a"),
        ("GET", "@team/a"),
        ("PUT", "@main/a"),
        ("DELETE", "@main/a"),
    ] {
        let refused = streams.ask(1, method, name, &[TEXT], b"");
        assert_eq!(
            status_and_code(refused),
            (404, "no-space".to_owned()),
            "{method} {name}"
        );
    }
    let refused = streams.ask(1, "PUT", "@default/a", &[TEXT], b"");
    assert_eq!(status_and_code(refused), (400, "bad-path".to_owned()));
    streams.logberg(&["log", "create", "team", "--kind", "streams"]);
    streams.logberg(&["log", "create", "other", "--kind", "streams"]);
    // Their first streams have the same number, or nearly: what is kept for the readers of one is no other's.
    assert_eq!(put(0, "@team/a", b"team"), 201);
    assert_eq!(put(1, "@other/a", b"other"), 201);
    assert_eq!(put(2, "a", b"default"), 201);
    streams.lead("team", 2);
    streams.lead("other", 3);
    for at in 0..3 {
        assert_eq!(streams.text(at, "@team/a"), "team");
        assert_eq!(streams.text(at, "@other/a"), "other");
        assert_eq!(streams.text(at, "a"), "default");
    }
    let names = ["@team/a", "@other/a", "a"];
    let mut readers: Vec<Answer> = (0..6)
        .map(|number| {
            let path = format!("{}?offset=now&live=sse", names[number % 3]);
            streams.ask(1, "GET", &path, &[], b"")
        })
        .collect();
    for round in 0..20 {
        for name in names {
            let body = format!("<{name} {round}>");
            let answer = streams.insist(round % 3, "POST", name, &[TEXT], body.as_bytes());
            assert_eq!(answer.status, 204);
        }
    }
    for (number, reader) in readers.iter_mut().enumerate() {
        let name = names[number % 3];
        let all: String = (0..20).map(|round| format!("<{name} {round}>")).collect();
        assert_eq!(data(reader, all.len()), all);
    }
    // An offset of one is none of another's.
    let offset = streams.ask(0, "HEAD", "@team/a", &[], b"").offset();
    let elsewhere = streams.ask(0, "GET", &format!("@other/a?offset={offset}"), &[], b"");
    assert_eq!(status_and_code(elsewhere), (410, "other-offset".to_owned()));
    // A fork is in its source's space.
    let fork = [("Stream-Forked-From", "/v1/stream/@team/a")];
    assert_eq!(streams.ask(1, "PUT", "@team/b", &fork, b"").status, 201);
    let refused = streams.ask(1, "PUT", "@other/b", &fork, b"");
    assert_eq!(status_and_code(refused), (400, "bad-header".to_owned()));
    // Limits are of one space, and hold from the first request on that a node hears.
    let doors = streams.doors.join(",");
    let stream = |words: &[&str]| streams.logberg(&[&["stream", "--http", &doors], words].concat());
    stream(&["limits", "--space", "team", "--streams", "2"]);
    let refused = streams.ask(2, "PUT", "@team/c", &[TEXT], b"");
    assert_eq!(status_and_code(refused), (429, "many-streams".to_owned()));
    assert_eq!(put(2, "@other/c", b""), 201);
    assert_eq!(put(2, "c", b""), 201);
    let listed = stream(&["ls", "@team/"]);
    assert!(
        listed.contains('b') && !listed.contains("first"),
        "{listed}"
    );
    assert_eq!(stream(&["read", "@other/c"]), "");
    let told = streams.logberg(&["doctor"]);
    assert!(told.contains("the streams of 3 spaces"), "{told}");
}

#[test]
fn a_space_is_filled_again_beside_itself_under_another_name() {
    let directory = tempfile::tempdir().expect("a directory");
    let streams = Streams::start(&directory.path().join("cluster"));
    streams.logberg(&["log", "create", "team", "--kind", "streams"]);
    let put = streams.insist(0, "PUT", "@team/a", &[TEXT], b"one");
    assert_eq!(put.status, 201);
    let part = directory.path().join("parts");
    let part = part.to_str().expect("text");
    streams.logberg(&["backup", "team", "--to", part]);
    assert_eq!(
        streams.ask(1, "POST", "@team/a", &[TEXT], b"two").status,
        204
    );
    streams.logberg(&["restore", part, "--log", "copy"]);
    assert_eq!(streams.text(2, "@copy/a"), "one");
    let appended = streams.insist(2, "POST", "@copy/a", &[TEXT], b"2");
    assert_eq!(appended.status, 204);
    assert_eq!(streams.text(1, "@copy/a"), "one2");
    assert_eq!(streams.text(0, "@team/a"), "onetwo");
    // A space that is deleted is there no more.
    streams.logberg(&["log", "delete", "team", "--yes"]);
    let refused = streams.ask(0, "GET", "@team/a", &[], b"");
    assert_eq!(status_and_code(refused), (404, "no-space".to_owned()));
    assert_eq!(streams.text(0, "@copy/a"), "one2");
}
