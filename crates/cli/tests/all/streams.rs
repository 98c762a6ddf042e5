//! Named streams over HTTP, through any node.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value as Json;
use streams::sse::{Decoder, Event};
use testbed::cluster::{LocalCluster, LocalOptions};
use testbed::port;

use crate::harness::lead_with;
use crate::http::{self, Answer};

const NODES: u32 = 3;
pub const TEXT: (&str, &str) = ("Content-Type", "text/plain");
pub const JSON: (&str, &str) = ("Content-Type", "application/json");

pub struct Streams {
    pub cluster: LocalCluster,
    pub doors: Vec<String>,
    /// The door's description of itself: every answer is held to it.
    described: Json,
}

impl Streams {
    pub fn start(directory: &Path) -> Streams {
        Streams::with_doors(directory, NODES as usize)
    }

    /// Three nodes, of which the first so many have a door.
    pub fn with_doors(directory: &Path, count: usize) -> Streams {
        let streams = Streams::without_a_space(directory, count);
        if count < NODES as usize {
            // A node without a door may lead the new space first, and nobody is answered until another does.
            streams.logberg(&["log", "create", "default", "--kind", "streams"]);
            streams.lead("default", 1);
        }
        // The first stream makes the space; each node has it after a moment.
        assert_eq!(streams.insist(0, "PUT", "first", &[TEXT], b"").status, 201);
        for at in 0..streams.doors.len() {
            assert_eq!(streams.insist(at, "HEAD", "first", &[], b"").status, 200);
        }
        streams
    }

    /// Such nodes, on which nobody has made a stream yet.
    pub fn without_a_space(directory: &Path, count: usize) -> Streams {
        let ports = port::free(NODES).expect("there are ports");
        let http_ports: Vec<u16> = ports.into_iter().take(count).collect();
        let cluster = LocalCluster::prepare(LocalOptions {
            program: Some(env!("CARGO_BIN_EXE_logberg").into()),
            http_ports: http_ports.clone(),
            arguments: vec!["--http-long-poll".to_owned(), "0.5".to_owned()],
            ..LocalOptions::new(directory, NODES)
        })
        .expect("it is prepared");
        cluster.launch().expect("it starts");
        cluster
            .wait_ready(Duration::from_secs(60))
            .expect("it is ready");
        let doors = http_ports.iter().map(|port| format!("127.0.0.1:{port}"));
        Streams {
            described: description(&format!("127.0.0.1:{}", http_ports[0])),
            doors: doors.collect(),
            cluster,
        }
    }

    pub fn ask(
        &self,
        at: usize,
        method: &str,
        name: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let path = format!("/v1/stream/{name}");
        let answer = http::ask(&self.doors[at], method, &path, headers, body);
        let answer = answer.expect("an answer");
        self.check_described(method, &answer);
        answer
    }

    /// A status and headers that a generated client would not expect are none that a node answers.
    fn check_described(&self, method: &str, answer: &Answer) {
        let known = &self.described["components"]["headers"];
        let methods = &self.described["paths"]["/v1/stream/{name}"];
        let Some(method) = methods.get(method.to_lowercase()) else {
            assert_eq!(answer.status, 405, "{method} is answered");
            return;
        };
        let responses = &method["responses"];
        let described = &responses[answer.status.to_string()];
        assert!(described.is_object(), "{} is not described", answer.status);
        let is_same = |name: &str, other: &str| name.eq_ignore_ascii_case(other);
        let known = known.as_object().expect("headers").keys();
        for name in known.filter(|name| answer.names().any(|other| is_same(name, other))) {
            let is_described = described["headers"].get(name).is_some();
            let (summary, status) = (&method["summary"], answer.status);
            assert!(is_described, "{summary}, {status}: {name} is not described");
        }
    }

