//! The tools tell of the places where clients of keys are answered.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use client::{Client, Timeouts};
use resp::Value;
use serde_json::Value as Json;
use testbed::cluster::{LocalCluster, LocalOptions};
use testbed::port;

use crate::keys::{Keys, Link, NODES, keys_status, request, start};

fn text(value: &Value) -> String {
    match value {
        Value::Bulk(bytes) | Value::Verbatim(_, bytes) => {
            String::from_utf8_lossy(bytes).into_owned()
        }
        other => panic!("{other:?} is no text"),
    }
}

/// The figure of this name in INFO.
fn figure(link: &mut Link, section: &str, name: &str) -> String {
    let info = text(&link.ask(&["INFO", section]).expect("a reply"));
    let line = info.lines().find_map(|line| line.strip_prefix(name));
    let value = line.and_then(|line| line.strip_prefix(':'));
    value
        .unwrap_or_else(|| panic!("{name} is not in {info}"))
        .to_owned()
}

fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(120), "{what}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// The reply of a node that serves the key; `None`: another serves it by now.
fn served(link: &mut Link, words: &[&str]) -> Option<Value> {
    let reply = link.ask(words).expect("a reply");
    let is_elsewhere = matches!(&reply, Value::Error(error) if error.starts_with("MOVED ") || error.starts_with("CLUSTERDOWN"));
    (!is_elsewhere).then_some(reply)
}

