//! Moving leaders, from outside: nobody's stream is cut, and what cannot be is refused.

use crate::harness;

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use harness::{Cluster, Content, err, wait_for};
use serde_json::Value;

const MIB: u64 = 1 << 20;

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

/// A log as `leader show` shows it.
fn shown(cluster: &Cluster, log: &str) -> Value {
    let all = json(&cluster.run_well(&["leader", "show", "--json"]));
    let mut all = all.as_array().expect("a list").iter();
    let found = all.find(|shown| shown["name"] == log);
    found.expect("every log is shown").clone()
}

fn move_to(cluster: &Cluster, log: &str, node: u64) -> Value {
    let to = node.to_string();
    json(&cluster.run_well(&["leader", "move", log, "--to", &to, "--json"]))
}

fn exit_of_move(cluster: &Cluster, log: &str, node: u64) -> (Option<i32>, String) {
    let output = cluster.run(&["leader", "move", log, "--to", &node.to_string()]);
    (output.status.code(), err(&output))
}

fn node(index: usize) -> u64 {
    index as u64 + 1
}

#[test]
fn a_leader_moves_there_and_back_under_load_and_no_stream_is_cut() {
    let cluster = Cluster::start(3);
    let content = Content::new(1, 48 * MIB);
    let mut child = cluster.spawn(&["append", "main", "--timeout", "60"]);
    let mut pipe = child.stdin.take().expect("piped");
    let done = Arc::new(AtomicBool::new(false));
    let moved = done.clone();
    let feeder = thread::spawn(move || {
        let bytes = content.bytes();
        let (most, last) = bytes.split_at(40 << 20);
        for piece in most.chunks(64 << 10) {
            pipe.write_all(piece).expect("it reads");
            if !moved.load(Ordering::Acquire) {
                thread::sleep(Duration::from_millis(3));
            }
        }
        // Nothing is over before the last move is.
        while !moved.load(Ordering::Acquire) {
            thread::sleep(Duration::from_millis(3));
        }
        pipe.write_all(last).expect("it reads");
    });
    wait_for(
        || (cluster.nodes[0].output_bytes("main") > MIB).then_some(()),
        || "nothing is chosen".to_owned(),
    );
    let first = cluster.leader("main");
    for turn in 0..6 {
        let from = node((first + turn) % 3);
        let to = node((first + turn + 1) % 3);
        let moved = move_to(&cluster, "main", to);
        assert_eq!((&moved["from"], &moved["to"]), (&from.into(), &to.into()));
        assert!(moved["pause_ms"].as_f64().is_some(), "{moved}");
        assert_eq!(shown(&cluster, "main")["leader"], to);
    }
    // To whom is the leader's choice.
    let led = shown(&cluster, "main")["leader"].clone();
    let moved = json(&cluster.run_well(&["leader", "move", "main", "--json"]));
    assert_ne!(moved["to"], led);
    done.store(true, Ordering::Release);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    feeder.join().expect("the feeder");
    cluster.wait_whole();
    cluster.check_same("main", &[content]);
    let streams = json(&cluster.run_well(&["streams", "main", "--json"]));
    let streams = streams.as_array().expect("a list");
    let (last, before) = streams.split_last().expect("one at least");
    assert_eq!(last["end"], "closed");
    let is_continued = |stream: &Value| stream["continued_by"].is_string();
    assert!(before.iter().all(is_continued), "{streams:?}");
    // Every change was a handover: no leader was ever lost.
    let said: String = cluster.nodes.iter().map(|node| node.said()).collect();
    assert!(!said.contains("NoQuorum"), "{}", cluster.logs());
}

