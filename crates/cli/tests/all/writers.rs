//! Writers at the command line and writers that misbehave, against real nodes.

use crate::harness;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::process::Stdio;

use harness::{Cluster, Content, Raw, ask, err, out, wait_for};
use serde_json::Value;

/// A writer that has its stream and does nothing.
fn idle_writer(cluster: &Cluster, log: &str) -> Raw {
    let leader = &cluster.nodes[cluster.leader(log)];
    let mut raw = Raw::say(&leader.listen, &format!("logberg/1 append {log}\n"));
    let line = raw.line();
    assert!(line.starts_with("stream "), "{line}");
    raw
}

fn streams(cluster: &Cluster, log: &str) -> Vec<Value> {
    let text = cluster.run_well(&["streams", log, "--json"]);
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn a_busy_log_is_refused_with_4_and_one_sentence() {
    let cluster = Cluster::start(1);
    let _writer = idle_writer(&cluster, "main");
    let output = cluster.run_with_input(&["append", "main"], b"x");
    assert_eq!(output.status.code(), Some(4), "{}", err(&output));
    let said = err(&output);
    assert!(
        said.contains("active writer") && said.lines().count() == 1,
        "{said}"
    );
    assert_eq!(streams(&cluster, "main").len(), 1);
}

#[test]
fn who_waits_gets_its_turn() {
    let cluster = Cluster::start(1);
    let mut writer = idle_writer(&cluster, "main");
    let second = Content::new(2, 200_000);
    let waiting = cluster.append_in_background("main", &["--wait"], second);
    let third = Content::new(3, 100_000);
    let also = cluster.append_in_background("main", &["--wait"], third);
    let first = Content::new(1, 100_000);
    writer.send(&first.bytes());
    writer.wait_ack(100_000);
    drop(writer);
    for appending in [waiting, also] {
        let output = appending.wait();
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    }
    let lengths: Vec<u64> = streams(&cluster, "main")
        .iter()
        .filter_map(|s| s["length"].as_u64())
        .collect();
    let rest = match lengths[..] {
        [100_000, 200_000, 100_000] => [second, third],
        _ => [third, second],
    };
    cluster.check_same("main", &[first, rest[0], rest[1]]);
}

#[test]
fn who_is_taken_over_is_told_and_ends_with_4() {
    let cluster = Cluster::start(3);
    let mut first = cluster.spawn(&["append", "main"]);
    let mut pipe = first.stdin.take().expect("piped");
    let begun = Content::new(1, 50_000);
    begun.write_to(&mut pipe).expect("it reads");
    let leader = cluster.leader("main");
    wait_for(
        || (cluster.nodes[leader].output_bytes("main") == 50_000).then_some(()),
        || cluster.logs(),
    );
    let second = Content::new(2, 70_000);
    cluster.append("main", &["--takeover"], second);
    // It writes on, and hears of it at the latest then.
    let _ = pipe.write_all(b"more");
    drop(pipe);
    let output = first.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(4), "{}", err(&output));
    let said = err(&output);
    assert!(
        said.contains("took over") || said.contains("superseded"),
        "{said}"
    );
    assert!(said.contains("50000 of 5000"), "{said}");
    cluster.wait_whole();
    cluster.check_same("main", &[begun, second]);
}

