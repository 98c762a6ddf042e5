//! A node answers or closes any bytes that come over the wire, lives on and serves the others.

use formats::frame::encode_control;
use formats::past::{End, Told};
use formats::{Frame, Speaks};
use harness::impostor::Impostor;
use harness::{Cluster, Content, Raw, ask, wait_for};
use paxos::{Era, PromisedTerm, Slot, Term};

use crate::harness;

/// Random numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }
}

/// It is the process it was, and takes and gives bytes.
fn check_serves(cluster: &mut Cluster, seed: u64, before: &mut Vec<Content>) {
    for node in &mut cluster.nodes {
        assert!(
            node.is_running(),
            "node {} is gone\n{}",
            node.id,
            node.said()
        );
    }
    let content = Content::new(seed, 100_000);
    cluster.append("main", &[], content);
    before.push(content);
    cluster.wait_whole();
    cluster.check_same("main", before);
    assert!(!cluster.logs().contains("panicked"), "{}", cluster.logs());
}

/// The keys of a peer's first line, as node 3 of this cluster would say them to node 1.
fn peer_line(cluster: &Cluster) -> String {
    let status = ask(&cluster.nodes[0].listen, "status").expect("an answer");
    let uuid = status["cluster"].as_str().expect("text").to_owned();
    let disk = "00112233445566778899aabbccddeeff";
    let speaks = Speaks::THIS;
    format!(
        "logberg/1 peer kind=control log=0 cluster={uuid} from=3 to=1 disk={disk} incarnation=1 \
         nonce=1 address=127.0.0.1:1 speaks={speaks}"
    )
}

#[test]
fn a_line_that_is_no_request_gets_one_error_line() {
    let mut cluster = Cluster::start(1);
    let address = cluster.nodes[0].listen.clone();
    let long = format!("logberg/1 append main label={}", "x".repeat(9000));
    let label = format!("logberg/1 append main label={}", "x".repeat(257));
    let verb = format!("logberg/1 {}", "\u{1}".repeat(8000));
    let cases: Vec<(&[u8], &str)> = vec![
        (b"GET / HTTP/1.1\r\n", "error bad-request: "),
        (b"\n", "error bad-request: "),
        (b"\r\n\r\n", "error bad-request: "),
        (b"logberg/1\n", "error bad-request: "),
        (b"logberg/1 \n", "error bad-request: "),
        (b"logberg/2 status\n", "error version speaks=1: "),
        (b"logberg/0 append main\n", "error version speaks=1: "),
        (b"logberg/1 dance\n", "error bad-request: "),
        (b"logberg/1 STATUS\n", "error bad-request: "),
        (b"logberg/1 status now\n", "error bad-request: "),
        (b"logberg/1 status now=1\n", "error bad-request: "),
        (b"logberg/1 append\n", "error bad-request: "),
        (b"logberg/1 append main more\n", "error bad-request: "),
        (b"logberg/1 append main mode=later\n", "error bad-request: "),
        (b"logberg/1 append main end=never\n", "error bad-request: "),
        (
            b"logberg/1 append main continues=1.1.1\n",
            "error bad-request: ",
        ),
        (
            b"logberg/1 append main continues=1.1@0\n",
            "error bad-request: ",
        ),
        (
            b"logberg/1 append main continues=1.1.1@-1\n",
            "error bad-request: ",
        ),
        (b"logberg/1 append main label=%zz\n", "error bad-request: "),
        (b"logberg/1 append main label=%f\n", "error bad-request: "),
        (b"logberg/1 append main label=%ff\n", "error bad-request: "),
        (
            b"logberg/1 append main label=a\xffb\n",
            "error bad-request: ",
        ),
        (label.as_bytes(), "error bad-request: "),
        (b"logberg/1 append other\n", "error unknown-log: "),
        (b"logberg/1 append directory\n", "error bad-request: "),
        (b"logberg/1 read main from=x\n", "error bad-request: "),
        (
            b"logberg/1 read main from=18446744073709551616\n",
            "error bad-request: ",
        ),
        (b"logberg/1 read main from=2 to=1\n", "error bad-request: "),
        (b"logberg/1 read main follow=yes\n", "error bad-request: "),
        (b"logberg/1 read main format=xml\n", "error bad-request: "),
        (b"logberg/1 read main stream=1\n", "error bad-request: "),
        (
            b"logberg/1 read main stream=9.9.9\n",
            "error unknown-stream: ",
        ),
        (b"logberg/1 read main from=1\n", "error past-end length=0: "),
        (b"logberg/1 read\n", "error bad-request: "),
        (b"logberg/1 close main\n", "error bad-request: "),
        (
            b"logberg/1 close main stream=9.9.9\n",
            "error bad-request: ",
        ),
        (
            b"logberg/1 close main stream=9.9.9 at=0\n",
            "error unknown-stream: ",
        ),
        (b"logberg/1 streams nowhere\n", "error unknown-log: "),
        (b"logberg/1 create-log\n", "error bad-request: "),
        (b"logberg/1 create-log a/b\n", "error bad-request: "),
        (b"logberg/1 create-log ..\n", "error bad-request: "),
        (b"logberg/1 create-log main\n", "error exists: "),
        (
            b"logberg/1 join address=1.2.3.4:5 disk=xyz\n",
            "error bad-request: ",
        ),
        (
            b"logberg/1 join address=nowhere disk=00112233445566778899aabbccddeeff\n",
            "error bad-request: ",
        ),
        (b"logberg/1 peer\n", "error bad-request: "),
        (b"status", "error bad-request: "),
        (b"\xff\xfe\x00\x00\n", "error bad-request: "),
        (long.as_bytes(), "error bad-request: "),
        (verb.as_bytes(), "error bad-request: "),
    ];
    for (sent, expected) in cases {
        let mut raw = Raw::connect(&address);
        raw.send(sent);
        raw.half_close();
        let rest = raw.rest_text();
        let shown = String::from_utf8_lossy(&sent[..sent.len().min(80)]).into_owned();
        assert!(rest.starts_with(expected), "{shown}: {rest}");
        assert_eq!(rest.matches('\n').count(), 1, "{shown}: {rest}");
        assert!(
            rest.len() <= 8192 && rest.ends_with('\n'),
            "{shown}: {rest}"
        );
    }
    check_serves(&mut cluster, 1, &mut Vec::new());
}

