//! Clients of Redis Cluster, nodes that die, and what was answered.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use resp::{Decoder, Value};
use testbed::cluster::{LocalCluster, LocalOptions};
use testbed::port;

use crate::harness::lead_with;

pub const NODES: u32 = 3;

pub struct Keys {
    pub cluster: LocalCluster,
    pub doors: Vec<String>,
}

pub fn start(directory: &Path) -> Keys {
    let kv_ports = port::free(NODES).expect("there are ports");
    let cluster = LocalCluster::start(LocalOptions {
        program: Some(env!("CARGO_BIN_EXE_logberg").into()),
        kv_ports: kv_ports.clone(),
        ..LocalOptions::new(directory, NODES)
    });
    let cluster = cluster.expect("it starts");
    cluster
        .wait_ready(Duration::from_secs(30))
        .expect("it is ready");
    let doors = kv_ports.iter().map(|port| format!("127.0.0.1:{port}"));
    Keys {
        doors: doors.collect(),
        cluster,
    }
}

impl Keys {
    pub fn run(&self, arguments: &[&str]) -> Output {
        let servers = self.cluster.addresses().join(",");
        let mut command = Command::new(env!("CARGO_BIN_EXE_logberg"));
        command
            .args(arguments)
            .args(["--json", "--server", &servers]);
        command.output().expect("it runs")
    }

    /// Lets that node lead a group, whoever leads it now.
    pub fn lead(&self, group: &str, id: u64) {
        lead_with(|words| self.run(words), group, id);
    }

    pub fn logberg(&self, arguments: &[&str]) -> serde_json::Value {
        let output = self.run(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    /// All nodes die at once, and come back.
    pub fn begin_anew(&self) {
        self.cluster.kill_all().expect("all die");
        for node in 1..=NODES {
            self.cluster.restart(node).expect("it starts");
        }
        self.cluster
            .wait_ready(Duration::from_secs(30))
            .expect("it is ready");
    }

    pub fn client(&self) -> Client {
        Client::of(self.doors.clone())
    }
}

/// A connection.
pub struct Link {
    pub stream: TcpStream,
    decoder: Decoder,
    received: Vec<u8>,
}

pub fn request(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n{word}\r\n", word.len()).into_bytes());
    }
    bytes
}

impl Link {
    pub fn to(door: &str) -> io::Result<Link> {
        let stream = TcpStream::connect(door)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        stream.set_nodelay(true)?;
        Ok(Link {
            stream,
            decoder: Decoder::new(64 << 20),
            received: Vec::new(),
        })
    }

    pub fn read(&mut self) -> io::Result<Value> {
        loop {
            let next = self.decoder.next(&self.received);
            if let Some((value, length)) =
                next.map_err(|error| io::Error::other(format!("{error:?}")))?
            {
                self.received.drain(..length);
                return Ok(value);
            }
            let mut buffer = [0; 65_536];
            match self.stream.read(&mut buffer)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => self.received.extend_from_slice(&buffer[..count]),
            }
        }
    }

    pub fn ask(&mut self, words: &[&str]) -> io::Result<Value> {
        self.stream.write_all(&request(words))?;
        self.read()
    }
}

/// A client that follows redirects, as those of Redis Cluster do. It does nothing twice.
pub struct Client {
    doors: Vec<String>,
    links: BTreeMap<String, Link>,
    /// The door that is asked first.
    at: usize,
}

#[derive(Debug)]
pub enum Came {
    Value(Value),
    /// It may have been done.
    Unknown,
}

impl Client {
    pub fn of(doors: Vec<String>) -> Client {
        Client {
            doors,
            links: BTreeMap::new(),
            at: 0,
        }
    }