#[test]
fn a_reset_in_the_middle_leaves_a_stream_that_can_be_continued() {
    let mut cluster = Cluster::start(3);
    let address = cluster.nodes[cluster.leader("main")].listen.clone();
    let mut raw = Raw::say(&address, "logberg/1 append main\n");
    let line = raw.line();
    let name = line.split(' ').nth(1).expect("a name").to_owned();
    raw.send(b"kept");
    raw.wait_ack(4);
    raw.reset();
    let streams = wait_for(
        || {
            let writer = cluster.nodes[cluster.leader("main")].of_log("main", "writer")?;
            writer.is_null().then(|| streams(&cluster, "main"))
        },
        || cluster.logs(),
    );
    assert_eq!(
        (&streams[0]["end"], &streams[0]["length"]),
        (&"open".into(), &4.into())
    );
    let line = format!("logberg/1 append main end=fin continues={name}@4\n and more");
    let mut raw = Raw::say(&address, &line);
    raw.half_close();
    assert!(raw.line().ends_with(" at=4"));
    assert_eq!(raw.line_after("ack "), "closed 9");
    cluster.append("main", &[], Content::new(1, 1000));
    let read = cluster.run(&["read", "main", &name]);
    assert_eq!(out(&read), "kept and more");
    assert!(cluster.nodes.iter_mut().all(harness::Node::is_running));
}

/// A killed writer leaves no whole stream: every reader is told so, and nobody waits for its end for ever.
#[test]
fn a_killed_writers_stream_is_cut_and_who_reads_it_is_told() {
    let cluster = Cluster::start(3);
    let mut writer = cluster.spawn(&["append", "main"]);
    let mut pipe = writer.stdin.take().expect("piped");
    let content = Content::new(1, 50_000);
    content.write_to(&mut pipe).expect("it reads");
    let leader = cluster.leader("main");
    wait_for(
        || (cluster.nodes[leader].output_bytes("main") == 50_000).then_some(()),
        || cluster.logs(),
    );
    let name = streams(&cluster, "main")[0]["name"].clone();
    let name = name.as_str().expect("a name");
    let open = cluster.run(&["read", "main", name]);
    assert_eq!(open.status.code(), Some(0), "{}", err(&open));
    assert!(
        err(&open).contains("at 50000 the stream is open"),
        "{}",
        err(&open)
    );

    let follower = cluster.spawn(&["read", "main", name, "--follow", "--timeout", "60"]);
    writer.kill().expect("it runs");
    let _ = writer.wait();
    drop(pipe);
    let followed = follower.wait_with_output().expect("it ends");
    let read = cluster.run(&["read", "main", name]);
    for output in [followed, read] {
        assert_eq!(output.status.code(), Some(11), "{}", err(&output));
        assert!(output.stdout == content.bytes(), "other bytes");
        let said = err(&output);
        assert!(said.contains("at 50000 the stream was cut"), "{said}");
    }
    assert_eq!(streams(&cluster, "main")[0]["end"], "cut");
}

/// The process itself is killed, and prints nothing: the name of its stream is enough.
#[test]
fn what_a_killed_append_left_of_a_file_is_taken_up_where_it_stands() {
    let cluster = Cluster::start(3);
    let content = Content::new(1, 3_000_000);
    let file = tempfile::NamedTempFile::new().expect("a place for it");
    fs::write(file.path(), content.bytes()).expect("room");
    let path = file.path().to_str().expect("plain");
    let mut writer = cluster.spawn(&["append", "main", path, "--rate", "500k"]);
    let leader = cluster.leader("main");
    wait_for(
        || (cluster.nodes[leader].output_bytes("main") > 100_000).then_some(()),
        || cluster.logs(),
    );
    writer.kill().expect("it runs");
    let _ = writer.wait();
    let name = streams(&cluster, "main")[0]["name"].clone();
    let name = name.as_str().expect("a name");
    let arguments = ["append", "main", path, "--continue", name, "--wait"];
    let said = cluster.run_well(&arguments);
    assert_eq!(said, format!("stream {name} closed at 3000000\n"));
    let listed = streams(&cluster, "main");
    assert_eq!(listed.len(), 2, "one continues the other");
    assert!(listed[0]["length"].as_u64() < Some(3_000_000));
    cluster.check_same("main", &[content]);
}

