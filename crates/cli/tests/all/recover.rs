//! A majority lost for good: what the survivor held lives on in a new cluster, and never by accident.

use crate::harness;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Output;

use harness::{BINARY, Cluster, Content, Node, err, out, wait_for};
use linux::LinuxDisk;
use serde_json::Value;
use store::Manifest;

const MIB: u64 = 1 << 20;

/// `logberg recover` with these words.
fn recover(arguments: &[&str]) -> Output {
    let mut command = std::process::Command::new(BINARY);
    command.arg("recover").args(arguments);
    command.env_remove("LOGBERG_LOG").output().expect("it runs")
}

fn well(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", err(output));
    serde_json::from_str(&out(output)).expect("JSON")
}

fn path(of: &Path) -> &str {
    of.to_str().expect("ASCII")
}

fn log<'a>(report: &'a Value, name: &str) -> &'a Value {
    let mut logs = report["logs"].as_array().expect("a list").iter();
    logs.find(|log| log["name"] == name).expect("it is there")
}

/// Every file and what is in it.
fn everything_in(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => files.extend(everything_in(&path)),
            // The socket of a node that was killed.
            false if !path.is_file() => {}
            false => files.push((path.clone(), fs::read(&path).expect("a file"))),
        }
    }
    files.sort();
    files
}

/// All nodes are down, and only this one's directory is left.
fn lose_all_but(cluster: &mut Cluster, survivor: usize) -> PathBuf {
    for node in &mut cluster.nodes {
        node.kill();
    }
    for (index, node) in cluster.nodes.iter().enumerate() {
        if index != survivor {
            fs::remove_dir_all(&node.data).expect("it was there");
        }
    }
    cluster.nodes[survivor].data.clone()
}

/// The cluster whose only node stands in `new`.
fn alone(cluster: &mut Cluster, survivor: usize, new: PathBuf) {
    cluster.nodes.clear();
    let mut node = Node::new(new, format!("{}:7099", cluster.ip), &[]);
    node.id = survivor as u64 + 1;
    node.start();
    cluster.voters = 1;
    cluster.nodes.push(node);
    cluster.wait_whole();
}

#[test]
fn one_survivor_carries_everything_into_a_cluster_that_grows_again() {
    let mut cluster = Cluster::start(3);
    let (first, second) = (Content::new(1, 5 * MIB), Content::new(2, 3 * MIB));
    cluster.run_well(&["log", "create", "other"]);
    cluster.append("main", &[], first);
    cluster.append("other", &[], second);
    cluster.wait_whole();
    let old_cluster = cluster.nodes[0].wait_answers()["cluster"].clone();
    let old = lose_all_but(&mut cluster, 2);
    let before = everything_in(&old);
    let new = cluster.directory.path().join("new");

    // Looking changes nothing, and makes nothing.
    let look = ["--unsafe", "--directory", path(&old), "--json"];
    let seen = well(&recover(&look));
    assert_eq!(seen["done"], false);
    assert_eq!(log(&seen, "main")["carried_bytes"], 5 * MIB);
    assert_eq!(log(&seen, "other")["holes"], Value::Array(Vec::new()));
    let said = out(&recover(&look[..3]));
    assert!(
        said.contains("LOST for good: whatever nodes 1, 2"),
        "{said}"
    );
    assert!(said.contains("Nothing was done"), "{said}");
    let into = ["--into", path(&new)];
    well(&recover(&[&look[..], &into].concat()));
    assert!(!new.exists());

    let all = [&look[..], &into, &["--accept-data-loss"]].concat();
    let done = well(&recover(&all));
    assert_eq!(done["done"], true);
    assert_ne!(done["new_cluster"], old_cluster);
    assert_eq!(
        everything_in(&old),
        before,
        "the old directory is never changed"
    );

    // Its disk is another one, and proves itself.
    let manifest = Manifest::load(&mut LinuxDisk::new(), &new).expect("it is sound");
    let disk = manifest.expect("it is there").identity.disk;
    assert!(disk.is_keyed() && new.join("key").exists());
    alone(&mut cluster, 2, new);
    let status = cluster.nodes[0].wait_answers();
    assert_eq!(status["cluster"], done["new_cluster"]);
    cluster.check_node(0, "main", &[first]);
    cluster.check_node(0, "other", &[second]);
    let third = Content::new(3, MIB);
    cluster.append("main", &[], third);

    // Those that are gone are forgotten, and new ones take their part.
    wait_for(
        || {
            let status = cluster.nodes[0].status()?;
            (status["nodes"].as_array()?.len() == 1).then_some(())
        },
        || "the lost nodes are still known".to_owned(),
    );
    cluster.voters = 3;
    cluster.add_to(&["4", "5"]);
    cluster.wait_whole();
    cluster.check_same("main", &[first, third]);
    cluster.check_same("other", &[second]);
    cluster.nodes[0].kill();
    cluster.append("main", &[], Content::new(4, MIB));
}