    /// Asks again while it is certain that nothing was done.
    pub fn insist(
        &self,
        at: usize,
        method: &str,
        name: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let begun = Instant::now();
        loop {
            let answer = self.ask(at, method, name, headers, body);
            let is_not_now = answer.status == 503 && answer.header("Logberg-Outcome").is_none();
            if !is_not_now || begun.elapsed() > Duration::from_secs(60) {
                return answer;
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Lets that node lead a log, whoever leads it now.
    pub fn lead(&self, log: &str, id: u64) {
        lead_with(|words| self.output(words), log, id);
    }

    pub fn logberg(&self, words: &[&str]) -> String {
        let (code, said, wrong) = self.run(words);
        assert_eq!(code, Some(0), "{words:?}: {wrong}");
        said
    }

    /// The exit code, and what was said.
    pub fn run(&self, words: &[&str]) -> (Option<i32>, String, String) {
        let ran = self.output(words);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (ran.status.code(), text(&ran.stdout), text(&ran.stderr))
    }

    fn output(&self, words: &[&str]) -> Output {
        let servers = self.cluster.addresses().join(",");
        let mut command = Command::new(env!("CARGO_BIN_EXE_logberg"));
        command.args(["--server", &servers]).args(words);
        command.output().expect("it runs")
    }

    pub fn text(&self, at: usize, name: &str) -> String {
        let mut answer = self.insist(at, "GET", name, &[], b"");
        assert_eq!(answer.status, 200);
        answer.text()
    }
}

fn description(door: &str) -> Json {
    let answer = http::ask(door, "GET", "/v1/openapi.json", &[], b"");
    let mut answer = answer.expect("an answer");
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("Content-Type"), Some("application/json"));
    serde_json::from_str(&answer.text()).expect("JSON")
}

pub fn error_of(answer: &mut Answer) -> (u16, String) {
    let text = answer.text();
    let json: Json = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text:?} is no JSON"));
    let error = &json["error"];
    for part in ["code", "message", "remedy"] {
        assert!(
            error[part].as_str().is_some_and(|text| !text.is_empty()),
            "{part} of {text}"
        );
    }
    (
        answer.status,
        error["code"].as_str().expect("a code").to_owned(),
    )
}

#[test]
fn a_stream_is_what_was_appended_whichever_node_is_asked() {
    let directory = tempfile::tempdir().expect("a directory");
    let streams = Streams::start(directory.path());
    // Each request is another node's: what one answered the next one knows.
    let mut offsets = Vec::new();
    let made = streams.ask(
        1,
        "PUT",
        "a/b c".replace(' ', "%20").as_str(),
        &[TEXT],
        b"begin",
    );
    assert_eq!(made.status, 201);
    let location = made.header("Location").expect("a place");
    assert!(location.ends_with("/v1/stream/a/b%20c"), "{location}");
    offsets.push(made.offset());
    let mut all = "begin".to_owned();
    for turn in 0..12usize {
        let text = format!("-{turn}");
        let appended = streams.ask(turn % 3, "POST", "a/b%20c", &[TEXT], text.as_bytes());
        assert_eq!(appended.status, 204);
        all += &text;
        let next = appended.offset();
        assert!(
            offsets.last().is_some_and(|last| *last < next),
            "offsets grow"
        );
        let mut rest = streams.ask(
            (turn + 1) % 3,
            "GET",
            &format!("a/b%20c?offset={}", offsets[offsets.len() - 1]),
            &[],
            b"",
        );
        assert_eq!(rest.text(), text);
        assert_eq!(rest.offset(), next);
        assert_eq!(rest.header("Stream-Up-To-Date"), Some("true"));
        assert_eq!(rest.header("Content-Type"), Some("text/plain"));
        assert_eq!(streams.text((turn + 2) % 3, "a/b%20c"), all);
        offsets.push(next);
    }
    // The same again is found, something else is not.
    assert_eq!(streams.ask(2, "PUT", "a/b%20c", &[TEXT], b"").status, 200);
    assert_eq!(streams.ask(2, "PUT", "a/b%20c", &[JSON], b"").status, 409);
    let mut fresh = streams.ask(2, "PUT", "a/b%20c", &[TEXT, ("If-None-Match", "*")], b"");
    assert_eq!(error_of(&mut fresh), (412, "exists".to_owned()));
    // A tag is known until something comes.
    let read = streams.ask(0, "GET", "a/b%20c", &[], b"");
    let tag = read.header("ETag").expect("a tag").to_owned();
    let known = streams.ask(1, "GET", "a/b%20c", &[("If-None-Match", &tag)], b"");
    assert_eq!(known.status, 304);
    // A fork goes on by itself.
    let from = [
        ("Stream-Forked-From", "/v1/stream/a/b%20c"),
        ("Stream-Fork-Offset", &*offsets[1]),
    ];
    assert_eq!(streams.ask(2, "PUT", "fork", &from, b"").status, 201);
    assert_eq!(streams.ask(0, "POST", "fork", &[TEXT], b"!").status, 204);
    assert_eq!(streams.text(1, "fork"), "begin-0!");
    let closed = streams.ask(
        0,
        "POST",
        "a/b%20c",
        &[TEXT, ("Stream-Closed", "true")],
        b".",
    );
    assert_eq!(
        (closed.status, closed.header("Stream-Closed")),
        (204, Some("true"))
    );
    let mut late = streams.ask(1, "POST", "a/b%20c", &[TEXT], b"late");
    assert_eq!(late.header("Stream-Closed"), Some("true"));
    assert_eq!(error_of(&mut late), (409, "closed".to_owned()));
    assert_eq!(streams.text(2, "a/b%20c"), all + ".");
    let head = streams.ask(2, "HEAD", "a/b%20c", &[], b"");
    assert_eq!(head.header("Stream-Closed"), Some("true"));
    // Its bytes stay for the fork, and its name with them.
    assert_eq!(streams.ask(1, "DELETE", "a/b%20c", &[], b"").status, 204);
    assert_eq!(streams.ask(2, "GET", "a/b%20c", &[], b"").status, 410);
    assert_eq!(streams.ask(2, "PUT", "a/b%20c", &[TEXT], b"").status, 409);
    assert_eq!(streams.text(0, "fork"), "begin-0!");
    assert_eq!(streams.ask(1, "DELETE", "fork", &[], b"").status, 204);
    assert_eq!(streams.ask(2, "GET", "a/b%20c", &[], b"").status, 404);
    // A name that is free again is another stream's.
    assert_eq!(
        streams.ask(0, "PUT", "a/b%20c", &[TEXT], b"another").status,
        201
    );
    let stale = format!("a/b%20c?offset={}", offsets[1]);
    let mut stale = streams.ask(1, "GET", &stale, &[], b"");
    assert_eq!(error_of(&mut stale), (410, "other-offset".to_owned()));
    let mut list =
        http::ask(&streams.doors[1], "GET", "/v1/list/default", &[], b"").expect("a list");
    let list: Json = serde_json::from_str(&list.text()).expect("JSON");
    let names = list["streams"].as_array().expect("a list").iter();
    let names: Vec<&str> = names
        .map(|stream| stream["name"].as_str().expect("a name"))
        .collect();
    assert_eq!(names, ["a/b c", "first"]);
}

#[test]
fn messages_of_json_are_kept_apart_and_producers_append_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let streams = Streams::start(directory.path());
    assert_eq!(streams.ask(0, "PUT", "json", &[JSON], b"[]").status, 201);
    assert_eq!(streams.text(1, "json"), "[]");
    for (at, body) in ["{\"a\": 1}", "[1, [2], \"x\"]", " null "]
        .into_iter()
        .enumerate()
    {
        assert_eq!(
            streams
                .ask(at, "POST", "json", &[JSON], body.as_bytes())
                .status,
            204
        );
    }
    assert_eq!(streams.text(2, "json"), "[{\"a\":1},1,[2],\"x\",null]");
    let producer = |epoch, sequence| {
        [
            JSON,
            ("Producer-Id", "p"),
            ("Producer-Epoch", epoch),
            ("Producer-Seq", sequence),
        ]
    };
    let statuses = [
        (producer("0", "0"), 200),
        (producer("0", "1"), 200),
        (producer("0", "1"), 204),
        (producer("0", "0"), 204),
        (producer("0", "3"), 409),
        (producer("1", "1"), 400),
        (producer("1", "0"), 200),
        (producer("0", "2"), 403),
    ];
    for (turn, (headers, status)) in statuses.into_iter().enumerate() {
        let answer = streams.ask(turn % 3, "POST", "json", &headers, b"0");
        assert_eq!(answer.status, status, "{headers:?}");
        match status {
            200 | 204 => assert!(answer.header("Producer-Seq").is_some()),
            403 => assert_eq!(answer.header("Producer-Epoch"), Some("1")),
            409 => assert_eq!(answer.header("Producer-Expected-Seq"), Some("2")),
            _ => {}
        }
    }
    assert_eq!(
        streams.text(0, "json"),
        "[{\"a\":1},1,[2],\"x\",null,0,0,0]"
    );
    // Whoever appends only to what he has seen.
    let tail = streams.ask(1, "HEAD", "json", &[], b"").offset();
    let only = format!("\"{tail}\"");
    let swap = [JSON, ("If-Match", &*only)];
    assert_eq!(streams.ask(2, "POST", "json", &swap, b"7").status, 204);
    let mut second = streams.ask(0, "POST", "json", &swap, b"8");
    assert_ne!(second.offset(), tail);
    assert_eq!(error_of(&mut second), (412, "unexpected-tail".to_owned()));
    let sequence = |sequence| [JSON, ("Stream-Seq", sequence)];
    assert_eq!(
        streams.ask(0, "POST", "json", &sequence("09"), b"1").status,
        204
    );
    assert_eq!(
        streams.ask(1, "POST", "json", &sequence("10"), b"1").status,
        204
    );
    assert_eq!(
        streams.ask(2, "POST", "json", &sequence("10"), b"1").status,
        409
    );
}

