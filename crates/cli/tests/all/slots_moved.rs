//! Slots that move between groups of real nodes, while clients write and nodes die.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use resp::Value;
use serde_json::Value as Json;

use crate::keys::{Client, Keys, insist, start};

/// Each writer does its commands at least that often, on however slow a machine.
pub const STEPS: i64 = 20;

fn fails(keys: &Keys, arguments: &[&str], code: i32, part: &str) {
    let output = keys.run(arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    assert!(said.contains(part), "{arguments:?}: {said}");
}

fn served(map: &Json, name: &str) -> u64 {
    let groups = map["groups"].as_array().expect("groups");
    let group = groups.iter().find(|group| group["name"] == name);
    group.map_or(0, |group| group["served"].as_u64().expect("a count"))
}

/// Keys in slots all over, each in a session of its own: each command is done once, however often it is sent.
pub struct Counters {
    client: Client,
    sessions: Vec<(String, String)>,
    pub steps: i64,
}

impl Counters {
    pub fn open(mut client: Client, writer: usize) -> Counters {
        let names = (0..12).map(|at| format!("{writer}:{at}"));
        let sessions = names.map(|name| match insist(&mut client, &["ONCE.OPEN", &name]) {
            Value::Integer(session) => (name, session.to_string()),
            other => panic!("{other:?}"),
        });
        Counters {
            sessions: sessions.collect(),
            client,
            steps: 0,
        }
    }

    pub fn step(&mut self) {
        self.steps += 1;
        let sequence = self.steps.to_string();
        for (name, session) in &self.sessions {
            let words = ["ONCE", name, session, &sequence, "INCR", name];
            let told = insist(&mut self.client, &words);
            assert_eq!(told, Value::Integer(self.steps), "{words:?}");
            let list = format!("{{{name}}}list");
            let push = ["ONCE", name, session, &sequence, "RPUSH", &list, &sequence];
            let again = insist(&mut self.client, &push);
            assert_eq!(again, told, "the same number is the same command: {push:?}");
        }
    }

    pub fn check(&mut self) {
        for (name, _) in &self.sessions {
            let told = self.client.told(&["GET", name]);
            assert_eq!(told, Value::bulk(self.steps.to_string()), "{name}");
        }
    }
}

/// The first of the slots on their way that `status` tells.
fn wait_under_way(keys: &Keys) -> Json {
    let begun = Instant::now();
    loop {
        let output = keys.run(&["status"]);
        let status: Json = serde_json::from_slice(&output.stdout).unwrap_or_default();
        if let Some(first) = status["slots_under_way"].get(0) {
            return first.clone();
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{status}");
    }
}

fn wait_settled(keys: &Keys) -> Json {
    let begun = Instant::now();
    loop {
        let output = keys.run(&["kv", "map", "--wait"]);
        if output.status.success() {
            return serde_json::from_slice(&output.stdout).expect("JSON");
        }
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(begun.elapsed() < Duration::from_secs(60), "{said}");
    }
}

#[test]
fn slots_move_while_clients_write_and_nodes_die() {
    let directory = tempfile::tempdir().expect("a directory");
    let keys = start(directory.path());
    fails(&keys, &["kv", "move", "5", "--to", "kv-9"], 5, "kv-9");
    keys.logberg(&["kv", "init"]);
    let plan = keys.logberg(&["kv", "move", "0-99", "--to", "kv-2-of-3", "--plan"]);
    assert_eq!(
        (plan["slots"].as_u64(), plan["version"].as_u64()),
        (Some(100), Some(2))
    );
    assert_eq!(
        keys.logberg(&["kv", "map"])["version"],
        1,
        "a plan changes nothing"
    );

    let ends = Arc::new(AtomicBool::new(false));
    let writers = (0..3).map(|writer| {
        let (mut counters, ends) = (Counters::open(keys.client(), writer), ends.clone());
        thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) || counters.steps < STEPS {
                counters.step();
            }
            counters
        })
    });
    let writers: Vec<_> = writers.collect();

    // Another group joins, and each node dies once on the way.
    keys.logberg(&["kv", "join", "kv-4", "--no-wait"]);
    let under_way = wait_under_way(&keys);
    assert_eq!(
        (under_way["to"].as_str(), under_way["slots"].as_u64()),
        (Some("kv-4"), Some(4_096))
    );
    assert!(under_way["left"].as_u64() <= Some(4_096), "{under_way}");
    for victim in 1..=3 {
        thread::sleep(Duration::from_millis(150));
        keys.cluster.kill(victim).expect("it dies");
        keys.cluster.restart(victim).expect("it starts");
        keys.cluster
            .wait_ready(Duration::from_secs(30))
            .expect("it is ready");
    }
    let map = wait_settled(&keys);
    assert_eq!(
        (map["version"].as_u64(), served(&map, "kv-4")),
        (Some(2), 4_096)
    );

    // One leaves, and its log goes once it has no slots.
    fails(
        &keys,
        &["log", "delete", "kv-1-of-3", "--yes"],
        4,
        "kv leave",
    );
    keys.logberg(&["kv", "leave", "kv-1-of-3"]);
    keys.logberg(&["log", "delete", "kv-1-of-3", "--yes"]);
    keys.logberg(&["kv", "move", "0-4000", "--to", "kv-4", "--no-wait"]);
    keys.logberg(&["kv", "move", "0-4000", "--to", "kv-3-of-3", "--no-wait"]);
    keys.logberg(&["kv", "balance", "--no-wait"]);
    keys.begin_anew();
    let map = wait_settled(&keys);
    for name in ["kv-2-of-3", "kv-3-of-3", "kv-4"] {
        assert!(served(&map, name).abs_diff(16_384 / 3) <= 1, "{map}");
    }
    assert_eq!(
        keys.logberg(&["kv", "map", "--version", "1"])["wanted"]
            .as_array()
            .map(Vec::len),
        Some(3)
    );
    fails(&keys, &["kv", "map", "--version", "99"], 4, "not known");
    fails(
        &keys,
        &["kv", "move", "16384", "--to", "kv-4"],
        2,
        "0 to 16383",
    );
    fails(
        &keys,
        &["kv", "move", "5", "5-6", "--to", "kv-4"],
        4,
        "twice",
    );
    fails(&keys, &["kv", "leave", "main"], 4, "no group of keys");
    fails(&keys, &["kv", "join", "kv-5", "kv-5"], 2, "named twice");
    let with_members = ["kv", "join", "kv-4", "--members", "1"];
    fails(&keys, &with_members, 4, "kv-4 is there already");
    // A group that left, and whose log is gone, is not made again.
    let seven = ["kv", "init", "--groups", "7"];
    fails(&keys, &seven, 4, "given to 3 groups already");
    let groups = keys.logberg(&["kv", "init"]);
    let names: Vec<&str> = groups.as_array().map_or(Vec::new(), |groups| {
        groups
            .iter()
            .filter_map(|one| one["name"].as_str())
            .collect()
    });
    assert!(
        names.len() == 3 && !names.contains(&"kv-1-of-3"),
        "{names:?}"
    );

    ends.store(true, Ordering::Relaxed);
    let mut all: Vec<Counters> = writers
        .into_iter()
        .map(|writer| writer.join().expect("it ends well"))
        .collect();
    all.iter_mut().for_each(Counters::check);
    let status = keys.run(&["status"]);
    let status: Json = serde_json::from_slice(&status.stdout).expect("JSON");
    assert_eq!(status["slots_under_way"], serde_json::json!([]));

    // The keys of a cluster whose slots have moved, in another cluster.
    let saved = directory.path().join("saved");
    std::fs::create_dir(&saved).expect("it is made");
    let saved = saved.to_str().expect("text");
    keys.logberg(&["kv", "backup", "--to", saved]);
    let elsewhere = tempfile::tempdir().expect("a directory");
    let other = start(elsewhere.path());
    other.logberg(&["kv", "restore", saved]);
    let again = other.logberg(&["kv", "map"]);
    assert_eq!(again["version"], map["version"]);
    for counters in &mut all {
        counters.client = other.client();
        counters.check();
        counters.step();
    }
    // And they move on there.
    other.logberg(&["kv", "leave", "kv-4"]);
    for counters in &mut all {
        counters.step();
        counters.check();
    }
}

