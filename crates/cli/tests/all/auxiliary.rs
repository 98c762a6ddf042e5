//! A log whose third node is auxiliary: what it costs, and what happens when another one dies.

use crate::harness;

use std::time::{Duration, Instant};

use harness::proxy::third_behind_a_proxy;
use harness::{Cluster, Content, Proxy, Raw, wait_for};

const LOG: &str = "cheap";

/// Three nodes of which the third, reached through the proxy, is auxiliary.
fn cheap() -> (Cluster, Proxy) {
    let (cluster, proxy) = third_behind_a_proxy();
    cluster.run_well(&["log", "create", LOG, "--auxiliary", "3"]);
    let leader = cluster.leader(LOG);
    assert_ne!(leader, 2, "an auxiliary never leads");
    (cluster, proxy)
}

fn number(cluster: &Cluster, index: usize, field: &str) -> u64 {
    let value = cluster.nodes[index].of_log(LOG, field);
    value.and_then(|value| value.as_u64()).unwrap_or(u64::MAX)
}

#[test]
fn an_auxiliary_is_sent_less_than_a_hundredth_of_the_bytes_and_its_disk_stays_flat() {
    let (cluster, proxy) = cheap();
    let leader = cluster.leader(LOG);
    let mut contents = Vec::new();
    let mut seen = Vec::new();
    // A machine that keeps a disk waiting for 100 ms engages it for a second, and rightly so: then once more. Each
    // attempt is short, so that a busy machine has one without such a wait.
    let quiet = (1..=20).any(|seed| {
        let sent = number(&cluster, leader, "proposal_bytes_sent");
        let (towards, disk) = (proxy.towards(), number(&cluster, 2, "disk_bytes"));
        let content = Content::new(seed, 8 << 20);
        cluster.append(LOG, &["--rate", "16M"], content);
        contents.push(content);
        let all: u64 = contents.iter().map(|content| content.length).sum();
        wait_for(
            || (cluster.nodes[2].output_bytes(LOG) == all).then_some(()),
            || format!("node 3 does not learn what is chosen\n{}", cluster.logs()),
        );
        let towards = proxy.towards() - towards;
        let grown = number(&cluster, 2, "disk_bytes").saturating_sub(disk);
        let sent = number(&cluster, leader, "proposal_bytes_sent") - sent;
        seen.push((sent, towards, grown));
        let (one, little) = (content.length * 11 / 10, content.length / 100);
        sent < one && towards < little && grown < little
    });
    assert!(
        quiet,
        "the leader sent, the auxiliary got, its disk grew: {seen:?}"
    );
    for index in [0, 1] {
        assert!(number(&cluster, index, "disk_bytes") > contents[0].length);
    }
    cluster.check_node(0, LOG, &contents);
    cluster.check_node(1, LOG, &contents);
    let status = cluster.run_status(&cluster.nodes[leader].listen).1;
    assert!(status.contains("3:1 auxiliary"), "{status}");
}

/// Writes and waits for its acknowledgement, again and again; the longest wait.
fn load(raw: &mut Raw, position: &mut u64, batches: u64) -> Duration {
    let mut longest = Duration::ZERO;
    let bytes = [7; 4096];
    for _ in 0..batches {
        let begin = Instant::now();
        raw.send(&bytes);
        *position += bytes.len() as u64;
        raw.wait_ack(*position);
        longest = longest.max(begin.elapsed());
    }
    longest
}

#[test]
fn when_the_active_follower_is_killed_the_auxiliary_stands_in_and_is_released_after_its_return() {
    let (mut cluster, _proxy) = cheap();
    let leader = cluster.leader(LOG);
    let active = 1 - leader;
    let mut raw = Raw::say(
        &cluster.nodes[leader].listen,
        &format!("logberg/1 append {LOG}\n"),
    );
    assert!(raw.line().starts_with("stream "));
    let mut position = 0;
    load(&mut raw, &mut position, 100);
    let held_before = number(&cluster, 2, "disk_bytes");
    cluster.nodes[active].kill();
    let longest = load(&mut raw, &mut position, 300);
    // The bench measures it; a busy machine may take much longer than the 500 ms of an idle one.
    assert!(
        longest < Duration::from_secs(60),
        "no acknowledgement for {longest:?}"
    );
    println!("the longest wait: {longest:?}");
    let held = number(&cluster, 2, "disk_bytes");
    assert!(
        held > held_before + 300 * 4096,
        "{held} after {held_before}: one copy only"
    );
    assert_eq!(
        cluster.nodes[leader].of_log(LOG, "engaged"),
        Some(true.into())
    );
    cluster.nodes[active].start();
    wait_for(
        || {
            let at_rest = cluster.nodes[leader].of_log(LOG, "engaged") == Some(false.into());
            let whole = number(&cluster, active, "missing_bytes") == 0
                && cluster.nodes[active].output_bytes(LOG) == position;
            (at_rest && whole && number(&cluster, 2, "disk_bytes") < held / 2).then_some(())
        },
        || {
            let nodes = cluster.nodes.iter();
            let views: Vec<String> = nodes
                .map(|node| {
                    format!(
                        "{:?}",
                        node.status().map(|status| status["logs"][2].clone())
                    )
                })
                .collect();
            format!(
                "it is not as before, {held} bytes held\n{}",
                views.join("\n")
            )
        },
    );
    load(&mut raw, &mut position, 10);
    // The one that held everything alone with the auxiliary is lost now.
    cluster.nodes[leader].kill();
    let next = cluster.leader(LOG);
    assert_eq!(next, active);
    let read = cluster.run_well(&["read", LOG]);
    assert_eq!(read.len() as u64, position);
    assert!(read.bytes().all(|byte| byte == 7));
}

#[test]
fn auxiliaries_that_would_decide_alone_or_are_no_members_are_refused_with_a_reason() {
    let cluster = Cluster::start(3);
    for (nodes, reason) in [
        ("2,3", "choose fewer"),
        ("9", "choose auxiliaries among 1, 2, 3"),
    ] {
        let output = cluster.run(&["log", "create", LOG, "--auxiliary", nodes]);
        assert_ne!(output.status.code(), Some(0));
        let said = harness::err(&output);
        assert!(said.contains(reason), "{said}");
    }
    // Half of the votes: the other half could agree on nothing without it.
    let half = ["log", "create", LOG, "--members", "1,2", "--auxiliary", "1"];
    let output = cluster.run(&half);
    assert_ne!(output.status.code(), Some(0));
    assert!(harness::err(&output).contains("have half of the votes or more"));
    cluster.run_well(&["log", "create", LOG, "--auxiliary", "2"]);
}