/// Events of a live read, until there are so many.
fn events(answer: &mut Answer, count: usize) -> Vec<Event> {
    let (mut decoder, mut events) = (Decoder::default(), Vec::new());
    while events.len() < count {
        let piece = answer.piece().expect("it goes on").expect("it goes on");
        events.extend(decoder.push(&piece));
    }
    events
}

/// The data of a live read, up to its end.
fn data(answer: &mut Answer) -> Vec<String> {
    let (mut decoder, mut data) = (Decoder::default(), Vec::new());
    while let Some(piece) = answer.piece().expect("it goes on") {
        let events = decoder.push(&piece).into_iter();
        data.extend(events.filter(|event| event.name == "data"));
    }
    data.into_iter().map(|event| event.data).collect()
}

#[test]
fn a_crowd_of_readers_is_told_all_that_comes_in_its_order() {
    const READERS: usize = 120;
    let directory = tempfile::tempdir().expect("a directory");
    let streams = Streams::start(directory.path());
    assert_eq!(streams.ask(0, "PUT", "crowd", &[TEXT], b"").status, 201);
    let mut readers: Vec<Answer> = (0..READERS)
        .map(|number| {
            let more = match number % 4 {
                2 => "&cursor=9999999999",
                3 => "&encoding=base64",
                _ => "",
            };
            let path = format!("crowd?offset=now&live=sse{more}");
            streams.ask(number % 3, "GET", &path, &[], b"")
        })
        .collect();
    for reader in &mut readers {
        assert_eq!(events(reader, 1)[0].name, "control");
    }
    let append = |bytes: &[u8]| {
        let answer = streams.insist(0, "POST", "crowd", &[TEXT], bytes);
        assert_eq!(answer.status, 204);
    };
    // A character in two parts, the first of which waits alone at the tail for a while.
    append(b"\xc3");
    thread::sleep(Duration::from_millis(200));
    append(b"\xa9");
    for number in 0..200 {
        append(format!("<{number:>060}>").as_bytes());
    }
    let close = [("Stream-Closed", "true")];
    assert_eq!(streams.ask(1, "POST", "crowd", &close, b"").status, 204);
    let mut all = "\u{e9}".to_owned();
    all.extend((0..200).map(|number| format!("<{number:>060}>")));
    for (number, reader) in readers.iter_mut().enumerate() {
        let data = data(reader);
        match number % 4 {
            3 => {
                let bytes = data.iter().flat_map(|data| STANDARD.decode(data));
                assert_eq!(bytes.flatten().collect::<Vec<u8>>(), all.as_bytes());
            }
            _ => assert_eq!(data.concat(), all, "reader {number}"),
        }
    }
}

