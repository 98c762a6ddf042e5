//! Nodes come, change their weight, are replaced and go, with writers at work and leaders that die.

use crate::harness;

use std::fs;
use std::os::unix::fs::FileExt;

use harness::{Cluster, Content, Raw, ask, err, out, wait_for};
use serde_json::Value;

/// One that has joined and has no weight.
fn with_a_fourth() -> Cluster {
    let mut cluster = Cluster::start(3);
    add_a_fourth(&mut cluster);
    cluster
}

fn add_a_fourth(cluster: &mut Cluster) {
    cluster.add(|_| {});
    let cluster = &*cluster;
    wait_for(
        || {
            shown(cluster)?["nodes"][3]["alive"]
                .as_bool()?
                .then_some(())
        },
        || cluster.logs(),
    );
}

fn shown(cluster: &Cluster) -> Option<Value> {
    let output = cluster.run(&["members", "--json"]);
    serde_json::from_slice(&output.stdout).ok()
}

/// ⟨node, weight⟩ of a log in the eyes of its leader, if there is one.
fn weights(cluster: &Cluster, log: &str) -> Option<Vec<(u64, u64)>> {
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    cluster.nodes.iter().find_map(|node| {
        if node.of_log(log, "role")? != "leader" {
            return None;
        }
        let weights = node.of_log(log, "weights")?;
        let weights = weights.as_array()?.iter();
        Some(
            weights
                .map(|w| (number(&w["node"]), number(&w["weight"])))
                .collect(),
        )
    })
}

fn wait_weights(cluster: &Cluster, wanted: &[(u64, u64)]) {
    for log in ["directory", "main"] {
        wait_for(
            || weights(cluster, log).filter(|have| have == wanted),
            || format!("{log} has {:?}\n{}", weights(cluster, log), cluster.logs()),
        );
    }
}

fn refused(cluster: &Cluster, arguments: &[&str], code: i32) -> String {
    let output = cluster.run(arguments);
    let said = err(&output);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}

#[test]
fn a_fourth_node_waits_without_weight_until_it_is_added() {
    let mut cluster = Cluster::start(3);
    let before = Content::new(13, 3_000_000);
    cluster.append("main", &[], before);
    add_a_fourth(&mut cluster);
    let content = Content::new(1, 3_000_000);
    cluster.append("main", &[], content);
    // It is filled, with what it missed too, and has no vote.
    let all = before.length + content.length;
    wait_for(
        || (cluster.nodes[3].output_bytes("main") == all).then_some(()),
        || cluster.logs(),
    );
    cluster.wait_whole();
    cluster.check_same("main", &[before, content]);
    let shown = shown(&cluster).expect("somebody answers");
    let main = &shown["logs"][1];
    assert_eq!(
        (&main["name"], &main["leads"]),
        (&"main".into(), &true.into())
    );
    assert_eq!(main["members"][3]["role"], "learner");
    assert_eq!(main["members"][3]["weight"], 0);
    assert_eq!(main["steps"].as_array().map(Vec::len), Some(0));
    let table = cluster.run_well(&["members"]);
    assert!(table.contains("learner"), "{table}");

    let plan = cluster.run_well(&["members", "add", "4", "--plan"]);
    assert!(
        plan.contains("1. fill node 4 with bytes, then give it weight 1"),
        "{plan}"
    );
    assert_eq!(
        weights(&cluster, "main"),
        Some(vec![(1, 1), (2, 1), (3, 1)]),
        "a plan changes nothing"
    );
    let done = cluster.run_well(&["members", "add", "4"]);
    assert!(done.ends_with("done\n"), "{done}");
    let four = [(1, 1), (2, 1), (3, 1), (4, 1)];
    wait_weights(&cluster, &four);
    let again = cluster.run_well(&["members", "add", "4"]);
    assert!(again.contains("nothing to change"), "{again}");
    // Three of four decide now, whichever they are.
    cluster.nodes[0].kill();
    cluster.append("main", &[], Content::new(2, 100_000));
}

