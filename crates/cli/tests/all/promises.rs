//! The promises of the pages and the help about a node that moves, is asked to stop, or comes back.

use crate::harness;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use harness::proxy::third_behind_a_proxy;
use harness::{Cluster, Content, LONG, Node, Raw, Weather, err, own_ip, wait_for};

/// Ends a node in order. From its next start on it listens at another port.
fn stop_and_move(node: &mut Node) -> String {
    node.signal("-TERM");
    assert_eq!(node.wait(), Some(0), "{}", node.said());
    node.listen = node.listen.replace(":700", ":710");
    node.listen.clone()
}

/// Two nodes that look for that one at an address where nobody answers them yet.
fn two_who_look_there(cluster: &Cluster, address: &str, id: u64) -> BTreeSet<u64> {
    let listener = TcpListener::bind(address).expect("a free port");
    listener.set_nonblocking(true).expect("a socket");
    let to = format!("to={id}");
    let mut found: BTreeSet<u64> = BTreeSet::new();
    wait_for(
        || {
            let (stream, _) = listener.accept().ok()?;
            stream.set_nonblocking(false).expect("a socket");
            stream.set_read_timeout(Some(LONG)).expect("a socket");
            let mut line = String::new();
            BufReader::new(stream).read_line(&mut line).ok()?;
            let words: Vec<&str> = line.trim_end().split(' ').collect();
            if words.starts_with(&["logberg/1", "peer"]) && words.contains(&to.as_str()) {
                let from = words.iter().find_map(|word| word.strip_prefix("from="));
                found.extend(from.and_then(|from| from.parse::<u64>().ok()));
            }
            (found.len() == 2).then_some(())
        },
        || cluster.logs(),
    );
    found
}

#[test]
fn a_node_that_moved_is_looked_for_where_the_operator_says_and_filled_there() {
    let mut cluster = Cluster::start(3);
    let before = Content::new(1, 500_000);
    cluster.append("main", &[], before);
    // One of which it is said while it is down: it could tell nobody.
    let second = stop_and_move(&mut cluster.nodes[1]);
    cluster.run_well(&["members", "address", "2", &second, "--timeout", "60"]);
    let found = two_who_look_there(&cluster, &second, 2);
    assert_eq!(found, BTreeSet::from([1, 3]));
    let meanwhile = Content::new(2, 500_000);
    cluster.append("main", &[], meanwhile);
    cluster.nodes[1].start();
    cluster.wait_whole();
    // And one that runs at its new place before it is said.
    let third = stop_and_move(&mut cluster.nodes[2]);
    cluster.nodes[2].start();
    cluster.run_well(&["members", "address", "3", &third, "--timeout", "60"]);
    cluster.wait_whole();
    let after = Content::new(3, 500_000);
    cluster.append("main", &[], after);
    cluster.wait_whole();
    cluster.check_same("main", &[before, meanwhile, after]);
    for (index, address) in [(1_usize, &second), (2, &third)] {
        for node in &cluster.nodes {
            wait_for(
                || {
                    let status = node.status()?;
                    let there = status["nodes"][index]["address"] == address.as_str();
                    there.then_some(())
                },
                || cluster.logs(),
            );
        }
    }
    let shown = || {
        let table = cluster.run_well(&["members"]);
        let old = table.contains(":7002") || table.contains(":7003");
        let new = table.contains(&second) && table.contains(&third);
        (new && !old).then_some(())
    };
    wait_for(shown, || cluster.logs());
}

#[test]
fn a_leader_that_is_asked_to_stop_does_not_wait_for_peers_that_stand_still() {
    // Beside one of them there is somebody to hand over to, beside both nobody.
    for still in [1, 2] {
        let mut cluster = Cluster::start(3);
        let content = Content::new(4, 500_000);
        cluster.append("main", &[], content);
        cluster.wait_whole();
        let leader = cluster.leader("main");
        let others = (0..3).filter(|index| *index != leader);
        let stopped: Vec<usize> = others.take(still).collect();
        for index in &stopped {
            cluster.nodes[*index].signal("-STOP");
        }
        cluster.nodes[leader].signal("-TERM");
        assert_eq!(cluster.nodes[leader].wait(), Some(0), "{}", cluster.logs());
        let said = cluster.nodes[leader].said();
        assert!(said.contains("handing over, then flushing"), "{said}");
        for index in &stopped {
            cluster.nodes[*index].signal("-CONT");
        }
        cluster.nodes[leader].start();
        cluster.wait_whole();
        cluster.check_same("main", &[content]);
    }
}

