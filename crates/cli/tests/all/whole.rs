//! A follower that is slower, paused or cut off ends with the same bytes, and nobody's memory grows.
//!
//! Sizes are for an ordinary `cargo test`. The sizes at which other systems failed:
//!
//! ```text
//! LOGBERG_TEST_MB=700 LOGBERG_TEST_MEMORY_MB=1024 cargo test --release -p cli --test all whole::
//! ```

use crate::harness;

use std::time::{Duration, Instant};

use harness::proxy::third_behind_a_proxy;
use harness::{Cluster, Content, Weather, mebibytes, wait_for};

fn size() -> u64 {
    mebibytes("LOGBERG_TEST_MB", 96)
}

fn node_three_holds(cluster: &Cluster, bytes: u64) -> bool {
    let node = &cluster.nodes[2];
    let missing = node
        .of_log("main", "missing_bytes")
        .and_then(|missing| missing.as_u64());
    missing == Some(0) && node.output_bytes("main") == bytes
}

/// Bytes per second that clients append, and a fifth of it that reaches the slow follower.
const APPENDED: &str = "150M";
const REACHES_THE_SLOW: u64 = 30_000_000;

/// From the end of the appends, or of a pause, until every node holds everything: 700 MB at the
/// fifth of the rate take 23 s. Required where LOGBERG_TEST_MB is set: otherwise other tests run beside.
const WHOLE_WITHIN: Duration = Duration::from_secs(30);

fn assert_whole_in_time(cluster: &Cluster, since: Instant) {
    cluster.wait_whole();
    let took = since.elapsed();
    println!("whole after {:.1} s", took.as_secs_f64());
    let size_is_set = std::env::var_os("LOGBERG_TEST_MB").is_some();
    assert!(
        !size_is_set || took < WHOLE_WITHIN,
        "whole only after {took:?}"
    );
}

#[test]
fn a_follower_slower_than_the_appends_becomes_whole() {
    let (cluster, proxy) = third_behind_a_proxy();
    proxy.set(Weather::Rate(REACHES_THE_SLOW));
    let content = Content::new(1, size());
    cluster.append("main", &["--rate", APPENDED], content);
    let since = Instant::now();
    wait_for(
        || node_three_holds(&cluster, content.length).then_some(()),
        || format!("node 3 lacks bytes\n{}", cluster.logs()),
    );
    assert_whole_in_time(&cluster, since);
    proxy.set(Weather::Fair);
    cluster.check_same("main", &[content]);
}

#[test]
fn a_slower_follower_becomes_whole_while_appends_go_on() {
    let (cluster, proxy) = third_behind_a_proxy();
    proxy.set(Weather::Rate(REACHES_THE_SLOW));
    let content = Content::new(2, size());
    cluster.append("main", &["--rate", APPENDED], content);
    let since = Instant::now();
    let more = Content::new(3, 8_000_000.max(size() / 14));
    let appending = cluster.append_in_background("main", &["--rate", "2M"], more);
    let output = appending.wait();
    assert_eq!(output.status.code(), Some(0), "{}", harness::err(&output));
    wait_for(
        || node_three_holds(&cluster, content.length + more.length).then_some(()),
        || format!("node 3 lacks bytes\n{}", cluster.logs()),
    );
    assert_whole_in_time(&cluster, since);
    proxy.set(Weather::Fair);
    cluster.check_same("main", &[content, more]);
}

#[test]
fn a_paused_follower_becomes_whole() {
    let cluster = Cluster::start(3);
    let follower = cluster.follower("main");
    cluster.nodes[follower].signal("-STOP");
    let content = Content::new(4, size());
    cluster.append("main", &[], content);
    cluster.nodes[follower].signal("-CONT");
    assert_whole_in_time(&cluster, Instant::now());
    cluster.check_same("main", &[content]);
}

#[test]
fn a_paused_follower_becomes_whole_while_appends_go_on() {
    let cluster = Cluster::start(3);
    let follower = cluster.follower("main");
    cluster.nodes[follower].signal("-STOP");
    let content = Content::new(5, size());
    cluster.append("main", &[], content);
    let more = Content::new(6, 16_000_000.max(size() / 7));
    let appending = cluster.append_in_background("main", &["--rate", "4M"], more);
    cluster.nodes[follower].signal("-CONT");
    let since = Instant::now();
    let output = appending.wait();
    assert_eq!(output.status.code(), Some(0), "{}", harness::err(&output));
    assert_whole_in_time(&cluster, since);
    cluster.check_same("main", &[content, more]);
}

#[test]
fn a_follower_cut_off_and_stalled_becomes_whole() {
    let (cluster, proxy) = third_behind_a_proxy();
    let mut contents = Vec::new();
    for (seed, weather) in [
        (7, Weather::Cut),
        (8, Weather::Stall),
        (9, Weather::Rate(20_000_000)),
    ] {
        proxy.set(weather);
        let content = Content::new(seed, size() / 4);
        cluster.append("main", &[], content);
        contents.push(content);
        proxy.set(Weather::Fair);
        if weather == Weather::Cut {
            cluster.wait_whole();
        }
    }
    cluster.wait_whole();
    cluster.check_same("main", &contents);
}

#[test]
fn memory_does_not_grow_with_what_is_appended() {
    let cluster = Cluster::start(3);
    let most = mebibytes("LOGBERG_TEST_MEMORY_MB", 512);
    let first = Content::new(10, most / 4);
    cluster.append("main", &[], first);
    let before: Vec<u64> = cluster
        .nodes
        .iter()
        .map(|node| node.memory("VmHWM:"))
        .collect();
    let second = Content::new(11, most - first.length);
    cluster.append("main", &[], second);
    cluster.wait_whole();
    cluster.check_same("main", &[first, second]);
    for (node, before) in cluster.nodes.iter().zip(before) {
        let after = node.memory("VmHWM:");
        let grown = after.saturating_sub(before) >> 20;
        assert!(
            grown < 32,
            "node {} grew by {grown} MiB to {} MiB",
            node.id,
            after >> 20
        );
    }
}

/// The followers choose without it, as fast as they can.
#[test]
fn a_leader_with_a_slow_disk_keeps_no_more_than_it_may() {
    let cluster = Cluster::start_with(3, 3, |node| {
        node.faults = Some(node.data.with_extension("faults"));
    });
    cluster.wait_whole();
    let first = Content::new(20, 64 << 20);
    cluster.append("main", &[], first);
    let leader = &cluster.nodes[cluster.leader("main")];
    let before = leader.memory("VmHWM:");
    let faults = leader.faults.clone().expect("set above");
    // 8 MiB/s.
    std::fs::write(&faults, "write-delay-ms=500\n").expect("room");
    let second = Content::new(21, 96 << 20);
    cluster.append("main", &[], second);
    let grown = leader.memory("VmHWM:").saturating_sub(before) >> 20;
    std::fs::remove_file(&faults).expect("ours");
    assert!(grown < 40, "{grown} MiB more");
    cluster.wait_whole();
    cluster.check_same("main", &[first, second]);
}