#[test]
fn a_follower_is_replaced_under_load_and_its_writers_stream_is_not_cut() {
    let mut cluster = with_a_fourth();
    let leader = cluster.leader("main");
    let old = cluster.follower("main");
    let id = cluster.nodes[old].id.to_string();
    let line = "logberg/1 append main\n";
    let mut raw = Raw::say(&cluster.nodes[leader].listen, line);
    assert!(raw.line().starts_with("stream "));
    let mut replacing = cluster.spawn(&["members", "replace", &id, "4", "--yes"]);
    let mut position = 0;
    let bytes = [7; 65536];
    // The writer goes on while the change lasts, and a while longer.
    let mut more = 20;
    while more > 0 {
        raw.send(&bytes);
        position += bytes.len() as u64;
        raw.wait_ack(position);
        if replacing.try_wait().expect("our child").is_some() {
            more -= 1;
        }
    }
    let output = replacing.wait_with_output().expect("it ends");
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}{}\n{}",
        out(&output),
        err(&output),
        cluster.logs()
    );
    let kept = cluster.nodes.iter().map(|node| (node.id, 1));
    let kept: Vec<(u64, u64)> = kept.filter(|(node, _)| id != node.to_string()).collect();
    wait_weights(&cluster, &kept);
    drop(raw);
    // Nobody hears it any more, and it says so itself.
    wait_for(
        || {
            cluster.nodes[old]
                .said()
                .contains("was removed from this cluster")
                .then_some(())
        },
        || cluster.logs(),
    );
    cluster.nodes[old].kill();
    let streams = cluster.run_well(&["streams", "main", "--json"]);
    let streams: Vec<Value> = serde_json::from_str(&streams).unwrap();
    assert_eq!(
        streams.len(),
        1,
        "one stream from beginning to end: {streams:?}"
    );
    assert_eq!(cluster.run_well(&["read", "main"]).len() as u64, position);
    let said = refused(&cluster, &["members", "add", &id], 5);
    assert!(said.contains("its id is never used again"), "{said}");
}

#[test]
fn the_leader_is_removed_and_its_writer_goes_on() {
    let cluster = with_a_fourth();
    cluster.run_well(&["members", "add", "4"]);
    let leader = cluster.leader("main");
    let id = cluster.nodes[leader].id;
    let content = Content::new(1, 8_000_000);
    let appending = cluster.append_in_background("main", &["--rate", "4M"], content);
    wait_for(
        || (cluster.nodes[leader].output_bytes("main") > 0).then_some(()),
        || cluster.logs(),
    );
    cluster.run_well(&[
        "members",
        "remove",
        &id.to_string(),
        "--timeout",
        "60",
        "--yes",
    ]);
    let output = appending.wait();
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}\n{}",
        err(&output),
        cluster.logs()
    );
    let kept = (1..=4).filter(|node| *node != id).map(|node| (node, 1));
    wait_weights(&cluster, &kept.collect::<Vec<_>>());
    let members = cluster.run_well(&["members"]);
    assert!(
        members.contains(&format!("removed permanently: {id}")),
        "{members}"
    );
    for index in (0..4).filter(|index| *index != leader) {
        cluster.check_node(index, "main", &[content]);
    }
}

#[test]
fn a_change_goes_on_when_its_command_and_then_its_leader_are_killed() {
    let mut cluster = with_a_fourth();
    cluster.append("main", &[], Content::new(1, 4_000_000));
    // It takes several steps, each of which is agreed on.
    let mut operator = cluster.spawn(&["members", "weight", "4", "3", "--timeout", "60"]);
    let begun = || {
        weights(&cluster, "main")?
            .iter()
            .any(|(node, weight)| *node == 4 && *weight > 0)
            .then_some(())
    };
    wait_for(begun, || cluster.logs());
    operator.kill().expect("our child");
    operator.wait().expect("our child");
    let leader = cluster.leader("main");
    cluster.nodes[leader].kill();
    wait_for(
        || {
            let all = weights(&cluster, "main")?;
            (all.iter().find(|(node, _)| *node == 4)?.1 == 3 && all.len() == 4).then_some(())
        },
        || format!("{:?}\n{}", weights(&cluster, "main"), cluster.logs()),
    );
    cluster.nodes[leader].start();
    // The same words again follow it to its end.
    let done = cluster.run_well(&["members", "weight", "4", "3", "--timeout", "60"]);
    assert!(done.ends_with("done\n"), "{done}");
    wait_weights(&cluster, &[(1, 1), (2, 1), (3, 1), (4, 3)]);
}

