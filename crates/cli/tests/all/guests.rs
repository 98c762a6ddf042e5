//! Ids that greet as peers and that no directory lists, and claims to be a node that is one.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use formats::frame::{WishTold, encode_control};
use formats::past::{Start, Told};
use formats::{Frame, LogId, Speaks};
use harness::impostor::Impostor;
use harness::{Cluster, Content, Node, Raw, ask, own_ip, wait_for};
use linux::LinuxDisk;
use paxos::{Configuration, Era, LogState, Message, NodeId, Slot, Term, WishNumber};
use store::Manifest;

use crate::harness;

const DISK: &str = "00112233445566778899aabbccddeeff";

/// A peer's first line to node `to`, with these words for the speaker.
fn hello(cluster: &Cluster, to: u64, kind: &str, who: &str) -> String {
    let listen = &cluster.nodes[to as usize - 1].listen;
    let status = ask(listen, "status").expect("an answer");
    let uuid = status["cluster"].as_str().expect("text").to_owned();
    let speaks = Speaks::THIS;
    format!("logberg/1 peer kind={kind} cluster={uuid} to={to} speaks={speaks} {who}\n")
}

fn ghost(id: u32, address: &str) -> String {
    format!("from={id} disk={DISK} incarnation=1 nonce=1 address={address}")
}

/// A control connection that is taken, and the version of its frames.
fn greet(cluster: &Cluster, to: u64, who: &str) -> Option<(Raw, u8)> {
    let line = hello(cluster, to, "control log=0", who);
    let mut raw = Raw::say(&cluster.nodes[to as usize - 1].listen, &line);
    let answer = raw.try_line()?;
    let version = answer.strip_prefix("ok version=")?.split(' ').next();
    let version = version?.parse().ok()?;
    Some((raw, version))
}