#[test]
fn a_node_whose_disk_hangs_keeps_its_directory_until_the_last_write_has_ended() {
    let mut cluster = Cluster::start_with(3, 3, |node| {
        node.faults = Some(node.data.with_extension("faults"));
    });
    cluster.wait_whole();
    let hangs = cluster.follower("main");
    let faults = cluster.nodes[hangs].faults.clone().expect("set above");
    fs::write(&faults, "write-delay-ms=3600000\n").expect("room");
    let content = Content::new(5, 200_000);
    cluster.append("main", &[], content);
    let stalled = || {
        let status = cluster.nodes[hangs].status()?;
        let mut warnings = status["health"]["warnings"].as_array()?.iter();
        let own = cluster.nodes[hangs].id;
        let its = warnings.any(|w| w["code"] == "disk-stalled" && w["node"] == own);
        its.then_some(())
    };
    wait_for(stalled, || cluster.logs());
    cluster.nodes[hangs].signal("-TERM");
    // It gives up flushing, and then serves nobody any more.
    let is_mute = || cluster.nodes[hangs].status().is_none().then_some(());
    wait_for(is_mute, || cluster.logs());
    let why = "the disk has not ended what it was told to write for ";
    let says_why = || cluster.nodes[hangs].said().contains(why).then_some(());
    wait_for(says_why, || cluster.logs());
    let data = cluster.nodes[hangs].data.clone();
    let mut next = Node::new(data, format!("{}:7009", cluster.ip), &[]);
    next.start();
    assert_eq!(next.wait(), Some(4), "{}", next.said());
    let said = next.said();
    let sentence = "in use by another process: stop that one, or choose another directory";
    assert!(said.contains(sentence), "{said}");
    assert!(cluster.nodes[hangs].is_running(), "{said}");
    fs::remove_file(&faults).expect("ours");
    assert_eq!(cluster.nodes[hangs].wait(), Some(0), "{}", cluster.logs());
    cluster.nodes[hangs].start();
    cluster.wait_whole();
    cluster.check_same("main", &[content]);
}

#[test]
fn who_writes_or_follows_hears_that_the_node_stops() {
    let mut cluster = Cluster::start(1);
    let address = cluster.nodes[0].listen.clone();
    let mut writer = Raw::say(&address, "logberg/1 append main\n");
    assert!(writer.line().starts_with("stream "));
    let line = "logberg/1 read main follow=1 format=framed\n";
    let mut reader = Raw::say(&address, line);
    assert!(reader.line().starts_with("reading from=0 length=0 "));
    cluster.nodes[0].signal("-TERM");
    for last in [writer.line_after("ack "), reader.line_after("data ")] {
        assert!(last.starts_with("error shutting-down: "), "{last}");
    }
    assert_eq!(cluster.nodes[0].wait(), Some(0), "{}", cluster.logs());
}

#[test]
fn settings_that_no_node_can_have_end_with_2_and_nothing_is_made() {
    let place = tempfile::tempdir().expect("a place");
    let own = format!("{}:7001", own_ip());
    let own = own.as_str();
    let wrong = "--voters is from 1 to 31";
    let nowhere = "say where with --advertise HOST:PORT";
    for (listen, words, sentence) in [
        (own, &["--bootstrap", "--voters", "0"][..], wrong),
        (own, &["--bootstrap", "--voters", "32"][..], wrong),
        ("0.0.0.0:0", &["--bootstrap"][..], nowhere),
    ] {
        let data = place.path().join("node");
        let mut node = Node::new(data, listen.to_owned(), words);
        node.start();
        assert_eq!(node.wait(), Some(2), "{}", node.said());
        let said = node.said();
        let last = said.lines().last().unwrap_or_default();
        assert!(last.starts_with("logberg: "), "{said}");
        assert!(last.contains(sentence), "{said}");
        assert!(!node.data.exists(), "{said}");
    }
}