    pub fn ask(&mut self, words: &[&str]) -> Came {
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut door = self.doors[self.at].clone();
        while Instant::now() < deadline {
            let link = match self.links.remove(&door) {
                Some(link) => Ok(link),
                None => Link::to(&door),
            };
            let Ok(mut link) = link else {
                self.at = (self.at + 1) % self.doors.len();
                door = self.doors[self.at].clone();
                thread::sleep(Duration::from_millis(20));
                continue;
            };
            let Ok(value) = link.ask(words) else {
                return Came::Unknown;
            };
            self.links.insert(door.clone(), link);
            match &value {
                Value::Error(error) if error.starts_with("MOVED ") => {
                    door = error.rsplit(' ').next().unwrap_or_default().to_owned();
                }
                Value::Error(error) if error.starts_with("CLUSTERDOWN") => {
                    thread::sleep(Duration::from_millis(20));
                }
                _ => return Came::Value(value),
            }
        }
        panic!("{words:?} has no answer");
    }

    pub fn told(&mut self, words: &[&str]) -> Value {
        loop {
            if let Came::Value(value) = self.ask(words) {
                return value;
            }
        }
    }

    /// The answers of all nodes.
    pub fn each(&mut self, words: &[&str]) -> Vec<Value> {
        let doors = self.doors.iter();
        let told = doors.map(|door| Link::to(door).and_then(|mut link| link.ask(words)));
        told.map(|value| value.expect("a reply")).collect()
    }

    /// A connection to the leader of that key's group; a group that has none just now gets one soon.
    pub fn link_for(&mut self, key: &str) -> Link {
        let slot = i64::from(kv::slot_of(key.as_bytes()));
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(30) {
            let slots = self.told(&["CLUSTER", "SLOTS"]);
            let Value::Array(ranges) = slots else {
                panic!("{slots:?}")
            };
            let door = ranges.iter().find_map(|range| leader_of(range, slot));
            if let Some(link) = door.and_then(|door| Link::to(&door).ok()) {
                return link;
            }
            thread::sleep(Duration::from_millis(20));
        }
        panic!("nobody serves {key}")
    }
}

/// The door of the node that leads the group, if this entry of CLUSTER SLOTS has the slot.
fn leader_of(range: &Value, slot: i64) -> Option<String> {
    let Value::Array(range) = range else {
        return None;
    };
    let [
        Value::Integer(first),
        Value::Integer(last),
        Value::Array(node),
        ..,
    ] = &range[..]
    else {
        panic!("{range:?}")
    };
    let [Value::Bulk(host), Value::Integer(port), ..] = &node[..] else {
        panic!("{node:?}")
    };
    let is_there = (*first..=*last).contains(&slot);
    is_there.then(|| format!("{}:{port}", String::from_utf8_lossy(host)))
}

fn text(value: &str) -> Value {
    Value::bulk(value)
}

#[test]
fn what_clients_of_keys_were_answered_outlives_their_leaders() {
    let directory = tempfile::tempdir().expect("a directory");
    let keys = start(directory.path());
    let groups = keys.logberg(&["kv", "init"]);
    let leaders = groups.as_array().expect("groups").iter();
    let leaders: Vec<u64> = leaders
        .filter_map(|group| group["leader"].as_u64())
        .collect();
    assert_eq!(leaders.len(), 3, "{groups}");
    assert_eq!(
        keys.logberg(&["kv", "init"]).as_array().map(Vec::len),
        Some(3)
    );

    // Five counters in different slots, while each node is killed in turn.
    let names = ["a", "b", "c", "d", "e"];
    let mut client = keys.client();
    let (mut done, mut unknown) = ([0u32; 5], [0u32; 5]);
    for round in 0..NODES {
        let victim = round + 1;
        for step in 0..150 {
            if step == 50 {
                keys.cluster.kill(victim).expect("it dies");
            }
            let at = step % names.len();
            match client.ask(&["INCR", names[at]]) {
                Came::Value(Value::Integer(count)) => {
                    done[at] += 1;
                    let most = i64::from(done[at] + unknown[at]);
                    assert!((i64::from(done[at])..=most).contains(&count), "{count}");
                }
                Came::Value(other) => panic!("{other:?}"),
                Came::Unknown => unknown[at] += 1,
            }
        }
        keys.cluster.restart(victim).expect("it starts");
        keys.cluster
            .wait_ready(Duration::from_secs(30))
            .expect("it is ready");
    }
    keys.begin_anew();
    for (at, name) in names.iter().enumerate() {
        let Value::Bulk(count) = client.told(&["GET", name]) else {
            panic!("{name} is gone")
        };
        let count: u32 = String::from_utf8_lossy(&count).parse().expect("a number");
        let range = done[at]..=done[at] + unknown[at];
        assert!(
            range.contains(&count),
            "{name} is {count}, and {range:?} was answered"
        );
    }
}