#[test]
fn nobody_closes_the_directory_s_own_stream() {
    let mut cluster = Cluster::start(1);
    let address = cluster.nodes[0].listen.clone();
    let streams = ask(&address, "streams directory").expect("an answer");
    let stream = streams.as_array().and_then(|all| all.last());
    let stream = stream.expect("the directory has commands");
    assert_eq!(stream["end"], "open", "{streams}");
    let line = format!(
        "logberg/1 close directory stream={} at={}\n",
        stream["name"].as_str().expect("text"),
        stream["length"]
    );
    let mut raw = Raw::say(&address, &line);
    let answer = raw.rest_text();
    assert!(answer.starts_with("error bad-request: log 0"), "{answer}");
    let after = ask(&address, "streams directory").expect("an answer");
    let ends = |streams: &serde_json::Value| {
        let all = streams.as_array().expect("an array").iter();
        all.map(|stream| stream["end"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(ends(&after), ends(&streams));
    check_serves(&mut cluster, 1, &mut Vec::new());
}

#[test]
fn a_request_line_may_come_in_pieces() {
    let cluster = Cluster::start(1);
    let mut raw = Raw::connect(&cluster.nodes[0].listen);
    for byte in b"logberg/1 status\r\n" {
        raw.send(&[*byte]);
    }
    assert!(raw.rest_text().starts_with("ok {"));
}

#[test]
fn random_bytes_disturb_nobody() {
    let mut cluster = Cluster::start(3);
    let mut contents = Vec::new();
    check_serves(&mut cluster, 1, &mut contents);
    let mut random = Random(0x1096_be26);
    let beginnings: [&[u8]; 8] = [
        b"",
        b"logberg/1 ",
        b"logberg/1 append main ",
        b"logberg/1 read main ",
        b"logberg/1 read main\n",
        b"logberg/1 peer kind=control ",
        b"logberg/1 close main stream=1.1.1 at=0\n",
        b"LOGB",
    ];
    for round in 0..400 {
        let address = &cluster.nodes[round % 3].listen;
        let mut raw = Raw::connect(address);
        let count = [3, 100, 5000, 20_000][random.below(4)];
        let bytes = random.bytes(count);
        // It may have closed already.
        let _ = raw.try_send(beginnings[random.below(8)]);
        let _ = raw.try_send(&bytes);
        match random.below(3) {
            0 => raw.reset(),
            1 => drop(raw),
            _ => {
                let _ = raw.stream.shutdown(std::net::Shutdown::Write);
                raw.rest();
            }
        }
    }
    check_serves(&mut cluster, 2, &mut contents);
}

#[test]
fn a_peer_must_be_of_this_cluster_and_know_whom_it_calls() {
    let mut cluster = Cluster::start(2);
    let address = cluster.nodes[0].listen.clone();
    let line = peer_line(&cluster);
    let other = "cluster=00112233-4455-4677-8899-aabbccddeeff";
    let own = line
        .split(' ')
        .find(|word| word.starts_with("cluster="))
        .expect("there")
        .to_owned();
    let cases = [
        (
            line.replace("logberg/1", "logberg/2"),
            "error version speaks=1: ",
        ),
        (line.replace(&own, other), "is of cluster"),
        (line.replace("to=1", "to=2"), "not node 2"),
        (line.replace("from=3", "from=1"), "another node's id"),
        (line.replace("from=3", "from=0"), "another node's id"),
        (line.replace("from=3", "from=2"), "had another disk"),
        (line.replace("from=3", "from=x"), "no value for from"),
        (line.replace("disk=0", "disk=z"), "32 hex digits"),
        (line.replace(" nonce=1", ""), "lacks nonce"),
        (line.replace("kind=control", "kind=gossip"), "unknown kind"),
        (
            line.replace("kind=control log=0", "kind=data log=1"),
            "error unknown-node",
        ),
        (
            line.replace(
                "address=127.0.0.1:1",
                &format!("address={}:1", "x".repeat(300)),
            ),
            "at most 300 bytes",
        ),
    ];
    for (line, expected) in cases {
        let mut raw = Raw::say(&address, &format!("{line}\n"));
        raw.half_close();
        let answer = raw.rest_text();
        assert!(
            answer.starts_with("error ") && answer.contains(expected),
            "{line}: {answer}"
        );
        assert_eq!(answer.matches('\n').count(), 1, "{answer}");
    }
    check_serves(&mut cluster, 1, &mut Vec::new());
}

#[test]
fn frames_of_a_peer_that_make_no_sense_end_its_connection_only() {
    let mut cluster = Cluster::start(3);
    let address = cluster.nodes[0].listen.clone();
    let stranger = peer_line(&cluster).replace("from=3", "from=9");
    // Node 3 is gone for good, and somebody has its disk.
    let mut third = cluster.nodes.pop().expect("there are three");
    third.kill();
    cluster.voters = 2;
    let impostor = Impostor::of(&third.data);
    let starts = impostor.starts(&third.data);
    let third = peer_line(&cluster).replace(
        "disk=00112233445566778899aabbccddeeff incarnation=1 nonce=1",
        &impostor.words(),
    );
    let end = End {
        promised: PromisedTerm(Term {
            era: Era(1 << 20),
            ..Term::default()
        }),
        accepted_up_to: Slot(1 << 40),
    };
    let past = |answer: &str| {
        let logs = impostor.manifest.logs.iter();
        let told = Told {
            starts: starts.clone(),
            ends: logs.map(|log| (log.id, end)).collect(),
            answer: impostor.answer(answer, 1),
            ..Told::default()
        };
        encode_control(Speaks::THIS.newest(), &Frame::Past(told))
    };
    let mut random = Random(0xf4a3e5);
    let mut contents = Vec::new();
    for round in 0..60 {
        let (line, kind) = [
            (&third, "kind=control log=0"),
            (&third, "kind=data log=1"),
            (&third, "kind=data log=0"),
            (&stranger, "kind=control log=0"),
        ][round % 4];
        let line = line.replace("kind=control log=0", kind);
        // Data is taken of a start that was heard on a control connection, with all that its disk had.
        let mut control = kind.starts_with("kind=data").then(|| {
            let mut raw = Raw::say(&address, &format!("{third}\n"));
            let answer = raw.line();
            assert!(answer.starts_with("ok version="), "{answer}");
            raw.send(&past(&answer));
            raw
        });
        let (mut raw, answer) = wait_for(
            || {
                let mut raw = Raw::say(&address, &format!("{line}\n"));
                let answer = raw.line();
                (!answer.starts_with("error busy")).then_some((raw, answer))
            },
            || format!("it is put off for ever: {line}"),
        );
        assert!(answer.starts_with("ok version="), "{answer}");
        let count = [1, 40, 4096, 100_000][random.below(4)];
        let mut bytes = random.bytes(count);
        if round % 2 == 0 {
            // A large length in the place where one may be.
            let end = bytes.len().min(24);
            bytes[..end].fill(0xff);
        }
        let _ = raw.try_send(&bytes);
        let _ = raw.stream.shutdown(std::net::Shutdown::Write);
        raw.rest();
        drop(control.take());
        if round % 20 == 19 {
            check_serves(&mut cluster, round as u64, &mut contents);
        }
    }
}

#[test]
fn who_says_nothing_is_told_so_in_the_end() {
    let mut cluster = Cluster::start(1);
    let mut silent = Raw::connect(&cluster.nodes[0].listen);
    let mut half = Raw::connect(&cluster.nodes[0].listen);
    half.send(b"logberg/1 stat");
    check_serves(&mut cluster, 1, &mut Vec::new());
    for raw in [&mut silent, &mut half] {
        let line = raw.rest_text();
        assert!(
            line.starts_with("error too-late: no request line came in time"),
            "{line}"
        );
    }
}

#[test]
fn a_crowd_of_silent_connections_keeps_nobody_out() {
    let mut cluster = Cluster::start(1);
    let address = cluster.nodes[0].listen.clone();
    let crowd: Vec<Raw> = (0..300).map(|_| Raw::connect(&address)).collect();
    check_serves(&mut cluster, 1, &mut Vec::new());
    drop(crowd);
    let files = || {
        std::fs::read_dir(format!("/proc/{}/fd", cluster.nodes[0].pid()))
            .expect("it lives")
            .count()
    };
    wait_for(
        || (files() < 100).then_some(()),
        || format!("{} files are still open", files()),
    );
}
