//! Movers and inks: bytes move and records stay as nodes are told.

use crate::harness;

use std::fs;

use harness::{Cluster, Content, Node, err, own_ip, wait_for};

fn node_in_memory(directory: &std::path::Path, start: &[&str]) -> Node {
    let mut node = Node::new(
        directory.join("node"),
        format!("{}:7001", own_ip()),
        &["--ink", "ram"],
    );
    node.arguments.extend(start.iter().map(ToString::to_string));
    node
}

fn refused(node: &Node, why: &str) {
    let output = node.run();
    assert_eq!(output.status.code(), Some(2), "{}", err(&output));
    assert!(err(&output).contains(why), "{}", err(&output));
}

#[test]
fn a_node_whose_records_were_in_memory_comes_back_as_a_new_one() {
    let mut cluster = Cluster::start_with(3, 3, |node| {
        node.arguments.extend(["--ink", "ram"].map(str::to_owned));
    });
    cluster.wait_whole();
    let content = Content::new(4, 3_000_000);
    cluster.append("main", &[], content);
    cluster.wait_whole();
    let lost = cluster.follower("main");
    let id = cluster.nodes[lost].id.to_string();
    let leader = cluster.nodes[cluster.leader("main")].listen.clone();
    cluster.nodes[lost].kill();
    cluster.nodes[lost].arguments = ["--ink", "ram", "--join", &leader]
        .map(str::to_owned)
        .into();
    cluster.nodes[lost].start();
    // It never answers as who it was: it promised what it does not know any more.
    let joined = || {
        let status = cluster.nodes[lost].status()?;
        assert_ne!(status["node"].to_string(), id, "{}", cluster.logs());
        (status["node"] == 4).then_some(status)
    };
    let status = wait_for(joined, || cluster.logs());
    let path = status["write_path"].as_str().expect("a text").to_owned();
    assert!(path.contains("ram: nothing survives"), "{path}");
    cluster.nodes[lost].id = 4;
    cluster.run_well(&["members", "replace", &id, "4", "--timeout", "60", "--yes"]);
    cluster.wait_whole();
    cluster.check_same("main", &[content]);
    for node in &cluster.nodes {
        let found = fs::read_dir(&node.data).map_or(0, |entries| {
            let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
            let is_known = |name: &str| ["made-in-memory", "admin.sock"].contains(&name);
            names.filter(|name| !is_known(name)).count()
        });
        assert_eq!(found, 0, "records of node {} are on the disk", node.id);
    }
}

#[test]
fn a_cluster_that_was_made_in_memory_is_not_made_again_by_itself() {
    let place = tempfile::tempdir().expect("a place");
    let mut node = node_in_memory(place.path(), &["--bootstrap"]);
    node.start();
    let first = node.wait_answers()["cluster"].clone();
    node.kill();
    refused(&node, "made a cluster in memory before");
    // Unless somebody says so.
    fs::remove_file(node.data.join("made-in-memory")).expect("it is there");
    node.start();
    assert_ne!(node.wait_answers()["cluster"], first);
}

#[test]
fn memory_does_not_stand_in_for_a_node_on_the_disk() {
    let place = tempfile::tempdir().expect("a place");
    let mut node = node_in_memory(place.path(), &["--bootstrap"]);
    let in_memory = std::mem::replace(&mut node.arguments, vec!["--bootstrap".to_owned()]);
    node.start();
    let first = node.wait_answers();
    node.kill();
    node.arguments = in_memory;
    refused(&node, "holds a node on the disk");
    node.arguments.clear();
    node.start();
    assert_eq!(node.wait_answers()["cluster"], first["cluster"]);
}

#[test]
fn a_node_says_which_mover_it_has_and_movers_understand_each_other() {
    let mut movers = ["direct", "splice", "auto"].into_iter();
    let cluster = Cluster::start_with(3, 3, |node| {
        let mover = movers.next().expect("three nodes");
        node.arguments.extend(["--mover", mover].map(str::to_owned));
    });
    cluster.wait_whole();
    let content = Content::new(5, 3_000_000);
    cluster.append("main", &[], content);
    cluster.wait_whole();
    cluster.check_same("main", &[content]);
    let paths: Vec<String> = cluster
        .nodes
        .iter()
        .map(|node| node.wait_answers()["write_path"].to_string())
        .collect();
    assert!(paths[0].starts_with("\"direct, "), "{paths:?}");
    assert!(paths[1].starts_with("\"splice, page cache"), "{paths:?}");
    // The choice `auto` says so where io_uring is forbidden.
    let known = ["\"uring, ", "\"direct: "];
    let auto = &paths[2];
    assert!(known.iter().any(|known| auto.starts_with(known)), "{auto}");
    let place = tempfile::tempdir().expect("a place");
    let unknown = node_in_memory(place.path(), &["--bootstrap", "--mover", "horse"]);
    refused(&unknown, "choose auto, direct, splice or uring");
    let spliced = node_in_memory(place.path(), &["--bootstrap", "--mover", "splice"]);
    refused(&spliced, "choose --ink disk, or --mover direct");
}

#[test]
fn records_in_mapped_files_survive_a_kill() {
    survives_a_kill(["--ink", "pmem"], "pmem: mapped, flushed by ");
}

#[test]
fn records_that_sockets_wrote_survive_a_kill() {
    survives_a_kill(["--mover", "splice"], "splice, page cache");
}

fn survives_a_kill(arguments: [&str; 2], write_path: &str) {
    let mut cluster = Cluster::start_with(3, 3, |node| {
        node.arguments.extend(arguments.map(str::to_owned));
    });
    cluster.wait_whole();
    let first = Content::new(6, 3_000_000);
    cluster.append("main", &[], first);
    let second = Content::new(7, 20_000_000);
    let appending = cluster.append_in_background("main", &["--rate", "20M"], second);
    wait_for(
        || {
            let lengths = cluster.nodes.iter().map(|node| node.output_bytes("main"));
            (lengths.max() > Some(3_000_000)).then_some(())
        },
        || cluster.logs(),
    );
    // All at once: what a kill leaves ends in zeros, or in what was being received, on every node.
    for node in &mut cluster.nodes {
        node.kill();
    }
    for node in &mut cluster.nodes {
        node.start();
    }
    let output = appending.wait();
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    cluster.wait_whole();
    cluster.check_same("main", &[first, second]);
    let path = cluster.nodes[0].wait_answers()["write_path"].to_string();
    assert!(path.contains(write_path), "{path}");
}