/// Sends a command until it is answered: in a session it is done once all the same.
pub fn insist(client: &mut Client, words: &[&str]) -> Value {
    for _ in 0..20 {
        if let Came::Value(value) = client.ask(words) {
            return value;
        }
    }
    panic!("{words:?} has no answer")
}

#[test]
fn what_a_session_sends_again_is_done_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let keys = start(directory.path());
    keys.logberg(&["kv", "init"]);
    let mut client = keys.client();
    let names = ["a", "b", "c"];
    let sessions = names.map(|name| match insist(&mut client, &["ONCE.OPEN", name]) {
        Value::Integer(session) => session.to_string(),
        other => panic!("{other:?}"),
    });
    let add = |client: &mut Client, at: usize, step: i64| {
        let (name, sequence) = (names[at], step.to_string());
        let words = ["ONCE", name, &sessions[at], &sequence, "INCR", name];
        assert_eq!(insist(client, &words), Value::Integer(step), "{words:?}");
    };
    let mut step = 0;
    for victim in 1..=NODES {
        for round in 0..40 {
            step += 1;
            for at in 0..names.len() {
                if (round, at) == (15, 1) {
                    keys.cluster.kill(victim).expect("it dies");
                }
                add(&mut client, at, step);
                if round % 10 == 0 {
                    add(&mut client, at, step);
                }
            }
        }
        keys.cluster.restart(victim).expect("it starts");
        keys.cluster
            .wait_ready(Duration::from_secs(30))
            .expect("it is ready");
    }
    keys.begin_anew();
    for (at, name) in names.iter().enumerate() {
        add(&mut client, at, step);
        let late = ["ONCE", name, &sessions[at], "1", "INCR", name];
        let late = insist(&mut client, &late);
        assert!(
            matches!(&late, Value::Error(why) if why.starts_with("SUPERSEDED ")),
            "{late:?}"
        );
        assert_eq!(client.told(&["GET", name]), text(&step.to_string()));
    }
}

