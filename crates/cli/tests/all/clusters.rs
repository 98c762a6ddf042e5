//! Two clusters with one past: a rescue made the second, and the first comes back.

use crate::harness;

use std::process::Command;
use std::time::Duration;

use client::{AppendOptions, Client, Said, Timeouts};
use harness::{BINARY, Cluster, Content, Node, err, logberg, raw};

fn recover(from: &Node, into: &std::path::Path) {
    let mut command = Command::new(BINARY);
    command.args(["recover", "--unsafe", "--accept-data-loss", "--directory"]);
    command.arg(&from.data).arg("--into").arg(into);
    let output = command.env_remove("LOGBERG_LOG").output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
}

#[test]
fn a_client_of_the_rescued_cluster_is_refused_by_the_lost_one_that_comes_back() {
    let mut cluster = Cluster::start(3);
    cluster.append("main", &[], Content::new(1, 100_000));
    cluster.wait_whole();
    for node in &mut cluster.nodes {
        node.kill();
    }
    // Node 3 goes on alone, on its new directory, where clients know it.
    let new = cluster.directory.path().join("new");
    recover(&cluster.nodes[2], &new);
    let mut rescued = Node::new(new, cluster.nodes[2].listen.clone(), &[]);
    rescued.start();
    let status = rescued.wait_answers();
    let id = status["cluster"].as_str().expect("an id").to_owned();
    let servers: Vec<String> = cluster.nodes.iter().map(|n| n.listen.clone()).collect();
    let timeouts = Timeouts {
        total: Duration::from_secs(4),
        ..Timeouts::default()
    };
    // It learns which cluster it talks to; nobody told it.
    let client = Client::new(servers.clone(), timeouts);
    let mut appender = harness::wait_for(
        || client.append("main", AppendOptions::default()).ok(),
        || rescued.said(),
    );
    std::io::Write::write_all(&mut appender, b"in the new one").expect("room");
    appender.close().expect("it leads");
    harness::wait_for(
        || (client.cluster()? == id).then_some(()),
        || "it learned nothing".to_owned(),
    );
    // The rescued node is away for a moment, and those that were lost are back, at their addresses.
    rescued.kill();
    cluster.nodes[0].start();
    cluster.nodes[1].start();
    let stranger = cluster.run_well(&["--timeout", "30", "log", "create", "theirs"]);
    assert!(stranger.contains("theirs"), "{stranger}");
    let error = client
        .create_log("ours")
        .expect_err("nobody of ours is there");
    let client::AdminError::Unreachable(unreachable) = &error else {
        panic!("{error}");
    };
    let others = unreachable.tried.iter();
    let others = others.filter(|(_, said)| matches!(said, Said::OtherCluster(_)));
    assert_eq!(others.count(), 2, "{error}");
    client
        .append("main", AppendOptions::default())
        .expect_err("nobody of ours is there");
    let logs = cluster.run_well(&["log", "list"]);
    assert!(!logs.contains("ours"), "{logs}");
    // The same by hand, and by the command line.
    let refused = raw::answer(&servers[0], &format!("logberg/1 append main cluster={id}"));
    assert!(
        refused.starts_with("error wrong-cluster cluster="),
        "{refused}"
    );
    let all = servers.join(",");
    let told = ["--cluster", &id, "--timeout", "2", "log", "create", "ours"];
    let output = logberg(&all, &told).output().expect("it runs");
    assert_eq!(output.status.code(), Some(3), "{}", err(&output));
    assert!(
        err(&output).contains("is of another cluster"),
        "{}",
        err(&output)
    );
    rescued.start();
    rescued.wait_answers();
    harness::wait_for(|| client.create_log("ours").ok(), || rescued.said());
}

#[test]
fn nonsense_in_the_place_of_a_cluster_is_refused_with_the_remedy() {
    let cluster = Cluster::start(1);
    let address = &cluster.nodes[0].listen;
    let id = cluster.nodes[0].wait_answers()["cluster"].clone();
    let id = id.as_str().expect("an id");
    for verb in ["status", "streams main", "logs", "append main", "members"] {
        let answer = raw::answer(address, &format!("logberg/1 {verb} cluster=here"));
        assert!(
            answer.starts_with("error bad-request: cluster is the id"),
            "{answer}"
        );
    }
    let answer = raw::answer(address, &format!("logberg/1 logs cluster={id}"));
    assert!(answer.starts_with("ok "), "{answer}");
    let output = logberg(address, &["--cluster", "here", "log", "list"]).output();
    assert_eq!(output.expect("it runs").status.code(), Some(2));
    cluster.run_well(&["--cluster", id, "log", "list"]);
}
