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
    assert_eq!(directory.status.code(), Some(2), "{}", err(&directory));
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
    for (members, said) in [
        ("2", "one voter"),
        ("1,2", "two voters"),
        ("1,2,3", "no zones are"),
    ] {
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

/// The number of copies is agreed, kept over restarts, and waited for by the next leader.
#[test]
fn a_log_takes_no_appends_while_fewer_copies_are_there_than_it_wants() {
    let mut cluster = Cluster::start(3);
    let four = cluster.run(&["log", "create", "safe", "--min-copies", "4"]);
    assert_eq!(four.status.code(), Some(4));
    assert!(
        err(&four).contains("4 copies need 4 voters"),
        "{}",
        err(&four)
    );
    cluster.run_well(&["log", "create", "safe", "--min-copies", "3"]);
    let shown = json(&cluster.run_well(&["log", "show", "safe", "--json"]));
    assert_eq!(shown["min_copies"], 3);
    assert_eq!(shown["copies"], 3);
    for node in &cluster.nodes {
        // How far the replicas are is the leader's word, whoever is asked.
        let status = cluster.status_by(&node.listen);
        let mut logs = status["logs"].as_array().unwrap().iter();
        let safe = logs.find(|log| log["name"] == "safe").unwrap();
        assert_eq!(safe["peers_by"], safe["leader"], "{safe}");
        assert_eq!(safe["copies"], 3);
        assert_eq!(safe["peers"][0]["lag_bytes"], 0, "{safe}");
    }
    cluster.append("safe", &[], Content::new(1, 1 << 20));
    cluster.append("main", &[], Content::new(1, 1 << 10));

    let away = cluster.follower("safe");
    cluster.nodes[away].kill();
    let refused = cluster.run_with_input(&["append", "safe"], b"more");
    assert_eq!(refused.status.code(), Some(4), "{}", err(&refused));
    let said = err(&refused);
    assert!(said.contains("safe wants 3 copies"), "{said}");
    let text = cluster.run_well(&["log", "show", "safe"]);
    assert!(
        text.contains("(2 are there now: appends are refused)"),
        "{text}"
    );
    let of_majority = cluster.run_with_input(&["append", "main"], b"more");
    assert_eq!(of_majority.status.code(), Some(0));

    // The log itself can be changed while copies lack.
    let set = json(&cluster.run_well(&["log", "set", "safe", "--min-copies", "2", "--json"]));
    assert_eq!(set["min_copies"], 2);
    cluster.append("safe", &[], Content::new(2, 1 << 20));
    cluster.run_well(&["log", "set", "safe", "--min-copies", "3"]);

    // A node that rests is asked anew what it holds.
    cluster.nodes[away].start();
    cluster.wait_whole();
    cluster.append("safe", &[], Content::new(3, 1 << 10));
    for node in &mut cluster.nodes {
        node.kill();
    }
    for node in &mut cluster.nodes {
        node.start();
    }
    cluster.wait_whole();
    let leader = cluster.leader("safe");
    cluster.nodes[leader].kill();
    let refused = cluster.run_with_input(&["append", "safe"], b"more");
    assert!(
        err(&refused).contains("safe wants 3 copies"),
        "{}",
        err(&refused)
    );
    let text = cluster.run_well(&["log", "show", "safe"]);
    assert!(text.contains("a majority, and 3 copies"), "{text}");
}

/// The number is a part of a backup; where it cannot be had the restored log is whole, and says what it lacks.
#[test]
fn the_copies_that_a_log_wants_come_back_with_its_backup() {
    let cluster = Cluster::start(3);
    cluster.run_well(&["log", "create", "safe", "--min-copies", "3"]);
    cluster.append("safe", &[], Content::new(1, 1 << 16));
    let place = tempfile::tempdir().expect("a place");
    let file = place.path().join("safe.lbb");
    let file = file.to_str().unwrap();
    cluster.run_well(&["backup", "safe", "--to", file]);
    cluster.run_well(&["restore", file, "--log", "again"]);
    let again = json(&cluster.run_well(&["log", "show", "again", "--json"]));
    assert_eq!(again["min_copies"], 3);
    let small = ["restore", file, "--log", "small", "--members", "1,2"];
    let said = cluster.run_well(&small);
    assert!(
        said.contains("logberg log set small --min-copies 3"),
        "{said}"
    );
    let small = json(&cluster.run_well(&["log", "show", "small", "--json"]));
    assert_eq!(small["min_copies"], 0);

    let planned = cluster.run(&["members", "remove", "3", "--plan"]);
    assert_eq!(planned.status.code(), Some(4), "{}", err(&planned));
    assert!(
        err(&planned).contains("wants 3 copies"),
        "{}",
        err(&planned)
    );
}
