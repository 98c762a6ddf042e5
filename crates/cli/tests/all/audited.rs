//! Who asked for which change, from where, and who was refused: by real nodes.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpStream;
use std::path::Path;

use serde_json::Value;

use crate::harness;
use crate::tokens::{as_token, code, guarded, reply, unix, well};

use harness::{Cluster, Node, err, logberg, out, wait_for};

/// What `logberg audit` tells: who, from where, what.
fn audit(cluster: &Cluster, file: &Path) -> Vec<(String, String, String)> {
    let told = as_token(cluster, file, &["audit", "--json"]);
    assert_eq!(code(&told), Some(0), "{}", err(&told));
    let told: Vec<Value> = serde_json::from_str(&out(&told)).expect("JSON");
    let text = |change: &Value, key: &str| change[key].as_str().expect("text").to_owned();
    let all = told.iter();
    all.map(|one| (text(one, "by"), text(one, "from"), text(one, "what")))
        .collect()
}

fn well_as(cluster: &Cluster, file: &Path, arguments: &[&str]) -> String {
    let said = as_token(cluster, file, arguments);
    assert_eq!(code(&said), Some(0), "{arguments:?}: {}", err(&said));
    out(&said)
}

#[test]
fn every_change_is_kept_with_who_asked_for_it_and_from_where() {
    let (mut cluster, place, root) = guarded(3);
    let leads = |log: &str| {
        let shown = well_as(&cluster, &root, &["leader", "show", "--json"]);
        let all: Vec<Value> = serde_json::from_str(&shown).expect("JSON");
        let found = all.iter().find(|shown| shown["name"] == log);
        found.and_then(|shown| shown["leader"].as_u64())
    };
    well_as(&cluster, &root, &["log", "create", "more"]);
    // ‡ A log that is led elsewhere than log 0: its leader has to tell log 0's.
    let directory = wait_for(|| leads("directory"), || "nobody leads log 0".to_owned());
    let other = (1..=3).find(|node| *node != directory).expect("another");
    let move_to = |log: &str, to: u64| {
        let to = to.to_string();
        wait_for(
            || {
                let moved = as_token(&cluster, &root, &["leader", "move", log, "--to", &to]);
                (code(&moved) == Some(0) || leads(log) == to.parse().ok()).then_some(())
            },
            || format!("{log} does not move to {to}"),
        );
    };
    move_to("more", other);
    let third = (1..=3).find(|node| ![directory, other].contains(node));
    let third = third.expect("a third");
    move_to("more", third);
    let mut append = logberg(&cluster.servers(), &["append", "more", "--token-file"]);
    let input = place.path().join("bytes");
    fs::write(&input, [7; 50_000]).expect("room");
    append.arg(&root).arg(&input);
    well(append);
    well_as(
        &cluster,
        &root,
        &["trim", "more", "--before", "@40000", "--yes"],
    );
    let retain = ["log", "retain", "more", "1GiB"];
    well_as(&cluster, &root, &retain);
    well_as(&cluster, &root, &["members", "zone", "2", "far"]);
    well_as(&cluster, &root, &["log", "delete", "more", "--yes"]);
    let allow = ["--allow", "join on cluster"];
    let create = [&["token", "create", "n4"][..], &allow].concat();
    let join = place.path().join("n4.token");
    fs::write(&join, well_as(&cluster, &root, &create)).expect("room");
    well_as(
        &cluster,
        &root,
        &["token", "rotate", "root", "--overlap", "1h"],
    );

    let listen = format!("{}:7117", harness::own_ip());
    let first = cluster.nodes[0].listen.clone();
    let joins = [
        "--join",
        &first,
        "--token-file",
        join.to_str().expect("plain"),
    ];
    let mut fourth = Node::new(place.path().join("n4"), listen, &joins);
    fourth.start();
    wait_for(
        || {
            well_as(&cluster, &root, &["members"])
                .contains(":7117")
                .then_some(())
        },
        || fourth.said(),
    );
    well_as(&cluster, &root, &["token", "revoke", "n4", "--yes"]);

    let expected = [
        ("socket of node", "the new token root"),
        ("token root", "tokens are asked for"),
        ("token root", "log more of kind bytes is made"),
        (
            "token root",
            &format!("node {other} is asked to lead log more"),
        ),
        (
            "token root",
            &format!("node {third} is asked to lead log more"),
        ),
        (
            "token root",
            "log more is asked to forget what is before @40000",
        ),
        ("token root", "log more keeps "),
        ("token root", "node 2 is in zone \"far\""),
        ("token root", "log more is to end"),
        ("token root", "the new token n4: join on cluster"),
        ("token root", "the secret of token root"),
        ("token n4", "node 4 is at "),
        ("token root", "token n4 is revoked"),
    ];
    let lacks = |kept: &[(String, String, String)]| {
        let missing = expected.iter().find(|(who, said)| {
            let is_it = |(by, from, what): &&(String, String, String)| {
                let from_there = match by.starts_with("socket") {
                    true => from.contains("admin.sock (user "),
                    false => from.starts_with("127."),
                };
                by.starts_with(who) && what.starts_with(said) && from_there
            };
            !kept.iter().any(|one| is_it(&one))
        });
        missing.map(|(who, said)| format!("{who}: {said}"))
    };
    // What a log's leader tells log 0's takes a moment.
    let kept = wait_for(
        || Some(audit(&cluster, &root)).filter(|kept| lacks(kept).is_none()),
        || {
            format!(
                "{:?}\n{:#?}",
                lacks(&audit(&cluster, &root)),
                audit(&cluster, &root)
            )
        },
    );
    // Each once: nobody had to ask twice here.
    let once: BTreeSet<_> = kept
        .iter()
        .filter(|one| one.2.contains("asked to"))
        .collect();
    let all = kept.iter().filter(|one| one.2.contains("asked to")).count();
    assert_eq!(once.len(), all, "{kept:#?}");

    // The journals say the same, under the target `audit`.
    let journals: String = cluster.nodes.iter().map(Node::said).collect();
    for (_, said) in &expected[2..5] {
        let told = journals.lines().find(|line| line.contains(said));
        let told = told.unwrap_or_else(|| panic!("no journal says {said}"));
        assert!(
            told.contains("audit") && told.contains("from=\"127."),
            "{told}"
        );
    }

    // ‡ It is in log 0: nodes that died have it when they are back.
    cluster.nodes.iter_mut().for_each(Node::kill);
    cluster.nodes.iter_mut().for_each(Node::start);
    let again = wait_for(
        || {
            let told = as_token(&cluster, &root, &["audit", "--json"]);
            (code(&told) == Some(0)).then(|| audit(&cluster, &root))
        },
        || cluster.nodes[0].said(),
    );
    assert_eq!(lacks(&again), None);
    fourth.kill();
}

