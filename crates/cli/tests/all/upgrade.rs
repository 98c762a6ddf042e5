//! Nodes of two program versions, as processes: a hidden option makes this program one that speaks the older version
//! alone, and writes nothing that only the newer one knows.

use crate::harness;

use harness::{Cluster, Content, Node, err, wait_for};

/// Replaces what follows `--speaks`.
fn give_program(node: &mut Node, speaks: &str) {
    let at = node.arguments.iter().position(|a| a == "--speaks");
    node.arguments[at.expect("it was said") + 1] = speaks.to_owned();
}

fn upgrade(cluster: &mut Cluster, index: usize, speaks: &str) {
    let node = &mut cluster.nodes[index];
    node.signal("-TERM");
    assert_eq!(node.wait(), Some(0), "{}", node.said());
    give_program(node, speaks);
    node.start();
    cluster.wait_whole();
}

fn version(node: &Node, key: &str) -> Option<u64> {
    node.status()?[key].as_u64()
}

#[test]
fn three_nodes_are_upgraded_one_after_the_other_under_appends() {
    let mut cluster = Cluster::start_with(3, 3, |node| {
        let more = ["--speaks", "1", "--version-settle", "1"];
        node.arguments.extend(more.map(str::to_owned));
    });
    let before = Content::new(1, 300_000);
    cluster.append("main", &[], before);
    cluster.wait_whole();
    let during = Content::new(2, 4_000_000);
    let appending = cluster.append_in_background("main", &["--rate", "500K"], during);
    for index in 0..3 {
        // Each node's own disk; what is agreed it knows once it has read the directory.
        assert_eq!(version(&cluster.nodes[index], "disk_version"), Some(1));
        upgrade(&mut cluster, index, "1-2");
    }
    wait_for(
        || {
            let mut nodes = cluster.nodes.iter();
            let raised = |node: &Node| version(node, "cluster_version") == Some(2);
            nodes.all(raised).then_some(())
        },
        || format!("the version is not raised\n{}", cluster.logs()),
    );
    let output = appending.wait();
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let after = Content::new(3, 300_000);
    cluster.append("main", &[], after);
    cluster.wait_whole();
    cluster.check_same("main", &[before, during, after]);
    let shown = cluster.run_status(&cluster.servers()).1;
    assert!(
        shown.contains(", version 2, ") && shown.contains("1-2"),
        "{shown}"
    );
    let shown = cluster.run_well(&["members"]);
    assert!(shown.contains("the cluster is at version 2"), "{shown}");
    assert!(shown.contains("up to 2"), "{shown}");

    let node = &mut cluster.nodes[2];
    node.signal("-TERM");
    assert_eq!(node.wait(), Some(0), "{}", node.said());
    give_program(node, "1");
    let refused = node.run();
    assert_eq!(refused.status.code(), Some(1));
    let said = err(&refused);
    assert!(
        said.contains("written in version 2") && said.contains("start a newer program"),
        "{said}"
    );
    give_program(node, "1-2");
    node.start();
    cluster.wait_whole();
}

/// Until the newer version is prepared each node can go back, one after the other, as it came.
#[test]
fn three_nodes_go_back_to_the_older_program_under_appends() {
    let mut cluster = Cluster::start_with(3, 3, |node| {
        let more = ["--speaks", "1", "--version-settle", "3600"];
        node.arguments.extend(more.map(str::to_owned));
    });
    let during = Content::new(1, 5_000_000);
    let appending = cluster.append_in_background("main", &["--rate", "500K"], during);
    for speaks in ["1-2", "1"] {
        for index in 0..3 {
            upgrade(&mut cluster, index, speaks);
        }
    }
    let output = appending.wait();
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    cluster.wait_whole();
    cluster.check_same("main", &[during]);
    for node in &cluster.nodes {
        assert_eq!(version(node, "cluster_version"), Some(1), "{}", node.said());
        assert_eq!(version(node, "disk_version"), Some(1), "{}", node.said());
    }
}
