//! Logs of bytes over HTTP, through any node.

use std::thread;
use std::time::Duration;

use serde_json::Value as Json;
use streams::sse::{Decoder, Event};

use crate::harness::{Cluster, Content, wait_for};
use crate::http::{self, Answer, Upload};

const NODES: usize = 3;

pub struct Logs {
    pub cluster: Cluster,
    pub doors: Vec<String>,
    described: Json,
}

impl Logs {
    /// Three nodes with doors, and a log.
    pub fn start(log: &str) -> Logs {
        let mut doors = Vec::new();
        let cluster = Cluster::start_with(NODES, NODES, |node| {
            let (ip, _) = node.listen.split_once(':').expect("an address");
            let door = format!("{ip}:8{:03}", node.id);
            let more = ["--http", &door, "--http-long-poll", "0.5"];
            node.arguments.extend(more.map(str::to_owned));
            doors.push(door);
        });
        cluster.wait_whole();
        let text = http::ask(&doors[0], "GET", "/v1/openapi.json", &[], b"")
            .expect("an answer")
            .text();
        let described: Json = serde_json::from_str(&text).expect("JSON");
        let logs = Logs {
            cluster,
            doors,
            described: described["paths"]["/v1/log/{name}"].clone(),
        };
        let made = logs.insist(0, "PUT", log, &[], b"");
        assert!(matches!(made.status, 200 | 201), "{}", made.status);
        logs
    }

    pub fn ask(
        &self,
        at: usize,
        method: &str,
        log: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let path = format!("/v1/log/{log}");
        let answer = http::ask(&self.doors[at], method, &path, headers, body);
        let answer = answer.expect("an answer");
        self.check(method, &answer);
        answer
    }

    /// A status and headers that are not described are none that a node answers.
    fn check(&self, method: &str, answer: &Answer) {
        assert_eq!(
            answer.header("Content-Security-Policy"),
            Some("sandbox; default-src 'none'")
        );
        if answer.status == 405 {
            return;
        }
        let described = &self.described[method.to_lowercase()]["responses"];
        let described = &described[answer.status.to_string()];
        assert!(described.is_object(), "{method}: {}", answer.status);
        let of_door = |name: &&str| {
            let name = name.to_ascii_lowercase();
            name.starts_with("logberg-") || name.starts_with("stream-") || name == "etag"
        };
        let known = described["headers"].as_object();
        for name in answer.names().filter(of_door) {
            let mut names = known.into_iter().flatten();
            let is_known = names.any(|(known, _)| known.eq_ignore_ascii_case(name));
            assert!(is_known, "{method}, {}: {name}", answer.status);
        }
    }

    /// Asks again while it is certain that nothing was done.
    pub fn insist(
        &self,
        at: usize,
        method: &str,
        log: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        wait_for(
            || {
                let answer = self.ask(at, method, log, headers, body);
                let is_not_now = answer.status == 503 && answer.header("Logberg-Outcome").is_none();
                (!is_not_now).then_some(answer)
            },
            || self.cluster.logs(),
        )
    }

    fn bytes(&self, at: usize, log: &str) -> Vec<u8> {
        let mut answer = self.insist(at, "GET", log, &[], b"");
        assert_eq!(answer.status, 200);
        answer.body()
    }

    fn upload(&self, at: usize, log: &str, headers: &[(&str, &str)]) -> Upload {
        let path = format!("/v1/log/{log}");
        Upload::begin(&self.doors[at], "POST", &path, headers).expect("a connection")
    }

    /// Waits until the log has as many bytes, as a node tells.
    pub fn wait_length(&self, at: usize, log: &str, bytes: u64) {
        wait_for(
            || {
                let head = self.insist(at, "HEAD", log, &[], b"");
                (position(&head) >= bytes).then_some(())
            },
            || format!("{log} does not come to {bytes}\n{}", self.cluster.logs()),
        );
    }
}

fn position(answer: &Answer) -> u64 {
    let offset = answer.offset();
    let position = offset.split_once('_').expect("an offset").1;
    position.parse().expect("a position")
}