#[test]
fn whoever_waits_at_a_tail_is_told_what_comes_on_every_node() {
    let directory = tempfile::tempdir().expect("a directory");
    let streams = Streams::start(directory.path());
    assert_eq!(streams.ask(0, "PUT", "live", &[TEXT], b"").status, 201);
    let mut readers: Vec<Answer> = (0..3)
        .map(|at| streams.ask(at, "GET", "live?offset=now&live=sse", &[], b""))
        .collect();
    for reader in &mut readers {
        assert_eq!(reader.header("Content-Type"), Some("text/event-stream"));
        let first = events(reader, 1);
        assert!(first[0].name == "control" && first[0].data.contains("\"upToDate\":true"));
    }
    thread::scope(|scope| {
        let polls: Vec<_> = (0..3)
            .map(|at| {
                let streams = &streams;
                // A poll that finds nothing in time is asked again, where it stood.
                scope.spawn(move || {
                    let mut from = "now".to_owned();
                    loop {
                        let path = format!("live?offset={from}&live=long-poll");
                        let mut answer = streams.ask(at, "GET", &path, &[], b"");
                        match answer.status {
                            200 => return answer.text(),
                            204 => from = answer.offset(),
                            status => panic!("{status}"),
                        }
                    }
                })
            })
            .collect();
        // All of them wait by now, or ask for what comes after they came.
        thread::sleep(Duration::from_millis(300));
        let hostile = "one\n\nevent: control\r\ndata: two";
        assert_eq!(
            streams
                .ask(1, "POST", "live", &[TEXT], hostile.as_bytes())
                .status,
            204
        );
        for reader in &mut readers {
            let told = events(reader, 2);
            assert_eq!(told[0].name, "data");
            assert_eq!(told[0].data, hostile.replace("\r\n", "\n"));
            assert_eq!(told[1].name, "control");
        }
        for poll in polls {
            assert_eq!(poll.join().expect("no panic"), hostile);
        }
    });
    let close = [("Stream-Closed", "true")];
    assert_eq!(streams.ask(2, "POST", "live", &close, b"").status, 204);
    for reader in &mut readers {
        let told = events(reader, 1);
        assert!(told[0].data.contains("\"streamClosed\":true"), "{told:?}");
        assert_eq!(reader.piece().expect("its end"), None);
    }
    let polled = streams.ask(0, "GET", "live?offset=now&live=long-poll", &[], b"");
    assert_eq!(
        (polled.status, polled.header("Stream-Closed")),
        (204, Some("true"))
    );
    // A stream whose time runs is there as long as it is used, and then for nobody.
    let brief = [TEXT, ("Stream-TTL", "1")];
    assert_eq!(streams.ask(0, "PUT", "brief", &brief, b"x").status, 201);
    for turn in 0..4 {
        thread::sleep(Duration::from_millis(500));
        assert_eq!(streams.ask(turn % 3, "GET", "brief", &[], b"").status, 200);
    }
    thread::sleep(Duration::from_millis(1_300));
    for at in 0..3 {
        assert_eq!(streams.ask(at, "GET", "brief", &[], b"").status, 404);
    }
}