/// It is as long as the file that was begun, and that is all.
#[test]
fn another_input_is_not_put_behind_what_was_appended() {
    let cluster = Cluster::start(1);
    let mut left = Raw::say(&cluster.nodes[0].listen, "logberg/1 append main\n");
    let line = left.line();
    let name = line.split(' ').nth(1).expect("a name").to_owned();
    let content = Content::new(1, 200_000);
    left.send(&content.bytes()[..150_000]);
    left.wait_ack(150_000);
    drop(left);
    let file = tempfile::NamedTempFile::new().expect("a place for it");
    let path = file.path().to_str().expect("plain");
    let arguments = ["append", "main", path, "--continue", &name];
    let mut other = content.bytes();
    other[149_999] ^= 1;
    fs::write(file.path(), &other).expect("room");
    let refused = cluster.run(&arguments);
    assert_eq!(refused.status.code(), Some(2), "{}", err(&refused));
    assert!(
        err(&refused).contains("not what was appended"),
        "{}",
        err(&refused)
    );
    assert_eq!(streams(&cluster, "main").len(), 1, "nothing was opened");
    // The same of what is passed over on standard input, which begins at a byte that is named.
    let place = format!("{name}@100000");
    let refused =
        cluster.run_with_input(&["append", "main", "--continue", &place], &other[100_000..]);
    assert_eq!(refused.status.code(), Some(2), "{}", err(&refused));
    fs::write(file.path(), content.bytes()).expect("room");
    let said = cluster.run_well(&arguments);
    assert_eq!(said, format!("stream {name} closed at 200000\n"));
    cluster.check_same("main", &[content]);
}

#[test]
fn many_resets_leave_nothing_behind() {
    let cluster = Cluster::start(1);
    let address = &cluster.nodes[0].listen;
    let junk = Content::new(1, 100_000).bytes();
    for round in 0..60 {
        let mut raw = Raw::say(address, "logberg/1 append main mode=takeover\n");
        if round % 3 > 0 {
            assert!(raw.line().starts_with("stream "));
        }
        let _ = raw.try_send(&junk[..round * 1600]);
        raw.reset();
    }
    cluster.append("main", &["--takeover"], Content::new(2, 100_000));
    let status = ask(address, "status").expect("an answer");
    assert_eq!(status["logs"][1]["writer"], Value::Null);
    let files = || {
        fs::read_dir(format!("/proc/{}/fd", cluster.nodes[0].pid()))
            .expect("it lives")
            .count()
    };
    wait_for(
        || (files() < 60).then_some(()),
        || format!("{} open files", files()),
    );
}

#[test]
fn a_writer_that_never_reads_its_acks_harms_only_itself() {
    let cluster = Cluster::start(3);
    cluster.run_well(&["log", "create", "other"]);
    cluster.append("other", &[], Content::new(1, 20_000_000));
    let leader = cluster.leader("main");
    let before = cluster.nodes[leader].memory("VmHWM:");
    let address = cluster.nodes[leader].listen.clone();
    let deaf = Raw::say(&address, "logberg/1 append main\n");
    let mut half = deaf.stream.try_clone().expect("a file");
    let feeder = std::thread::spawn(move || {
        // Small pieces make many acknowledgements.
        for _ in 0..60_000 {
            if half.write_all(&[7; 600]).is_err() {
                return;
            }
        }
    });
    cluster.append("other", &[], Content::new(2, 20_000_000));
    feeder.join().expect("the feeder");
    wait_for(
        || (cluster.nodes[leader].output_bytes("main") == 36_000_000).then_some(()),
        || cluster.logs(),
    );
    let grown = cluster.nodes[leader].memory("VmHWM:") - before;
    assert!(grown < 96 << 20, "{} MiB more", grown >> 20);
    drop(deaf);
    cluster.append("main", &["--wait"], Content::new(3, 1000));
}

