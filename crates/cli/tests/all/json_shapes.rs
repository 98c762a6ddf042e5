//! docs/json.md has the shape of what `--json` prints, and this is held to it.
//!
//! A shape is JSON whose leaves say what stands there: `"number"`, `"text|null"`. A key that ends in `?` may be left out, one in
//! `|null` may have null, and `*` stands for any key.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::{Command, Stdio};

use crate::{harness, outside};

use harness::{Cluster, Content, err};
use outside::{Running, free_ports};
use rustix::process::Signal;
use serde_json::{Map, Value};

/// The headings of the page, by the three tests below that look at them.
const OF_A_CLUSTER: &[&str] = &[
    "log create",
    "log show",
    "log list",
    "log set",
    "log retain",
    "log delete",
    "append",
    "read",
    "streams",
    "trim",
    "status",
    "members show",
    "members weight",
    "members add",
    "members remove",
    "members replace",
    "members address",
    "members zone",
    "members bind",
    "members rename-certificate",
    "leader show",
    "leader move",
    "leader balance",
    "scrub",
    "token create",
    "token bind-certificate",
    "token rotate",
    "token list",
    "token show",
    "token revoke",
    "issuer key",
    "issuer list",
    "issuer add",
    "issuer show",
    "issuer remove",
    "issuer ticket",
    "auth enable",
    "auth disable",
    "auth whoami",
    "auth explain",
    "audit",
    "backup",
    "backup --all",
    "backup verify",
    "restore",
    "verify",
    "recover",
    "doctor",
    "manual",
    "certs init",
    "certs node",
    "certs client",
    "certs show",
    "certs revoke",
    "--version",
    "errors",
];
const OF_DOORS: &[&str] = &[
    "dev",
    "kv init",
    "kv status",
    "kv map",
    "kv join",
    "kv leave",
    "kv move",
    "kv balance",
    "kv drop",
    "kv backup",
    "kv restore",
    "stream put",
    "stream fork",
    "stream append",
    "stream read",
    "stream tail",
    "stream ls",
    "stream limits",
    "stream close",
    "stream rm",
];
const MEASURED: &[&str] = &[
    "demo",
    "bench append",
    "bench append --tls",
    "bench read",
    "bench failover",
    "bench machine",
];

/// The shapes of the page, by the commands in their headings.
fn page() -> BTreeMap<String, Value> {
    let page = include_str!("../../../../docs/json.md");
    let mut shapes = BTreeMap::new();
    for section in page.split("\n### `").skip(1) {
        let (commands, rest) = section.split_once('\n').expect("a heading ends");
        let Some((_, rest)) = rest.split_once("```json\n") else {
            panic!("{commands} has no shape");
        };
        let (shape, _) = rest.split_once("```").expect("a block ends");
        let shape = serde_json::from_str(shape);
        let shape: Value = shape.unwrap_or_else(|error| panic!("the shape of {commands}: {error}"));
        // `one`, `another`
        for command in commands.split('`').step_by(2) {
            shapes.insert(command.to_owned(), shape.clone());
        }
    }
    shapes
}

/// How this differs from its shape.
fn differences(shape: &Value, found: &Value, at: &str, all: &mut Vec<String>) {
    match (shape, found) {
        (Value::String(kinds), _) => {
            let kind = match found {
                Value::Null => "null",
                Value::Bool(_) => "bool",
                Value::Number(_) => "number",
                Value::String(_) => "text",
                Value::Array(_) => "list",
                Value::Object(_) => "object",
            };
            if !kinds.split('|').any(|one| one == kind) {
                all.push(format!("{at} is {kind}, and the page says {kinds}"));
            }
        }
        (Value::Array(shapes), Value::Array(found)) => {
            for (place, one) in found.iter().enumerate() {
                differences(&shapes[0], one, &format!("{at}[{place}]"), all);
            }
        }
        (Value::Object(shapes), Value::Object(found)) => in_object(shapes, found, at, all),
        _ => all.push(format!("{at} is {found}, and the page says {shape}")),
    }
}

fn in_object(
    shapes: &Map<String, Value>,
    found: &Map<String, Value>,
    at: &str,
    all: &mut Vec<String>,
) {
    let mut known = Vec::new();
    for (key, shape) in shapes.iter().filter(|(key, _)| *key != "*") {
        let name = key.trim_end_matches('?').trim_end_matches("|null");
        known.push(name);
        match found.get(name) {
            None if key.ends_with('?') => {}
            None => all.push(format!("{at}.{name} is missing")),
            Some(Value::Null) if key.contains("|null") => {}
            Some(value) => differences(shape, value, &format!("{at}.{name}"), all),
        }
    }
    for (key, value) in found
        .iter()
        .filter(|(key, _)| !known.contains(&key.as_str()))
    {
        match shapes.get("*") {
            Some(shape) => differences(shape, value, &format!("{at}.{key}"), all),
            None => all.push(format!("{at}.{key} is not on the page: {value}")),
        }
    }
}