#[test]
fn of_a_survivor_with_a_hole_the_longest_part_is_carried_over_and_the_rest_named() {
    let mut cluster = Cluster::start(3);
    let content = Content::new(1, 6 * MIB);
    cluster.append("main", &[], content);
    cluster.wait_whole();
    let old = lose_all_but(&mut cluster, 0);
    let segments = segments_of(&old.join("log-1"));
    let spoilt = fs::File::options()
        .write(true)
        .open(&segments[1])
        .expect("a segment");
    spoilt.write_all_at(&[0xa5; 64], 300_000).expect("a disk");
    drop(spoilt);
    let new = cluster.directory.path().join("new");
    let all = [
        "--unsafe",
        "--directory",
        path(&old),
        "--into",
        path(&new),
        "--accept-data-loss",
        "--json",
    ];
    let done = well(&recover(&all));
    let main = log(&done, "main");
    let hole = &main["holes"][0];
    let (from, to) = (hole["from"].as_u64().unwrap(), hole["to"].as_u64().unwrap());
    assert!(from < to && to < 6 * MIB, "{main}");
    assert_eq!(main["carried_bytes"], 6 * MIB - to, "{main}");
    assert_eq!(main["left_bytes"], from, "{main}");
    assert_eq!(
        main["damaged"].as_array().map(Vec::len),
        Some(0),
        "no start reads that segment"
    );
    // What was left behind is needed by nobody any more.
    let verify = |new: &Path| {
        let mut command = std::process::Command::new(BINARY);
        command.args(["verify", path(new)]);
        let output = command.output().expect("it runs");
        assert_eq!(output.status.code(), Some(0), "{}", out(&output));
    };
    verify(&new);
    alone(&mut cluster, 0, new.clone());
    let read = cluster.run(&["read", "main", "--left", "--timeout", "60"]);
    assert_eq!(read.status.code(), Some(0), "{}", err(&read));
    assert!(read.stdout == content.bytes()[to as usize..], "other bytes");
    cluster.append("main", &[], Content::new(2, MIB));
    cluster.voters = 2;
    cluster.add_to(&["4"]);
    cluster.wait_whole();
    let node = &mut cluster.nodes[0];
    node.signal("-TERM");
    assert_eq!(node.wait(), Some(0), "{}", node.said());
    verify(&new);
}

#[test]
fn nobody_gets_there_by_accident() {
    let mut cluster = Cluster::start(1);
    cluster.append("main", &[], Content::new(1, MIB));
    let old = cluster.nodes[0].data.clone();
    let new = cluster.directory.path().join("new");
    let foreign = cluster.directory.path().join("foreign");
    fs::create_dir(&foreign).expect("a place");
    fs::write(foreign.join("letter"), "dear").expect("a file");
    let refused = |arguments: &[&str], code: i32, why: &str| {
        let output = recover(arguments);
        assert_eq!(output.status.code(), Some(code), "{}", err(&output));
        assert!(err(&output).contains(why), "{}", err(&output));
        assert!(!new.exists(), "nothing was made");
    };
    let (old, into) = (path(&old), path(&new));
    let sure = "--accept-data-loss";
    refused(&["--directory", old], 2, "--unsafe");
    refused(&["--unsafe", "--directory", old, sure], 2, "--into");
    refused(
        &["--unsafe", "--directory", old, "--into", into, sure],
        4,
        "in use by a running node",
    );
    refused(
        &[
            "--unsafe",
            "--directory",
            path(&foreign),
            "--into",
            into,
            sure,
        ],
        5,
        "no manifest",
    );
    cluster.nodes[0].kill();
    refused(
        &[
            "--unsafe",
            "--directory",
            old,
            "--into",
            path(&foreign),
            sure,
        ],
        4,
        "not empty",
    );
    refused(
        &["--unsafe", "--directory", old, "--into", old, sure],
        4,
        "never changed",
    );
    let letter = fs::read_to_string(foreign.join("letter"));
    assert_eq!(letter.expect("it is there"), "dear");
    cluster.nodes[0].start();
    cluster.wait_whole();
    cluster.check_same("main", &[Content::new(1, MIB)]);
}

/// The segments of a log, in order.
fn segments_of(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("a log's directory");
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "seg"));
    paths.sort();
    paths
}

trait Grows {
    fn add_to(&mut self, names: &[&str]);
}

impl Grows for Cluster {
    /// Nodes that join the recovered one and are given whatever ids come next.
    fn add_to(&mut self, names: &[&str]) {
        for name in names {
            let first = self.nodes[0].address().to_owned();
            let data = self.directory.path().join(format!("joined{name}"));
            let listen = format!("{}:72{name:0>2}", self.ip);
            let mut node = Node::new(data, listen, &["--join", &first]);
            node.start();
            let status = wait_for(
                || {
                    node.status()
                        .filter(|status| status["node"].as_u64() > Some(0))
                },
                || format!("it does not join\n{}", node.said()),
            );
            node.id = status["node"].as_u64().expect("an id");
            assert!(node.id > 3, "the ids of lost nodes are not given again");
            self.nodes.push(node);
        }
    }
}