fn array(value: Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items,
        other => panic!("{other:?}"),
    }
}

#[test]
fn clients_move_slots_by_the_commands_that_they_know() {
    let directory = tempfile::tempdir().expect("a directory");
    let keys = start(directory.path());
    keys.logberg(&["kv", "init"]);
    let mut client = keys.client();
    client.told(&["SET", "a", "1"]);
    let slot = kv::slot_of(b"a").to_string();
    let ids = client.each(&["CLUSTER", "MYID"]);
    let is_an_error =
        |value: &Value, part: &str| matches!(value, Value::Error(why) if why.contains(part));
    for id in &ids {
        let Value::Bulk(id) = id else {
            panic!("{id:?}")
        };
        let id = String::from_utf8_lossy(id).into_owned();
        let words = [
            "CLUSTER",
            "MIGRATESLOTS",
            "SLOTSRANGE",
            &slot,
            &slot,
            "NODE",
            &id,
        ];
        let told = client.told(&words);
        // A node may lead two groups for a moment, or none.
        if is_an_error(&told, "logberg kv move") {
            continue;
        }
        assert_eq!(told, Value::OK);
        assert_eq!(client.told(&["GET", "a"]), Value::bulk("1"));
        wait_settled(&keys);
        assert!(array(client.told(&["CLUSTER", "GETSLOTMIGRATIONS"])).is_empty());
    }
    let nobody = "0".repeat(40);
    for (words, part) in [
        (
            &["SLOTSRANGE", "0", "16384", "NODE", "x"][..],
            "out of range",
        ),
        (&["SLOTSRANGE", "5", "4", "NODE", "x"], "out of range"),
        (&["SLOTSRANGE", "0", "5", "NODE", &nobody], "leads no group"),
        (&["SLOTSRANGE", "NODE", "x"], "say CLUSTER MIGRATESLOTS"),
        (&["NODE", "x"], "say CLUSTER MIGRATESLOTS"),
    ] {
        let words = [&["CLUSTER", "MIGRATESLOTS"][..], words].concat();
        let told = client.told(&words);
        assert!(is_an_error(&told, part), "{words:?}: {told:?}");
    }
    assert_eq!(client.told(&["CLUSTER", "CANCELSLOTMIGRATIONS"]), Value::OK);
}

