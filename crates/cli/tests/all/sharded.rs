//! The sharded prototype's own tests, restated for real nodes: one map that nobody has stale, a group without its node, groups that limp,
//! large values that move while a replica makes its state anew.

use std::cell::RefCell;
use std::fs;
use std::io::ErrorKind;
use std::thread;
use std::time::Duration;

use resp::Value;
use serde_json::Value as Json;

use crate::harness::{Cluster, Node, wait_for};
use crate::keys::{Client, Link};

fn with_a_door(node: &mut Node) {
    let (ip, _) = node.listen.split_once(':').expect("an address");
    let door = format!("{ip}:{}", 7400 + node.id);
    node.arguments.extend(["--kv".to_owned(), door]);
}

fn start() -> Cluster {
    let cluster = Cluster::start_with(3, 3, with_a_door);
    cluster.wait_whole();
    cluster.run_well(&["kv", "init"]);
    cluster
}

fn door(cluster: &Cluster, id: usize) -> String {
    format!("{}:{}", cluster.ip, 7400 + id)
}

fn client(cluster: &Cluster) -> Client {
    let ids = 1..=cluster.nodes.len();
    Client::of(ids.map(|id| door(cluster, id)).collect())
}

fn map_of(cluster: &Cluster, arguments: &[&str]) -> Json {
    let arguments = [&["kv", "map", "--json"], arguments].concat();
    serde_json::from_str(&cluster.run_well(&arguments)).expect("JSON")
}

fn group_of(map: &Json, key: &str) -> String {
    let slot = u64::from(kv::slot_of(key.as_bytes()));
    let parts = map["wanted"].as_array().expect("parts").iter();
    let mut its = parts.filter(|part| {
        let at = |name: &str| part[name].as_u64().expect("a slot");
        (at("first")..=at("last")).contains(&slot)
    });
    let part = its.next().expect("each slot is somebody's");
    part["group"].as_str().expect("a name").to_owned()
}

fn counts(map: &Json) -> Vec<u64> {
    let groups = map["groups"].as_array().expect("groups").iter();
    let joined = groups.filter(|group| group["joined"] == true);
    joined
        .map(|group| group["wanted"].as_u64().expect("a count"))
        .collect()
}

fn write(client: &mut Client, names: &[String]) {
    for name in names {
        assert_eq!(
            client.told(&["SET", name, name]),
            Value::Simple("OK".into())
        );
    }
}

fn check(client: &mut Client, names: &[String]) {
    for name in names {
        assert_eq!(client.told(&["GET", name]), Value::bulk(name.as_str()));
    }
}

#[test]
fn joins_and_leaves_at_once_end_in_one_balanced_map() {
    let mut cluster = start();
    let at_once = |verb: &str, groups: &[&str]| {
        let children = groups.iter();
        let children = children.map(|group| cluster.spawn(&["kv", verb, group, "--no-wait"]));
        let mut late = Vec::new();
        for (group, child) in groups.iter().zip(children.collect::<Vec<_>>()) {
            let output = child.wait_with_output().expect("it ran");
            if !output.status.success() {
                // It was overtaken, and nothing was changed: whoever asked is to look again.
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                assert!(said.contains("another change of the map"), "{verb}: {said}");
                late.push(group);
            }
        }
        for group in late {
            cluster.run_well(&["kv", verb, group, "--no-wait"]);
        }
    };
    at_once("join", &["kv-a", "kv-b", "kv-c", "kv-d", "kv-e"]);
    // A group that has joined joins no second time.
    at_once("join", &["kv-a", "kv-a"]);
    let map = map_of(&cluster, &[]);
    assert_eq!(map["version"], 6, "{map}");
    assert_eq!(counts(&map), [2_048; 8]);
    at_once("leave", &["kv-a", "kv-c", "kv-e", "kv-1-of-3", "kv-2-of-3"]);
    let map = map_of(&cluster, &[]);
    assert_eq!(map["version"], 11, "{map}");
    let counts = counts(&map);
    assert_eq!((counts.len(), counts.iter().sum::<u64>()), (3, 16_384));
    assert!(counts.iter().all(|count| count.abs_diff(5_461) <= 1));

    // A replica that heard nothing of it says nothing, and then the latest.
    cluster.nodes[2].kill();
    cluster.run_well(&["kv", "move", "7", "--to", "kv-b", "--no-wait"]);
    let version = map_of(&cluster, &[])["version"].clone();
    cluster.nodes[0].kill();
    cluster.nodes[1].kill();
    cluster.nodes[2].start();
    cluster.nodes[2].wait_answers();
    let alone = cluster.run(&["kv", "map", "--timeout", "3"]);
    assert_eq!(alone.status.code(), Some(3), "an old map is no answer");
    cluster.nodes[0].start();
    cluster.nodes[1].start();
    cluster.wait_whole();
    let server = cluster.nodes[2].address().to_owned();
    let output = crate::harness::logberg(&server, &["kv", "map", "--json"])
        .output()
        .expect("it runs");
    let map: Json = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(map["version"], version);
    // All versions are still there.
    for (version, groups) in [("1", 3), ("6", 8), ("11", 3)] {
        let parts = map_of(&cluster, &["--version", version]);
        let parts = parts["wanted"].as_array().expect("parts").iter();
        let mut names: Vec<&str> = parts.filter_map(|part| part["group"].as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), groups, "version {version}");
    }
}

