//! The binary from outside: what it prints, and with which code it ends.

#[path = "../../../client/tests/all/fake/mod.rs"]
mod fake;

use std::fs;
use std::io::{Read, Write};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use client::admin::StreamEnd;
use client::{AppendOptions, StreamName};
use fake::{AppendFault, CloseFault, FakeCluster, ReadFault, payload};

fn logberg(server: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_logberg"));
    command
        .args(["--server", server, "--timeout", "2"])
        .args(arguments);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn run(cluster: &FakeCluster, arguments: &[&str]) -> Output {
    logberg(&cluster.address(0), arguments)
        .output()
        .expect("the binary runs")
}

fn run_with_input(cluster: &FakeCluster, arguments: &[&str], input: &[u8]) -> Output {
    let mut command = logberg(&cluster.address(0), arguments);
    let mut child = command
        .stdin(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    child
        .stdin
        .take()
        .expect("piped")
        .write_all(input)
        .expect("it reads");
    child.wait_with_output().expect("it ends")
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

fn chain(cluster: &FakeCluster, name: &str) -> (Vec<u8>, StreamEnd) {
    let name: StreamName = name.parse().expect("a name");
    cluster.truth().chain(Some(name)).expect("the stream")
}

/// An address of this machine at which no test listens, whichever ports are given to them.
fn nobody() -> String {
    "127.255.0.1:1".to_owned()
}

#[test]
fn append_prints_the_stream_and_its_end() {
    let cluster = FakeCluster::start(1);
    let output = run_with_input(
        &cluster,
        &["append", "main", "--label", "a note"],
        b"hello\n",
    );
    assert_eq!(out(&output), "stream 1.1.1 closed at 6\n");
    assert_eq!((code(&output), err(&output)), (Some(0), String::new()));
    assert_eq!(
        chain(&cluster, "1.1.1"),
        (b"hello\n".to_vec(), StreamEnd::Closed)
    );
    assert_eq!(cluster.truth().streams[0].label.as_deref(), Some("a note"));
}

#[test]
fn nothing_on_standard_input_is_an_empty_stream() {
    let cluster = FakeCluster::start(1);
    let output = run(&cluster, &["append", "main"]);
    assert_eq!(out(&output), "stream 1.1.1 closed at 0\n");
    assert_eq!(code(&output), Some(0));
}

#[test]
fn a_file_goes_there_and_back() {
    let cluster = FakeCluster::start(1);
    let bytes = payload(1_000_000, 1);
    let file = tempfile::NamedTempFile::new().expect("a place for it");
    fs::write(file.path(), &bytes).expect("room");
    let path = file.path().to_str().expect("plain");
    let output = run(&cluster, &["append", "main", path, "--write-size", "1000"]);
    assert_eq!(code(&output), Some(0), "{}", err(&output));
    let output = run(&cluster, &["read", "main", "1.1.1"]);
    assert!(output.stdout == bytes);
    let output = run(&cluster, &["read", "main", "--from", "1k", "--to", "1KiB"]);
    assert_eq!(output.stdout, bytes[1000..1024]);
}

#[test]
fn a_resumed_append_says_so_and_succeeds() {
    let cluster = FakeCluster::start(1);
    cluster.plan_appends([AppendFault::Cut {
        receive: 100,
        store: 50,
        acknowledge: 10,
        change_leader: false,
        last_words: "",
    }]);
    let output = run_with_input(&cluster, &["append", "main", "--json"], &payload(100, 2));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["stream"], "1.1.1");
    assert_eq!(report["last_stream"], "1.1.2");
    assert_eq!(report["position"], 100);
    assert_eq!(report["bytes_resent"], 50);
    assert_eq!(chain(&cluster, "1.1.1").0, payload(100, 2));
}

#[test]
fn a_rate_is_kept() {
    let cluster = FakeCluster::start(1);
    let started = std::time::Instant::now();
    let output = run_with_input(
        &cluster,
        &["append", "main", "--rate", "100k"],
        &[7; 50_000],
    );
    let elapsed = started.elapsed();
    assert_eq!(code(&output), Some(0), "{}", err(&output));
    assert!(elapsed > Duration::from_millis(380), "{elapsed:?}");
    assert!(elapsed < Duration::from_secs(20), "{elapsed:?}");
}

#[test]
fn bytes_of_an_open_pipe_are_not_held_back() {
    let cluster = FakeCluster::start(1);
    let mut command = logberg(&cluster.address(0), &["append", "main", "--rate", "20k"]);
    let mut child = command
        .stdin(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut pipe = child.stdin.take().expect("piped");
    pipe.write_all(&[7; 1000]).expect("it reads");
    let deadline = std::time::Instant::now() + Duration::from_secs(5);
    while cluster.truth().chain(None).expect("all").0.len() < 1000 {
        assert!(
            std::time::Instant::now() < deadline,
            "some wait for the pipe's end"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(pipe);
    assert_eq!(code(&child.wait_with_output().expect("it ends")), Some(0));
}

#[test]
fn after_a_close_that_failed_the_stream_may_be_closed_or_not() {
    let cluster = FakeCluster::start(1);
    cluster.plan_closes([CloseFault::Cut]);
    cluster.plan_appends([
        AppendFault::Healthy,
        AppendFault::Answer(b"error full: No room.\n".to_vec()),
    ]);
    let output = run_with_input(&cluster, &["append", "main"], b"x");
    let sentence = err(&output);
    assert_eq!(code(&output), Some(4), "{sentence}");
    assert!(
        sentence.contains("stopped: 1 of 1 bytes read are committed in stream 1.1.1")
            && sentence.contains("may be closed or not; `logberg streams main` tells")
            && sentence.contains("a disk of the cluster is full"),
        "{sentence}"
    );
    assert!(!sentence.contains("not closed"), "{sentence}");
}

/// The command that a failed append prints.
fn command_said(output: &Output) -> String {
    let said = err(output);
    let (_, command) = said.split_once(":\n  logberg ").expect("a command");
    command.trim_end().to_owned()
}

/// Runs what was printed, as it is.
fn paste(command: &str, input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_logberg"))
        .args(command.split(' '))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut pipe = child.stdin.take().expect("piped");
    pipe.write_all(input).expect("it reads");
    drop(pipe);
    child.wait_with_output().expect("it ends")
}

/// A cluster on which the stream breaks off behind so many bytes, and nobody takes more.
fn breaks_off(cluster: &FakeCluster, store: usize, acknowledge: usize) {
    cluster.plan_appends([
        AppendFault::Cut {
            receive: store,
            store,
            acknowledge,
            change_leader: false,
            last_words: "",
        },
        AppendFault::Answer(b"error full: No room.\n".to_vec()),
    ]);
}

#[test]
fn a_failed_append_of_a_file_prints_the_command_that_goes_on() {
    let cluster = FakeCluster::start(1);
    let bytes = payload(3000, 5);
    let file = tempfile::NamedTempFile::new().expect("a place for it");
    fs::write(file.path(), &bytes).expect("room");
    let path = file.path().to_str().expect("plain");
    breaks_off(&cluster, 1000, 700);
    let arguments = ["append", "main", path, "--label", "x"];
    let output = run(&cluster, &arguments);
    assert_eq!(code(&output), Some(4), "{}", err(&output));
    let command = command_said(&output);
    assert!(
        command.ends_with("--label x --continue 1.1.1@700"),
        "{command}"
    );
    // Broken off once more, and in the end whole: more was chosen than was acknowledged.
    breaks_off(&cluster, 1500, 1500);
    let output = paste(&command, b"");
    assert_eq!(code(&output), Some(4), "{}", err(&output));
    let command = command_said(&output);
    assert!(command.ends_with("--continue 1.1.1@2500"), "{command}");
    for _ in 0..2 {
        // The second time all of it is there and closed: that is done.
        let output = paste(&command, b"");
        assert_eq!(code(&output), Some(0), "{}", err(&output));
        assert_eq!(out(&output), "stream 1.1.1 closed at 3000\n");
        assert_eq!(chain(&cluster, "1.1.1"), (bytes.clone(), StreamEnd::Closed));
    }
    let streams = cluster.truth().streams.len();
    fs::write(file.path(), payload(3001, 5)).expect("room");
    let output = paste(&command, b"");
    assert_eq!(code(&output), Some(4), "{}", err(&output));
    assert!(
        err(&output).contains("was closed at 3000"),
        "{}",
        err(&output)
    );
    assert_eq!(cluster.truth().streams.len(), streams, "nothing was opened");
}

#[test]
fn a_failed_append_of_standard_input_says_which_byte_to_go_on_with() {
    let cluster = FakeCluster::start(1);
    let bytes = payload(3000, 6);
    breaks_off(&cluster, 1000, 700);
    let output = run_with_input(&cluster, &["append", "main"], &bytes);
    let said = err(&output);
    assert!(
        said.contains("feed the input from byte 700 on to"),
        "{said}"
    );
    let output = paste(&command_said(&output), &bytes[700..]);
    assert_eq!(code(&output), Some(0), "{}", err(&output));
    assert_eq!(chain(&cluster, "1.1.1"), (bytes, StreamEnd::Closed));
    // With JSON a machine finds the same.
    breaks_off(&cluster, 10, 10);
    let output = run_with_input(&cluster, &["--json", "append", "main"], &[7; 20]);
    let error: serde_json::Value = serde_json::from_slice(&output.stderr).expect("JSON");
    let place = error["error"]["continue"].as_str().expect("a place");
    assert!(place.ends_with("@10"), "{error}");
    let command = error["error"]["command"].as_str().expect("a command");
    assert!(command.ends_with(&format!("--continue {place}")), "{error}");
}

#[test]
fn another_input_than_the_one_that_was_left_is_refused() {
    let cluster = FakeCluster::start(1);
    breaks_off(&cluster, 1000, 1000);
    run_with_input(&cluster, &["append", "main"], &payload(3000, 6));
    for (place, input, exit) in [
        ("1.1.1@2000", &b""[..], 2),
        ("1.1.1@500", b"too short", 2),
        ("9.9.9@1", b"", 5),
        ("nonsense", b"", 2),
    ] {
        let arguments = ["append", "main", "--continue", place];
        let output = run_with_input(&cluster, &arguments, input);
        assert_eq!(code(&output), Some(exit), "{place}: {}", err(&output));
    }
    assert_eq!(chain(&cluster, "1.1.1").0.len(), 1000, "nothing was added");
}

/// The disk on which the answer was to stand is full: a script must not do again what is done.
#[test]
fn what_took_effect_is_said_where_standard_output_takes_nothing() {
    let cluster = FakeCluster::start(1);
    for (command, said) in [
        (&["append", "main"][..], "stream 1.1.1 closed at 0"),
        (&["--json", "append", "main"], "1.1.2"),
        (&["log", "create", "orders"], "orders"),
    ] {
        let full = fs::File::create("/dev/full").expect("Linux has one");
        let output = logberg(&cluster.address(0), command)
            .stdout(full)
            .output()
            .expect("the binary runs");
        assert_eq!(code(&output), Some(12), "{command:?}: {}", err(&output));
        let heard = err(&output);
        assert!(
            heard.contains("the answer was: ") && heard.contains(said),
            "{heard}"
        );
    }
    assert_eq!(cluster.truth().streams.len(), 2);
}

/// The log of a node may stand on the disk that is full.
#[test]
fn the_exit_code_stands_where_standard_error_takes_nothing() {
    for words in [&["status"][..], &["--json", "status"]] {
        let full = fs::File::create("/dev/full").expect("Linux has one");
        let words = [words, &["--timeout", "1"]].concat();
        let mut command = logberg(&nobody(), &words);
        let said = command.output().expect("the binary runs");
        let unsaid = command.stderr(full).output().expect("the binary runs");
        assert_eq!(code(&unsaid), code(&said), "{words:?}");
        assert_ne!(code(&unsaid), Some(101));
    }
}

#[test]
fn the_version_is_json_for_machines() {
    let output = logberg(&nobody(), &["--version", "--json"]).output();
    let output = output.expect("the binary runs");
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(told["name"], "logberg");
    let text = logberg(&nobody(), &["--version"]).output();
    let text = out(&text.expect("the binary runs"));
    let version = told["version"].as_str().expect("a version");
    let speaks = told["speaks"].as_str().expect("versions of clusters");
    assert_eq!(
        text,
        format!("logberg {version} (speaks version {speaks})\n")
    );
}

#[test]
fn a_command_may_wait_for_ever() {
    let cluster = FakeCluster::start(1);
    for command in [
        &["append", "main"][..],
        &["read", "main"],
        &["streams", "main"],
        &["status"],
        &["log", "list"],
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_logberg"))
            .args(["--server", &cluster.address(0), "--timeout", "never"])
            .args(command)
            .stdin(Stdio::null())
            .output()
            .expect("the binary runs");
        assert_eq!(code(&output), Some(0), "{command:?}: {}", err(&output));
    }
}

#[test]
fn a_log_with_too_many_streams_is_refused_with_4() {
    let cluster = FakeCluster::start(1);
    let answer = b"error too-many-streams: main has 5 streams; append to another log\n";
    cluster.plan_appends([AppendFault::Answer(answer.to_vec())]);
    let output = run(&cluster, &["append", "main"]);
    let sentence = err(&output);
    assert_eq!(code(&output), Some(4), "{sentence}");
    assert!(sentence.contains("append to another log"), "{sentence}");
}

#[test]
fn who_names_a_log_that_is_not_there_is_told_what_to_do() {
    let cluster = FakeCluster::start(1);
    for command in [["read", "nowhere"], ["append", "nowhere"]] {
        let output = run(&cluster, &command);
        let sentence = err(&output);
        assert_eq!(code(&output), Some(5), "{sentence}");
        assert!(
            sentence.contains("`logberg log list`") && sentence.contains("`logberg log create`"),
            "{sentence}"
        );
    }
}

#[test]
fn a_missing_file_leaves_no_stream() {
    let cluster = FakeCluster::start(1);
    let output = run(&cluster, &["append", "main", "/there/is/none"]);
    assert_eq!(code(&output), Some(5));
    assert!(cluster.truth().streams.is_empty());
}

#[test]
fn a_busy_log_is_refused_with_4() {
    let cluster = FakeCluster::start(1);
    let writer = cluster
        .client()
        .append("main", AppendOptions::default())
        .expect("free");
    let output = run(&cluster, &["append", "main"]);
    assert_eq!(code(&output), Some(4));
    let sentence = err(&output);
    assert_eq!(
        sentence,
        "logberg: log \"main\" has an active writer (stream 1.1.1); wait for it (`--wait`) or take over (`--takeover`)\n"
    );
    let output = run(&cluster, &["append", "main", "--takeover"]);
    assert_eq!(code(&output), Some(0), "{}", err(&output));
    drop(writer);
}

#[test]
fn a_quiet_writer_notices_that_it_was_superseded() {
    notices_that_it_was_superseded(&["append", "main"]);
}

/// A pipe that is named as a file is one.
#[test]
fn a_quiet_writer_of_a_named_pipe_notices_that_it_was_superseded() {
    notices_that_it_was_superseded(&["append", "main", "/dev/stdin"]);
}

fn notices_that_it_was_superseded(arguments: &[&str]) {
    let cluster = FakeCluster::start(1);
    let mut command = logberg(&cluster.address(0), arguments);
    let mut child = command
        .stdin(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let quiet = child.stdin.take().expect("piped");
    while cluster.truth().active.is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(
        code(&run(&cluster, &["append", "main", "--takeover"])),
        Some(0)
    );
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(code(&output), Some(4), "{}", err(&output));
    for words in [
        "another writer took over",
        "feed the input from byte 0 on to",
    ] {
        assert!(err(&output).contains(words), "{}", err(&output));
    }
    drop(quiet);
}

#[test]
fn what_does_not_exist_ends_with_5() {
    let cluster = FakeCluster::start(1);
    for arguments in [
        &["append", "other"][..],
        &["read", "other"],
        &["read", "main", "9.9.9"],
        &["read", "main", "--from-node", "9"],
    ] {
        let output = run(&cluster, arguments);
        assert_eq!(code(&output), Some(5), "{arguments:?}: {}", err(&output));
    }
}

#[test]
fn nobody_there_ends_with_3_and_names_who_was_asked() {
    let server = nobody();
    let mut command = logberg(&server, &["status"]);
    let output = command.output().expect("the binary runs");
    assert_eq!(code(&output), Some(3));
    assert!(err(&output).contains(&format!("{server} refuses connections")));
}

#[test]
fn damaged_bytes_end_with_6() {
    let cluster = FakeCluster::start(1);
    run_with_input(&cluster, &["append", "main"], &payload(5000, 3));
    cluster.plan_reads([ReadFault::WrongChecksumAt(2000)]);
    let output = run(&cluster, &["read", "main"]);
    assert_eq!(code(&output), Some(6), "{}", err(&output));
    assert_eq!(output.stdout, payload(5000, 3)[..2000]);
}

#[test]
fn wrong_usage_ends_with_2() {
    let cluster = FakeCluster::start(1);
    for arguments in [
        &["append"][..],
        &["append", "main", "--wait", "--takeover"],
        &["append", "main", "--rate", "fast"],
        &["read", "main", "--from", "2", "--to", "1"],
        &["read", "main", "not-a-stream"],
        &["append", "main", "/"],
    ] {
        let output = run(&cluster, arguments);
        assert_eq!(code(&output), Some(2), "{arguments:?}: {}", err(&output));
    }
}

#[test]
fn with_json_an_error_is_one_object() {
    let cluster = FakeCluster::start(1);
    for (arguments, kind, exit) in [
        (&["--json", "append", "other"][..], "not-found", 5),
        (&["--json", "append", "main", "--rate", "fast"], "usage", 2),
        (&["--json", "--server", "nowhere", "status"], "usage", 2),
    ] {
        let output = run(&cluster, arguments);
        let error: serde_json::Value = serde_json::from_slice(&output.stderr).expect("JSON");
        assert_eq!(error["error"]["kind"], kind);
        assert_eq!(error["error"]["exit"], exit);
        assert_eq!(code(&output), Some(exit));
        assert!(
            !error["error"]["message"]
                .as_str()
                .expect("a sentence")
                .is_empty()
        );
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let cluster = FakeCluster::start(1);
    run_with_input(&cluster, &["append", "main"], &payload(3_000_000, 4));
    let mut child: Child = logberg(&cluster.address(0), &["read", "main"])
        .spawn()
        .expect("the binary runs");
    let mut pipe = child.stdout.take().expect("piped");
    pipe.read_exact(&mut [0; 10]).expect("the first bytes");
    drop(pipe);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((code(&output), err(&output)), (Some(0), String::new()));
}

#[test]
fn a_cut_end_is_told_apart_from_a_clean_one() {
    let cluster = FakeCluster::start(1);
    let mut appender = cluster
        .client()
        .append("main", AppendOptions::default())
        .expect("free");
    appender.write_all(b"half").expect("room");
    appender.wait_acknowledged(4).expect("chosen");
    drop(appender);
    while cluster.truth().active.is_some() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let output = run(&cluster, &["read", "main", "1.1.1"]);
    assert_eq!((code(&output), out(&output)), (Some(11), "half".to_owned()));
    let cut = "logberg: at 4 the stream was cut: its writer vanished or was superseded\n";
    assert_eq!(err(&output), cut);
    let output = run(&cluster, &["--json", "read", "main", "1.1.1"]);
    assert_eq!(err(&output), "{\"end\":\"cut\",\"position\":4}\n");
    assert_eq!(code(&output), Some(11));
    // The log goes on: only its last stream is not whole.
    let output = run(&cluster, &["read", "main"]);
    assert_eq!((code(&output), out(&output)), (Some(0), "half".to_owned()));
    assert!(
        err(&output).contains("at 4 the last stream was cut"),
        "{}",
        err(&output)
    );
}

#[test]
fn a_read_that_ends_before_what_was_asked_for_says_so() {
    let cluster = FakeCluster::start(1);
    run_with_input(&cluster, &["append", "main"], b"half");
    let output = run(&cluster, &["read", "main", "1.1.1", "--to", "9"]);
    assert_eq!((code(&output), out(&output)), (Some(0), "half".to_owned()));
    assert!(
        err(&output).contains("at 4 the stream was closed; that is before --to 9"),
        "{}",
        err(&output)
    );
    let output = run(&cluster, &["read", "main", "1.1.1", "--to", "2"]);
    assert_eq!((out(&output), err(&output)), ("ha".into(), String::new()));
}

#[test]
fn tables_are_plain_where_there_is_no_terminal() {
    let cluster = FakeCluster::start(2);
    run_with_input(&cluster, &["append", "main", "--label", "x y"], b"hello");
    let streams = out(&run(&cluster, &["streams", "main"]));
    assert_eq!(
        streams,
        "STREAM  BYTES       END     CONTINUES  CONTINUED BY  LABEL\n\
         1.1.1       5  5 B  closed                           x y\n"
    );
    run_with_input(&cluster, &["append", "main", "--label", "\x1b[2J"], b"");
    let streams = out(&run(&cluster, &["streams", "main"]));
    assert!(
        streams.contains(" [2J") && !streams.contains('\x1b'),
        "{streams}"
    );
    let status = run(&cluster, &["status"]);
    assert_eq!(code(&status), Some(0));
    let status = out(&status);
    assert!(
        status.contains(&cluster.address(1)) && !status.contains('\x1b'),
        "{status}"
    );
    let json = out(&run(&cluster, &["status", "--json"]));
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["nodes"][1]["id"], 2);
    assert_eq!(json["nodes"][0]["self"], true);
}

#[test]
fn logs_are_created_and_listed() {
    let cluster = FakeCluster::start(1);
    let output = run(&cluster, &["log", "create", "orders"]);
    assert_eq!(out(&output), "log orders has id 1\n");
    let output = run(&cluster, &["log", "create", "orders"]);
    assert_eq!(code(&output), Some(4));
    let output = run(&cluster, &["log", "list"]);
    assert_eq!(out(&output), "LOG     ID  RETENTION\norders   1  forever\n");
}

#[test]
fn help_documents_the_exit_codes() {
    let cluster = FakeCluster::start(1);
    let output = run(&cluster, &["--help"]);
    assert_eq!(code(&output), Some(0));
    assert!(out(&output).contains("Exit codes:"));
    let output = run(&cluster, &["--version"]);
    assert_eq!(out(&output), "logberg 0.1.0 (speaks version 1-2)\n");
}