/// A method, a name and what stands behind it, headers, a body, and the status that they get.
type Wrong<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], &'a [u8], u16);

#[test]
fn what_makes_no_sense_is_refused_in_one_sentence_and_nothing_is_written() {
    let directory = tempfile::tempdir().expect("a directory");
    let streams = Streams::start(directory.path());
    streams.ask(0, "PUT", "a", &[TEXT], b"kept");
    let long = "x".repeat(1_100);
    let requests: &[Wrong<'_>] = &[
        ("GET", "missing", &[], b"", 404),
        ("POST", "missing", &[TEXT], b"x", 404),
        ("DELETE", "missing", &[], b"", 404),
        ("GET", "a?offset=", &[], b"", 400),
        ("GET", "a?offset=a,b", &[], b"", 400),
        ("GET", "a?offset=-1&offset=-1", &[], b"", 400),
        (
            "GET",
            "a?offset=0000000000000000_0000000000000099",
            &[],
            b"",
            400,
        ),
        (
            "GET",
            "a?offset=0000000000000077_0000000000000001",
            &[],
            b"",
            410,
        ),
        ("GET", "a?live=sse", &[], b"", 400),
        ("GET", "a?offset=-1&live=push", &[], b"", 400),
        ("POST", "a", &[TEXT], b"", 400),
        ("POST", "a", &[], b"x", 400),
        ("POST", "a", &[JSON], b"1", 409),
        ("POST", "a", &[JSON], b"{", 400),
        ("POST", "a", &[("Content-Type", "nonsense")], b"x", 400),
        (
            "POST",
            "a",
            &[TEXT, ("Content-Encoding", "gzip")],
            b"x",
            415,
        ),
        ("POST", "a", &[TEXT, ("Producer-Id", "p")], b"x", 400),
        ("POST", "a", &[TEXT, ("If-Match", "nonsense")], b"x", 400),
        ("PUT", "b", &[TEXT, ("Stream-TTL", "01")], b"", 400),
        (
            "PUT",
            "b",
            &[
                TEXT,
                ("Stream-TTL", "1"),
                ("Stream-Expires-At", "2099-01-01T00:00:00Z"),
            ],
            b"",
            400,
        ),
        (
            "PUT",
            "b",
            &[TEXT, ("Stream-Expires-At", "tomorrow")],
            b"",
            400,
        ),
        (
            "PUT",
            "b",
            &[("Stream-Forked-From", "/v1/stream/missing")],
            b"",
            404,
        ),
        ("PUT", "b", &[("Stream-Forked-From", "nonsense")], b"", 400),
        ("PUT", "b", &[("Stream-Fork-Offset", "-1")], b"", 400),
        ("PUT", "@space/b", &[TEXT], b"", 404),
        ("PUT", "__ds/b", &[TEXT], b"", 400),
        ("PUT", "b//c", &[TEXT], b"", 400),
        ("PUT", "b%2fc", &[TEXT], b"", 400),
        ("PUT", "b/%2e%2e/c", &[TEXT], b"", 400),
        ("PUT", "%ff", &[TEXT], b"", 400),
        ("PUT", &long, &[TEXT], b"", 400),
        ("PATCH", "a", &[TEXT], b"x", 405),
    ];
    for (turn, (method, name, headers, body, status)) in requests.iter().enumerate() {
        let mut answer = streams.ask(turn % 3, method, name, headers, body);
        let what = format!("{method} {name} {headers:?}");
        assert_eq!(
            answer.header("X-Content-Type-Options"),
            Some("nosniff"),
            "{what}"
        );
        assert_eq!(error_of(&mut answer).0, *status, "{what}");
    }
    // Pages of other machines, and names that lead here.
    for headers in [
        &[("Origin", "https://elsewhere.example")][..],
        &[("Origin", "null")],
        &[("Sec-Fetch-Site", "cross-site")],
        &[("Host", "elsewhere.example")],
        &[("X-Forwarded-For", "10.0.0.1")],
    ] {
        let asked = streams.ask(0, "OPTIONS", "a", headers, b"");
        assert_eq!(asked.header("Access-Control-Allow-Origin"), None);
        for method in ["GET", "PUT", "POST", "DELETE"] {
            let mut answer = streams.ask(0, method, "a", headers, b"");
            assert_eq!(error_of(&mut answer).0, 403, "{method} {headers:?}");
            assert_eq!(answer.header("Access-Control-Allow-Origin"), None);
        }
    }
    let page = [("Origin", "http://localhost:3000")];
    let asked = streams.ask(0, "OPTIONS", "a", &page, b"");
    assert_eq!(asked.status, 204);
    assert_eq!(
        asked.header("Access-Control-Allow-Origin"),
        Some("http://localhost:3000")
    );
    assert!(
        asked
            .header("Access-Control-Allow-Headers")
            .is_some_and(|names| names.contains("Producer-Seq"))
    );
    let read = streams.ask(0, "GET", "a", &page, b"");
    assert!(
        read.header("Access-Control-Expose-Headers")
            .is_some_and(|names| names.contains("Stream-Next-Offset"))
    );
    assert_eq!(
        read.header("Content-Security-Policy"),
        Some("sandbox; default-src 'none'")
    );
    // Bytes that are no request, or none to its end.
    let door = &streams.doors[0];
    let post = "POST /v1/stream/a HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n";
    let long = vec![b'z'; 9 << 20];
    let mut too_long = streams.ask(0, "POST", "a", &[TEXT], &long);
    assert_eq!(error_of(&mut too_long), (413, "too-long".to_owned()));
    let chunked = format!("{post}Transfer-Encoding: chunked\r\n\r\nzz\r\nx\r\n0\r\n\r\n");
    assert_eq!(
        http::send(door, chunked.as_bytes())
            .expect("an answer")
            .status,
        400
    );
    let packed = format!("{post}Transfer-Encoding: gzip, chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n");
    let mut packed = http::send(door, packed.as_bytes()).expect("an answer");
    assert_eq!(error_of(&mut packed), (501, "transfer-encoding".to_owned()));
    // The answer does not wait for bytes that may never come.
    let endless = format!("{post}Content-Length: 100000000000\r\n\r\nabc");
    let mut endless = http::send(door, endless.as_bytes()).expect("an answer");
    assert_eq!(error_of(&mut endless), (413, "too-long".to_owned()));
    let many = "x: y\r\n".repeat(1_000);
    let many = http::send(
        door,
        format!("GET /v1/stream/a HTTP/1.1\r\n{many}\r\n").as_bytes(),
    );
    assert_eq!(many.expect("an answer").status, 431);
    assert_eq!(
        http::send(door, b"\x00\x01nonsense\r\n\r\n")
            .expect("an answer")
            .status,
        400
    );
    drop(std::net::TcpStream::connect(door).map(|mut half| {
        use std::io::Write;
        half.write_all(format!("{post}Content-Length: 5\r\n\r\nxx").as_bytes())
    }));
    assert_eq!(streams.text(0, "a"), "kept");
    let whole = vec![b'y'; 8 << 20 >> 1];
    assert_eq!(streams.ask(1, "POST", "a", &[TEXT], &whole).status, 204);
    let from = streams.ask(2, "GET", "a?offset=-1", &[], b"");
    let path = format!("a?offset={}", from.offset());
    let mut rest = if from.header("Stream-Up-To-Date").is_some() {
        from
    } else {
        streams.ask(2, "GET", &path, &[], b"")
    };
    let body = rest.body();
    assert!(body.ends_with(&whole[..1_000]) && body.len() >= whole.len());
}