fn refused(answer: &mut Answer) -> (u16, String) {
    let text = answer.text();
    let json: Json = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text:?} is no JSON"));
    let part = |part: &str| json["error"][part].as_str().expect("text").to_owned();
    assert!(
        !part("message").is_empty() && !part("remedy").is_empty(),
        "{text}"
    );
    (answer.status, part("code"))
}

#[test]
fn a_log_has_what_was_appended_whichever_node_is_asked() {
    let logs = Logs::start("raw");
    // Longer than an append to a stream may be.
    let content = Content::new(1, 20 << 20).bytes();
    let done = logs.insist(1, "POST", "raw", &[], &content);
    assert_eq!((done.status, position(&done)), (204, 20 << 20));
    let stream = done.header("Logberg-Stream").expect("a stream").to_owned();
    for at in 0..NODES {
        let head = logs.ask(at, "HEAD", "raw", &[], b"");
        assert_eq!((head.status, head.offset()), (200, done.offset()));
        let last = format!("{stream}@{}", content.len());
        assert_eq!(head.header("Logberg-Stream"), Some(&*last));
        assert_eq!(head.header("Logberg-Continues"), None);
        assert!(logs.bytes(at, "raw") == content, "node {}", at + 1);
    }
    let tag = done.header("ETag").expect("a tag").to_owned();
    let known = logs.ask(2, "GET", "raw", &[("If-None-Match", &tag)], b"");
    assert_eq!(known.status, 304);
    // A part, by positions and by offsets.
    for (range, from, to) in [
        ("bytes=5-9", 5, 10),
        ("bytes=20971510-", 20_971_510, 20 << 20),
        ("bytes=-7", (20 << 20) - 7, 20 << 20),
        ("bytes=3000000-99999999", 3_000_000, 20 << 20),
    ] {
        let mut part = logs.ask(2, "GET", "raw", &[("Range", range)], b"");
        assert_eq!(part.status, 206, "{range}");
        let said = format!("bytes {from}-{}/{}", to - 1, 20 << 20);
        assert_eq!(part.header("Content-Range"), Some(&*said));
        assert!(part.body() == content[from..to], "{range}");
    }
    let mut none = logs.ask(0, "GET", "raw", &[("Range", "bytes=20971520-")], b"");
    assert_eq!(refused(&mut none), (416, "range".to_owned()));
    let ours = [("Range", "bytes=0-0"), ("If-Range", &*tag)];
    assert_eq!(logs.ask(0, "GET", "raw", &ours, b"").status, 206);
    let other = [("Range", "bytes=0-0"), ("If-Range", "\"other\"")];
    assert_eq!(logs.ask(0, "GET", "raw", &other, b"").status, 200);
    let middle = done
        .offset()
        .replace("_0000000020971520", "_0000000020971500");
    let mut rest = logs.ask(1, "GET", &format!("raw?offset={middle}"), &[], b"");
    assert_eq!(rest.header("Stream-Up-To-Date"), Some("true"));
    assert_eq!(rest.body(), content[20_971_500..]);
    // A chain by its first stream: it is closed.
    let mut chain = logs.ask(0, "GET", &format!("raw?stream={stream}"), &[], b"");
    assert_eq!(chain.header("Stream-Closed"), Some("true"));
    assert!(chain.body() == content);
    // What is at the end of the name of a deleted log is not another's.
    assert_eq!(logs.ask(2, "DELETE", "raw", &[], b"").status, 204);
    assert_eq!(logs.ask(0, "GET", "raw", &[], b"").status, 404);
    assert_eq!(logs.insist(1, "PUT", "raw", &[], b"new").status, 201);
    assert_eq!(logs.bytes(2, "raw"), b"new");
    let mut stale = logs.ask(0, "GET", &format!("raw?offset={middle}"), &[], b"");
    assert_eq!(refused(&mut stale), (410, "other-offset".to_owned()));
    // What was trimmed is gone, and the beginning is behind it.
    logs.cluster
        .run_well(&["trim", "raw", "--before", "@2", "--yes"]);
    assert_eq!(logs.bytes(1, "raw"), b"w");
    let mut gone = logs.ask(0, "GET", "raw", &[("Range", "bytes=0-2")], b"");
    assert_eq!(refused(&mut gone), (410, "trimmed".to_owned()));
}

