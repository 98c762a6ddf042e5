//! `logberg stream`: what people and scripts type.

use std::fs;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value as Json;

use crate::streams::Streams;

/// What a command said, and how it ended.
struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

fn begin(streams: &Streams, words: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_logberg"));
    command.args(["stream", "--http", &streams.doors.join(",")]);
    command.args(["--timeout", "60"]).args(words);
    command.stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("it starts")
}

fn end(mut child: Child, input: &[u8]) -> Ran {
    let mut stdin = child.stdin.take().expect("its input");
    // One that needs no input may have ended.
    drop(stdin.write_all(input));
    drop(stdin);
    let ended = child.wait_with_output().expect("it ends");
    Ran {
        code: ended.status.code(),
        out: String::from_utf8_lossy(&ended.stdout).into_owned(),
        err: String::from_utf8_lossy(&ended.stderr).into_owned(),
    }
}

fn run(streams: &Streams, words: &[&str], input: &[u8]) -> Ran {
    end(begin(streams, words), input)
}

fn done(streams: &Streams, words: &[&str], input: &[u8]) -> String {
    let ran = run(streams, words, input);
    assert_eq!(ran.code, Some(0), "{words:?}: {}", ran.err);
    ran.out
}

fn json(text: &str) -> Json {
    serde_json::from_str(text).unwrap_or_else(|_| panic!("{text:?} is no JSON"))
}

#[test]
fn a_stream_is_made_appended_to_read_forked_closed_and_deleted() {
    let directory = tempfile::tempdir().expect("a directory");
    let streams = Streams::start(directory.path());
    let put = ["put", "a b", "--type", "text/plain"];
    assert!(done(&streams, &put, b"").contains("is made"));
    assert!(done(&streams, &put, b"").contains("there already"));
    let made = json(&done(
        &streams,
        &["put", "messages", "--type", "application/json", "--json"],
        b"",
    ));
    assert_eq!(made["made"], true);
    let appended = json(&done(&streams, &["append", "a b", "--json"], b"hello\n"));
    assert_eq!(
        (&appended["bytes"], &appended["known"]),
        (&6.into(), &0.into())
    );
    assert_eq!(done(&streams, &["read", "a b"], b""), "hello\n");
    // Each line is a message, and stays as it was written.
    done(&streams, &["append", "messages"], b"{\"a\": 1.50}\n\n[2]\n");
    assert_eq!(
        done(&streams, &["read", "messages"], b""),
        "{\"a\":1.50}\n[2]\n"
    );
    // Whoever follows hears what comes, and ends with the stream.
    let tail = appended["tail"].as_str().expect("an offset");
    let follower = begin(&streams, &["tail", "a b", "--from", "-1"]);
    done(
        &streams,
        &["fork", "fork", "--of", "a b", "--at", tail],
        b"",
    );
    done(&streams, &["append", "a b", "--close"], b"bye\n");
    let heard = end(follower, b"");
    assert_eq!((heard.code, &*heard.out), (Some(0), "hello\nbye\n"));
    let page = json(&done(
        &streams,
        &["read", "a b", "--from", tail, "--json"],
        b"",
    ));
    assert_eq!(
        (&page["text"], &page["closed"]),
        (&"bye\n".into(), &true.into())
    );
    assert_eq!(done(&streams, &["read", "fork"], b""), "hello\n");
    assert!(done(&streams, &["close", "fork"], b"").contains("is closed"));
    assert!(done(&streams, &["close", "fork"], b"").contains("is closed"));
    let list = json(&done(&streams, &["ls", "--json"], b""));
    let names = list.as_array().expect("a list").iter();
    let names: Vec<&str> = names
        .map(|one| one["name"].as_str().expect("a name"))
        .collect();
    assert_eq!(names, ["a b", "first", "fork", "messages"]);
    assert!(done(&streams, &["ls", "f"], b"").contains("fork"));
    // What is refused says why, and by its code.
    let refused = [
        (&["append", "a b"][..], 4),
        (&["put", "fork", "--new"], 4),
        (&["put", "messages", "--type", "text/plain"], 4),
        (&["append", "nothing"], 5),
        (&["read", "nothing"], 5),
        (&["read", "a b", "--from", "7"], 2),
        (&["append", "messages"], 2),
        (&["rm", "fork"], 2),
    ];
    for (words, code) in refused {
        let ran = run(&streams, words, b"{no JSON");
        assert_eq!(ran.code, Some(code), "{words:?}: {}", ran.err);
        assert!(
            ran.err.contains(": "),
            "{words:?} says no more than {}",
            ran.err
        );
    }
    done(&streams, &["rm", "fork", "--yes"], b"");
    assert_eq!(run(&streams, &["read", "fork"], b"").code, Some(5));
}