#[test]
fn a_producer_whose_leader_dies_appends_everything_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let streams = Streams::start(directory.path());
    assert_eq!(streams.ask(0, "PUT", "p", &[TEXT], b"").status, 201);
    let ends = AtomicBool::new(false);
    let count = thread::scope(|scope| {
        let appends = scope.spawn(|| {
            let mut sequence = 0u64;
            while !ends.load(Ordering::Relaxed) {
                let (number, body) = (sequence.to_string(), format!("{sequence}\n"));
                let headers = [
                    TEXT,
                    ("Producer-Id", "p"),
                    ("Producer-Epoch", "0"),
                    ("Producer-Seq", &*number),
                ];
                let at = (sequence % 3) as usize;
                let path = "/v1/stream/p";
                // A node that is down, or says that it does not know, is asked again, or another.
                for turn in 0.. {
                    assert!(turn < 2_000, "nobody takes {sequence}");
                    let door = &streams.doors[(at + turn) % 3];
                    match http::ask(door, "POST", path, &headers, body.as_bytes()) {
                        Ok(answer) if matches!(answer.status, 200 | 204) => break,
                        Ok(answer) => assert_eq!(answer.status, 503, "{sequence}"),
                        Err(_) => {}
                    }
                    thread::sleep(Duration::from_millis(20));
                }
                sequence += 1;
            }
            sequence
        });
        for turn in 0..3u32 {
            thread::sleep(Duration::from_secs(2));
            let node = turn + 1;
            streams.cluster.kill(node).expect("it is killed");
            thread::sleep(Duration::from_secs(2));
            streams.cluster.restart(node).expect("it starts");
            streams
                .cluster
                .wait_ready(Duration::from_secs(60))
                .expect("all are there");
        }
        ends.store(true, Ordering::Relaxed);
        appends.join().expect("no panic")
    });
    assert!(count > 20, "{count} appends");
    let expected: String = (0..count).map(|sequence| format!("{sequence}\n")).collect();
    for at in 0..3 {
        assert_eq!(streams.text(at, "p"), expected, "node {}", at + 1);
    }
}