/// Bytes a second that a node fetches while somebody appends, and that can reach it.
const FETCHED: u64 = 1_000_000;
const REACHES_IT: u64 = 12_000_000;
/// The most bytes under way: those it asked for before it heard of an append, and those that wait for its
/// disk, are 17 MB.
const UNDER_WAY: u64 = 20_000_000;
/// With less left to fetch nothing could be seen.
const ENOUGH: u64 = 30_000_000;
/// Without new bytes for 250 ms a node believes that nobody appends.
const GOES_ON: Duration = Duration::from_millis(200);
const LONG_ENOUGH: Duration = Duration::from_secs(4);
const PIECE: usize = 100;

/// The bytes of main that a node knows to be chosen, and those of them that it lacks.
fn chosen_and_missing(node: &Node) -> Option<(u64, u64)> {
    let status = node.status()?;
    let mut logs = status["logs"].as_array()?.iter();
    let main = logs.find(|log| log["name"] == "main")?;
    let chosen = main["output_bytes"].as_u64()?;
    Some((chosen, main["missing_bytes"].as_u64()?))
}

/// Only times in which the node itself shows that appends came to it without a pause are judged.
#[test]
fn a_node_that_was_away_is_filled_no_faster_than_its_rate_while_somebody_appends() {
    let (mut cluster, proxy) = third_behind_a_proxy();
    cluster.nodes[2].kill();
    let rate = ["--catch-up-rate".to_owned(), FETCHED.to_string()];
    cluster.nodes[2].arguments.extend(rate);
    let missed = Content::new(6, 64_000_000);
    cluster.append("main", &[], missed);
    proxy.set(Weather::Rate(REACHES_IT));
    cluster.nodes[2].start();
    let mut writer = cluster.spawn(&["append", "main", "--timeout", "60"]);
    let mut pipe = writer.stdin.take().expect("piped");
    let bytes = Content::new(7, 200_000).bytes();
    let mut sent = Vec::new();
    // When the last piece was sent that has come to it.
    let mut came_of: Option<Instant> = None;
    let mut steady: Option<(Instant, u64)> = None;
    let mut longest = Duration::ZERO;
    for piece in bytes.chunks(PIECE) {
        if longest > LONG_ENOUGH {
            break;
        }
        thread::sleep(Duration::from_millis(5));
        let asked = Instant::now();
        sent.push(asked);
        pipe.write_all(piece).expect("it reads");
        let Some((chosen, missing)) = chosen_and_missing(&cluster.nodes[2]) else {
            (came_of, steady) = (None, None);
            continue;
        };
        let goes_on = came_of.is_some_and(|at| at.elapsed() < GOES_ON);
        let pieces = chosen.saturating_sub(missed.length) as usize / PIECE;
        came_of = pieces.checked_sub(1).map(|last| sent[last]);
        match steady {
            Some((since, before)) if goes_on => {
                let took = since.elapsed();
                longest = longest.max(took);
                let fetched = before.saturating_sub(missing).saturating_sub(UNDER_WAY);
                let least = Duration::from_secs_f64(fetched as f64 / FETCHED as f64);
                assert!(took >= least, "{took:?}, {least:?}\n{}", cluster.logs());
            }
            _ => steady = (missing > ENOUGH).then_some((asked, missing)),
        }
    }
    if longest <= LONG_ENOUGH {
        println!("not judged: appends paused, or it was filled before");
    }
    drop(pipe);
    let output = writer.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    // Nobody appends: now as fast as can be.
    proxy.set(Weather::Fair);
    cluster.wait_whole();
    let more = Content::new(7, (sent.len() * PIECE) as u64);
    cluster.check_node(2, "main", &[missed, more]);
}