/// A method, a log and what stands behind it, headers, and the status that they get.
type Wrong<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], u16);

#[test]
fn an_append_that_expects_an_end_is_done_there_or_not_at_all() {
    let logs = Logs::start("raw");
    let mut tag = {
        let made = logs.insist(0, "POST", "raw", &[], b"begin");
        made.header("ETag").expect("a tag").to_owned()
    };
    let mut expected = b"begin".to_vec();
    // All at once, and one of them is the first.
    for round in 0..4 {
        let answers = thread::scope(|scope| {
            let asked: Vec<_> = (0..6)
                .map(|number| {
                    let (logs, tag) = (&logs, &tag);
                    scope.spawn(move || {
                        let body = format!("-{round}.{number}");
                        let only = [("If-Match", tag.as_str())];
                        let answer = logs.insist(number % 3, "POST", "raw", &only, body.as_bytes());
                        (answer, body)
                    })
                })
                .collect();
            let answers = asked.into_iter().map(|asked| asked.join());
            answers.map(|answer| answer.expect("no panic")).collect()
        });
        let answers: Vec<(Answer, String)> = answers;
        let done: Vec<_> = answers
            .iter()
            .filter(|(answer, _)| answer.status == 204)
            .collect();
        let [(answer, body)] = done[..] else {
            panic!("{} were done", done.len());
        };
        let next = answer.header("ETag").expect("a tag").to_owned();
        expected.extend_from_slice(body.as_bytes());
        for (mut answer, _) in answers {
            if answer.status == 204 {
                continue;
            }
            let tag = answer.header("ETag").map(str::to_owned);
            assert_eq!(refused(&mut answer), (412, "unexpected-tail".to_owned()));
            assert_eq!(tag, Some(next.clone()), "the end is told");
        }
        tag = next;
    }
    assert_eq!(logs.bytes(1, "raw"), expected);
    // None is made twice, and bytes make new ones only.
    let new = [("If-None-Match", "*")];
    let mut again = logs.ask(2, "PUT", "raw", &new, b"");
    assert_eq!(refused(&mut again), (412, "exists".to_owned()));
    let mut filled = logs.ask(2, "PUT", "raw", &[], b"more");
    assert_eq!(refused(&mut filled), (409, "exists".to_owned()));
    assert_eq!(logs.ask(0, "PUT", "raw", &[], b"").status, 200);
    let bad: &[Wrong<'_>] = &[
        ("POST", "missing", &[], 404),
        ("GET", "missing", &[], 404),
        ("DELETE", "missing", &[], 404),
        ("GET", "raw?stream=9.9.9", &[], 404),
        ("GET", "raw?stream=x", &[], 400),
        ("GET", "raw?live=sse", &[], 400),
        (
            "GET",
            "raw?offset=0000000000000000_0000000000009999",
            &[],
            400,
        ),
        ("GET", "raw?offset=-1", &[("Range", "bytes=0-1")], 400),
        ("POST", "raw", &[("Producer-Id", "p")], 400),
        ("POST", "raw", &[("Stream-Closed", "true")], 400),
        ("POST", "raw", &[("If-Match", "\"x\"")], 400),
        ("POST", "raw", &[("Logberg-Continues", "x")], 400),
        ("POST", "raw", &[("Logberg-Continues", "9.9.9@0")], 404),
        ("POST", "raw", &[("Content-Encoding", "gzip")], 415),
        ("PUT", ".hidden", &[], 400),
        ("PUT", "a%2Fb", &[], 400),
        ("PATCH", "raw", &[], 405),
    ];
    for (turn, (method, log, headers, status)) in bad.iter().enumerate() {
        let body: &[u8] = if *method == "POST" { b"x" } else { b"" };
        let mut answer = logs.ask(turn % 3, method, log, headers, body);
        assert_eq!(
            refused(&mut answer).0,
            *status,
            "{method} {log} {headers:?}"
        );
    }
    // Machines' logs are no files.
    logs.cluster
        .run_well(&["log", "create", "space", "--kind", "streams"]);
    for method in ["GET", "POST", "DELETE"] {
        let mut answer = logs.insist(0, method, "space", &[], b"x");
        assert_eq!(refused(&mut answer), (409, "other-kind".to_owned()));
    }
    let empty = logs.ask(0, "POST", "raw", &[], b"");
    assert_eq!(empty.status, 400);
    // Whoever sends a long body that nobody wants hears why.
    let long = vec![7; 8 << 20];
    let mut missing = logs.ask(1, "POST", "missing", &[], &long);
    assert_eq!(refused(&mut missing), (404, "not-found".to_owned()));
    let mut filled = logs.ask(1, "PUT", "raw", &[], &long);
    assert_eq!(refused(&mut filled), (409, "exists".to_owned()));
    assert_eq!(logs.bytes(2, "raw"), expected, "nothing was written");
}