/// Compares what commands print with the page, and remembers which were seen.
struct Held {
    page: BTreeMap<String, Value>,
    wrong: Vec<String>,
    seen: BTreeSet<&'static str>,
}

impl Held {
    fn new() -> Held {
        Held {
            page: page(),
            wrong: Vec::new(),
            seen: BTreeSet::new(),
        }
    }

    fn look(&mut self, command: &'static str, printed: &str) {
        self.seen.insert(command);
        let Some(shape) = self.page.get(command) else {
            return self
                .wrong
                .push(format!("{command} is not on the page: {printed}"));
        };
        let found: Value = serde_json::from_str(printed)
            .unwrap_or_else(|error| panic!("{command}: {error}: {printed}"));
        let mut all = Vec::new();
        differences(shape, &found, "", &mut all);
        self.wrong
            .extend(all.into_iter().map(|what| format!("{command}: {what}")));
    }

    fn end(self, of: &[&str]) {
        assert!(self.wrong.is_empty(), "{}", self.wrong.join("\n"));
        assert_eq!(self.seen, of.iter().copied().collect(), "looked at");
    }
}

#[test]
fn each_shape_of_the_page_is_looked_at() {
    let all = [OF_A_CLUSTER, OF_DOORS, MEASURED].concat();
    let all: BTreeSet<String> = all.into_iter().map(str::to_owned).collect();
    assert_eq!(page().into_keys().collect::<BTreeSet<_>>(), all);
}

