//! Nodes that come back at another address.

use crate::harness;

use harness::{Cluster, Content, ask, err, wait_for};

/// Stops it and gives it another address, with these words to find the others by.
fn stop_and_move(cluster: &mut Cluster, index: usize, port: u64, words: &[&str]) -> String {
    let address = format!("{}:{port}", cluster.ip);
    let node = &mut cluster.nodes[index];
    node.kill();
    node.listen.clone_from(&address);
    node.arguments = words.iter().map(ToString::to_string).collect();
    address
}

/// The addresses that the directory has, by any node's account.
fn agreed(cluster: &Cluster) -> Option<Vec<String>> {
    let mut answers = cluster.nodes.iter();
    let members = answers.find_map(|node| ask(&node.listen, "members"))?;
    let nodes = members["nodes"].as_array()?;
    let address = |node: &serde_json::Value| Some(node["address"].as_str()?.to_owned());
    nodes.iter().map(address).collect()
}

fn wait_agreed(cluster: &Cluster) {
    let mut wanted: Vec<String> = cluster.nodes.iter().map(|n| n.listen.clone()).collect();
    wanted.sort();
    wait_for(
        || {
            let mut agreed = agreed(cluster)?;
            agreed.sort();
            (agreed == wanted).then_some(())
        },
        || format!("{:?}, not {wanted:?}\n{}", agreed(cluster), cluster.logs()),
    );
}

fn restart_all(cluster: &mut Cluster) {
    for node in &mut cluster.nodes {
        node.kill();
    }
    for node in &mut cluster.nodes {
        node.start();
    }
}

#[test]
fn nodes_that_moved_one_at_a_time_meet_at_the_next_start_of_all() {
    let mut cluster = Cluster::start(3);
    let before = Content::new(1, 500_000);
    cluster.append("main", &[], before);
    cluster.wait_whole();
    // The nodes that do not lead the directory move first, as their word goes to its leader; then that one, too.
    let leader = cluster.leader("directory");
    let others = (0..3).filter(|index| *index != leader);
    let order: Vec<usize> = others.chain([leader]).collect();
    for index in order {
        stop_and_move(&mut cluster, index, 7100 + index as u64, &[]);
        cluster.nodes[index].start();
        wait_agreed(&cluster);
        cluster.wait_whole();
    }
    for _ in 0..2 {
        restart_all(&mut cluster);
        cluster.wait_whole();
    }
    wait_agreed(&cluster);
    cluster.check_same("main", &[before]);
}

#[test]
fn nodes_that_moved_all_at_once_meet_by_what_they_are_told_and_then_know_it() {
    for by_id in [false, true] {
        let mut cluster = Cluster::start(3);
        let before = Content::new(1, 500_000);
        cluster.append("main", &[], before);
        cluster.wait_whole();
        let address = |index: u64| format!("{}:{}", cluster.ip, 7200 + index);
        let hints: Vec<String> = match by_id {
            // Each is told of one other, and that one hears of it so.
            true => (0..3)
                .map(|index: u64| {
                    let other = (index + 1) % 3;
                    format!("--peer={}@{}", other + 1, address(other))
                })
                .collect(),
            // All are told the same.
            false => {
                let all: Vec<String> = (0..3).map(address).collect();
                vec![format!("--join={}", all.join(",")); 3]
            }
        };
        for node in &mut cluster.nodes {
            node.kill();
        }
        for (index, hint) in hints.iter().enumerate() {
            stop_and_move(&mut cluster, index, 7200 + index as u64, &[hint]);
        }
        for node in &mut cluster.nodes {
            node.start();
        }
        cluster.wait_whole();
        wait_agreed(&cluster);
        // Nobody needs to be told again.
        for node in &mut cluster.nodes {
            node.arguments.clear();
        }
        restart_all(&mut cluster);
        cluster.wait_whole();
        let after = Content::new(2, 500_000);
        cluster.append("main", &[], after);
        cluster.wait_whole();
        cluster.check_same("main", &[before, after]);
    }
}

/// It knows the cluster's id and a node's number, which anybody may ask for, and has another disk.
#[test]
fn a_stranger_that_says_it_is_a_node_elsewhere_changes_no_address() {
    let cluster = Cluster::start(3);
    let status = cluster.nodes[0].wait_answers();
    let id = status["cluster"].as_str().expect("an id");
    let before = agreed(&cluster);
    for node in &cluster.nodes {
        for claimed in (1..=3).filter(|claimed| *claimed != node.id) {
            let hello = format!(
                "logberg/1 peer kind=control log=0 cluster={id} from={claimed} to={} disk={} incarnation=99 nonce=5 address=127.0.0.1:9 speaks=1",
                node.id,
                "ab".repeat(16),
            );
            let answer = harness::raw::answer(&node.listen, &hello);
            assert!(answer.starts_with("error "), "{answer}");
        }
    }
    cluster.append("main", &[], Content::new(1, 100_000));
    cluster.wait_whole();
    assert_eq!(agreed(&cluster), before);
}

#[test]
fn nonsense_in_the_place_of_a_peer_is_refused_with_an_example() {
    let cluster = Cluster::start(1);
    for nonsense in [
        "here",
        "2@",
        "@127.0.0.1:7117",
        "x@127.0.0.1:7117",
        "0@127.0.0.1:7117",
        "127.0.0.1:99999",
    ] {
        let words = ["node", "--data", "/nonexistent/never", "--peer", nonsense];
        let output = cluster.run(&words);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{nonsense}: {}",
            err(&output)
        );
        assert!(err(&output).contains("2@"), "{}", err(&output));
    }
}