#[test]
fn a_watched_key_that_moves_to_a_group_of_the_same_node_fails_its_transaction() {
    let directory = tempfile::tempdir().expect("a directory");
    let keys = start(directory.path());
    keys.logberg(&["kv", "init"]);
    let mut client = keys.client();
    // One node leads both groups: its door alone is asked.
    for group in ["kv-1-of-3", "kv-2-of-3"] {
        keys.lead(group, 1);
    }
    client.told(&["SET", "b", "1"]);
    let slot = kv::slot_of(b"b").to_string();
    let (mut here, mut there) = ("kv-1-of-3", "kv-2-of-3");
    keys.logberg(&["kv", "move", &slot, "--to", here]);
    for changes in [false, true] {
        let mut link = client.link_for("b");
        assert_eq!(link.ask(&["WATCH", "b"]).expect("a reply"), Value::OK);
        keys.logberg(&["kv", "move", &slot, "--to", there]);
        if changes {
            client.told(&["SET", "b", "2"]);
        }
        // The first command there may still be sent on.
        assert_eq!(link.ask(&["MULTI"]).expect("a reply"), Value::OK);
        link.ask(&["SET", "b", "3"]).expect("a reply");
        let told = link.ask(&["EXEC"]).expect("a reply");
        assert_eq!(told, Value::NullArray);
        std::mem::swap(&mut here, &mut there);
    }
    assert_eq!(client.told(&["GET", "b"]), Value::bulk("2"));
}