#[test]
fn a_writer_that_takes_over_ends_an_append() {
    let logs = Logs::start("raw");
    let mut upload = logs.upload(0, "raw", &[]);
    upload.piece(b"before ").expect("it is taken");
    logs.wait_length(1, "raw", 7);
    let append = ["append", "raw", "--takeover"];
    let taken = logs.cluster.run_with_input(&append, b"taken over");
    assert_eq!(taken.status.code(), Some(0), "{taken:?}");
    // What is sent behind that may still be on its way when the writer hears of it.
    let _ = upload.piece(b"behind");
    let mut answer = upload.end().expect("an answer");
    assert_eq!(refused(&mut answer), (409, "superseded".to_owned()));
    assert_eq!(logs.bytes(2, "raw"), b"before taken over");
}

#[test]
fn a_body_whose_leader_is_killed_is_appended_once_and_whole() {
    let mut logs = Logs::start("raw");
    let content = Content::new(7, 24 << 20).bytes();
    // The door is another node's, and stays.
    let leader = logs.cluster.leader("raw");
    let at = (leader + 1) % NODES;
    let mut upload = logs.upload(at, "raw", &[]);
    let (first, rest) = content.split_at(8 << 20);
    let pieces = |bytes: &[u8], upload: &mut Upload| {
        for piece in bytes.chunks(100_000) {
            upload.piece(piece).expect("it is taken");
        }
    };
    pieces(first, &mut upload);
    logs.wait_length(at, "raw", 1);
    logs.cluster.nodes[leader].kill();
    pieces(rest, &mut upload);
    let done = upload.end().expect("an answer");
    assert_eq!(done.status, 204);
    assert_eq!(position(&done), content.len() as u64);
    logs.cluster.nodes[leader].start();
    logs.cluster.wait_whole();
    let stream = done.header("Logberg-Stream").expect("a stream");
    for at in 0..NODES {
        assert!(logs.bytes(at, "raw") == content, "node {}", at + 1);
        let by_stream = format!("raw?stream={stream}");
        assert!(logs.bytes(at, &by_stream) == content, "node {}", at + 1);
    }
    let head = logs.insist(at, "HEAD", "raw", &[], b"");
    let last = format!("{stream}@{}", content.len());
    assert_eq!(head.header("Logberg-Stream"), Some(&*last));
}