#[test]
fn a_move_to_who_cannot_lead_is_refused_and_appends_go_on() {
    let mut cluster = Cluster::start(3);
    let led = shown(&cluster, "main");
    let leader = cluster.leader("main");
    let (code, said) = exit_of_move(&cluster, "main", node(leader));
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("leads main already"), "{said}");
    let (code, said) = exit_of_move(&cluster, "main", 9);
    assert_eq!(code, Some(5), "{said}");
    assert!(said.contains("no node 9"), "{said}");
    let (code, said) = exit_of_move(&cluster, "nothing", 2);
    assert_eq!(code, Some(5), "{said}");

    let dead = cluster.follower("main");
    cluster.nodes[dead].kill();
    wait_for(
        || {
            let status = cluster.nodes[leader].status()?;
            (status["nodes"][dead]["alive"] == false).then_some(())
        },
        || "its death is not noticed".to_owned(),
    );
    let (code, said) = exit_of_move(&cluster, "main", node(dead));
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("is silent"), "{said}");
    assert_eq!(
        shown(&cluster, "main")["term"],
        led["term"],
        "nothing moved"
    );
    cluster.append("main", &[], Content::new(1, MIB));

    // Nobody knows yet that it does not run; the leader prepares above it.
    cluster.nodes[dead].start();
    cluster.wait_whole();
    let stopped = cluster.follower("main");
    cluster.nodes[stopped].signal("-STOP");
    let (code, said) = exit_of_move(&cluster, "main", node(stopped));
    assert_eq!(code, Some(4), "{said}");
    cluster.append("main", &[], Content::new(2, MIB));
    cluster.nodes[stopped].signal("-CONT");
    cluster.wait_whole();
    cluster.check_same("main", &[Content::new(1, MIB), Content::new(2, MIB)]);
}

#[test]
fn an_auxiliary_and_a_node_without_a_vote_do_not_lead() {
    let mut cluster = Cluster::start(3);
    // There are as many votes as wanted: it gets none.
    cluster.add(|_| {});
    cluster.run_well(&["log", "create", "thrifty", "--auxiliary", "3"]);
    cluster.wait_whole();
    let (code, said) = exit_of_move(&cluster, "thrifty", 3);
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("auxiliary"), "{said}");
    let (code, said) = exit_of_move(&cluster, "main", 4);
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("no vote"), "{said}");
    let leads = shown(&cluster, "thrifty");
    let candidates = leads["candidates"].as_array().expect("a list");
    assert!(candidates.iter().all(|c| c["node"] != 3), "{leads}");
}

#[test]
fn balance_gives_each_node_its_share_once() {
    let cluster = Cluster::start(3);
    cluster.run_well(&["log", "create", "second"]);
    cluster.wait_whole();
    // All three logs, the directory among them, to one node.
    for log in ["main", "second", "directory"] {
        if shown(&cluster, log)["leader"] != 1 {
            move_to(&cluster, log, 1);
        }
    }
    let planned = json(&cluster.run_well(&["leader", "balance", "--plan", "--json"]));
    assert_eq!(planned.as_array().map(Vec::len), Some(2), "{planned}");
    assert_eq!(shown(&cluster, "main")["leader"], 1, "a plan moves nothing");
    let moved = json(&cluster.run_well(&["leader", "balance", "--json"]));
    assert_eq!(moved.as_array().map(Vec::len), Some(2), "{moved}");
    let mut leaders: Vec<u64> = ["main", "second", "directory"]
        .map(|log| shown(&cluster, log)["leader"].as_u64().expect("it is led"))
        .to_vec();
    leaders.sort_unstable();
    assert_eq!(leaders, [1, 2, 3]);
    let again = json(&cluster.run_well(&["leader", "balance", "--json"]));
    assert_eq!(again, Value::Array(Vec::new()));
    let said = cluster.run_well(&["leader", "balance"]);
    assert!(said.contains("nothing to move"), "{said}");
    let table = cluster.run_well(&["leader", "show"]);
    assert!(
        table.contains("second") && table.contains("TERM"),
        "{table}"
    );
}

#[test]
fn a_node_that_is_asked_to_stop_hands_over_every_log_it_leads_first() {
    let mut cluster = Cluster::start(3);
    cluster.run_well(&["log", "create", "second"]);
    cluster.wait_whole();
    for log in ["main", "second"] {
        if shown(&cluster, log)["leader"] != 2 {
            move_to(&cluster, log, 2);
        }
    }
    cluster.wait_whole();
    let said_before = cluster.nodes[1].said().len();
    cluster.nodes[1].signal("-TERM");
    assert_eq!(cluster.nodes[1].wait(), Some(0));
    // It heard each successor lead before it went: nobody had to miss it.
    let said = cluster.nodes[1].said().split_off(said_before);
    for log in ["main", "second"] {
        let successor =
            |line: &&str| line.contains("role") && line.contains("Follower") && line.contains(log);
        assert!(said.lines().any(|line| successor(&line)), "{log}: {said}");
    }
    cluster.wait_whole();
    cluster.append("main", &[], Content::new(1, MIB));
    cluster.append("second", &[], Content::new(2, MIB));
}