#[test]
fn a_lost_disk_comes_back_as_a_new_id_which_takes_the_weight() {
    let mut cluster = Cluster::start(3);
    let content = Content::new(4, 2_000_000);
    cluster.append("main", &[], content);
    let lost = cluster.follower("main");
    let id = cluster.nodes[lost].id.to_string();
    let leader = cluster.nodes[cluster.leader("main")].listen.clone();
    cluster.nodes[lost].kill();
    fs::remove_dir_all(&cluster.nodes[lost].data).expect("ours");
    cluster.nodes[lost].arguments = vec!["--join".to_owned(), leader];
    cluster.nodes[lost].start();
    let joined = || {
        cluster.nodes[lost]
            .status()
            .filter(|status| status["node"] == 4)
    };
    wait_for(joined, || cluster.logs());
    cluster.nodes[lost].id = 4;
    cluster.run_well(&["members", "replace", &id, "4", "--yes"]);
    let kept = (1..=4)
        .filter(|node| node.to_string() != id)
        .map(|node| (node, 1));
    wait_weights(&cluster, &kept.collect::<Vec<_>>());
    cluster.wait_whole();
    cluster.check_same("main", &[content]);
}

#[test]
fn what_would_be_a_mistake_is_refused_with_a_reason() {
    let mut cluster = with_a_fourth();
    let said = refused(&cluster, &["members", "add", "9"], 5);
    assert!(said.contains("there is no node 9"), "{said}");
    let said = refused(&cluster, &["members", "replace", "3", "2", "--yes"], 4);
    assert!(said.contains("is a member of directory already"), "{said}");
    let said = refused(&cluster, &["members", "weight", "3", "2000000"], 4);
    assert!(said.contains("1048576 is the most"), "{said}");
    let taken = cluster.nodes[0].listen.clone();
    let said = refused(&cluster, &["members", "address", "2", &taken], 4);
    assert!(said.contains("node 1 is at"), "{said}");
    for (node, zone) in [("1", "a"), ("2", "b"), ("3", "c"), ("4", "c")] {
        cluster.run_well(&["members", "zone", node, zone]);
    }
    let said = refused(&cluster, &["members", "add", "4"], 4);
    assert!(
        said.contains("zone c would have 2 of the 4 votes"),
        "{said}"
    );
    let forced = cluster.run_well(&["members", "add", "4", "--force", "--plan"]);
    assert!(
        forced.contains("RISK") && forced.contains("when it fails, there is no quorum"),
        "{forced}"
    );
    // In its own zone the swap never gives that half of the weight.
    let plan = cluster.run_well(&["members", "replace", "3", "4", "--plan"]);
    assert!(
        plan.contains("multiply all by 2") && plan.contains("divide all by 2"),
        "{plan}"
    );
    let unsure = refused(&cluster, &["members", "replace", "3", "4"], 2);
    assert!(unsure.contains("say --yes"), "{unsure}");
    cluster.run_well(&["members", "replace", "3", "4", "--yes"]);
    wait_weights(&cluster, &[(1, 1), (2, 1), (4, 1)]);
    cluster.nodes[2].kill();
    // One of three is dead: without another one there is no quorum.
    let dead = cluster.follower("directory");
    cluster.nodes[dead].kill();
    let id = cluster.nodes[dead].id;
    let leader = cluster.leader("directory");
    let other = (0..4).find(|index| ![2, dead, leader].contains(index));
    let other = other
        .map(|index| cluster.nodes[index].id)
        .expect("three of them");
    let silent = || {
        let shown = shown(&cluster)?;
        let mut nodes = shown["nodes"].as_array()?.iter();
        let silent = nodes.any(|node| node["id"] == id && node["alive"] == false);
        silent.then_some(())
    };
    wait_for(silent, || cluster.logs());
    let said = refused(
        &cluster,
        &["members", "remove", &other.to_string(), "--yes"],
        4,
    );
    assert!(said.contains("which is no quorum"), "{said}");
}

#[test]
fn three_shrink_to_one_that_answers_and_never_to_none() {
    let mut cluster = Cluster::start(3);
    let content = Content::new(1, 500_000);
    cluster.append("main", &[], content);
    for node in ["2", "3"] {
        cluster.run_well(&["members", "remove", node, "--timeout", "60", "--yes"]);
    }
    wait_weights(&cluster, &[(1, 1)]);
    let said = refused(&cluster, &["members", "remove", "1", "--yes"], 4);
    assert!(said.contains("would have no member left"), "{said}");
    for index in [1, 2] {
        cluster.nodes[index].kill();
    }
    cluster.append("main", &[], Content::new(2, 100_000));
    cluster.check_node(0, "main", &[content, Content::new(2, 100_000)]);
}

#[test]
fn an_address_is_changed_for_a_node_that_cannot_say_so_itself() {
    let cluster = Cluster::start(3);
    let address = format!("{}:{}", cluster.ip, 7999);
    cluster.run_well(&["members", "address", "3", &address]);
    let leader = &cluster.nodes[cluster.leader("directory")].listen;
    let shown = ask(leader, "members").expect("its leader answers");
    assert_eq!(shown["nodes"][2]["address"], address.as_str());
}