#[test]
fn a_connections_commands_take_effect_in_their_order() {
    let directory = tempfile::tempdir().expect("a directory");
    let keys = start(directory.path());
    keys.logberg(&["kv", "init", "--groups", "2"]);
    // A group that is made by hand has no slots before it joins: two that serve one slot would each have a part of its keys.
    keys.logberg(&["log", "create", "kv-1-of-1", "--kind", "kv"]);
    let map = keys.logberg(&["kv", "map"]);
    let joined = |name: &str| {
        let groups = map["groups"].as_array().expect("groups");
        let group = groups.iter().find(|group| group["name"] == name);
        group.expect("it is there")["joined"].clone()
    };
    assert_eq!(
        (joined("kv-1-of-1"), joined("kv-1-of-2")),
        (false.into(), true.into())
    );
    keys.logberg(&["log", "delete", "kv-1-of-1", "--yes"]);
    // No log of bytes is called like one.
    let of_bytes = keys.run(&["log", "create", "kv-9-of-9"]);
    let said = String::from_utf8_lossy(&of_bytes.stderr);
    assert!(
        !of_bytes.status.success() && said.contains("logberg kv init"),
        "{said}"
    );
    let mut client = keys.client();
    assert_eq!(client.told(&["SET", "{x}first", "1"]), Value::OK);

    let mut link = client.link_for("{x}");
    let mut pipeline = Vec::new();
    for number in 0..500 {
        let number = number.to_string();
        pipeline.extend(request(&["RPUSH", "{x}list", &number]));
        pipeline.extend(request(&["LINDEX", "{x}list", "-1"]));
    }
    pipeline.extend(request(&["PING"]));
    link.stream.write_all(&pipeline).expect("it is sent");
    for number in 0..500 {
        assert_eq!(link.read().expect("a reply"), Value::Integer(number + 1));
        assert_eq!(link.read().expect("a reply"), text(&number.to_string()));
    }
    assert_eq!(link.read().expect("a reply"), Value::Simple("PONG".into()));

    // A transaction fails if what it watches was changed meanwhile, and only then.
    let mut other = client.link_for("{x}");
    for (changes, expected) in [
        (false, Value::Array(vec![Value::OK, Value::Integer(2)])),
        (true, Value::NullArray),
    ] {
        link.ask(&["SET", "{x}n", "1"]).expect("a reply");
        assert_eq!(link.ask(&["WATCH", "{x}n"]).expect("a reply"), Value::OK);
        if changes {
            other.ask(&["APPEND", "{x}n", "5"]).expect("a reply");
        }
        assert_eq!(link.ask(&["MULTI"]).expect("a reply"), Value::OK);
        for words in [&["SET", "{x}m", "1"][..], &["INCR", "{x}n"]] {
            let queued = link.ask(words).expect("a reply");
            assert_eq!(queued, Value::Simple("QUEUED".into()));
        }
        assert_eq!(link.ask(&["EXEC"]).expect("a reply"), expected);
    }

    // Watched keys are looked at also where no command has a key, or one has another slot's.
    link.ask(&["SET", "{x}n", "1"]).expect("a reply");
    for (words, expected) in [
        (&["PING"][..], Value::Simple("PONG".into())),
        (&["SET", "{x}m", "1"], Value::OK),
    ] {
        assert_eq!(link.ask(&["WATCH", "{x}n"]).expect("a reply"), Value::OK);
        assert_eq!(link.ask(&["MULTI"]).expect("a reply"), Value::OK);
        link.ask(words).expect("a reply");
        assert_eq!(
            link.ask(&["EXEC"]).expect("a reply"),
            Value::Array(vec![expected])
        );
    }

    // What the door answers itself has its place in a transaction, and a flush is a change of what is watched.
    for (flushes, expected) in [
        (
            false,
            Value::Array(vec![
                Value::Simple("PONG".into()),
                Value::Integer(3),
                text("said"),
            ]),
        ),
        (true, Value::NullArray),
    ] {
        link.ask(&["SET", "{x}n", "2"]).expect("a reply");
        assert_eq!(link.ask(&["WATCH", "{x}n"]).expect("a reply"), Value::OK);
        if flushes {
            assert_eq!(other.ask(&["FLUSHALL"]).expect("a reply"), Value::OK);
        }
        assert_eq!(link.ask(&["MULTI"]).expect("a reply"), Value::OK);
        for words in [&["PING"][..], &["INCR", "{x}n"], &["ECHO", "said"]] {
            let queued = link.ask(words).expect("a reply");
            assert_eq!(queued, Value::Simple("QUEUED".into()));
        }
        assert_eq!(link.ask(&["EXEC"]).expect("a reply"), expected);
    }
    // Its answers have room in one frame, however many there are.
    assert_eq!(link.ask(&["MULTI"]).expect("a reply"), Value::OK);
    let pipeline = request(&["CONFIG", "GET", "*"]).repeat(10_000);
    link.stream.write_all(&pipeline).expect("it is sent");
    for _ in 0..10_000 {
        link.read().expect("a reply");
    }
    let Value::Error(why) = link.ask(&["EXEC"]).expect("a reply") else {
        panic!("it has an answer")
    };
    assert!(why.starts_with("EXECABORT"), "{why}");
    // It is one step for all others: once it has read much it does no more, and says of what.
    let large = "v".repeat(6 << 20);
    let set = link.ask(&["SET", "{x}large", &large]).expect("a reply");
    assert_eq!(set, Value::OK);
    assert_eq!(link.ask(&["MULTI"]).expect("a reply"), Value::OK);
    for _ in 0..4 {
        link.ask(&["GET", "{x}large"]).expect("a reply");
    }
    link.ask(&["SET", "{x}n", "7"]).expect("a reply");
    let Value::Array(replies) = link.ask(&["EXEC"]).expect("a reply") else {
        panic!("it has replies")
    };
    let is_done = |reply: &Value| !matches!(reply, Value::Error(_));
    let done: Vec<bool> = replies.iter().map(is_done).collect();
    assert_eq!(done, [true, true, true, false, false]);
    assert_eq!(link.ask(&["GET", "{x}n"]).expect("a reply"), Value::Null);
    for words in [&["SET", "{x}n", "1"][..], &["RPUSH", "{x}list", "1"]] {
        link.ask(words).expect("a reply");
    }

    // Time passes for keys.
    assert_eq!(client.told(&["SET", "short", "1", "PX", "50"]), Value::OK);
    let begun = Instant::now();
    while client.told(&["EXISTS", "short"]) != Value::Integer(0) {
        assert!(begun.elapsed() < Duration::from_secs(20), "it stays");
        thread::sleep(Duration::from_millis(20));
    }

    // Redis' own words, over a connection that stays.
    for (words, error) in [
        (
            &["GET"][..],
            "ERR wrong number of arguments for 'get' command",
        ),
        (
            &["NOPE", "a"],
            "ERR unknown command 'NOPE', with args beginning with: 'a' ",
        ),
        (
            &["MGET", "a", "b"],
            "CROSSSLOT Keys in request don't hash to the same slot",
        ),
        (
            &["LPUSH", "{x}n", "a"],
            "WRONGTYPE Operation against a key holding the wrong kind of value",
        ),
        (
            &["INCR", "{x}list"],
            "WRONGTYPE Operation against a key holding the wrong kind of value",
        ),
        (&["EXEC"], "ERR EXEC without MULTI"),
        (
            &["SELECT", "1"],
            "ERR SELECT is not allowed in cluster mode",
        ),
    ] {
        assert_eq!(link.ask(words).expect("a reply"), Value::error(error));
    }
    let mut browser = TcpStream::connect(&keys.doors[0]).expect("it is there");
    browser
        .write_all(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
        .expect("it is sent");
    let mut said = Vec::new();
    _ = browser.read_to_end(&mut said);
    assert!(!String::from_utf8_lossy(&said).contains("PONG"));

    // Every key is found, whichever group it is in.
    for number in 0..40 {
        client.told(&["SET", &format!("key:{number}"), "1"]);
    }
    let mut found = Vec::new();
    for door in &keys.doors {
        let mut link = Link::to(door).expect("it is there");
        let mut cursor = "0".to_owned();
        loop {
            let page = link
                .ask(&["SCAN", &cursor, "MATCH", "key:*"])
                .expect("a reply");
            let Value::Array(parts) = page else {
                panic!("{page:?}")
            };
            let [Value::Bulk(next), Value::Array(page)] = &parts[..] else {
                panic!("{parts:?}")
            };
            found.extend(page.clone());
            cursor = String::from_utf8_lossy(next).into_owned();
            if cursor == "0" {
                break;
            }
        }
    }
    assert_eq!(found.len(), 40);
}

/// The answer of `kv status`, however it ends.
pub fn keys_status(keys: &Keys) -> serde_json::Value {
    let output = keys.run(&["kv", "status"]);
    serde_json::from_slice(&output.stdout).expect("JSON")
}