#[test]
fn a_reader_that_does_not_read_harms_only_itself() {
    let cluster = Cluster::start(1);
    let content = Content::new(1, 60_000_000);
    cluster.append("main", &[], content);
    let before = cluster.nodes[0].memory("VmHWM:");
    let address = &cluster.nodes[0].listen;
    let lazy: Vec<Raw> = (0..30)
        .map(|_| Raw::say(address, "logberg/1 read main\n"))
        .collect();
    cluster.check_same("main", &[content]);
    cluster.append("main", &[], Content::new(2, 1_000_000));
    let grown = cluster.nodes[0].memory("VmHWM:") - before;
    assert!(grown < 160 << 20, "{} MiB more", grown >> 20);
    drop(lazy);
}

#[test]
fn nothing_on_standard_input_is_an_empty_stream() {
    let cluster = Cluster::start(1);
    let output = cluster.run(&["append", "main"]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert!(out(&output).ends_with(" closed at 0\n"), "{}", out(&output));
    let file = cluster.directory.path().join("empty");
    File::create(&file).expect("a file");
    let text = cluster.run_well(&["append", "main", file.to_str().expect("plain")]);
    assert!(text.ends_with(" closed at 0\n"), "{text}");
    let ends: Vec<Value> = streams(&cluster, "main")
        .iter()
        .map(|s| s["end"].clone())
        .collect();
    assert_eq!(ends, ["closed", "closed"]);
}

#[test]
fn a_file_that_shrinks_is_an_error_and_no_clean_end() {
    let cluster = Cluster::start(1);
    let path = cluster.directory.path().join("file");
    fs::write(&path, vec![1; 4_000_000]).expect("room");
    let name = path.to_str().expect("plain");
    let mut command = cluster.logberg(&["append", "main", name, "--rate", "500k"]);
    let child = command.spawn().expect("the binary runs");
    wait_for(
        || (cluster.nodes[0].output_bytes("main") > 0).then_some(()),
        || cluster.logs(),
    );
    File::options()
        .write(true)
        .open(&path)
        .expect("there")
        .set_len(10)
        .expect("shorter");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1));
    let said = err(&output);
    assert!(
        said.contains("shrank from 4000000 to ") && said.contains("not closed"),
        "{said}"
    );
    wait_for(
        || {
            cluster.nodes[0]
                .of_log("main", "writer")
                .filter(Value::is_null)
        },
        || cluster.logs(),
    );
    assert_ne!(streams(&cluster, "main")[0]["end"], "closed");
    // Its log is free again.
    cluster.append("main", &[], Content::new(1, 10));
}

#[test]
fn logs_are_created_once_listed_and_named_well() {
    let cluster = Cluster::start(3);
    let text = cluster.run_well(&["log", "create", "orders"]);
    assert!(text.starts_with("log orders has id "), "{text}");
    let again = cluster.run(&["log", "create", "orders"]);
    assert_eq!(again.status.code(), Some(4), "{}", err(&again));
    assert!(err(&again).contains("exists"), "{}", err(&again));
    let long = "x".repeat(300);
    for name in ["", "a b", "a/b", "..", "directory", "ä", long.as_str()] {
        let output = cluster.run(&["log", "create", name]);
        let code = output.status.code();
        assert!(
            matches!(code, Some(1 | 2 | 4)),
            "{name:?}: {code:?} {}",
            err(&output)
        );
        assert_eq!(
            err(&output).lines().count(),
            1,
            "{name:?}: {}",
            err(&output)
        );
    }
    let listed = cluster.run_well(&["log", "list"]);
    assert!(
        listed.lines().any(|line| line.starts_with("orders ")),
        "{listed}"
    );
    let listed: Value =
        serde_json::from_str(&cluster.run_well(&["log", "list", "--json"])).expect("JSON");
    assert_eq!(listed.as_array().map(Vec::len), Some(3), "{listed}");
}

