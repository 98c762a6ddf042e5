//! Nodes come and go while slots move and clients write: what an operator does in the life of a cluster, in one go.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::Value as Json;

use crate::harness::{Cluster, Node, wait_for};
use crate::keys::Client;
use crate::slots_moved::{Counters, STEPS};

fn with_a_door(node: &mut Node) {
    let ip = node
        .listen
        .split(':')
        .next()
        .expect("an address")
        .to_owned();
    let door = format!("{ip}:{}", 7400 + node.id);
    node.arguments.extend(["--kv".to_owned(), door]);
}

fn told(cluster: &Cluster, arguments: &[&str]) -> Json {
    let arguments = [arguments, &["--json"]].concat();
    serde_json::from_str(&cluster.run_well(&arguments)).expect("JSON")
}

fn served(map: &Json, name: &str) -> u64 {
    let groups = map["groups"].as_array().expect("groups");
    let group = groups.iter().find(|group| group["name"] == name);
    group.map_or(0, |group| group["served"].as_u64().expect("a count"))
}

#[test]
fn nodes_come_and_go_while_slots_move() {
    let mut cluster = Cluster::start_with(3, 3, with_a_door);
    cluster.wait_whole();
    cluster.run_well(&["kv", "init"]);
    let doors: Vec<String> = (1..=4)
        .map(|id| format!("{}:{}", cluster.ip, 7400 + id))
        .collect();
    let ends = Arc::new(AtomicBool::new(false));
    let writers = (0..3).map(|writer| {
        let mut counters = Counters::open(Client::of(doors.clone()), writer);
        let ends = ends.clone();
        thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) || counters.steps < STEPS {
                counters.step();
            }
            counters
        })
    });
    let writers: Vec<_> = writers.collect();

    // A node comes, leads a group of its own, and is given slots of all others.
    cluster.add(with_a_door);
    let add = ["kv", "join", "kv-4", "--members", "1,2,4"];
    cluster.run_well(&add);
    cluster.lead("kv-4", 4);
    assert_eq!(served(&told(&cluster, &["kv", "map"]), "kv-4"), 4_096);
    cluster.run_well(&["kv", "move", "0-999", "--to", "kv-4"]);

    // Another dies for good, and the new one takes its place in every log.
    cluster.nodes[2].kill();
    cluster.run_well(&["members", "replace", "3", "4", "--timeout", "60", "--yes"]);

    // A third one's group gives all that it has to the others.
    let leave = ["kv", "leave", "kv-1-of-3"];
    cluster.run_well(&leave);
    let map = wait_for(
        || {
            let map = told(&cluster, &["kv", "map"]);
            let is_still = map["moving"].as_array().is_some_and(Vec::is_empty);
            is_still.then_some(map)
        },
        || cluster.logs(),
    );
    let groups = ["kv-2-of-3", "kv-3-of-3", "kv-4"].map(|name| served(&map, name));
    assert_eq!(groups.iter().sum::<u64>(), 16_384, "{map}");
    assert_eq!(served(&map, "kv-1-of-3"), 0, "{map}");

    ends.store(true, Ordering::Relaxed);
    for writer in writers {
        let mut counters = writer.join().expect("it ends well");
        counters.check();
        counters.step();
    }

    // A survivor of all that says which slots it has.
    cluster.nodes.iter_mut().for_each(Node::kill);
    let data = cluster.nodes[0].data.to_str().expect("text").to_owned();
    let look = ["recover", "--unsafe", "--directory", &data];
    let report = told(&cluster, &look);
    let slots = report["slots"].as_array().expect("slots");
    let count = |of: &Json| -> u64 {
        let runs = of["served"].as_array().expect("runs").iter();
        let end = |run: &Json, of: &str| run[of].as_u64().expect("a slot");
        runs.map(|run| end(run, "last") + 1 - end(run, "first"))
            .sum()
    };
    assert_eq!(slots.iter().map(count).sum::<u64>(), 16_384, "{report}");
    let said = cluster.run_well(&look);
    assert!(
        said.contains("keep the keys that this node knows"),
        "{said}"
    );
}