#[test]
fn what_json_prints_of_a_cluster_is_as_the_page_says() {
    let run = |cluster: &Cluster, arguments: &[&str]| {
        cluster.run_well(&[arguments, &["--json"]].concat())
    };
    let mut cluster = Cluster::start(3);
    let mut held = Held::new();
    let place = tempfile::tempdir().expect("a place");
    let path = |name: &str| place.path().join(name).to_str().unwrap().to_owned();

    let create = ["log", "create", "safe", "--min-copies", "2"];
    held.look("log create", &run(&cluster, &create));
    let appended = cluster.run_with_input(
        &["append", "safe", "--json"],
        &Content::new(1, 1 << 16).bytes(),
    );
    assert_eq!(appended.status.code(), Some(0), "{}", err(&appended));
    held.look("append", std::str::from_utf8(&appended.stdout).unwrap());
    let read = cluster.run(&["read", "safe", "--json"]);
    held.look("read", err(&read).lines().last().unwrap_or_default());
    // A machine that is slow for a moment makes it 8.
    let status = cluster.run(&["status", "--json"]);
    held.look("status", std::str::from_utf8(&status.stdout).unwrap());
    let to = (cluster.leader("safe") + 1) % 3 + 1;
    std::fs::create_dir(path("all")).unwrap();
    let commands: &[(&str, &[&str])] = &[
        ("log show", &["log", "show", "safe"]),
        (
            "log set",
            &["log", "set", "safe", "--retention", "7d", "--yes"],
        ),
        ("log retain", &["log", "retain", "safe", "1d", "--plan"]),
        ("log retain", &["log", "retain", "safe", "forever"]),
        ("log list", &["log", "list"]),
        ("streams", &["streams", "safe"]),
        ("members show", &["members"]),
        ("members show", &["members", "show"]),
        ("members weight", &["members", "weight", "1", "2", "--plan"]),
        ("members add", &["members", "add", "3", "--plan"]),
        ("members remove", &["members", "remove", "3", "--plan"]),
        ("members zone", &["members", "zone", "1", "here"]),
        ("members zone", &["members", "zone", "1", "here", "--plan"]),
        ("members bind", &["members", "bind", "--plan"]),
        (
            "members rename-certificate",
            &["members", "rename-certificate", "1", "n1", "--plan"],
        ),
        ("leader show", &["leader", "show"]),
        (
            "leader move",
            &["leader", "move", "safe", "--to", &to.to_string()],
        ),
        ("leader balance", &["leader", "balance", "--plan"]),
        ("leader balance", &["leader", "balance"]),
        ("scrub", &["scrub"]),
        ("backup", &["backup", "safe", "--to", &path("safe.lbb")]),
        ("backup --all", &["backup", "--all", "--to", &path("all")]),
        ("backup verify", &["backup", "verify", &path("safe.lbb")]),
        ("restore", &["restore", &path("safe.lbb"), "--log", "again"]),
        ("trim", &["trim", "safe", "--before", "@100", "--plan"]),
        ("trim", &["trim", "safe", "--before", "@100", "--yes"]),
        ("log delete", &["log", "delete", "again", "--yes"]),
        ("manual", &["manual", "--to", &path("manual")]),
        ("certs init", &["certs", "init", "--dir", &path("certs")]),
        (
            "certs node",
            &[
                "certs",
                "node",
                "n1",
                "--host",
                "n1",
                "--dir",
                &path("certs"),
            ],
        ),
        (
            "certs client",
            &["certs", "client", "alice", "--dir", &path("certs")],
        ),
        ("certs show", &["certs", "show", &path("certs/n1")]),
        (
            "certs revoke",
            &[
                "certs",
                "revoke",
                &path("certs/alice"),
                "--dir",
                &path("certs"),
            ],
        ),
        ("--version", &["--version"]),
    ];
    for (command, words) in commands {
        held.look(command, &run(&cluster, words));
    }
    cluster.add(|_| {});
    let address = cluster.nodes[3].listen.clone();
    held.look(
        "members replace",
        &run(&cluster, &["members", "replace", "3", "4", "--plan"]),
    );
    held.look(
        "members address",
        &run(&cluster, &["members", "address", "4", &address]),
    );
    let doctor = cluster.run(&["doctor", "--json"]);
    held.look("doctor", std::str::from_utf8(&doctor.stdout).unwrap());
    let refused = cluster.run(&["log", "show", "nowhere", "--json"]);
    held.look("errors", err(&refused).lines().last().unwrap_or_default());

    let socket = format!(
        "unix:{}",
        cluster.nodes[0].data.join("admin.sock").display()
    );
    let at_socket = |arguments: &[&str]| {
        let mut command = harness::logberg(&socket, &[arguments, &["--json"]].concat());
        let output = command.output().expect("the binary runs");
        harness::out(&output)
    };
    held.look(
        "token create",
        &at_socket(&[
            "token",
            "create",
            "root",
            "--allow",
            "all on *",
            "--expires",
            "1d",
        ]),
    );
    let bind = [
        "token",
        "bind-certificate",
        "alice",
        "--allow",
        "read on log/*",
    ];
    held.look("token bind-certificate", &at_socket(&bind));
    held.look("token list", &at_socket(&["token", "list"]));
    held.look("token show", &at_socket(&["token", "show", "root"]));
    held.look("token rotate", &at_socket(&["token", "rotate", "root"]));
    let keys = tempfile::tempdir().expect("a place");
    let key = keys.path().join("a.key");
    let key = key.to_str().expect("plain");
    held.look("issuer key", &at_socket(&["issuer", "key", key]));
    let grant = ["--allow", "read on log/*"];
    let add = ["issuer", "add", "backend", "--public-key", key];
    held.look("issuer add", &at_socket(&[&add[..], &grant].concat()));
    held.look("issuer show", &at_socket(&["issuer", "show", "backend"]));
    held.look("issuer list", &at_socket(&["issuer", "list"]));
    let ticket = ["issuer", "ticket", "backend", "--subject", "alice"];
    let signed = [&ticket[..], &["--signing-key", key], &grant].concat();
    held.look("issuer ticket", &at_socket(&signed));
    let remove = ["issuer", "remove", "backend", "--plan"];
    held.look("issuer remove", &at_socket(&remove));
    let revoke = ["token", "revoke", "root", "--plan"];
    held.look("token revoke", &at_socket(&revoke));
    held.look("auth enable", &at_socket(&["auth", "enable", "--plan"]));
    held.look("auth disable", &at_socket(&["auth", "disable", "--plan"]));
    held.look("auth whoami", &at_socket(&["auth", "whoami"]));
    held.look(
        "auth explain",
        &at_socket(&["auth", "explain", "read", "log/safe"]),
    );
    held.look("audit", &at_socket(&["audit"]));

    cluster.nodes.iter_mut().for_each(harness::Node::kill);
    let directory = cluster.nodes[2].data.to_str().unwrap().to_owned();
    held.look("verify", &run(&cluster, &["verify", &directory]));
    let recover = ["recover", "--unsafe", "--directory", &directory];
    held.look("recover", &run(&cluster, &recover));
    let into = path("new");
    let really = [&recover[..], &["--into", &into, "--accept-data-loss"]].concat();
    held.look("recover", &run(&cluster, &really));
    held.end(OF_A_CLUSTER);
}

