//! Nodes that are killed, paused, stopped and started again, under appends that do not notice.

use crate::harness;

use harness::{Cluster, Content, Raw, err, out, wait_for};
use serde_json::Value;

/// Bytes per second of appends that are to last while something happens.
const RATE: &str = "6M";
const LENGTH: u64 = 18_000_000;

/// Waits until a third of it is chosen somewhere, so that what happens next happens in the middle.
fn wait_middle(cluster: &Cluster, before: u64) {
    wait_for(
        || {
            let most = cluster
                .nodes
                .iter()
                .map(|node| node.output_bytes("main"))
                .max();
            (most > Some(before + LENGTH / 4)).then_some(())
        },
        || format!("the append does not get on\n{}", cluster.logs()),
    );
}

fn check_succeeds(cluster: &Cluster, appending: harness::Appending) -> std::process::Output {
    let output = appending.wait();
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}\n{}",
        err(&output),
        cluster.logs()
    );
    output
}

fn streams(cluster: &Cluster) -> Vec<Value> {
    serde_json::from_str(&cluster.run_well(&["streams", "main", "--json"])).expect("JSON")
}

#[test]
fn an_append_survives_the_death_of_its_leader() {
    let mut cluster = Cluster::start(3);
    let content = Content::new(1, LENGTH);
    let appending = cluster.append_in_background("main", &["--rate", RATE], content);
    wait_middle(&cluster, 0);
    let leader = cluster.leader("main");
    cluster.nodes[leader].kill();
    let output = check_succeeds(&cluster, appending);
    assert!(err(&output).contains("survived"), "{}", err(&output));
    cluster.nodes[leader].start();
    cluster.wait_whole();
    cluster.check_same("main", &[content]);
    let streams = streams(&cluster);
    assert!(streams.len() >= 2, "{streams:?}");
    for pair in streams.windows(2) {
        assert_eq!(pair[1]["continues"]["stream"], pair[0]["name"]);
        assert_eq!(pair[1]["continues"]["at"], pair[0]["length"]);
        assert_eq!(pair[0]["continued_by"], pair[1]["name"]);
    }
    assert_eq!(streams[streams.len() - 1]["end"], "closed");
    let first = streams[0]["name"].as_str().expect("a name").to_owned();
    let mut chain = cluster
        .logberg(&["read", "main", &first])
        .spawn()
        .expect("it runs");
    let mut pipe = chain.stdout.take().expect("piped");
    assert_eq!(content.compare(&mut pipe), Ok(()));
    drop(pipe);
    assert!(chain.wait().expect("it ends").success());
}

#[test]
fn an_append_survives_a_leader_that_stands_still() {
    let cluster = Cluster::start(3);
    let content = Content::new(2, LENGTH);
    let appending = cluster.append_in_background("main", &["--rate", RATE], content);
    wait_middle(&cluster, 0);
    let old = cluster.leader("main");
    cluster.nodes[old].signal("-STOP");
    // Long enough that another is elected, which is what is waited for.
    wait_for(
        || {
            let others = (0..3).filter(|index| *index != old);
            let mut roles = others.filter_map(|index| cluster.nodes[index].of_log("main", "role"));
            roles.any(|role| role == "leader").then_some(())
        },
        || cluster.logs(),
    );
    cluster.nodes[old].signal("-CONT");
    check_succeeds(&cluster, appending);
    cluster.wait_whole();
    cluster.check_same("main", &[content]);
}

#[test]
fn a_follower_killed_and_started_again_catches_up() {
    let mut cluster = Cluster::start(3);
    let content = Content::new(3, LENGTH);
    let appending = cluster.append_in_background("main", &["--rate", RATE], content);
    wait_middle(&cluster, 0);
    let follower = cluster.follower("main");
    cluster.nodes[follower].kill();
    let there = cluster.nodes[cluster.leader("main")].output_bytes("main");
    wait_for(
        || {
            (cluster.nodes[cluster.leader("main")].output_bytes("main") > there + LENGTH / 4)
                .then_some(())
        },
        || cluster.logs(),
    );
    cluster.nodes[follower].start();
    let output = check_succeeds(&cluster, appending);
    assert_eq!(err(&output), "", "the writer notices nothing");
    cluster.wait_whole();
    cluster.check_same("main", &[content]);
}