#[test]
fn a_space_is_saved_and_filled_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let streams = Streams::start(&directory.path().join("cluster"));
    assert_eq!(streams.ask(0, "PUT", "saved", &[TEXT], b"one").status, 201);
    let offset = streams.ask(1, "POST", "saved", &[TEXT], b"two").offset();
    let part = directory.path().join("parts");
    let part = part.to_str().expect("text");
    streams.logberg(&["backup", "default", "--to", part]);
    assert_eq!(
        streams.ask(0, "POST", "saved", &[TEXT], b"later").status,
        204
    );
    streams.logberg(&["log", "delete", "default", "--yes"]);
    streams.logberg(&["restore", part, "--log", "default"]);
    assert_eq!(streams.text(1, "saved"), "onetwo");
    // The offsets are the same, and the stream goes on.
    let appended = streams.insist(2, "POST", "saved", &[TEXT], b"three");
    assert_eq!(appended.status, 204);
    let mut rest = streams.ask(0, "GET", &format!("saved?offset={offset}"), &[], b"");
    assert_eq!(rest.text(), "three");
}

/// It has the state as every replica does, and executes what other nodes' doors are asked.
#[test]
fn a_leader_without_a_door_serves_those_who_ask_at_others() {
    let directory = tempfile::tempdir().expect("a directory");
    let streams = Streams::with_doors(directory.path(), 2);
    assert_eq!(streams.ask(0, "PUT", "a", &[TEXT], b"").status, 201);
    for (leader, piece) in [(3, "there "), (2, "and here "), (3, "and there")] {
        streams.lead("default", leader);
        let appended = streams.insist(0, "POST", "a", &[TEXT], piece.as_bytes());
        assert_eq!(appended.status, 204);
    }
    assert_eq!(streams.text(1, "a"), "there and here and there");
}