#[test]
fn two_logs_are_appended_to_at_once_and_survive_a_restart_of_all() {
    let mut cluster = Cluster::start(3);
    cluster.run_well(&["log", "create", "orders"]);
    let (main, orders) = (Content::new(1, 8_000_000), Content::new(2, 9_000_000));
    let first = cluster.append_in_background("main", &[], main);
    let second = cluster.append_in_background("orders", &[], orders);
    for appending in [first, second] {
        let output = appending.wait();
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    }
    for node in &mut cluster.nodes {
        node.kill();
    }
    for node in &mut cluster.nodes {
        node.start();
    }
    cluster.wait_whole();
    cluster.check_same("main", &[main]);
    cluster.check_same("orders", &[orders]);
}

#[test]
fn a_reader_of_our_output_may_leave() {
    let cluster = Cluster::start(1);
    cluster.append("main", &[], Content::new(1, 3_000_000));
    for arguments in [&["read", "main"][..], &["read", "main", "--follow"]] {
        let mut child = cluster.logberg(arguments).spawn().expect("the binary runs");
        let mut pipe = child.stdout.take().expect("piped");
        pipe.read_exact(&mut [0; 1]).expect("a byte");
        drop(pipe);
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(
            (output.status.code(), err(&output).as_str()),
            (Some(0), ""),
            "{arguments:?}"
        );
    }
    for arguments in [
        &["status"][..],
        &["streams", "main"],
        &["log", "list"],
        &["--help"],
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = cluster.logberg(arguments);
        let child = command
            .stdout(Stdio::from(writer))
            .spawn()
            .expect("the binary runs");
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(
            (output.status.code(), err(&output).as_str()),
            (Some(0), ""),
            "{arguments:?}"
        );
    }
}

#[test]
fn what_is_said_in_json_can_be_parsed_and_nothing_is_coloured() {
    let cluster = Cluster::start(1);
    let text = out(&cluster.run_with_input(&["append", "main", "--json"], b"abc"));
    let report: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(report["position"], 3);
    for arguments in [
        &["status"][..],
        &["streams", "main"],
        &["log", "list"],
        &["log", "create", "x"],
    ] {
        let mut all = vec!["--json"];
        all.extend(arguments);
        let text = cluster.run_well(&all);
        let parsed = serde_json::from_str::<Value>(&text);
        assert!(parsed.is_ok(), "{arguments:?}: {text}");
    }
    let read = cluster.run(&["--json", "read", "main"]);
    let end: Value = serde_json::from_str(&err(&read)).expect("JSON");
    assert_eq!(
        (out(&read).as_str(), &end["end"], &end["position"]),
        ("abc", &"closed".into(), &3.into())
    );
    let failed = cluster.run(&["--json", "read", "nowhere"]);
    let error: Value = serde_json::from_str(&err(&failed)).expect("JSON");
    assert_eq!(
        (failed.status.code(), &error["error"]["exit"]),
        (Some(5), &5.into())
    );
    for arguments in [
        &["status"][..],
        &["streams", "main"],
        &["--help"],
        &["nonsense"],
    ] {
        let output = cluster
            .logberg(arguments)
            .env("NO_COLOR", "1")
            .output()
            .expect("the binary runs");
        let all = out(&output) + &err(&output);
        assert!(!all.contains('\x1b'), "{arguments:?}: {all}");
    }
}

#[test]
fn the_help_of_every_command_shows_an_example() {
    let help = |arguments: &[&str]| {
        let output = harness::logberg("127.0.0.1:1", arguments)
            .arg("--help")
            .output();
        let output = output.expect("the binary runs");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        out(&output)
    };
    let all = help(&[]);
    let (_, listed) = all.split_once("Commands:\n").expect("commands");
    let commands: Vec<&str> = listed
        .lines()
        .take_while(|line| line.starts_with("  "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    assert!(
        commands.contains(&"append") && commands.contains(&"node"),
        "{all}"
    );
    for command in commands {
        let text = help(&[command]);
        assert!(
            text.contains("Example") || text.contains("Commands:"),
            "{command}: {text}"
        );
    }
}