fn ran(words: &[&str], input: &[u8]) -> String {
    let mut command = Command::new(harness::BINARY);
    command.args(words).arg("--json").stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("its input");
    // One that needs no input may have ended.
    drop(stdin.write_all(input));
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{words:?}: {}", err(&output));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn what_json_prints_of_keys_and_named_streams_is_as_the_page_says() {
    let mut held = Held::new();
    let place = tempfile::tempdir().expect("a place");
    let path = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let base = free_ports(9);
    let (port, kv, http) = (
        base.to_string(),
        (base + 3).to_string(),
        (base + 6).to_string(),
    );
    let directory = path("dev");
    let words = [
        "dev", "--json", "--dir", &directory, "--port", &port, "--kv", &kv, "--http", &http,
    ];
    let mut dev = Running::start(&words);
    let line = dev.first_line();
    held.look("dev", &line);
    let told: Value = serde_json::from_str(&line).expect("JSON");
    let servers: Vec<&str> = told["servers"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let servers = servers.join(",");

    std::fs::create_dir(path("keys")).unwrap();
    let keys = path("keys");
    let commands: &[(&str, &[&str])] = &[
        ("kv drop", &["kv", "drop", "--plan"]),
        ("kv drop", &["kv", "drop", "--yes"]),
        ("kv init", &["kv", "init"]),
        ("kv status", &["kv", "status"]),
        ("kv join", &["kv", "join", "kv-4"]),
        ("kv map", &["kv", "map"]),
        ("kv map", &["kv", "map", "--version", "1"]),
        (
            "kv move",
            &["kv", "move", "7", "--to", "kv-1-of-3", "--plan"],
        ),
        ("kv balance", &["kv", "balance", "--plan"]),
        ("kv leave", &["kv", "leave", "kv-4"]),
        ("kv backup", &["kv", "backup", "--to", &keys]),
        ("kv drop", &["kv", "drop", "--yes"]),
        ("kv restore", &["kv", "restore", &keys]),
    ];
    for (command, words) in commands {
        let words = [*words, &["--server", &servers, "--timeout", "60"]].concat();
        held.look(command, &ran(&words, b""));
    }
    let door = format!("127.0.0.1:{http}");
    let commands: &[(&str, &[&str], &[u8])] = &[
        ("stream put", &["put", "one", "--type", "text/plain"], b""),
        ("stream append", &["append", "one"], b"hello\n"),
        ("stream read", &["read", "one"], b""),
        ("stream fork", &["fork", "two", "--of", "one"], b""),
        ("stream put", &["put", "raw"], b""),
        ("stream append", &["append", "raw"], b"\xff\xfe"),
        ("stream read", &["read", "raw"], b""),
        ("stream ls", &["ls"], b""),
        (
            "stream limits",
            &["limits", "--principal", "ci", "--requests", "100"],
            b"",
        ),
        ("stream limits", &["limits", "--keep", "1GiB"], b""),
        ("stream close", &["close", "one"], b""),
        ("stream tail", &["tail", "one", "--from", "-1"], b""),
        ("stream rm", &["rm", "two", "--yes"], b""),
    ];
    for (command, words, input) in commands {
        let words = [&["stream", "--http", &door, "--timeout", "60"], *words].concat();
        for line in ran(&words, input).lines() {
            held.look(command, line);
        }
    }
    dev.signal(Signal::INT);
    assert_eq!(dev.wait().code(), Some(0));
    held.end(OF_DOORS);
}

#[test]
fn what_json_prints_of_measurements_is_as_the_page_says() {
    let mut held = Held::new();
    let place = tempfile::tempdir().expect("a place");
    let place = place.path().to_str().unwrap();
    let commands = [
        ("demo", "demo --bytes 32MiB"),
        (
            "bench append",
            "bench append --seconds 1 --alternations 1 --warm-up 0.2 --write-size 1KiB --rate 1M",
        ),
        (
            "bench append --tls",
            "bench append --tls --seconds 1 --alternations 1 --warm-up 0.2 --write-size 1KiB --rate 1M",
        ),
        (
            "bench read",
            "bench read --rate 1M --followers 1 --history 4MiB --seconds 0.6 --warm-up 0.3",
        ),
        (
            "bench failover",
            "bench failover --times 1 --mode kill --rate 1M",
        ),
        ("bench machine", "bench machine --seconds 0.1"),
    ];
    for (command, words) in commands {
        // The demo wants it new or empty.
        let words: Vec<&str> = match command {
            "demo" => words.split(' ').collect(),
            _ => words.split(' ').chain(["--directory", place]).collect(),
        };
        held.look(command, &ran(&words, b""));
    }
    held.end(MEASURED);
}

#[test]
fn a_difference_is_seen() {
    let shape = serde_json::json!({"id": "number", "leader": "number|null", "deleting?": "bool", "at|null": {"x": "number"}});
    let of = |found: Value| {
        let mut all = Vec::new();
        differences(&shape, &found, "", &mut all);
        all
    };
    let right = serde_json::json!({"id": 1, "leader": null, "at": null});
    assert_eq!(of(right), Vec::<String>::new());
    assert_eq!(
        of(serde_json::json!({"id": "1", "leader": 2, "at": {"x": 1}})).len(),
        1
    );
    assert_eq!(
        of(serde_json::json!({"leader": 2, "at": {}, "more": 1})).len(),
        3
    );
}