/// Its last word was that it misses nothing, of what there was then.
#[test]
fn a_silent_node_is_not_shown_to_hold_what_came_since() {
    let mut cluster = Cluster::start(3);
    cluster.append("main", &[], Content::new(1, 100_000));
    cluster.wait_whole();
    let held = |shown: &Value, node: usize| shown["logs"][1]["members"][node]["held_bytes"].clone();
    let all = || {
        let shown = shown(&cluster)?;
        let is_whole = |node| held(&shown, node) == 100_000;
        (0..3).all(is_whole).then_some(())
    };
    wait_for(all, || cluster.logs());
    let leads = cluster.leader("main");
    let dead = (leads + 1) % 3;
    cluster.nodes[dead].kill();
    cluster.append("main", &[], Content::new(2, 200_000));
    let silent = || {
        let shown = shown(&cluster)?;
        let node = &shown["nodes"][dead];
        (node["alive"] == false && node["last_heard_ms"].is_u64()).then_some(shown)
    };
    let shown = wait_for(silent, || cluster.logs());
    assert_eq!(held(&shown, dead), Value::Null, "{shown}");
    assert_eq!(held(&shown, leads), 300_000, "{shown}");
    let said = cluster.run_well(&["members"]);
    assert!(said.contains("silent for "), "{said}");
}

#[test]
fn a_silent_node_that_alone_holds_bytes_is_not_dropped_even_if_that_is_forced() {
    let mut cluster = Cluster::start(3);
    let content = Content::new(1, 6_000_000);
    cluster.append("main", &[], content);
    cluster.wait_whole();
    for node in &mut cluster.nodes {
        node.kill();
    }
    // The same bytes are spoilt on two of three disks, which need not have them at the same place.
    let bytes = &content.bytes()[2_000_000..][..8];
    for node in &cluster.nodes[..2] {
        let mut spoilt = 0;
        for path in node.segments(1) {
            let held = fs::read(&path).expect("a segment");
            if let Some(at) = held.windows(8).position(|window| window == bytes) {
                let segment = fs::File::options().write(true).open(&path);
                let segment = segment.expect("a segment");
                segment.write_all_at(&[0xa5; 8], at as u64).expect("a disk");
                spoilt += 1;
            }
        }
        assert!(spoilt > 0, "node {} holds them", node.id);
    }
    cluster.nodes[0].start();
    cluster.nodes[1].start();
    let leads = || {
        (0..2).find(|index| {
            cluster.nodes[*index].of_log("directory", "role") == Some("leader".into())
        })
    };
    wait_for(leads, || cluster.logs());
    let lacks = |index: usize| {
        cluster.nodes[index]
            .of_log("main", "missing_bytes")?
            .as_u64()
            .filter(|bytes| *bytes > 0)
    };
    for (index, id) in [(0, "1"), (1, "2")] {
        // A sealed segment is looked at when it is read, and nothing is before a leader has been asked.
        let looked_at = || {
            cluster.run(&["read", "main", "--from-node", id, "--timeout", "3"]);
            lacks(index)
        };
        wait_for(looked_at, || cluster.logs());
    }
    let alone = "node 3 is silent, and none of the others holds all bytes of main";
    // The missing bytes of the other node have to be heard of first.
    wait_for(
        || {
            err(&cluster.run(&["members", "remove", "3", "--plan"]))
                .contains(alone)
                .then_some(())
        },
        || cluster.logs(),
    );
    let said = refused(&cluster, &["members", "remove", "3", "--yes"], 4);
    assert!(said.contains(alone) && said.contains("start it"), "{said}");
    let forced = cluster.run_well(&["members", "remove", "3", "--force", "--no-wait"]);
    assert!(forced.contains(&format!("RISK  {alone}")), "{forced}");
    let waits = || {
        let shown = shown(&cluster)?;
        let why = shown["logs"][1]["waits_for"].as_str()?.to_owned();
        why.contains("too few others hold everything without node 3")
            .then_some(())
    };
    wait_for(waits, || cluster.logs());
    cluster.nodes[2].start();
    cluster.run_well(&["members", "remove", "3", "--timeout", "60", "--yes"]);
    wait_weights(&cluster, &[(1, 1), (2, 1)]);
    cluster.nodes[2].kill();
    cluster.check_node(0, "main", &[content]);
    cluster.check_node(1, "main", &[content]);
}