/// Lines of the journal that tell of refusals at that door.
fn told(node: &Node, door: &str) -> Vec<String> {
    let said = node.said();
    let lines = said.lines().filter(|line| line.contains("audit"));
    let of_it = lines.filter(|line| line.contains("refused"));
    let door = format!("door=\"{door}\"");
    of_it
        .filter(|line| line.contains(&door))
        .map(str::to_owned)
        .collect()
}

#[test]
fn refusals_at_the_doors_are_counted_and_told_once_a_second() {
    let place = tempfile::tempdir().expect("a place");
    let ip = harness::own_ip();
    let (kv, http, admin) = (
        format!("{ip}:6379"),
        format!("{ip}:8080"),
        format!("{ip}:7217"),
    );
    let arguments = [
        "--bootstrap",
        "--voters",
        "1",
        "--kv",
        &kv,
        "--http",
        &http,
        "--admin",
        &admin,
        "--insecure",
    ];
    let mut node = Node::new(place.path().join("n1"), format!("{ip}:7117"), &arguments);
    node.start();
    node.wait_answers();
    let socket = unix(&node);
    let at_socket = |arguments: &[&str]| well(logberg(&socket, arguments));
    let put = |path: &str| {
        let head = format!(
            "PUT {path} HTTP/1.1\r\nHost: {http}\r\nContent-Type: text/plain\r\nContent-Length: 1\r\nConnection: close\r\n\r\na"
        );
        let answer = crate::http::send(&http, head.as_bytes());
        answer.expect("it answers").status
    };
    wait_for(
        || (put("/v1/stream/a") == 201).then_some(()),
        || node.said(),
    );
    at_socket(&["token", "create", "root", "--allow", "all on *"]);
    let grants = [
        "--allow",
        "read on key/a",
        "--allow",
        "read on stream/default/a",
    ];
    let app = at_socket(&[&["token", "create", "app"][..], &grants].concat());
    let app = app.trim();
    at_socket(&["auth", "enable"]);
    let mut client = TcpStream::connect(&kv).expect("it listens");
    wait_for(
        || {
            reply(&mut client, &["GET", "a"])
                .starts_with("-NOAUTH")
                .then_some(())
        },
        || node.said(),
    );
    // The first answer was refused, too, and the figures are those of a moment ago.
    let before = wait_for(
        || Some(refused(&admin, "keys")).filter(|refused| refused.0 > 0),
        || node.said(),
    );
    assert!(reply(&mut client, &["AUTH", "lgb_app_wrong"]).starts_with("-WRONGPASS"));
    let hello = ["HELLO", "3", "AUTH", "app", "wrong"];
    assert!(reply(&mut client, &hello).starts_with("-WRONGPASS"));
    assert_eq!(reply(&mut client, &["AUTH", app]), "+OK");
    for _ in 0..50 {
        assert!(reply(&mut client, &["SET", "hidden", "xyzzy"]).starts_with("-NOPERM"));
    }
    counted(&admin, "keys", (before.0 + 2, before.1 + 50));
    // Fifty refusals took a moment, and so many seconds are as many lines; the others are counted.
    let by = |who: &str, line: &String| line.contains(&format!("who=\"{who}\""));
    let lines = wait_for(
        || {
            let lines: Vec<_> = told(&node, "keys");
            let lines: Vec<_> = lines.into_iter().filter(|l| by("token `app`", l)).collect();
            let more: u64 = lines.iter().filter_map(|line| number(line, "more=")).sum();
            let single = lines.iter().filter(|line| line.contains("what=")).count() as u64;
            (single + more == 50).then_some(lines)
        },
        || node.said(),
    );
    assert!(lines.len() < 25, "{lines:#?}");
    assert!(lines[0].contains(&format!("from=\"{}", client.local_addr().unwrap())));
    assert!(lines[0].contains("what=\"set\"") && lines[0].contains("code=\"NOPERM\""));
    assert!(!node.said().contains("xyzzy"), "what was said is nobody's");

    let before = refused(&admin, "http");
    let ask = |path: &str, token: Option<&str>| {
        let bearer = token.map(|token| format!("Authorization: Bearer {token}\r\n"));
        let bearer = bearer.unwrap_or_default();
        let head =
            format!("GET {path} HTTP/1.1\r\nHost: {http}\r\n{bearer}Connection: close\r\n\r\n");
        let answer = crate::http::send(&http, head.as_bytes());
        answer.expect("it answers").status
    };
    assert_eq!(ask("/v1/stream/a?offset=-1&note=plugh", None), 401);
    assert_eq!(ask("/v1/stream/a", Some("nonsense")), 401);
    assert_eq!(ask("/v1/stream/private", Some(app)), 404);
    // What may be asked for is no refusal, and neither is a list of what may be read.
    assert_eq!(ask("/v1/stream/a", Some(app)), 200);
    assert_eq!(ask("/v1/list/default", Some(app)), 200);
    counted(&admin, "http", (before.0 + 2, before.1 + 1));
    let lines = told(&node, "http");
    let of = |who: &str| lines.iter().find(|line| by(who, line));
    for who in [
        "who shows no token",
        "a token that is not good",
        "token `app`",
    ] {
        let line = of(who).unwrap_or_else(|| panic!("{who}: {lines:#?}"));
        assert!(line.contains(" from=127."), "{line}");
        assert!(line.contains("what=\"GET /v1/stream/"), "{line}");
    }
    assert!(!node.said().contains("plugh"), "queries reach no journal");
    // What changes things for all is told, too.
    let root = at_socket(&["token", "rotate", "root", "--overlap", "0s"]);
    assert_eq!(reply(&mut client, &["AUTH", root.trim()]), "+OK");
    reply(&mut client, &["FLUSHALL"]);
    let said = node.said();
    let change = said.lines().find(|line| line.contains("what=\"flushall"));
    let change = change.expect("it is told");
    assert!(
        change.contains("audit") && change.contains("token `root`"),
        "{change}"
    );
    node.kill();
}

/// Waits until so many are counted: a node is asked for its figures now and then only.
fn counted(admin: &str, door: &str, expected: (u64, u64)) {
    wait_for(
        || (refused(admin, door) == expected).then_some(()),
        || format!("{:?}, and not {expected:?}", refused(admin, door)),
    );
}

fn number(line: &str, key: &str) -> Option<u64> {
    let (_, rest) = line.split_once(key)?;
    let end = rest.find(|c: char| !c.is_ascii_digit());
    rest[..end.unwrap_or(rest.len())].parse().ok()
}

/// The refusals of one door, as /metrics counts them: unauthenticated, forbidden.
fn refused(admin: &str, door: &str) -> (u64, u64) {
    let head = format!("GET /metrics HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n");
    let text = crate::http::send(admin, head.as_bytes())
        .expect("it answers")
        .text();
    let of = |name: &str| {
        let line = format!("logberg_requests_{name}_total{{door=\"{door}\"}} ");
        let found = text.lines().find_map(|found| found.strip_prefix(&line));
        found
            .unwrap_or_else(|| panic!("no {line} in {text}"))
            .parse()
    };
    let count = |name| of(name).expect("a number");
    (count("unauthenticated"), count("forbidden"))
}
