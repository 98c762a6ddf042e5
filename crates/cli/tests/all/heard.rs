//! `--wait`: a revocation that every node has heard of, and one that some have not.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::harness;
use crate::tokens::{as_token, code, guarded};

use harness::{Cluster, Node, err, logberg, out, wait_for};

fn made(cluster: &Cluster, place: &Path, root: &Path, name: &str, grant: &str) -> PathBuf {
    let made = as_token(cluster, root, &["token", "create", name, "--allow", grant]);
    assert_eq!(code(&made), Some(0), "{}", err(&made));
    let file = place.join(name);
    fs::write(&file, out(&made)).expect("room");
    file
}

/// What this node alone says to a read with that token.
fn read(node: &Node, file: &Path) -> Option<i32> {
    let id = node.id.to_string();
    let mut read = logberg(&node.listen, &["read", "main", "--from-node", &id]);
    read.arg("--token-file").arg(file);
    let said = read.output().expect("the binary runs");
    code(&said)
}

#[test]
fn a_revocation_returns_once_every_node_has_heard_or_names_those_that_have_not() {
    let (mut cluster, place, root) = guarded(3);
    let place = place.path();
    let tokens =
        ["one", "two", "three"].map(|name| made(&cluster, place, &root, name, "read on log/main"));
    for (node, file) in cluster.nodes.iter().zip(tokens.iter().cycle()) {
        wait_for(
            || (read(node, file) == Some(0)).then_some(()),
            || node.said(),
        );
    }
    let revoke = |name: &str, timeout: &str| {
        let revoke = ["token", "revoke", name, "--yes", "--wait", "--json"];
        let arguments = [&revoke[..], &["--timeout", timeout]].concat();
        as_token(&cluster, &root, &arguments)
    };
    let all = revoke("one", "30");
    assert_eq!(code(&all), Some(0), "{}", err(&all));
    let told: Value = serde_json::from_str(&out(&all)).expect("JSON");
    assert_eq!(told["heard_by"], serde_json::json!([1, 2, 3]));
    // ‡ And so it is: no node takes it any more.
    for node in &cluster.nodes {
        assert_eq!(read(node, &tokens[0]), Some(4), "{}", node.said());
    }

    // One is stopped, one is dead, each in turn. It is named, and the others have heard.
    let shown = as_token(&cluster, &root, &["leader", "show", "--json"]);
    let shown: Vec<Value> = serde_json::from_str(&out(&shown)).expect("JSON");
    let of_log_0 = shown.iter().find(|shown| shown["name"] == "directory");
    let leader = of_log_0.and_then(|shown| shown["leader"].as_u64());
    let away = leader.expect("it is led") as usize % 3;
    for (name, signal) in [("two", "-STOP"), ("three", "-KILL")] {
        cluster.nodes[away].signal(signal);
        let some = {
            let revoke = ["token", "revoke", name, "--yes", "--wait", "--timeout", "4"];
            as_token(&cluster, &root, &revoke)
        };
        assert_eq!(code(&some), Some(10), "{name}: {}", err(&some));
        let named = format!("node {} at {}", away + 1, cluster.nodes[away].listen);
        let said = err(&some);
        assert!(
            said.contains(&named) && said.contains("is revoked"),
            "{said}"
        );
        for other in (1..=3).filter(|id| *id != away + 1) {
            assert!(!said.contains(&format!("node {other} at")), "{said}");
        }
        if signal == "-STOP" {
            cluster.nodes[away].signal("-CONT");
        } else {
            cluster.nodes[away].kill();
            cluster.nodes[away].start();
        }
        // The same command waits on, and then says what there is.
        let again = [
            "token",
            "revoke",
            name,
            "--yes",
            "--wait",
            "--timeout",
            "60",
        ];
        let again = as_token(&cluster, &root, &again);
        assert_eq!(code(&again), Some(5), "{name}: {}", err(&again));
        let file = place.join(name);
        for node in &cluster.nodes {
            assert_eq!(read(node, &file), Some(4), "{}", node.said());
        }
    }
    // The token that asks may be the one that goes.
    let last = made(&cluster, place, &root, "last", "all on *");
    let revoke = [
        "token",
        "revoke",
        "last",
        "--yes",
        "--wait",
        "--timeout",
        "30",
    ];
    let own = as_token(&cluster, &last, &revoke);
    assert_eq!(code(&own), Some(0), "{}", err(&own));
    assert!(
        out(&own).contains("all 3 nodes have heard"),
        "{}",
        out(&own)
    );
    let on = as_token(&cluster, &root, &["auth", "enable", "--wait", "--json"]);
    assert!(out(&on).contains("\"heard_by\":[1,2,3]"), "{}", err(&on));
}
