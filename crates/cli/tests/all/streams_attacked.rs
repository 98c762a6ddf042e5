//! Drawn bytes at the HTTP door: heads and bodies of HTTP/1.1 that are bent, and frames and floods of HTTP/2. The node goes on, others are served
//! meanwhile, and no body is half there.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::Duration;

use crate::streams::{Streams, TEXT};

/// A generator whose draws are the same each time.
struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    fn of<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len())]
    }
}

/// Sends bytes, and that there are no more once nothing comes for a while; returns what came until the door ended.
fn exchange(door: &str, bytes: &[u8], is_cut: bool) -> Vec<u8> {
    let mut stream = TcpStream::connect(door).expect("it listens");
    let (quiet, long) = (Duration::from_millis(150), Duration::from_secs(20));
    stream.set_read_timeout(Some(quiet)).expect("it is set");
    stream.set_write_timeout(Some(long)).expect("it is set");
    // The door may end before it has read all.
    let _ = stream.write_all(bytes);
    if is_cut {
        return Vec::new();
    }
    let mut came = Vec::new();
    if stream.read_to_end(&mut came).is_err() {
        let _ = stream.shutdown(Shutdown::Write);
        stream.set_read_timeout(Some(long)).expect("it is set");
        let _ = stream.read_to_end(&mut came);
    }
    came
}

/// The status of the first answer.
fn status(came: &[u8]) -> Option<u16> {
    let text = String::from_utf8_lossy(&came[..came.len().min(64)]).into_owned();
    let rest = text
        .strip_prefix("HTTP/1.1 ")
        .or(text.strip_prefix("HTTP/1.0 "))?;
    rest.get(..3)?.parse().ok()
}

const LINES: [&str; 26] = [
    "Content-Length: 7",
    "Content-Length: 7, 7",
    "Content-Length: -1",
    "Content-Length: 18446744073709551616",
    "Content-Length: 0x10",
    "Transfer-Encoding: identity",
    "Transfer-Encoding: chunked, chunked",
    "Transfer-Encoding : chunked",
    "Expect: 100-continue",
    "Expect: nonsense",
    "Connection: keep-alive, Host",
    "Connection: Upgrade, HTTP2-Settings",
    "Upgrade: h2c",
    "HTTP2-Settings: AAMAAABkAAQAAP__",
    "Host: elsewhere.example",
    "Host:",
    "Producer-Id: p",
    "Producer-Epoch: 99999999999999999999",
    "Stream-Closed: true",
    "If-Match: \"",
    "Stream-Seq: \u{fc}",
    "Range: bytes=9-1,2-3",
    " folded: line",
    "no colon",
    "X:\u{0}",
    "Trailer: Stream-Closed",
];