/// Another node gave the offset out while this one stood still: it does not say that there is no such offset, or stream.
#[test]
fn a_stale_read_at_an_offset_that_its_node_has_not_seen_waits_for_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let streams = Streams::start(directory.path());
    streams.lead("default", 1);
    for turn in 0..5 {
        streams.cluster.pause(3).expect("it stands still");
        let name = format!("new-{turn}");
        assert_eq!(
            streams.insist(0, "PUT", &name, &[TEXT], b"seen ").status,
            201
        );
        let offset = streams.insist(1, "POST", &name, &[TEXT], b"here ").offset();
        let appended = streams.insist(0, "POST", &name, &[TEXT], b"and behind");
        assert_eq!(appended.status, 204);
        streams.cluster.go_on(3).expect("it goes on");
        let stale = format!("{name}?offset={offset}&stale=1");
        // The node may have to find its peers again first, and says so.
        let mut read = streams.insist(2, "GET", &stale, &[], b"");
        let (status, text) = (read.status, read.text());
        assert_eq!(status, 200, "{text}");
        assert!("and behind".starts_with(&text));
    }
    // A stream that is nowhere is nowhere, and so is an offset.
    let place = streams.ask(0, "HEAD", "new-0", &[], b"").offset();
    let missing = format!("missing?offset={place}&stale=1");
    assert_eq!(streams.insist(2, "GET", &missing, &[], b"").status, 404);
    let behind = format!(
        "new-0?offset={}&stale=1",
        place.replace("_000000000000", "_100000000000")
    );
    assert_eq!(streams.insist(2, "GET", &behind, &[], b"").status, 400);
}
