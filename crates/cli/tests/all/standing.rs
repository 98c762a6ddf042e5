//! A node's word of itself when it starts: its zone, and whether it only stands in.

use crate::harness;

use harness::{Cluster, Content, out, wait_for};
use serde_json::Value;

/// A node as the directory's leader shows it.
fn shown(cluster: &Cluster, id: usize) -> Option<Value> {
    let output = cluster.run(&["members", "--json"]);
    let members: Value = serde_json::from_slice(&output.stdout).ok()?;
    members["nodes"].as_array()?.get(id - 1).cloned()
}

fn wait_shown(cluster: &Cluster, id: usize, field: &str, wanted: &str) {
    wait_for(
        || (shown(cluster, id)?[field] == wanted).then_some(()),
        || format!("{:?}\n{}", shown(cluster, id), cluster.logs()),
    );
}

/// Starts the third node again with other words.
fn start_again(cluster: &mut Cluster, words: &[&str]) {
    let first = cluster.nodes[0].listen.clone();
    let node = &mut cluster.nodes[2];
    node.kill();
    node.arguments = ["--join", &first].map(str::to_owned).into();
    node.arguments.extend(words.iter().map(ToString::to_string));
    node.start();
}

#[test]
fn a_node_says_its_zone_and_an_operators_word_holds_until_it_says_another() {
    let zones = ["attic", "barn", "cellar"];
    let mut cluster = Cluster::start_with(3, 3, |node| {
        let zone = zones[node.id as usize - 1].to_owned();
        node.arguments.extend(["--zone".to_owned(), zone]);
    });
    for (id, zone) in (1..).zip(zones) {
        wait_shown(&cluster, id, "zone", zone);
    }
    cluster.run_well(&["members", "zone", "3", "dairy"]);
    // The same zone as before, and something new, by which one sees that it was heard.
    start_again(&mut cluster, &["--zone", "cellar", "--kind", "auxiliary"]);
    wait_shown(&cluster, 3, "kind", "auxiliary");
    wait_shown(&cluster, 3, "zone", "dairy");
    start_again(&mut cluster, &["--zone", "entrance"]);
    wait_shown(&cluster, 3, "zone", "entrance");
    wait_shown(&cluster, 3, "kind", "full");
    let table = cluster.run_well(&["members"]);
    assert!(
        table.contains("entrance") && table.contains("KIND"),
        "{table}"
    );
}

#[test]
fn zone_and_kind_may_come_from_the_file_and_the_environment() {
    let directory = tempfile::tempdir().expect("a place");
    let file = directory.path().join("node.toml");
    std::fs::write(&file, "zone = \"attic\"\nkind = \"auxiliary\"\n").expect("room");
    let node = |words: &[&str]| {
        let mut command = std::process::Command::new(harness::BINARY);
        command.args(["node", "--data", "d", "--print-config", "--config"]);
        command.arg(&file).args(words).env("LOGBERG_ZONE", "barn");
        command.output().expect("the binary runs")
    };
    let printed = out(&node(&[]));
    assert!(
        printed.contains("zone = \"barn\"") && printed.contains("kind = \"auxiliary\""),
        "{printed}"
    );
    let printed = out(&node(&["--zone", "cellar", "--kind", "full"]));
    assert!(
        printed.contains("zone = \"cellar\"") && printed.contains("kind = \"full\""),
        "{printed}"
    );
    let wrong = node(&["--kind", "large"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(
        harness::err(&wrong).contains("full or auxiliary"),
        "{}",
        harness::err(&wrong)
    );
}

fn role(cluster: &Cluster, log: &str) -> Option<Value> {
    let output = cluster.run(&["members", "--json"]);
    let members: Value = serde_json::from_slice(&output.stdout).ok()?;
    let mut logs = members["logs"].as_array()?.iter();
    let log = logs.find(|shown| shown["name"] == log)?;
    Some(log["members"][2]["role"].clone())
}

#[test]
fn a_node_that_stands_in_votes_everywhere_and_its_disk_stays_small() {
    let cluster = Cluster::start_with(3, 3, |node| {
        if node.id == 3 {
            node.arguments
                .extend(["--kind", "auxiliary"].map(str::to_owned));
        }
    });
    wait_shown(&cluster, 3, "kind", "auxiliary");
    // It was given weight in the first log when it had joined, and is marked by the split.
    let is_auxiliary = |log: &str| (role(&cluster, log)? == "auxiliary").then_some(());
    wait_for(|| is_auxiliary("main"), || cluster.logs());
    cluster.run_well(&["log", "create", "second"]);
    wait_for(|| is_auxiliary("second"), || cluster.logs());
    let content = Content::new(1, 24 << 20);
    for log in ["main", "second"] {
        cluster.append(log, &[], content);
        let disk_bytes = |index: usize| cluster.nodes[index].of_log(log, "disk_bytes")?.as_u64();
        // A machine that keeps a disk waiting engages it, and rightly so; then it is released again.
        let is_small = || {
            let knows = cluster.nodes[2].output_bytes(log) == content.length;
            (knows && disk_bytes(2)? < content.length / 3).then_some(())
        };
        wait_for(is_small, || {
            format!("{log}: {:?} bytes\n{}", disk_bytes(2), cluster.logs())
        });
        for index in [0, 1] {
            assert!(disk_bytes(index) >= Some(content.length));
            cluster.check_node(index, log, &[content]);
        }
    }
}