/// A POST whose body is one word, sent in chunks; something of its head, or of what is around the chunks, is bent.
fn bent(draws: &mut Draws, number: usize) -> (Vec<u8>, String) {
    let word = format!("[{number}:{}]", "x".repeat(draws.below(300)));
    // Mostly one thing is wrong, so that requests come as far as there.
    let is_bent = |draws: &mut Draws| draws.below(7) == 0;
    let method = match is_bent(draws) {
        true => draws.of(&["PUT", "GET", "DELETE ", "post", "\u{fc}", ""]),
        false => "POST",
    };
    let path = match draws.below(28) {
        0 => "/v1/stream/a?".to_owned() + &"y".repeat(draws.below(70_000)),
        1 => "http://localhost/v1/stream/a".to_owned(),
        2 => "/v1/stream/%00%ff/../a".to_owned(),
        3 => "*".to_owned(),
        _ => "/v1/stream/a".to_owned(),
    };
    // Nobody is to lose the stream that is looked at.
    let path = match method {
        "POST" => path,
        _ => path.replace("/a", "/b"),
    };
    let version = match is_bent(draws) {
        true => draws.of(&["HTTP/1.0", "HTTP/2.0", "HTTP/1.1 "]),
        false => "HTTP/1.1",
    };
    let mut head = format!("{method} {path} {version}\r\nHost: localhost\r\n");
    head += "Content-Type: text/plain\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n";
    for _ in 0..draws.below(9) / 7 {
        let line = draws.of(&LINES);
        // A stream that is closed is written to no more.
        if line != "Stream-Closed: true" {
            head += line;
            head += draws.of(&["\r\n", "\r\n", "\r\n", "\n", "\r"]);
        }
    }
    let mut bytes = head.into_bytes();
    bytes.extend(b"\r\n");
    let cut = draws.below(word.len());
    for part in [&word[..cut], &word[cut..]] {
        if part.is_empty() {
            continue;
        }
        let size = match draws.below(50) {
            0 => format!("{:x}", part.len() + 1),
            1 => format!("{:x}", part.len().saturating_sub(1)),
            2 => "ffffffffffffffffff".to_owned(),
            3 => format!("-{:x}", part.len()),
            4 => format!("{:x};{}", part.len(), "e".repeat(draws.below(20_000))),
            5 => String::new(),
            _ => format!("{:x}", part.len()),
        };
        bytes.extend(format!("{size}\r\n{part}").bytes());
        let behind = match draws.below(20) {
            0 => "\n",
            1 => "",
            _ => "\r\n",
        };
        bytes.extend(behind.bytes());
    }
    let end = match is_bent(draws) {
        true => draws.of(&["0\r\nX: y\r\n\r\n", "0\r\n", ""]),
        false => "0\r\n\r\n",
    };
    bytes.extend(end.bytes());
    if draws.below(14) == 0 {
        let length = draws.below(bytes.len());
        bytes.truncate(length);
    }
    (bytes, word)
}

/// The words of a stream, each whole.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(']').expect("a word ends") + 1;
        words.push(rest[..end].to_owned());
        rest = &rest[end..];
    }
    words
}

#[test]
fn bent_requests_get_a_status_or_an_end_and_no_body_is_half_there() {
    let directory = tempfile::tempdir().expect("a directory");
    let streams = Streams::start(directory.path());
    assert_eq!(streams.ask(0, "PUT", "a", &[TEXT], b"").status, 201);
    let pids = streams.cluster.pids();
    let mut draws = Draws(0x5eed_5eed);
    let (mut sent, mut taken, mut refused) = (Vec::new(), Vec::new(), 0);
    for number in 0..800 {
        let (bytes, word) = bent(&mut draws, number);
        let is_cut = draws.below(10) == 0;
        let came = exchange(&streams.doors[number % 3], &bytes, is_cut);
        match status(&came) {
            Some(204) => taken.push(word.clone()),
            Some(200..=299) => {}
            Some(status) => {
                assert!(
                    status == 100 || (400..=505).contains(&status),
                    "{status} to {number}"
                );
                refused += 1;
            }
            None => {}
        }
        sent.push(word);
        if number % 100 == 0 {
            assert_eq!(
                streams.insist(number % 3, "HEAD", "first", &[], b"").status,
                200
            );
        }
    }
    assert!(
        taken.len() > 50 && refused > 100,
        "{} taken, {refused} refused",
        taken.len()
    );
    let stand = words(&streams.text(0, "a?all=1"));
    for word in &taken {
        assert!(
            stand.contains(word),
            "{word:?} was answered, and is not there"
        );
    }
    for word in &stand {
        assert!(
            sent.contains(word),
            "{word:?} was never sent as it stands there"
        );
    }
    assert_eq!(streams.cluster.pids(), pids, "a node ended");
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
    [&head, payload].concat()
}

/// A request's head, each field written out.
fn head(fields: &[(&str, &str)]) -> Vec<u8> {
    let text = |text: &str| [&[text.len() as u8], text.as_bytes()].concat();
    let fields = fields.iter();
    fields
        .flat_map(|(name, value)| [vec![0], text(name), text(value)].concat())
        .collect()
}

fn get() -> Vec<u8> {
    head(&[
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", "localhost"),
        (":path", "/v1/stream/first"),
    ])
}