/// The same input is fed three times: its writer dies, then the leader does, and then all is there.
#[test]
fn a_pipe_resumes_and_nothing_stands_twice() {
    let directory = tempfile::tempdir().expect("a directory");
    let streams = Streams::start(directory.path());
    done(&streams, &["put", "lines", "--type", "text/plain"], b"");
    let input: String = (0..60_000).map(|line| format!("line {line}\n")).collect();
    let file = directory.path().join("input");
    fs::write(&file, &input).expect("it is written");
    let file = file.to_str().expect("a path");
    let words = [
        "append",
        "lines",
        file,
        "--producer",
        "p",
        "--piece",
        "1KiB",
        "--resume",
        "--json",
    ];
    let length = || {
        let list = json(&done(&streams, &["ls", "lines", "--json"], b""));
        list[0]["bytes"].as_u64().expect("a length") as usize
    };
    let wait = |bytes: usize| {
        let begun = Instant::now();
        while length() < bytes {
            assert!(begun.elapsed() < Duration::from_secs(60), "nothing comes");
            thread::sleep(Duration::from_millis(5));
        }
    };
    let mut first = begin(&streams, &words);
    wait(20_000);
    first.kill().expect("it is killed");
    first.wait().expect("it is over");
    let before = length();
    assert!(before < input.len(), "the first ended by itself");
    let second = begin(&streams, &words);
    wait(before + 20_000);
    let leader = streams.cluster.leader("default").expect("a leader");
    streams.cluster.kill(leader).expect("it is killed");
    let second = end(second, b"");
    assert_eq!(second.code, Some(0), "{}", second.err);
    let second = json(&second.out);
    assert!(
        second["known"].as_u64() >= Some(before as u64 / 1_024),
        "{second}"
    );
    assert_eq!(second["bytes"], input.len());
    assert!(
        done(&streams, &["read", "lines"], b"") == input,
        "it is not what was fed"
    );
    let third = json(&done(&streams, &words, b""));
    assert_eq!(third["known"], third["pieces"]);
    assert_eq!(length(), input.len());
    // Another input of this producer is not taken for the first one.
    let other = ["append", "lines", "--producer", "p", "--piece", "1KiB"];
    let refused = run(&streams, &other, b"another\n");
    assert_eq!(refused.code, Some(4), "{}", refused.err);
    assert!(refused.err.contains("--resume"), "{}", refused.err);
    assert_eq!(length(), input.len());
    done(
        &streams,
        &[&other[..], &["--epoch", "1"]].concat(),
        b"another\n",
    );
    assert_eq!(length(), input.len() + 8);
    // Nobody answers: what was done is said, and what goes on.
    for node in 1..=3 {
        drop(streams.cluster.kill(node));
    }
    let mut child = Command::new(env!("CARGO_BIN_EXE_logberg"))
        .args([
            "stream",
            "--http",
            &streams.doors[0],
            "--timeout",
            "0.5",
            "read",
            "lines",
        ])
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut said = String::new();
    let stderr = child.stderr.as_mut().expect("its words");
    stderr.read_to_string(&mut said).expect("text");
    assert_eq!(child.wait().expect("it ends").code(), Some(3), "{said}");
    assert!(said.contains("--http"), "{said}");
}

#[test]
fn an_input_that_is_cut_otherwise_is_refused_and_nothing_is_lost_without_a_word() {
    let directory = tempfile::tempdir().expect("a directory");
    let streams = Streams::start(directory.path());
    done(&streams, &["put", "lines", "--type", "text/plain"], b"");
    let short: String = (0..20)
        .map(|line| format!("short line {line:02}\n"))
        .collect();
    let input = format!("{short}{}\n{short}", "L".repeat(100));
    let append = |piece: &str, more: &[&str], input: &str| {
        let words = ["append", "lines", "--producer", "p", "--lines"];
        let words = [&words[..], &["--piece", piece], more].concat();
        run(&streams, &words, input.as_bytes())
    };
    // A line does not fit: what stands already stays, and nobody is sent to a command that fails again.
    let cut = append("64", &[], &input);
    assert_eq!(cut.code, Some(2), "{}", cut.err);
    assert!(!cut.err.contains("to go on"), "{}", cut.err);
    let stood = done(&streams, &["read", "lines"], b"");
    assert_eq!(stood, short[..stood.len()]);
    assert!(stood.len() >= 200, "{stood:?}");
    // The same input in other pieces, and another one that is shorter.
    for (piece, input) in [
        ("128", &input[..]),
        ("64KiB", &input),
        ("64", "short line 00\n"),
    ] {
        let refused = append(piece, &["--resume"], input);
        assert_eq!(refused.code, Some(4), "{piece}: {}", refused.err);
        assert!(refused.err.contains("poch"), "{}", refused.err);
        assert_eq!(done(&streams, &["read", "lines"], b""), stood);
    }
    let rest = append("128", &["--epoch", "1"], &input[stood.len()..]);
    assert_eq!(rest.code, Some(0), "{}", rest.err);
    assert_eq!(done(&streams, &["read", "lines"], b""), input);
}
