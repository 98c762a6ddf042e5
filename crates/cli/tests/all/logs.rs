//! Logs are created, shown and deleted from outside.

use crate::harness;

use harness::{Cluster, Content, err, wait_for};
use serde_json::Value;

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

/// No node is asked: one would do what it takes this for.
#[test]
fn a_node_that_is_named_twice_is_refused() {
    for option in ["--members", "--auxiliary"] {
        let mut command = harness::logberg("127.0.0.1:1", &["log", "create", "a", option, "1,2,1"]);
        let output = command.output().expect("the binary runs");
        assert_eq!(output.status.code(), Some(2), "{}", err(&output));
        let said = err(&output);
        assert!(
            said.contains(&format!("{option} names node 1 twice")),
            "{said}"
        );
    }
}

#[test]
fn a_log_comes_is_shown_and_goes_with_its_files() {
    let cluster = Cluster::start(3);
    cluster.run_well(&["log", "create", "orders", "--retention", "1GiB,3d"]);
    cluster.append("orders", &[], Content::new(1, 1 << 20));
    let shown = json(&cluster.run_well(&["log", "show", "orders", "--json"]));
    let id = shown["id"].as_u64().expect("a number");
    assert_eq!(shown["retention"], "1GiB,3d");
    assert_eq!(shown["kind"], "bytes");
    assert_eq!(shown["on_all_nodes"], true);
    let text = cluster.run_well(&["log", "show", "orders"]);
    assert!(text.contains("hosted by all nodes"), "{text}");

    let unsure = cluster.run(&["log", "delete", "orders"]);
    assert_eq!(unsure.status.code(), Some(2));
    assert!(err(&unsure).contains("--yes"), "{}", err(&unsure));
    let directory = cluster.run(&["log", "delete", "directory", "--yes"]);
    assert_eq!(directory.status.code(), Some(1), "{}", err(&directory));
    assert!(err(&directory).contains("cannot be deleted"));

    let deleted = json(&cluster.run_well(&["log", "delete", "orders", "--yes", "--json"]));
    assert_eq!(deleted["id"], id);
    for command in [
        &["log", "delete", "orders", "--yes"][..],
        &["log", "show", "orders"],
        &["read", "orders"],
        &["append", "orders"],
    ] {
        let output = cluster.run(command);
        assert_eq!(
            output.status.code(),
            Some(5),
            "{command:?}: {}",
            err(&output)
        );
    }
    let log = format!("log-{id}");
    wait_for(
        || {
            let mut nodes = cluster.nodes.iter();
            nodes
                .all(|node| !node.data.join(&log).exists())
                .then_some(())
        },
        || "the files of a deleted log are still there".to_owned(),
    );
    let list = cluster.run_well(&["log", "list"]);
    assert!(!list.contains("orders"), "{list}");
    let created = json(&cluster.run_well(&["log", "create", "orders", "--json"]));
    assert!(created["id"].as_u64() > Some(id), "{created}");
    cluster.append("orders", &[], Content::new(2, 1 << 10));
}

#[test]
fn a_log_with_members_is_on_their_disks_alone() {
    let cluster = Cluster::start(3);
    let stranger = cluster.run(&["log", "create", "some", "--members", "1,7"]);
    assert_eq!(stranger.status.code(), Some(5), "{}", err(&stranger));
    assert!(err(&stranger).contains("no node 7"), "{}", err(&stranger));
    for (members, said) in [("2", "one voter"), ("1,2", "two voters"), ("1,2,3", "")] {
        let name = format!("of-{}", members.replace(',', "-"));
        let created = cluster.run(&["log", "create", &name, "--members", members]);
        assert_eq!(created.status.code(), Some(0), "{}", err(&created));
        let heard = err(&created);
        assert!(
            heard.contains(said) && heard.is_empty() == said.is_empty(),
            "{heard}"
        );
    }
    let created = cluster.run_well(&["log", "create", "some", "--members", "2,3", "--json"]);
    let id = json(&created)["id"].as_u64().expect("a number");
    cluster.append("some", &[], Content::new(1, 1 << 20));
    let shown = json(&cluster.run_well(&["log", "show", "some", "--json"]));
    assert_eq!(shown["on_all_nodes"], false);
    assert_eq!(shown["members"].as_array().map(Vec::len), Some(2));
    let hosting = cluster
        .nodes
        .iter()
        .filter(|node| node.data.join(format!("log-{id}")).exists());
    assert_eq!(hosting.count(), 2);
    // A read from one node hears that node, at once, and not another one's answer.
    let elsewhere = cluster.run(&["read", "some", "--from-node", "1", "--timeout", "never"]);
    assert_eq!(elsewhere.status.code(), Some(5), "{}", err(&elsewhere));
    let said = err(&elsewhere);
    assert!(said.contains("some is not hosted here"), "{said}");
    cluster.run_well(&["read", "some", "--from-node", "2"]);
}

/// ‡ A client's bytes in a machine's log would halt every replica of its state. A node that has just started knows the kind
/// before it has read log 0 again.
#[test]
fn a_machines_log_is_written_and_trimmed_by_nothing_else() {
    let mut cluster = Cluster::start(3);
    cluster.run_well(&["log", "create", "counts", "--kind", "state"]);
    let shown = json(&cluster.run_well(&["log", "show", "counts", "--json"]));
    assert_eq!(shown["kind"], "state");
    let refused = |cluster: &Cluster, command: &[&str]| {
        let output = cluster.run(command);
        assert!(!output.status.success(), "{command:?}");
        assert!(
            err(&output).contains("its machine"),
            "{command:?}: {}",
            err(&output)
        );
    };
    for _ in 0..2 {
        refused(&cluster, &["append", "counts"]);
        refused(&cluster, &["trim", "counts", "--before", "@1", "--yes"]);
        refused(&cluster, &["log", "retain", "counts", "1GiB"]);
        // These nodes have no machine of that name.
        let output = cluster.run(&["backup", "counts", "--to", "/nowhere/counts.lbb"]);
        assert!(err(&output).contains("has no machine for this log"));
        assert!(cluster.run_well(&["read", "counts"]).is_empty());
        for node in 0..3 {
            cluster.nodes[node].kill();
        }
        for node in 0..3 {
            cluster.nodes[node].start();
        }
    }
    let output = cluster.run(&[
        "log",
        "create",
        "more",
        "--kind",
        "state",
        "--retention",
        "1GiB",
    ]);
    assert!(
        err(&output).contains("leave the retention away"),
        "{}",
        err(&output)
    );
}