#[test]
fn what_was_acknowledged_is_back_after_the_death_of_all() {
    let mut cluster = Cluster::start(3);
    let address = cluster.nodes[cluster.leader("main")].listen.clone();
    let mut raw = Raw::say(&address, "logberg/1 append main\n");
    let stream = raw.line();
    let name = stream.split(' ').nth(1).expect("a name");
    let content = Content::new(4, 6_000_000);
    let bytes = content.bytes();
    let mut half = raw.stream.try_clone().expect("a file");
    let sent = bytes.clone();
    let feeder = std::thread::spawn(move || {
        let _ = std::io::Write::write_all(&mut half, &sent);
    });
    let mut acknowledged = 0;
    while acknowledged < 3_000_000 {
        let line = raw.line();
        acknowledged = line
            .strip_prefix("ack ")
            .expect(&line)
            .parse()
            .expect("a number");
    }
    for node in &mut cluster.nodes {
        node.kill();
    }
    // Acks that arrived before the death count too.
    while let Some(line) = raw.try_line() {
        let more = line
            .strip_prefix("ack ")
            .and_then(|position| position.parse().ok());
        acknowledged = more.unwrap_or(acknowledged);
    }
    feeder.join().expect("the feeder");
    for node in &mut cluster.nodes {
        node.start();
    }
    cluster.wait_whole();
    let output = cluster.run(&["read", "main", name]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let kept = output.stdout;
    assert!(
        kept.len() as u64 >= acknowledged,
        "{} of {acknowledged}",
        kept.len()
    );
    assert!(kept == bytes[..kept.len()]);
    let kept = Content::new(4, kept.len() as u64);
    let more = Content::new(5, 1_000_000);
    cluster.append("main", &[], more);
    cluster.wait_whole();
    cluster.check_same("main", &[kept, more]);
}

#[test]
fn one_node_killed_at_once_again_and_again_serves_each_time() {
    let mut cluster = Cluster::start(1);
    let mut contents = Vec::new();
    for round in 0..6 {
        let content = Content::new(round, 300_000 * round + 7);
        cluster.append("main", &[], content);
        contents.push(content);
        cluster.nodes[0].kill();
        cluster.nodes[0].start();
        cluster.wait_whole();
        cluster.check_same("main", &contents);
    }
}

#[test]
fn an_append_survives_an_orderly_stop_of_its_leader() {
    let mut cluster = Cluster::start(3);
    let content = Content::new(6, LENGTH);
    let appending = cluster.append_in_background("main", &["--rate", RATE], content);
    wait_middle(&cluster, 0);
    let leader = cluster.leader("main");
    cluster.nodes[leader].signal("-TERM");
    assert_eq!(cluster.nodes[leader].wait(), Some(0), "{}", cluster.logs());
    assert!(cluster.nodes[leader].said().contains("handing over"));
    check_succeeds(&cluster, appending);
    cluster.nodes[leader].start();
    cluster.wait_whole();
    cluster.check_same("main", &[content]);
}

#[test]
fn all_nodes_stop_in_order_even_together() {
    let mut cluster = Cluster::start(3);
    let content = Content::new(7, 1_000_000);
    cluster.append("main", &[], content);
    for node in &cluster.nodes {
        node.signal("-TERM");
    }
    for node in &mut cluster.nodes {
        assert_eq!(node.wait(), Some(0), "{}", node.said());
    }
    for node in &mut cluster.nodes {
        node.start();
    }
    cluster.wait_whole();
    cluster.check_same("main", &[content]);
}

#[test]
fn a_second_sigterm_ends_at_once_and_nothing_is_lost() {
    let mut cluster = Cluster::start_with(3, 3, |node| {
        node.faults = Some(node.data.with_extension("faults"));
    });
    cluster.wait_whole();
    let leader = cluster.leader("main");
    // Its disk takes a minute to write what the others hold: the first one alone would wait for that.
    let faults = cluster.nodes[leader].faults.clone().expect("set above");
    std::fs::write(&faults, "write-delay-ms=60000\n").expect("room");
    let content = Content::new(8, 5_000_000);
    cluster.append("main", &[], content);
    for index in (0..3).filter(|index| *index != leader) {
        cluster.nodes[index].kill();
    }
    let node = &mut cluster.nodes[leader];
    wait_for(
        || {
            // Again and again: two that come before it runs are one.
            node.signal("-TERM");
            (!node.is_running()).then_some(())
        },
        || "it does not end".to_owned(),
    );
    // In order it would be 0.
    assert_eq!(node.wait(), Some(143), "{}", node.said());
    std::fs::remove_file(&faults).expect("ours");
    for node in &mut cluster.nodes {
        node.start();
    }
    cluster.wait_whole();
    cluster.check_same("main", &[content]);
}

#[test]
fn without_a_quorum_nothing_is_agreed_and_everybody_says_so() {
    let mut cluster = Cluster::start(3);
    let content = Content::new(9, 500_000);
    cluster.append("main", &[], content);
    cluster.wait_whole();
    let alive = cluster.leader("main");
    for index in (0..3).filter(|index| *index != alive) {
        cluster.nodes[index].kill();
    }
    for arguments in [
        &["append", "main", "--timeout", "2"][..],
        &["read", "main", "--timeout", "2"],
        &["log", "create", "x", "--timeout", "2"],
    ] {
        let output = cluster.run(arguments);
        let said = err(&output);
        assert_eq!(output.status.code(), Some(3), "{arguments:?}: {said}");
        assert!(
            said.starts_with("logberg: ") && said.lines().count() == 1,
            "{arguments:?}: {said}"
        );
        assert_eq!(out(&output), "", "{arguments:?}");
    }
    let alone = cluster.nodes[alive].listen.clone();
    let (code, status) = cluster.run_status(&alone);
    assert_eq!(code, Some(3), "{status}");
    assert_eq!(
        status
            .lines()
            .filter(|line| line.contains(" silent ") && line.contains(" ago"))
            .count(),
        2,
        "{status}"
    );
    cluster.check_node(alive, "main", &[content]);
    for node in &mut cluster.nodes {
        if !node.is_running() {
            node.kill();
            node.start();
        }
    }
    cluster.wait_whole();
    cluster.append("main", &[], Content::new(10, 1000));
}

#[test]
fn a_node_that_joins_late_is_filled_and_then_votes() {
    let mut cluster = Cluster::start_with(2, 3, |_| {});
    let content = Content::new(11, 20_000_000);
    cluster.append("main", &[], content);
    let appending = cluster.append_in_background("main", &["--rate", RATE], content);
    cluster.add(|_| {});
    check_succeeds(&cluster, appending);
    cluster.wait_whole();
    cluster.check_same("main", &[content, content]);
    // Its vote counts: one of the old ones is not needed any more.
    let old = cluster.leader("main");
    cluster.nodes[old].kill();
    cluster.append("main", &[], Content::new(12, 1000));
    cluster.nodes[old].start();
    cluster.wait_whole();
    cluster.check_same("main", &[content, content, Content::new(12, 1000)]);
}
