//! Each way a cluster can be stuck, and the words by which `status` shows it: docs/first-aid.md has
//! them, with what helps.

use crate::harness;

use std::fs;

use harness::{Cluster, Content, Node, ask, err, wait_for};

const PAGE: &str = include_str!("../../../../docs/first-aid.md");

/// Waits until `status` of this node shows all of it, and insists that the page says so too. A word
/// with `…` has two parts.
fn shows(cluster: &Cluster, node: &Node, words: &[&str]) -> String {
    let page = PAGE.split_whitespace().collect::<Vec<_>>().join(" ");
    for word in words {
        assert!(
            page.contains(word),
            "docs/first-aid.md does not say {word:?}"
        );
    }
    let parts: Vec<&str> = words.iter().flat_map(|word| word.split('…')).collect();
    let shown = || cluster.run_status(&node.listen).1;
    wait_for(
        || {
            let shown = shown();
            let all = parts.iter().all(|part| shown.contains(part));
            all.then_some(shown)
        },
        || format!("{words:?}\n{}\n{}", shown(), cluster.logs()),
    )
}

fn inject(node: &Node, faults: &str) {
    let file = node.faults.as_ref().expect("it has one");
    let aside = file.with_extension("new");
    fs::write(&aside, faults).expect("our directory");
    fs::rename(&aside, file).expect("our directory");
}

fn restart(cluster: &mut Cluster, index: usize) {
    cluster.nodes[index].kill();
    cluster.nodes[index].start();
    cluster.wait_whole();
}

/// All nodes with disks that fail when told to.
fn four() -> Cluster {
    let cluster = Cluster::start_with(4, 3, |node| {
        node.faults = Some(node.data.with_extension("faults"));
    });
    cluster.wait_whole();
    cluster
}

#[test]
fn disks_that_hang_fail_and_fill() {
    let mut cluster = four();
    let leader = cluster.leader("main");
    let voters = (0..3).filter(|index| *index != leader);
    let voters: Vec<usize> = voters.collect();
    let (hangs, fails) = (voters[0], voters[1]);

    inject(&cluster.nodes[hangs], "write-delay-ms=20000\n");
    cluster.append("main", &[], Content::new(1, 200_000));
    let words = ["disk-stalled", "replica-slow", "bytes-not-everywhere"];
    shows(&cluster, &cluster.nodes[leader], &words);
    inject(&cluster.nodes[hangs], "");
    restart(&mut cluster, hangs);

    inject(&cluster.nodes[fails], "write-error=EIO\n");
    cluster.append("main", &[], Content::new(2, 200_000));
    shows(
        &cluster,
        &cluster.nodes[fails],
        &["replica-stopped", "the disk failed: …"],
    );
    shows(&cluster, &cluster.nodes[leader], &["replica-stopped"]);
    inject(&cluster.nodes[fails], "");
    restart(&mut cluster, fails);

    // One is left behind, and another voter or the leader beside it is not.
    inject(&cluster.nodes[hangs], "free-bytes=0\n");
    shows(
        &cluster,
        &cluster.nodes[leader],
        &[
            "disk-full",
            "it stores nothing more of logs that other nodes can store",
        ],
    );
    cluster.append("main", &[], Content::new(3, 200_000));
    inject(&cluster.nodes[fails], "free-bytes=0\n");
    shows(
        &cluster,
        &cluster.nodes[leader],
        &["disk-full", "appends to … are refused"],
    );
    let output = cluster.run_with_input(&["append", "main"], b"x");
    assert_eq!(output.status.code(), Some(4), "{}", err(&output));
    inject(&cluster.nodes[hangs], "");
    inject(&cluster.nodes[fails], "");
    // By itself.
    wait_for(
        || {
            let output = cluster.run_with_input(&["append", "main"], b"x");
            output.status.success().then_some(())
        },
        || cluster.logs(),
    );
}

#[test]
fn nodes_that_are_silent_and_what_waits_for_them() {
    let mut cluster = four();
    let created = cluster.run(&["log", "create", "far", "--members", "4"]);
    assert!(created.status.success(), "{}", err(&created));
    cluster.nodes[3].kill();
    shows(
        &cluster,
        &cluster.nodes[0],
        &["node-unreachable", "hosts-down"],
    );

    // Weight for a node that is not there.
    let asked = cluster
        .nodes
        .iter()
        .take(3)
        .find_map(|node| ask(&node.listen, "change-members add 4 log=main"));
    assert!(asked.is_some(), "{}", cluster.logs());
    let leader = cluster.leader("main");
    let words = [
        "change-held-up",
        "the leader cannot reach node 4: start it, fix the network to it, or undo the change",
    ];
    shows(&cluster, &cluster.nodes[leader], &words);
    let back = cluster.run(&["members", "weight", "4", "0", "--log", "main", "--no-wait"]);
    assert!(back.status.success(), "{}", err(&back));

    cluster.nodes[leader].signal("-STOP");
    std::thread::sleep(std::time::Duration::from_millis(900));
    cluster.nodes[leader].signal("-CONT");
    shows(&cluster, &cluster.nodes[leader], &["process-paused"]);

    let survivor = cluster.leader("main");
    for index in (0..3).filter(|index| *index != survivor) {
        cluster.nodes[index].kill();
    }
    let words = [
        "health: unavailable",
        "no-leader",
        "waiting for node …: no leader for …",
    ];
    shows(&cluster, &cluster.nodes[survivor], &words);
}

#[test]
fn a_version_is_held_back_by_a_node_that_is_away() {
    let mut cluster = Cluster::start_with(3, 3, |node| {
        let more = ["--speaks", "1", "--version-settle", "1"];
        node.arguments.extend(more.map(str::to_owned));
    });
    cluster.wait_whole();
    for index in 0..2 {
        let node = &mut cluster.nodes[index];
        node.kill();
        let at = node.arguments.iter().position(|word| word == "--speaks");
        node.arguments[at.expect("it was said") + 1] = "1-2".to_owned();
        node.start();
        cluster.wait_whole();
    }
    shows(
        &cluster,
        &cluster.nodes[0],
        &["which runs an older program"],
    );
    cluster.nodes[2].kill();
    let words = [
        "version-held-back",
        "waiting for node 3 at …, which is silent: the cluster stays at version 1 and does not go on to 2",
    ];
    shows(&cluster, &cluster.nodes[0], &words);
}

#[test]
fn strangers_and_nodes_that_do_not_get_in() {
    let mut ours = Cluster::start(2);
    let mut theirs = Cluster::start(1);
    // A node of theirs takes the place of our second node.
    ours.nodes[1].kill();
    theirs.nodes[0].kill();
    let stranger = &mut theirs.nodes[0];
    stranger.listen = ours.nodes[1].listen.clone();
    stranger.arguments = Vec::new();
    stranger.start();
    let words = [
        "node-refused",
        "waiting for node 2: at … this node is refused: this node is of cluster …",
    ];
    shows(&ours, &ours.nodes[0], &words);
    let second = ours.nodes[1].run();
    let said = err(&second);
    assert!(said.contains("is in use by another process"), "{said}");
    assert!(PAGE.contains("is in use by another process"));

    let data = ours.directory.path().join("lonely");
    let nobody = format!("{}:1", ours.ip);
    let listen = format!("{}:7999", ours.ip);
    let mut lonely = Node::new(data, listen, &["--join", &nobody]);
    lonely.start();
    shows(&ours, &lonely, &["health: unavailable", "not-joined"]);
}