const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW: u8 = 8;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// Frames that cost their sender little.
fn floods() -> Vec<(&'static str, Vec<u8>)> {
    let begun = [PREFACE, &frame(SETTINGS, 0, 0, b"")].concat();
    let many = |count: u32, of: &dyn Fn(u32) -> Vec<u8>| {
        let frames = (0..count).flat_map(of);
        begun.iter().copied().chain(frames).collect::<Vec<u8>>()
    };
    let asked = |number: u32| frame(HEADERS, END_STREAM | END_HEADERS, 2 * number + 1, &get());
    let cancel = 8_u32.to_be_bytes();
    let full = head(&[("x-long", &"z".repeat(200))]).repeat(70);
    vec![
        (
            "resets",
            many(20_000, &|number| {
                [asked(number), frame(RESET, 0, 2 * number + 1, &cancel)].concat()
            }),
        ),
        ("settings", many(20_000, &|_| frame(SETTINGS, 0, 0, b""))),
        (
            "pings",
            many(20_000, &|number| {
                frame(PING, 0, 0, &u64::from(number).to_be_bytes())
            }),
        ),
        (
            "empty data",
            many(20_000, &|number| match number {
                0 => frame(HEADERS, END_HEADERS, 1, &get()),
                _ => frame(0, 0, 1, b""),
            }),
        ),
        (
            "continuations",
            many(4_000, &|number| match number {
                0 => frame(HEADERS, END_STREAM, 1, &get()),
                _ => frame(CONTINUATION, 0, 1, &full),
            }),
        ),
        (
            "many streams",
            many(2_000, &|number| {
                frame(HEADERS, END_HEADERS, 2 * number + 1, &get())
            }),
        ),
        (
            "windows",
            many(2_000, &|_| {
                frame(WINDOW, 0, 0, &0x7fff_ffff_u32.to_be_bytes())
            }),
        ),
        (
            "priorities of itself",
            many(20_000, &|number| {
                frame(2, 0, 2 * number + 1, &[0, 0, 0, 1, 9])
            }),
        ),
    ]
}

#[test]
fn frames_and_floods_of_http_2_end_their_connection_and_no_other() {
    let directory = tempfile::tempdir().expect("a directory");
    let streams = Streams::start(directory.path());
    let pids = streams.cluster.pids();
    let door = &streams.doors[0];
    // A head as above is understood.
    let well = [
        PREFACE,
        &frame(SETTINGS, 0, 0, b""),
        &frame(HEADERS, END_STREAM | END_HEADERS, 1, &get()),
    ];
    let came = exchange(door, &well.concat(), false);
    let has_headers = came
        .windows(9)
        .any(|head| head[3] == HEADERS && head[8] == 1);
    assert!(has_headers, "it is answered");
    let mut draws = Draws(0xf1a6_f1a6);
    for _ in 0..400 {
        let mut bytes = PREFACE.to_vec();
        if draws.below(4) > 0 {
            bytes.extend(frame(SETTINGS, 0, 0, b""));
        }
        for _ in 0..1 + draws.below(12) {
            let length = draws.below(40);
            let mut payload: Vec<u8> = (0..length).map(|_| draws.below(256) as u8).collect();
            if draws.below(3) == 0 {
                payload = get();
                let at = draws.below(payload.len());
                payload[at] = draws.below(256) as u8;
            }
            let kind = draws.below(12) as u8;
            let (flags, stream) = (draws.below(256) as u8, draws.below(7) as u32);
            let mut drawn = frame(kind, flags, stream, &payload);
            if draws.below(8) == 0 {
                // Another length than it has.
                drawn[draws.below(3)] = draws.below(256) as u8;
            }
            bytes.extend(drawn);
        }
        let is_cut = draws.below(8) == 0;
        exchange(door, &bytes, is_cut);
    }
    for (name, flood) in floods() {
        thread::scope(|scope| {
            let flooding = scope.spawn(|| exchange(door, &flood, false));
            while !flooding.is_finished() {
                let served = streams.insist(0, "HEAD", "first", &[], b"");
                assert_eq!(served.status, 200, "while {name} come");
            }
        });
    }
    assert_eq!(streams.insist(0, "HEAD", "first", &[], b"").status, 200);
    assert_eq!(streams.cluster.pids(), pids, "a node ended");
}