/// Does that at the node that serves the key "a", and again if another led its group before the end.
fn at_the_leader<R>(keys: &Keys, mut tried: impl FnMut(&mut Link, &str) -> Option<R>) -> (Link, R) {
    let mut client = keys.client();
    let begun = Instant::now();
    loop {
        let mut link = client.link_for("a");
        let door = link.stream.peer_addr().expect("it is connected");
        if let Some(done) = tried(&mut link, &door.to_string()) {
            return (link, done);
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "no leader stays");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Three times, since a node hears of the map within some tenths of a second by itself.
#[test]
fn each_node_serves_its_slots_once_they_are_given_out() {
    for _ in 0..3 {
        let directory = tempfile::tempdir().expect("a directory");
        let keys = start(directory.path());
        keys.logberg(&["kv", "init"]);
        for door in &keys.doors {
            let mut link = Link::to(door).expect("it is there");
            for key in ["{1}a", "{2}a", "{3}a", "{4}a", "{5}a"] {
                let told = link.ask(&["SET", key, "1"]).expect("a reply");
                let is_served = match &told {
                    Value::Error(why) => why.starts_with("MOVED"),
                    told => *told == Value::OK,
                };
                assert!(is_served, "{key} at {door}: {told:?}");
            }
        }
    }
}

#[test]
fn a_door_counts_what_clients_did_and_how_long_they_waited() {
    let directory = tempfile::tempdir().expect("a directory");
    let keys = start(directory.path());
    keys.logberg(&["kv", "init"]);
    let addresses = keys.cluster.addresses();
    let asks = Client::new(addresses.clone(), Timeouts::default());
    let metrics_at = |at: usize| asks.metrics_of(&addresses[at]).expect("it answers")["kv"].clone();
    let of_strings = |kv: &Json| {
        let families = kv["families"].as_array().expect("families");
        let strings = families.iter().find(|family| family["family"] == "string");
        strings.expect("there are some").clone()
    };

    let (mut link, (at, door, before)) = at_the_leader(&keys, |link, door| {
        let at = keys.doors.iter().position(|known| known == door);
        let at = at.expect("it is one of them");
        assert_eq!(
            link.ask(&["CONFIG", "RESETSTAT"]).expect("a reply"),
            Value::OK
        );
        let before = metrics_at(at);
        for words in [
            &["SET", "a", "1", "PX", "300"][..],
            &["GET", "a"],
            &["GET", "a"],
        ] {
            served(link, words)?;
        }
        let wrong = served(link, &["LPUSH", "a", "1"])?;
        assert!(matches!(wrong, Value::Error(_)), "{wrong:?}");
        Some((at, door.to_owned(), before))
    });
    for words in [&["GET"][..], &["NOTHING"]] {
        link.ask(words).expect("a reply");
    }
    let commands = figure(&mut link, "commandstats", "cmdstat_get");
    assert!(commands.starts_with("calls=2,usec="), "{commands}");
    assert!(
        commands.ends_with(",rejected_calls=1,failed_calls=0"),
        "{commands}"
    );
    let failed = figure(&mut link, "commandstats", "cmdstat_lpush");
    assert!(
        failed.starts_with("calls=1,") && failed.ends_with("failed_calls=1"),
        "{failed}"
    );
    // Four on keys, what INFO was asked, and what began the counts anew.
    let commands = figure(&mut link, "stats", "total_commands_processed");
    assert_eq!(commands, "7");
    assert_ne!(figure(&mut link, "memory", "used_memory_rss"), "0");
    wait("the key expires", || {
        figure(&mut link, "stats", "expired_keys") == "1"
    });

    // Another node says where the key is.
    let other = keys.doors.iter().find(|known| **known != door);
    let mut elsewhere = Link::to(other.expect("there are three")).expect("it is there");
    let moved = elsewhere.ask(&["HGET", "a", "b"]).expect("a reply");
    assert!(
        matches!(&moved, Value::Error(words) if words.starts_with("MOVED ")),
        "{moved:?}"
    );
    let rejected = figure(&mut elsewhere, "commandstats", "cmdstat_hget");
    assert_eq!(
        rejected,
        "calls=0,usec=0,usec_per_call=0.00,rejected_calls=1,failed_calls=0"
    );

    // Its node tells the same, and goes on where INFO began anew.
    let kv = metrics_at(at);
    let more =
        |name: &str| kv[name].as_u64().expect("a count") - before[name].as_u64().expect("one");
    assert_eq!(kv["address"], door, "{kv}");
    assert_eq!(more("requests_refused"), 2, "{kv}");
    assert_eq!(more("expired_keys"), 1, "{kv}");
    assert!(more("received_bytes") > 100, "{kv}");
    let (strings, strings_before) = (of_strings(&kv), of_strings(&before));
    let of =
        |strings: &Json, what: &str, name: &str| strings[what][name].as_u64().expect("a count");
    let answered = of(&strings, "commands", "answered");
    assert_eq!(
        answered - of(&strings_before, "commands", "answered"),
        3,
        "{strings}"
    );
    // One of them was written to disks.
    let waited = of(&strings, "duration", "sum_us");
    assert!(
        waited > of(&strings_before, "duration", "sum_us"),
        "{strings}"
    );
    let clients = kv["clients"].as_u64().expect("a count");
    drop(link);
    wait("it sees that the client is gone", || {
        metrics_at(at)["clients"].as_u64() == Some(clients - 1)
    });
}

#[test]
fn slow_commands_are_told_with_their_words_and_clients() {
    let directory = tempfile::tempdir().expect("a directory");
    let keys = start(directory.path());
    keys.logberg(&["kv", "init", "--groups", "1"]);
    let long = "x".repeat(200);
    let (mut link, ()) = at_the_leader(&keys, |link, _| {
        for words in [
            &["SLOWLOG", "RESET"][..],
            &["CLIENT", "SETNAME", "somebody"],
            &["CONFIG", "SET", "slowlog-log-slower-than", "0"],
        ] {
            assert_eq!(link.ask(words).expect("a reply"), Value::OK);
        }
        assert_eq!(served(link, &["SET", "a", &long])?, Value::OK);
        served(link, &["GET", "a"])?;
        Some(())
    });
    let Value::Array(entries) = link.ask(&["SLOWLOG", "GET", "-1"]).expect("a reply") else {
        panic!("there are some")
    };
    assert_eq!(
        entries.len(),
        2,
        "what the door answers itself is not slow: {entries:?}"
    );
    let Value::Array(fields) = &entries[1] else {
        panic!("{entries:?}")
    };
    let cut = format!("{}... (72 more bytes)", "x".repeat(128));
    assert_eq!(fields[3], Value::bulks(["SET", "a", &cut]));
    let own = link
        .stream
        .local_addr()
        .expect("it is connected")
        .to_string();
    assert_eq!(
        (text(&fields[4]), text(&fields[5])),
        (own, "somebody".to_owned())
    );
    let (Value::Integer(at_s), Value::Integer(took_us)) = (&fields[1], &fields[2]) else {
        panic!("{fields:?}")
    };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.expect("it is later").as_secs() as i64;
    assert!((now - at_s).abs() < 60, "{at_s}");
    // It was written to the disks of two nodes.
    assert!((1..30_000_000).contains(took_us), "{took_us}");

    let slower = ["CONFIG", "SET", "slowlog-log-slower-than", "-1"];
    assert_eq!(link.ask(&slower).expect("a reply"), Value::OK);
    link.ask(&["GET", "a"]).expect("a reply");
    assert_eq!(
        link.ask(&["SLOWLOG", "LEN"]).expect("a reply"),
        Value::Integer(2)
    );
    assert_eq!(link.ask(&["SLOWLOG", "RESET"]).expect("a reply"), Value::OK);
    assert_eq!(
        link.ask(&["SLOWLOG", "LEN"]).expect("a reply"),
        Value::Integer(0)
    );
}

/// Three nodes, of which so many answer clients; told to be elsewhere, perhaps.
fn doors(directory: &Path, count: usize, elsewhere: Option<Vec<String>>) -> Keys {
    let ports = port::free(NODES).expect("there are ports");
    let kv_ports: Vec<u16> = ports.into_iter().take(count).collect();
    let mut cluster = LocalCluster::prepare(LocalOptions {
        program: Some(env!("CARGO_BIN_EXE_logberg").into()),
        kv_ports: kv_ports.clone(),
        ..LocalOptions::new(directory, NODES)
    })
    .expect("it is prepared");
    if let Some(places) = elsewhere {
        cluster.advertise_kv(places);
    }
    cluster.launch().expect("it starts");
    cluster
        .wait_ready(Duration::from_secs(30))
        .expect("it is ready");
    let doors = kv_ports.iter().map(|port| format!("127.0.0.1:{port}"));
    Keys {
        doors: doors.collect(),
        cluster,
    }
}

fn findings(keys: &Keys) -> Vec<(String, String)> {
    let status = keys_status(keys);
    let findings = status["findings"].as_array().expect("a list").iter();
    let word = |value: &Json| value.as_str().unwrap_or_default().to_owned();
    let told = findings.map(|finding| (word(&finding["verdict"]), word(&finding["found"])));
    told.collect()
}

#[test]
fn whoever_asks_is_told_which_nodes_answer_clients() {
    let directory = tempfile::tempdir().expect("a directory");
    let keys = doors(directory.path(), 3, None);
    // Places without groups.
    let none = findings(&keys);
    assert_eq!(none.len(), 1, "{none:?}");
    assert!(none[0].1.contains("there is no group"), "{none:?}");
    keys.logberg(&["kv", "init"]);
    wait("all is well", || {
        let told = findings(&keys);
        told.len() == 1 && told[0].0 == "ok"
    });
    let _link = Link::to(&keys.doors[1]).expect("it is there");
    wait("the client is seen", || {
        let status = keys_status(&keys);
        status["nodes"][1]["clients"].as_u64() >= Some(1)
    });
    let status = keys_status(&keys);
    for (node, door) in status["nodes"]
        .as_array()
        .expect("nodes")
        .iter()
        .zip(&keys.doors)
    {
        assert_eq!(node["kv"], **door, "{status}");
        assert_eq!(node["groups_led"], 1, "{status}");
        assert!(node["commands_per_second"].is_u64(), "{status}");
    }
    for group in status["groups"].as_array().expect("groups") {
        assert_eq!(group["whole"], serde_json::json!([1, 2, 3]), "{status}");
    }
    // Leaders moved a moment ago: it may end with 8.
    let all = keys.run(&["status"]);
    let all: Json = serde_json::from_slice(&all.stdout).expect("JSON");
    assert_eq!(all["nodes"][2]["kv"], keys.doors[2], "{all}");

    // One leads all.
    for group in ["kv-1-of-3", "kv-2-of-3", "kv-3-of-3"] {
        keys.lead(group, 2);
    }
    wait("it is told", || {
        let told = findings(&keys);
        told.iter().any(|(verdict, found)| {
            verdict == "better" && found.starts_with("node 2 leads 3 groups")
        })
    });
    let shown = directory.path().to_str().expect("plain");
    let doctor = keys.run(&["doctor", shown]);
    let doctor: Json = serde_json::from_slice(&doctor.stdout).expect("JSON");
    let checks = doctor["checks"].as_array().expect("a list").iter();
    let mut keys_checks = checks.filter(|check| check["check"] == "groups of keys");
    let check = keys_checks.next().expect("it looks at them, too");
    assert_eq!(
        check["change"].as_str().map(|change| &change[..15]),
        Some("logberg kv init")
    );
    // The remedy is one.
    keys.logberg(&["kv", "init"]);
    wait("it helps", || findings(&keys)[0].0 == "ok");
}

#[test]
fn a_leader_that_no_client_reaches_is_found_by_the_doctor() {
    let directory = tempfile::tempdir().expect("a directory");
    let keys = doors(directory.path(), 2, None);
    let groups = keys.logberg(&["kv", "init", "--groups", "1"]);
    let leader = groups[0]["leader"].as_u64().expect("it is led");
    assert!(leader < 3, "who answers no client is not chosen: {groups}");
    keys.lead("kv-1-of-1", 3);
    let begun = Instant::now();
    loop {
        let told = findings(&keys);
        let is_it = |(verdict, found): &(String, String)| {
            verdict == "must" && found.starts_with("node 3 leads kv-1-of-1 and does not answer")
        };
        if told.iter().any(is_it) {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{told:?}");
        thread::sleep(Duration::from_millis(100));
    }
    // Whoever looks at all nodes is told, too.
    wait("the node itself says it", || {
        let status = keys.run(&["status"]).stdout;
        let status: Json = serde_json::from_slice(&status).expect("JSON");
        let warnings = status["health"]["warnings"].as_array().cloned();
        let mut warnings = warnings.into_iter().flatten();
        warnings.any(|warning| warning["code"] == "machine-missing" && warning["active"] == true)
    });
    let shown = directory.path().to_str().expect("plain");
    assert_eq!(keys.run(&["doctor", shown]).status.code(), Some(1));
    keys.lead("kv-1-of-1", 1);
    let told = findings(&keys);
    assert!(
        !told.iter().any(|(verdict, _)| verdict == "must"),
        "{told:?}"
    );
    // The third keeps no state.
    let words = "node 3 does not have the whole state of kv-1-of-1: 2 of 3 have";
    wait("it is told", || {
        findings(&keys).iter().any(|(_, found)| found == words)
    });
}

#[test]
fn places_where_clients_are_told_to_go_in_vain_are_found() {
    let directory = tempfile::tempdir().expect("a directory");
    // Nobody is at the first, a name is at none, and the second is told to be where the third is.
    let dead = port::free(1).expect("a port")[0];
    let ports = port::free(NODES).expect("there are ports");
    let mut cluster = LocalCluster::prepare(LocalOptions {
        program: Some(env!("CARGO_BIN_EXE_logberg").into()),
        kv_ports: ports.clone(),
        ..LocalOptions::new(directory.path(), NODES)
    })
    .expect("it is prepared");
    let third = format!("127.0.0.1:{}", ports[2]);
    cluster.advertise_kv(vec![format!("127.0.0.1:{dead}"), third.clone(), third]);
    cluster.launch().expect("it starts");
    cluster
        .wait_ready(Duration::from_secs(30))
        .expect("it is ready");
    let keys = Keys {
        doors: Vec::new(),
        cluster,
    };
    keys.logberg(&["kv", "init"]);
    for words in ["node 1 is not reached at", "node 3 answers at"] {
        wait(words, || {
            let told = findings(&keys);
            told.iter()
                .any(|(verdict, found)| verdict == "must" && found.starts_with(words))
        });
    }
}

/// Asks each node to fill the group, and says this to the one that leads it. The last answer there, or those of all.
fn fill(keys: &Keys, words: &str) -> String {
    let backup = "ab".repeat(32);
    let mut others = String::new();
    for address in keys.cluster.addresses() {
        let mut stream = TcpStream::connect(&address).expect("it is there");
        let patience = Some(Duration::from_secs(20));
        stream.set_read_timeout(patience).expect("a patience");
        let line = format!("logberg/1 fill kv-1-of-1 backup={backup} time=0 sessions=1\n");
        stream.write_all(line.as_bytes()).expect("it hears");
        let mut answers = BufReader::new(stream.try_clone().expect("another")).lines();
        let answer = answers.next().expect("an answer").expect("a line");
        if !answer.starts_with("ack ") {
            others += &format!("{address}: {answer}\n");
            continue;
        }
        if words.is_empty() {
            return answer;
        }
        stream.write_all(words.as_bytes()).expect("it hears");
        return answers.next().expect("an answer").expect("a line");
    }
    others
}

#[test]
fn a_restore_that_has_not_ended_is_told_of() {
    let directory = tempfile::tempdir().expect("a directory");
    let keys = start(directory.path());
    keys.logberg(&["kv", "init", "--groups", "1"]);
    wait("all is well", || {
        findings(&keys).iter().all(|(verdict, _)| verdict == "ok")
    });
    assert_eq!(fill(&keys, ""), "ack 0");
    wait("its leader says why it serves nothing", || {
        findings(&keys).iter().any(|(verdict, found)| {
            verdict == "must"
                && found.contains("leads kv-1-of-1 and serves nothing of it")
                && found.contains("a restore of this machine was begun and has not ended")
        })
    });
    let ended = fill(&keys, "data 0 0 00000000\n");
    assert!(ended.starts_with("ok "), "{ended}");
    wait("it serves", || {
        findings(&keys).iter().all(|(verdict, _)| verdict == "ok")
    });
}

#[test]
fn reading_goes_on_where_disks_are_full() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut keys = start(directory.path());
    keys.logberg(&["kv", "init", "--groups", "1"]);
    let mut client = keys.client();
    assert_eq!(client.told(&["SET", "a", "1"]), Value::OK);
    let reserve = ["--disk-reserve", "1000TiB"].map(str::to_owned);
    keys.cluster.give_arguments(reserve.to_vec());
    keys.begin_anew();
    wait("who writes is refused", || {
        let (_, reply) = at_the_leader(&keys, |link, _| link.ask(&["SET", "a", "2"]).ok());
        matches!(&reply, Value::Error(why) if why.starts_with("CLUSTERDOWN") && why.contains("reserve"))
    });
    for _ in 0..10 {
        assert_eq!(keys.client().told(&["GET", "a"]), Value::bulk("1"));
    }
    wait("it is told", || {
        findings(&keys).iter().any(|(verdict, found)| {
            verdict == "must" && found.contains("disk") && found.contains("writes are refused")
        })
    });
}

#[test]
fn a_transaction_is_bounded_as_a_command_is() {
    let directory = tempfile::tempdir().expect("a directory");
    let keys = start(directory.path());
    keys.logberg(&["kv", "init", "--groups", "1"]);
    let mut client = keys.client();
    let large = "x".repeat(5 << 20);
    for _ in 0..6 {
        client.told(&["APPEND", "a", &large]);
    }
    let replies = |link: &mut Link| {
        assert_eq!(link.ask(&["MULTI"]).expect("a reply"), Value::OK);
        for _ in 0..20 {
            link.ask(&["GET", "a"]).expect("a reply");
        }
        match link.ask(&["EXEC"]).expect("a reply") {
            Value::Array(replies) => Some(replies),
            _ => None,
        }
    };
    let (mut link, replies) = at_the_leader(&keys, |link, _| replies(link));
    let is_there = |reply: &&Value| matches!(reply, Value::Bulk(bytes) if bytes.len() == 30 << 20);
    let is_refused =
        |reply: &Value| matches!(reply, Value::Error(why) if why.contains("read more than 16 MiB"));
    assert_eq!(replies.iter().filter(is_there).count(), 1);
    assert!(replies[1..].iter().all(is_refused));

    // A command that is too large to be queued is kept nowhere, and the connection goes on.
    assert_eq!(link.ask(&["MULTI"]).expect("a reply"), Value::OK);
    for at in 0..20 {
        let queued = link.ask(&["SET", "b", &large]).expect("a reply");
        assert_eq!(
            queued == Value::Simple("QUEUED".into()),
            at == 0,
            "{queued:?}"
        );
    }
    let held: u64 = figure(&mut client.link_for("a"), "memory", "mem_clients_normal")
        .parse()
        .expect("a number");
    assert!(held < 1 << 20, "{held}");
    let refused = link.ask(&["EXEC"]).expect("a reply");
    assert!(
        matches!(&refused, Value::Error(why) if why.starts_with("EXECABORT")),
        "{refused:?}"
    );
    assert_eq!(
        link.ask(&["EXISTS", "b"]).expect("a reply"),
        Value::Integer(0)
    );

    // Replies come again behind a RESET.
    link.stream
        .write_all(&request(&["CLIENT", "REPLY", "OFF"]))
        .expect("it is sent");
    assert_eq!(
        link.ask(&["RESET"]).expect("a reply"),
        Value::Simple("RESET".into())
    );
    // A reply has the protocol in which it was asked for.
    let pipeline = [request(&["RANDOMKEY"]), request(&["HELLO", "3"])].concat();
    client.told(&["DEL", "a"]);
    link.stream.write_all(&pipeline).expect("it is sent");
    let mut first = [0; 5];
    std::io::Read::read_exact(&mut link.stream, &mut first).expect("a reply");
    assert_eq!(&first, b"$-1\r\n");
}

/// Monitoring of Redis Cluster looks at this line.
#[test]
fn a_node_that_hears_no_quorum_says_that_the_cluster_fails() {
    let directory = tempfile::tempdir().expect("a directory");
    let keys = start(directory.path());
    keys.logberg(&["kv", "init"]);
    let state = || {
        let mut link = Link::to(&keys.doors[0]).expect("it listens");
        match link.ask(&["CLUSTER", "INFO"]).expect("a reply") {
            Value::Bulk(text) => String::from_utf8_lossy(&text).into_owned(),
            other => panic!("{other:?}"),
        }
    };
    let is = |state: &str, word: &str| state.contains(&format!("cluster_state:{word}"));
    wait("it is well", || is(&state(), "ok"));
    for node in [2, 3] {
        keys.cluster.kill(node).expect("it dies");
    }
    wait("nobody leads", || is(&state(), "fail"));
    for node in [2, 3] {
        keys.cluster.restart(node).expect("it starts");
    }
    wait("it is well again", || is(&state(), "ok"));
}
