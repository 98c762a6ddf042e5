//! A log on nodes of its own: its hosts change while it is written to, and nobody else's files do.

use crate::harness;

use std::fs;

use harness::{Cluster, Content, wait_for};
use serde_json::Value;

const LOG: &str = "some";

/// Four nodes, of which three vote; the log lives on the second and the third.
fn on_two_of_four() -> (Cluster, u64) {
    let mut cluster = Cluster::start_with(4, 3, |_| {});
    let created = cluster.run_well(&["log", "create", LOG, "--members", "2,3", "--json"]);
    let created: Value = serde_json::from_str(&created).expect("JSON");
    cluster.voters = 2;
    (cluster, created["id"].as_u64().expect("a number"))
}

/// ⟨node, weight⟩ of those that have weight, by the word of the log's leader.
fn weights(cluster: &Cluster, log: &str) -> Option<Vec<(u64, u64)>> {
    let mut all = listed(cluster, log)?;
    all.retain(|(_, weight)| *weight > 0);
    Some(all)
}

/// The same of all members that it names.
fn listed(cluster: &Cluster, log: &str) -> Option<Vec<(u64, u64)>> {
    let output = cluster.run(&["members", "--json"]);
    let members: Value = serde_json::from_slice(&output.stdout).ok()?;
    let mut logs = members["logs"].as_array()?.iter();
    let log = logs.find(|shown| shown["name"] == log && shown["leads"] == true)?;
    let members = log["members"].as_array()?.iter();
    let weights = members.map(|m| Some((m["node"].as_u64()?, m["weight"].as_u64()?)));
    weights.collect()
}

fn wait_weights(cluster: &Cluster, log: &str, wanted: &[(u64, u64)]) {
    wait_for(
        || weights(cluster, log).filter(|have| have == wanted),
        || format!("{log} has {:?}\n{}", weights(cluster, log), cluster.logs()),
    );
}

fn hosts(cluster: &Cluster, index: usize, id: u64) -> bool {
    cluster.nodes[index].data.join(format!("log-{id}")).exists()
}

#[test]
fn a_host_is_replaced_under_appends_by_a_node_that_never_had_the_log() {
    let (mut cluster, id) = on_two_of_four();
    let main = Content::new(7, 1 << 20);
    cluster.append("main", &[], main);
    wait_weights(&cluster, "main", &[(1, 1), (2, 1), (3, 1)]);
    let content = Content::new(1, 24 << 20);
    let appending = cluster.append_in_background(LOG, &["--rate", "4M"], content);
    wait_for(
        || (cluster.nodes[1].output_bytes(LOG) > 1 << 20).then_some(()),
        || cluster.logs(),
    );
    assert!(!hosts(&cluster, 0, id) && !hosts(&cluster, 3, id));
    // Nodes that do not host it are no learners of it.
    assert_eq!(listed(&cluster, LOG), Some(vec![(2, 1), (3, 1)]));
    let add = ["members", "add", "4", "--log", LOG];
    let plan = cluster.run_well(&[&add[..], &["--plan"]].concat());
    assert!(
        plan.contains("some  2:1 3:1  →  2:1 3:1 4:1") && plan.contains("fill node 4 with bytes"),
        "{plan}"
    );
    cluster.run_well(&[&add[..], &["--timeout", "60"]].concat());
    wait_weights(&cluster, LOG, &[(2, 1), (3, 1), (4, 1)]);
    // The one that leads goes: it hands the log over first.
    let old = cluster.leader(LOG);
    let old_id = cluster.nodes[old].id;
    let old_word = old_id.to_string();
    let away = [
        "members",
        "weight",
        &old_word,
        "0",
        "--log",
        LOG,
        "--timeout",
        "60",
    ];
    cluster.run_well(&away);
    let stay: Vec<(u64, u64)> = [2, 3, 4]
        .into_iter()
        .filter(|n| *n != old_id)
        .map(|n| (n, 1))
        .collect();
    wait_weights(&cluster, LOG, &stay);
    let output = appending.wait();
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}\n{}",
        harness::err(&output),
        cluster.logs()
    );
    // It is a learner now, and nothing of it was deleted; other logs have the members they had.
    assert!(hosts(&cluster, old, id) && !hosts(&cluster, 0, id));
    wait_weights(&cluster, "main", &[(1, 1), (2, 1), (3, 1)]);
    for index in [1, 2, 3] {
        cluster.check_node(index, LOG, &[content]);
    }
    cluster.nodes[old].kill();
    let more = Content::new(2, 1 << 20);
    cluster.append(LOG, &[], more);
    for (node, _) in &stay {
        cluster.check_node(*node as usize - 1, LOG, &[content, more]);
    }
    let all: Vec<Content> = vec![main];
    cluster.check_same("main", &all);
}

#[test]
fn a_host_that_leaves_for_good_leaves_its_log_whole_on_the_others() {
    let (mut cluster, id) = on_two_of_four();
    let content = Content::new(3, 6 << 20);
    cluster.append(LOG, &[], content);
    cluster.run_well(&["members", "replace", "3", "4", "--timeout", "60", "--yes"]);
    wait_weights(&cluster, LOG, &[(2, 1), (4, 1)]);
    wait_weights(&cluster, "main", &[(1, 1), (2, 1), (4, 1)]);
    // The request is repeated by an operator who did not hear that it was done.
    let again = cluster.run_well(&["members", "replace", "3", "4", "--yes"]);
    assert!(again.contains("nothing to change"), "{again}");
    cluster.nodes[2].kill();
    fs::remove_dir_all(&cluster.nodes[2].data).expect("it may go");
    cluster.check_node(3, LOG, &[content]);
    assert!(!hosts(&cluster, 0, id));
    // Then the other one of the first two: none of those that began the log is left.
    cluster.run_well(&["members", "add", "1", "--log", LOG, "--timeout", "60"]);
    cluster.run_well(&[
        "members",
        "weight",
        "2",
        "0",
        "--log",
        LOG,
        "--timeout",
        "60",
    ]);
    wait_weights(&cluster, LOG, &[(1, 1), (4, 1)]);
    let more = Content::new(4, 1 << 20);
    cluster.append(LOG, &[], more);
    for index in [0, 3] {
        cluster.check_node(index, LOG, &[content, more]);
    }
    for index in [0, 1, 3] {
        cluster.nodes[index].kill();
        cluster.nodes[index].start();
    }
    wait_weights(&cluster, LOG, &[(1, 1), (4, 1)]);
    for index in [0, 3] {
        cluster.check_node(index, LOG, &[content, more]);
    }
}