fn manifest(node: &Node) -> Manifest {
    let manifest = Manifest::load(&mut LinuxDisk::new(), &node.data);
    manifest.expect("it is sound").expect("it is there")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn peers_file(node: &Node) -> String {
    fs::read_to_string(node.data.join("peers.json")).unwrap_or_default()
}

fn is_healthy(node: &Node) -> bool {
    let status = node.status().unwrap_or_default();
    status["health"]["state"] == "healthy"
}

fn wait_healthy(cluster: &Cluster) {
    for node in &cluster.nodes {
        wait_for(
            || is_healthy(node).then_some(()),
            || format!("{:?}\n{}", node.status(), cluster.logs()),
        );
    }
}

#[test]
fn a_stranger_s_prepare_is_promised_by_nobody() {
    let cluster = Cluster::start(3);
    let mut strangers = Vec::new();
    for to in 1..=3 {
        let (mut raw, version) =
            greet(&cluster, to, &ghost(99, "127.0.0.1:1")).expect("a guest is heard");
        for (id, name) in [(0, "directory"), (1, "main")] {
            let node = &cluster.nodes[to as usize - 1];
            let era = node.of_log(name, "era").and_then(|era| era.as_u64());
            let term = Term {
                era: Era(era.expect("a number") as u32),
                number: 1 << 30,
                owner: NodeId(99),
            };
            let status = Message::LeaderStatus {
                term,
                proposed_up_to: Slot(1 << 40),
                chosen_up_to: Slot(1 << 40),
                finishing: None,
            };
            for message in [Message::Prepare { term }, status] {
                let log = LogId(id);
                raw.send(&encode_control(version, &Frame::Engine { log, message }));
            }
        }
        strangers.push(raw);
    }
    cluster.append("main", &[], Content::new(1, 100_000));
    cluster.wait_whole();
    for node in &cluster.nodes {
        for log in ["directory", "main"] {
            let term = node.of_log(log, "term").expect("it has one");
            let number = term.as_str().and_then(|term| term.split('.').nth(1));
            let number: u64 = number.expect("it has a number").parse().expect("a number");
            assert!(number < 1 << 20, "node {}: {log} promised {term}", node.id);
        }
    }
    drop(strangers);
}

#[test]
fn unknown_ids_become_no_peers_and_cost_neither_threads_nor_memory() {
    let cluster = Cluster::start(3);
    wait_healthy(&cluster);
    let node = &cluster.nodes[0];
    let threads = || {
        let tasks = fs::read_dir(format!("/proc/{}/task", node.pid()));
        tasks.expect("it lives").count()
    };
    let (threads_before, memory_before) = (threads(), node.memory("VmRSS"));
    let mut taken = Vec::new();
    for id in 100..200 {
        let address = format!("ghost-{id}.invalid:7000");
        let Some((mut raw, version)) = greet(&cluster, 1, &ghost(id, &address)) else {
            continue;
        };
        if id < 110 {
            // A frame that says it is as long as one may be, and does not end.
            let mut long = long_frame(version);
            long.resize(60 << 20, 7);
            let _ = raw.try_send(&long);
        }
        taken.push(raw);
    }
    cluster.append("main", &[], Content::new(1, 100_000));
    cluster.wait_whole();
    let grown = node.memory("VmRSS").saturating_sub(memory_before);
    assert!(grown < 100 << 20, "{grown} bytes are held of frames");
    assert!(threads() < threads_before + 8, "{} threads", threads());
    wait_healthy(&cluster);
    let status = node.wait_answers();
    assert_eq!(
        status["nodes"].as_array().map(Vec::len),
        Some(3),
        "{status}"
    );
    let peers = peers_file(node);
    assert!(!peers.contains("ghost"), "{peers}");
    drop(taken);
}

#[test]
fn a_stranger_that_can_be_dialled_is_not_told_which_disk_a_node_has() {
    let cluster = Cluster::start(1);
    let listener = TcpListener::bind(format!("{}:0", own_ip())).expect("an address");
    let address = listener.local_addr().expect("it is bound").to_string();
    let _guest = greet(&cluster, 1, &ghost(99, &address)).expect("a guest is heard");
    // Time for many heartbeats, each of which would dial a peer.
    cluster.append("main", &[], Content::new(1, 5_000_000));
    cluster.append("main", &[], Content::new(2, 5_000_000));
    listener.set_nonblocking(true).expect("a socket");
    assert!(listener.accept().is_err(), "it was dialled");
}

#[test]
fn a_node_that_is_there_is_not_shut_out_by_a_claim_to_be_it() {
    let mut cluster = Cluster::start(3);
    let disk = hex(&manifest(&cluster.nodes[1]).identity.disk.0);
    let claim = |incarnation: u32| {
        format!("from=2 disk={disk} incarnation={incarnation} nonce=1 address=127.0.0.1:1")
    };
    let started = manifest(&cluster.nodes[1]).incarnation;
    for incarnation in [started + 1, u32::MAX] {
        let line = hello(&cluster, 1, "control log=0", &claim(incarnation));
        let answer = Raw::say(&cluster.nodes[0].listen, &line).rest_text();
        assert!(answer.starts_with("error "), "{answer}");
    }
    cluster.append("main", &[], Content::new(1, 100_000));
    cluster.wait_whole();
    // Nor while it is away, by a number that it could never come to.
    cluster.nodes[1].kill();
    let line = hello(&cluster, 1, "control log=0", &claim(u32::MAX));
    let answer = Raw::say(&cluster.nodes[0].listen, &line).rest_text();
    assert!(answer.starts_with("error no-proof: "), "{answer}");
    cluster.nodes[1].start();
    cluster.append("main", &[], Content::new(2, 100_000));
    cluster.wait_whole();
    let whole = [Content::new(1, 100_000), Content::new(2, 100_000)];
    cluster.check_same("main", &whole);
    wait_healthy(&cluster);
}

#[test]
fn what_an_earlier_program_left_of_unknown_ids_is_forgotten() {
    let mut cluster = Cluster::start(3);
    cluster.nodes[0].kill();
    let path = cluster.nodes[0].data.join("peers.json");
    let before = peers_file(&cluster.nodes[0]);
    let (known, _) = before.rsplit_once('}').expect("an object");
    let nowhere = format!("{}:1", cluster.ip);
    let ghosts = (50..60).map(|id| format!(",\"{id}\":\"{nowhere}\""));
    let with_ghosts = format!("{}{}}}", known.trim_end(), ghosts.collect::<String>());
    fs::write(&path, with_ghosts).expect("it can be written");
    cluster.nodes[0].start();
    cluster.wait_whole();
    let node = &cluster.nodes[0];
    wait_for(
        || {
            let status = node.status()?;
            let nodes = status["nodes"].as_array()?.len();
            (nodes == 3 && is_healthy(node) && !peers_file(node).contains(&nowhere)).then_some(())
        },
        || {
            format!(
                "{:?} {}\n{}",
                node.status(),
                peers_file(node),
                cluster.logs()
            )
        },
    );
}

#[test]
fn too_long_a_list_of_peers_is_told_of_and_read_as_far_as_it_goes() {
    let mut cluster = Cluster::start(3);
    for node in &mut cluster.nodes {
        node.kill();
    }
    for node in &cluster.nodes {
        let before = peers_file(node);
        let (known, _) = before.rsplit_once('}').expect("an object");
        let path = node.data.join("peers.json");
        let mut file = fs::File::create(path).expect("it can be written");
        let text = known.trim_end().as_bytes();
        file.write_all(text).expect("it can be written");
        for id in 1_000..50_000 {
            let more = format!(",\n  \"{id}\": \"{}:1\"", cluster.ip);
            file.write_all(more.as_bytes()).expect("it can be written");
        }
        file.write_all(b"\n}").expect("it can be written");
    }
    for node in &mut cluster.nodes {
        node.start();
    }
    cluster.wait_whole();
    for node in &cluster.nodes {
        let said = node.said();
        assert!(said.contains("is longer than 1048576 bytes"), "{said}");
        let shorter = || (peers_file(node).len() < 1000).then_some(());
        wait_for(shorter, || peers_file(node).len().to_string());
    }
}

/// The first bytes of a frame that says it is as long as one may be.
fn long_frame(version: u8) -> Vec<u8> {
    let question = Frame::Engine {
        log: LogId(1),
        message: Message::RequestState {
            first_unchosen: Slot(0),
            streams_known: 0,
        },
    };
    let mut long = encode_control(version, &question);
    long.truncate(24);
    long[12..16].copy_from_slice(&(64_u32 << 20).to_le_bytes());
    let checksum = crc32c::crc32c(&long[..20]);
    long[20..24].copy_from_slice(&checksum.to_le_bytes());
    long
}

/// Peers of which somebody has the disks, and that are gone themselves.
#[test]
fn what_peers_begin_and_do_not_end_is_bounded_in_memory_and_in_time() {
    let mut cluster = Cluster::start(5);
    for node in &mut cluster.nodes[1..] {
        node.kill();
    }
    let before = cluster.nodes[0].memory("VmRSS");
    let mut taken = Vec::new();
    for id in 2..=5 {
        let words = Impostor::of(&cluster.nodes[id - 1].data).words();
        let who = format!("from={id} {words} address=127.0.0.1:1");
        let (mut raw, version) = greet(&cluster, 1, &who).expect("it is a peer");
        let mut long = long_frame(version);
        long.resize(63 << 20, 7);
        let _ = raw.try_send(&long);
        taken.push(raw);
    }
    let node = &cluster.nodes[0];
    let too_much = || {
        node.said()
            .contains("frames that are not whole take")
            .then_some(())
    };
    wait_for(too_much, || cluster.logs());
    let grown = node.memory("VmRSS").saturating_sub(before);
    assert!(grown < 230 << 20, "{grown} bytes: the bound is 192 MiB");
    // None of them ever goes on.
    for mut raw in taken {
        assert!(raw.rest().is_empty());
    }
    let given_back = || {
        let grown = node.memory("VmRSS").saturating_sub(before);
        (grown < 100 << 20).then_some(())
    };
    wait_for(given_back, || format!("{} {before}", node.memory("VmRSS")));
}

/// Another process has that address by now. It may even have looked up the dead node's disk.
#[test]
fn what_answers_at_a_dead_member_s_address_stops_nobody() {
    let mut cluster = Cluster::start(3);
    cluster.wait_whole();
    cluster.nodes[1].kill();
    let ghost = TcpListener::bind(&cluster.nodes[1].listen).expect("its port is free");
    let old_copy =
        |disk: &str| format!("error old-copy disk={disk}: your directory is an old copy\n");
    let manifest = Manifest::load(&mut LinuxDisk::new(), &cluster.nodes[1].data);
    let manifest = manifest.expect("it was a node").expect("it was a node");
    let answers = [
        "error removed: you are gone\n".to_owned(),
        "error old-copy: your directory is an old copy\n".to_owned(),
        old_copy(DISK),
        // The dead node's own disk is no secret.
        old_copy(&formats::hex(&manifest.identity.disk.0)),
    ];
    std::thread::spawn(move || {
        let answers = answers.iter().cycle();
        for (stream, answer) in ghost.incoming().zip(answers).take(200) {
            let mut line = [0; 1024];
            if let Ok(mut stream) = stream
                && stream.read(&mut line).is_ok_and(|count| count > 0)
            {
                let _ = stream.write_all(answer.as_bytes());
            }
        }
    });
    // Both dial it again each second, and hear each of them.
    let until = Instant::now() + Duration::from_secs(8);
    let mut seed = 10;
    while Instant::now() < until {
        cluster.append("main", &["--takeover"], Content::new(seed, 10_000));
        seed += 1;
        std::thread::sleep(Duration::from_millis(200));
    }
    for index in [0, 2] {
        let node = &mut cluster.nodes[index];
        assert!(node.is_running(), "{}", node.said());
        let status = format!("{:?}", node.status());
        assert!(!status.contains("was removed"), "{status}");
    }
}

/// Anybody may join while nobody has to prove that he may. Without a vote he speaks for no log.
#[test]
fn a_node_that_joined_without_a_vote_changes_no_log_and_speaks_for_none() {
    let mut cluster = Cluster::start_with(4, 3, |_| {});
    cluster.wait_whole();
    cluster.run_well(&["log", "create", "some", "--members", "3,4"]);
    let content = Content::new(1, 100_000);
    cluster.append("some", &[], Content::new(2, 1_000));
    cluster.append("main", &[], content);
    let join = format!("logberg/1 join address=127.0.0.1:1 disk={DISK} speaks=1-2\n");
    let said = cluster.nodes.iter().find_map(|node| {
        let answer = Raw::say(&node.listen, &join).try_line()?;
        answer.starts_with("ok ").then_some(answer)
    });
    let said = said.expect("its leader takes it");
    assert!(said.contains("\"node\":5"), "{said}");
    let past = Told {
        starts: vec![Start {
            incarnation: 1,
            nonce: 1,
        }],
        ..Told::default()
    };
    let members = [1, 2, 3].map(NodeId);
    let mut state = LogState::new(Configuration::equal(members).expect("three may be"));
    state.next = Slot(1 << 30);
    let frames = [
        Frame::Past(past),
        Frame::Wishes(vec![WishTold {
            log: LogId(2),
            number: WishNumber {
                rescues: u32::MAX,
                count: u64::MAX,
            },
            sealed: true,
        }]),
        Frame::Engine {
            log: LogId(1),
            message: Message::State(Arc::new(state)),
        },
    ];
    let mut heard = Vec::new();
    for to in 1..=4 {
        let greeted = || greet(&cluster, to, &ghost(5, "127.0.0.1:1"));
        let (mut raw, version) = wait_for(greeted, || cluster.logs());
        for frame in &frames {
            assert!(raw.try_send(&encode_control(version, frame)).is_some());
            // The memory of its disk is written before the next is heard.
            std::thread::sleep(Duration::from_millis(200));
        }
        heard.push(raw);
    }
    for index in [2, 3] {
        cluster.nodes[index].kill();
    }
    let delete = ["--timeout", "30", "log", "delete", "some", "--yes"];
    let deleted = cluster.run(&delete);
    assert_eq!(deleted.status.code(), Some(10), "{deleted:?}");
    for index in [2, 3] {
        cluster.nodes[index].start();
    }
    cluster.run_well(&delete);
    cluster.append("main", &[], Content::new(3, 100_000));
    cluster.wait_whole();
    cluster.check_same("main", &[content, Content::new(3, 100_000)]);
    let logs = cluster.logs();
    assert!(!logs.contains("contradicts"), "{logs}");
    drop(heard);
}