#[test]
fn a_body_that_is_cut_leaves_what_arrived_and_goes_on_behind_it() {
    let logs = Logs::start("raw");
    let content = Content::new(3, 3 << 20).bytes();
    let mut arrived = 1_000_003;
    let mut upload = logs.upload(0, "raw", &[]);
    upload.piece(&content[..arrived]).expect("it is taken");
    logs.wait_length(1, "raw", arrived as u64);
    // Another writer is told so, and does not wait for ever.
    let mut busy = thread::scope(|scope| {
        let asked = scope.spawn(|| logs.ask(1, "POST", "raw", &[], b"x"));
        while !asked.is_finished() {
            thread::sleep(Duration::from_millis(500));
            let piece = &content[arrived..=arrived];
            upload.piece(piece).expect("it is taken");
            arrived += 1;
        }
        asked.join().expect("no panic")
    });
    assert!(busy.header("Retry-After").is_some());
    assert_eq!(refused(&mut busy), (409, "busy".to_owned()));
    logs.wait_length(1, "raw", arrived as u64);
    // One whose bytes do not come is given up.
    let mut slow = upload.stop_sending().expect("an answer");
    assert_eq!(refused(&mut slow), (408, "slow-body".to_owned()));
    for node in 0..NODES {
        let head = logs.insist(node, "HEAD", "raw", &[], b"");
        assert_eq!(position(&head), arrived as u64);
        let chain = head.header("Logberg-Stream").expect("a chain");
        let (stream, bytes) = chain.split_once('@').expect("its bytes");
        assert_eq!(bytes, arrived.to_string());
        let place = format!("{stream}@{arrived}");
        assert_eq!(head.header("Logberg-Continues"), Some(&*place));
    }
    let head = logs.insist(2, "HEAD", "raw", &[], b"");
    let place = head
        .header("Logberg-Continues")
        .expect("a place")
        .to_owned();
    let stream = place.split_once('@').expect("a place").0.to_owned();
    // A place where it does not end is told where it does.
    let wrong = format!("{stream}@7");
    let mut refusal = logs.ask(1, "POST", "raw", &[("Logberg-Continues", &wrong)], b"x");
    assert_eq!(refusal.header("Logberg-Continues"), Some(&*place));
    assert_eq!(refused(&mut refusal), (409, "continues".to_owned()));
    // It breaks again, in the middle of a piece this time, and goes on through another node.
    let second = 500_000;
    let half = format!(
        "POST /v1/log/raw HTTP/1.1\r\nHost: localhost\r\nLogberg-Continues: {place}\r\nContent-Length: {}\r\n\r\n",
        content.len() - arrived
    );
    let mut half = half.into_bytes();
    half.extend_from_slice(&content[arrived..arrived + second]);
    let connection = std::net::TcpStream::connect(&logs.doors[1]).map(|mut connection| {
        use std::io::Write;
        connection.write_all(&half).map(|()| connection)
    });
    let connection = connection.and_then(|sent| sent).expect("it is sent");
    logs.wait_length(0, "raw", (arrived + second) as u64);
    drop(connection);
    let head = logs.insist(0, "HEAD", "raw", &[], b"");
    let chain = format!("{stream}@{}", arrived + second);
    assert_eq!(head.header("Logberg-Stream"), Some(&*chain));
    let place = head.header("Logberg-Continues").expect("a place");
    let rest = &content[arrived + second..];
    let done = logs.insist(2, "POST", "raw", &[("Logberg-Continues", place)], rest);
    assert_eq!(done.status, 204);
    assert!(logs.bytes(0, "raw") == content);
    let mut chain = logs.ask(1, "GET", &format!("raw?stream={stream}"), &[], b"");
    assert_eq!(chain.header("Stream-Closed"), Some("true"));
    assert!(chain.body() == content);
    // What is no body is none, and what came before it stays.
    let broken = b"POST /v1/log/raw HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n";
    let broken = http::send(&logs.doors[0], broken).expect("an answer");
    assert_eq!(broken.status, 400);
    let head = logs.insist(0, "HEAD", "raw", &[], b"");
    assert_eq!(position(&head), content.len() as u64 + 3);
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

#[test]
fn whoever_waits_at_the_end_of_a_log_is_told_what_comes_on_every_node() {
    let logs = Logs::start("raw");
    assert_eq!(logs.insist(0, "POST", "raw", &[], b"before").status, 204);
    let mut readers: Vec<Answer> = (0..NODES)
        .map(|at| logs.ask(at, "GET", "raw?offset=now&live=sse", &[], b""))
        .collect();
    for reader in &mut readers {
        assert_eq!(reader.header("Stream-SSE-Data-Encoding"), Some("base64"));
        let told = events(reader, 1);
        assert!(told[0].data.contains("\"upToDate\":true"), "{told:?}");
    }
    let quiet = logs.ask(1, "GET", "raw?offset=now&live=long-poll", &[], b"");
    assert_eq!((quiet.status, position(&quiet)), (204, 6));
    thread::scope(|scope| {
        let polls: Vec<_> = (0..NODES)
            .map(|at| {
                let logs = &logs;
                scope.spawn(move || {
                    let mut from = "now".to_owned();
                    loop {
                        let path = format!("raw?offset={from}&live=long-poll");
                        let mut answer = logs.ask(at, "GET", &path, &[], b"");
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
        assert_eq!(logs.insist(2, "POST", "raw", &[], b" behind").status, 204);
        for poll in polls {
            assert_eq!(poll.join().expect("no panic"), " behind");
        }
    });
    for reader in &mut readers {
        let told = events(reader, 3);
        assert_eq!((&*told[0].name, &*told[0].data), ("data", "IGJlaGluZA=="));
        assert!(told[1].data.contains("_0000000000000013"), "{told:?}");
        assert!(told[2].data.contains("\"upToDate\":true"), "{told:?}");
    }
    // A chain ends where it was closed.
    let done = logs.insist(0, "POST", "raw", &[], b"chain");
    let stream = done.header("Logberg-Stream").expect("a stream");
    let path = format!("raw?stream={stream}&offset=-1&live=sse");
    let mut chain = logs.ask(1, "GET", &path, &[], b"");
    let told = events(&mut chain, 2);
    assert_eq!(told[0].data, "Y2hhaW4=");
    let mut last = told[1].data.clone();
    while !last.contains("\"streamClosed\":true") {
        last = events(&mut chain, 1)[0].data.clone();
    }
    assert_eq!(chain.piece().expect("its end"), None);
    let path = format!("raw?stream={stream}&offset=-1&live=long-poll");
    let mut polled = logs.ask(2, "GET", &path, &[], b"");
    assert_eq!(polled.text(), "chain");
    let path = format!("raw?stream={stream}&offset={}&live=long-poll", {
        polled.offset()
    });
    let polled = logs.ask(2, "GET", &path, &[], b"");
    assert_eq!(
        (polled.status, polled.header("Stream-Closed")),
        (204, Some("true"))
    );
}

#[test]
fn reads_of_logs_are_few_and_others_are_served_beside_them() {
    let logs = Logs::start("raw");
    assert_eq!(logs.insist(0, "POST", "raw", &[], b"bytes").status, 204);
    let mut readers = Vec::new();
    let mut refusal = loop {
        assert!(readers.len() < 100, "there is a bound");
        let answer = logs.ask(0, "GET", "raw?offset=now&live=sse", &[], b"");
        match answer.status {
            200 => readers.push(answer),
            _ => break answer,
        }
    };
    assert_eq!(readers.len(), 64);
    assert!(refusal.header("Retry-After").is_some());
    assert_eq!(refused(&mut refusal), (503, "not-now".to_owned()));
    // Writers have a bound of their own, and so have streams.
    assert_eq!(logs.insist(0, "POST", "raw", &[], b"more").status, 204);
    let path = "/v1/stream/beside";
    let made = wait_for(
        || {
            let made = http::ask(&logs.doors[0], "PUT", path, &[], b"").expect("an answer");
            (made.status != 503).then_some(made.status)
        },
        || logs.cluster.logs(),
    );
    assert_eq!(made, 201);
    for reader in &mut readers {
        let told = events(reader, 2);
        assert!(
            told.iter().any(|event| event.data == "bW9yZQ=="),
            "{told:?}"
        );
    }
    // Whoever goes leaves his place to others.
    drop(readers);
    wait_for(
        || (logs.ask(0, "GET", "raw", &[], b"").status == 200).then_some(()),
        || "nobody's place is free again".to_owned(),
    );
}