#[test]
fn a_group_without_its_node_stops_its_own_slots_only_and_groups_that_limp_take_them() {
    let mut cluster = start();
    cluster.add(with_a_door);
    // No door of these has a replica of the group that comes.
    let doors = (1..=3).map(|id| door(&cluster, id));
    let mut client = Client::of(doors.collect());
    let names: Vec<String> = (0..60).map(|at| format!("key {at}")).collect();
    write(&mut client, &names);
    cluster.run_well(&["kv", "join", "kv-4", "--members", "4"]);
    check(&mut client, &names);
    let map = map_of(&cluster, &[]);
    let is_there = |name: &&String| group_of(&map, name) == "kv-4";
    let (there, others): (Vec<&String>, Vec<&String>) = names.iter().partition(is_there);
    assert!(there.len() > 5 && others.len() > 5);

    // The door of the node that came has no replica of the others' groups, and hears from their leaders that they lead.
    let name = others
        .iter()
        .find(|name| group_of(&map, name) == "kv-1-of-3");
    let name = name.expect("some key is there");
    for leader in [3, 2, 1] {
        let to = leader.to_string();
        // It may lead by itself.
        cluster.run(&["leader", "move", "kv-1-of-3", "--to", &to]);
        let told = RefCell::new(String::new());
        wait_for(
            || {
                let mut link = Link::to(&door(&cluster, 4)).ok()?;
                *told.borrow_mut() = format!("{:?}", link.ask(&["GET", name]));
                let sent_on = format!(
                    "{} {}",
                    kv::slot_of(name.as_bytes()),
                    door(&cluster, leader)
                );
                told.borrow()
                    .contains(&format!("MOVED {sent_on}"))
                    .then_some(())
            },
            || told.borrow().clone(),
        );
    }

    // The only node of that group dies: the others are served on.
    cluster.nodes[3].kill();
    for name in others {
        assert_eq!(client.told(&["GET", name]), Value::bulk(name.as_str()));
    }
    let mut link = Link::to(&door(&cluster, 1)).expect("it is there");
    let told = link.ask(&["GET", there[0]]);
    assert!(
        !matches!(told, Ok(Value::Null | Value::Bulk(_))),
        "nobody can know: {told:?}"
    );
    // A slot of it is to go to another group, and cannot: whoever asks there is sent to where it is, and does not wait for it.
    let slot = kv::slot_of(there[0].as_bytes()).to_string();
    cluster.run_well(&["kv", "move", &slot, "--to", "kv-1-of-3", "--no-wait"]);
    let sent_on = format!("MOVED {slot} {}", door(&cluster, 4));
    let told = RefCell::new(String::new());
    wait_for(
        || {
            let leader = cluster.leader("kv-1-of-3") + 1;
            let mut link = Link::to(&door(&cluster, leader)).ok()?;
            *told.borrow_mut() = format!("{:?}", link.ask(&["GET", there[0]]));
            told.borrow().contains(&sent_on).then_some(())
        },
        || told.borrow().clone(),
    );
    cluster.nodes[3].start();
    check(&mut client, &names);

    // Each of the others lacks a node, and takes what that group has. Then its node goes for good.
    cluster.nodes[1].kill();
    cluster.run_well(&["kv", "leave", "kv-4"]);
    cluster.run_well(&["log", "delete", "kv-4", "--yes"]);
    cluster.nodes[3].kill();
    check(&mut client, &names);

    // All die at once.
    cluster.nodes.iter_mut().for_each(Node::kill);
    for node in &mut cluster.nodes[..3] {
        node.start();
    }
    check(&mut client, &names);
    write(&mut client, &names);
}

/// 64 MB, in values of 2 MB.
#[test]
fn large_values_move_while_a_replica_makes_its_state_anew() {
    let mut cluster = start();
    let mut client = client(&cluster);
    // All in one slot's neighbourhood: they move together.
    let names: Vec<String> = (0..32).map(|at| format!("{{b}}{at}")).collect();
    let value = |at: usize| format!("{at:04} ").repeat(2_000_000 / 5);
    for (at, name) in names.iter().enumerate() {
        let told = client.told(&["SET", name, &value(at)]);
        assert_eq!(told, Value::Simple("OK".into()), "{name}");
    }
    let slot = kv::slot_of(b"b").to_string();
    let from = group_of(&map_of(&cluster, &[]), "b");
    let to = match &*from {
        "kv-1-of-3" => "kv-2-of-3",
        _ => "kv-1-of-3",
    };
    // A replica loses its states, and makes them anew while the slot moves.
    let lost = cluster.follower(&from);
    cluster.nodes[lost].kill();
    let states = cluster.nodes[lost].data.join("state");
    match fs::remove_dir_all(&states) {
        Err(error) if error.kind() == ErrorKind::NotFound => panic!("{states:?} is not there"),
        removed => removed.expect("it goes"),
    }
    cluster.nodes[lost].start();
    cluster.run_well(&["kv", "move", &slot, "--to", to]);
    let check = |client: &mut Client| {
        for (at, name) in names.iter().enumerate() {
            let told = client.told(&["GET", name]);
            assert!(told == Value::bulk(value(at)), "{name} is another value");
        }
    };
    check(&mut client);
    // It leads where they are now, and has them all.
    cluster.lead(to, cluster.nodes[lost].id);
    thread::sleep(Duration::from_millis(100));
    check(&mut client);
}
