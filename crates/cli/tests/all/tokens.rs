//! Tokens, by real nodes: the commands of docs/security.md, and what a crash leaves.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::harness;

use harness::{BINARY, Cluster, Content, Node, err, logberg, out, wait_for};

pub fn unix(node: &Node) -> String {
    format!("unix:{}", node.data.join("admin.sock").display())
}

/// A cluster that asks for tokens, and the file with the one that may all.
pub fn guarded(nodes: usize) -> (Cluster, tempfile::TempDir, PathBuf) {
    let cluster = Cluster::start(nodes);
    let place = tempfile::tempdir().expect("a place");
    let root = place.path().join("root.token");
    // A node that does not lead passes it on.
    let made = logberg(
        &unix(&cluster.nodes[nodes - 1]),
        &["token", "create", "root", "--allow", "all on *"],
    );
    fs::write(&root, well(made)).expect("room");
    let on = as_token(&cluster, &root, &["auth", "enable"]);
    assert!(out(&on).contains("tokens are asked for"), "{}", err(&on));
    (cluster, place, root)
}

pub fn well(mut command: Command) -> String {
    let output = command.output().expect("the binary runs");
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    out(&output)
}

pub fn as_token(cluster: &Cluster, file: &Path, arguments: &[&str]) -> Output {
    let mut command = logberg(&cluster.servers(), arguments);
    command.arg("--token-file").arg(file);
    command.output().expect("the binary runs")
}

pub fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

#[test]
fn a_token_may_what_it_was_given_and_nothing_of_it_is_left_in_any_journal() {
    let (mut cluster, place, root) = guarded(3);
    let refused = cluster.run(&["read", "main"]);
    assert_eq!(code(&refused), Some(4), "{}", err(&refused));
    assert!(err(&refused).contains("LOGBERG_TOKEN"), "{}", err(&refused));

    let made = as_token(
        &cluster,
        &root,
        &[
            "token",
            "create",
            "ci",
            "--allow",
            "append,read on log/main",
            "--expires",
            "90d",
        ],
    );
    assert_eq!(code(&made), Some(0), "{}", err(&made));
    let ci = place.path().join("ci.token");
    fs::write(&ci, out(&made)).expect("room");
    let content = Content::new(1, 300_000);
    let mut append = logberg(&cluster.servers(), &["append", "main"]);
    append.env("LOGBERG_TOKEN", out(&made).trim());
    let input = place.path().join("bytes");
    fs::write(&input, content.bytes()).expect("room");
    append.arg(&input);
    well(append);
    let read = as_token(&cluster, &ci, &["read", "main"]);
    assert_eq!(read.stdout.len(), 300_000, "{}", err(&read));
    for arguments in [
        &["log", "create", "other"][..],
        &["leader", "move", "main"],
        &["members"],
        &["token", "list"],
        &["auth", "disable", "--yes"],
        &["read", "directory"],
    ] {
        let refused = as_token(&cluster, &ci, arguments);
        assert_eq!(code(&refused), Some(4), "{arguments:?}: {}", err(&refused));
    }
    let who = as_token(&cluster, &ci, &["auth", "whoami"]);
    assert!(out(&who).contains("token ci"), "{}", err(&who));
    let may = as_token(&cluster, &ci, &["auth", "explain", "append", "log/main"]);
    assert_eq!(code(&may), Some(0), "{}", out(&may));
    let may = as_token(
        &cluster,
        &root,
        &["auth", "explain", "trim", "log/main", "--of", "ci"],
    );
    assert_eq!(code(&may), Some(4), "{}", out(&may));

    // A reader that follows is ended, and its sentence says why.
    let mut follow = logberg(
        &cluster.servers(),
        &["read", "main", "--follow", "--token-file"],
    );
    follow.arg(&ci).stdout(std::process::Stdio::null());
    follow.stderr(std::process::Stdio::piped());
    let follow = follow.spawn().expect("the binary runs");
    std::thread::sleep(std::time::Duration::from_millis(500));
    let plan = as_token(&cluster, &root, &["token", "revoke", "ci", "--plan"]);
    assert!(out(&plan).contains("would be revoked"), "{}", err(&plan));
    let revoked = as_token(&cluster, &root, &["token", "revoke", "ci", "--yes"]);
    assert_eq!(code(&revoked), Some(0), "{}", err(&revoked));
    let ended = follow.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(4), "{}", err(&ended));
    let refused = as_token(&cluster, &ci, &["read", "main"]);
    assert_eq!(code(&refused), Some(4), "{}", err(&refused));

    // Killed nodes come back as guarded as they were.
    cluster.nodes.iter_mut().for_each(Node::kill);
    cluster.nodes.iter_mut().for_each(Node::start);
    wait_for(
        || (code(&as_token(&cluster, &root, &["members"])) == Some(0)).then_some(()),
        || cluster.nodes[0].said(),
    );
    for arguments in [
        &["read", "main"][..],
        &["status"],
        &["log", "list", "--stale"],
    ] {
        assert_eq!(code(&cluster.run(arguments)), Some(4), "{arguments:?}");
    }
    let changes = as_token(&cluster, &root, &["audit", "--json"]);
    assert!(
        out(&changes).contains("token ci is revoked"),
        "{}",
        err(&changes)
    );

    // ‡ No secret stands anywhere.
    let tokens = [fs::read_to_string(&root), fs::read_to_string(&ci)].map(Result::unwrap);
    for node in &cluster.nodes {
        let said = node.said();
        for token in &tokens {
            let secret = secret_of(token);
            assert!(!said.contains(secret), "a journal has a secret");
            assert!(!holds(&node.data, secret.as_bytes()), "a disk has a secret");
        }
    }
}

/// The secret in a token. It may have underscores of its own.
pub fn secret_of(token: &str) -> &str {
    token.trim().splitn(3, '_').nth(2).expect("a token")
}

pub fn holds(directory: &Path, bytes: &[u8]) -> bool {
    fs::read_dir(directory).expect("a directory").any(|entry| {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            return holds(&path, bytes);
        }
        let contents = fs::read(&path).unwrap_or_default();
        contents.windows(bytes.len()).any(|window| window == bytes)
    })
}

#[test]
fn a_node_joins_a_cluster_that_asks_for_tokens_with_one_that_may_join() {
    let (mut cluster, place, root) = guarded(1);
    let join = as_token(
        &cluster,
        &root,
        &[
            "token",
            "create",
            "n2",
            "--allow",
            "join on cluster",
            "--expires",
            "1h",
            "--once",
        ],
    );
    let file = place.path().join("n2.token");
    fs::write(&file, out(&join)).expect("room");
    let data = place.path().join("n2");
    let listen = format!("{}:7117", harness::own_ip());
    let first = cluster.nodes[0].listen.clone();
    let stranger = place.path().join("stranger");
    let mut without = Node::new(
        stranger,
        format!("{}:7117", harness::own_ip()),
        &["--join", &first],
    );
    without.start();
    wait_for(
        || without.said().contains("unauthenticated").then_some(()),
        || without.said(),
    );
    without.kill();
    let token = file.to_str().expect("plain").to_owned();
    let mut node = Node::new(data, listen, &["--join", &first, "--token-file", &token]);
    node.start();
    let members = || as_token(&cluster, &root, &["members", "--json"]);
    wait_for(
        || out(&members()).contains("\"id\":2").then_some(()),
        || format!("{}{}", out(&members()), node.said()),
    );
    // The token was for that one. Another is told so, and by whom it was used.
    let listen = format!("{}:7118", harness::own_ip());
    let third = place.path().join("n3");
    let mut third = Node::new(third, listen, &["--join", &first, "--token-file", &token]);
    third.start();
    wait_for(
        || {
            third
                .said()
                .contains("node 2 has joined with it")
                .then_some(())
        },
        || third.said(),
    );
    third.kill();
    let shown = as_token(&cluster, &root, &["token", "show", "n2"]);
    assert!(out(&shown).contains("node 2 has joined"), "{}", out(&shown));
    node.kill();
    cluster.nodes[0].kill();
}

#[test]
fn a_directory_that_was_recovered_asks_for_tokens_as_before() {
    let (mut cluster, place, root) = guarded(3);
    cluster.nodes.iter_mut().for_each(Node::kill);
    let data = cluster.nodes[0].data.clone();
    let into = place.path().join("alone");
    let recovered = Command::new(BINARY)
        .args(["recover", "--unsafe", "--accept-data-loss"])
        .arg("--directory")
        .arg(&data)
        .arg("--into")
        .arg(&into)
        .output()
        .expect("the binary runs");
    assert_eq!(code(&recovered), Some(0), "{}", err(&recovered));
    let listen = format!("{}:7117", harness::own_ip());
    let mut node = Node::new(into, listen.clone(), &[]);
    node.start();
    let asks = |arguments: &[&str], file: Option<&Path>| {
        let mut command = logberg(&listen, arguments);
        if let Some(file) = file {
            command.arg("--token-file").arg(file);
        }
        command.output().expect("the binary runs")
    };
    wait_for(
        || (code(&asks(&["members"], Some(&root))) == Some(0)).then_some(()),
        || node.said(),
    );
    assert_eq!(code(&asks(&["read", "main"], None)), Some(4));
    node.kill();
}

/// A reply of Redis' protocol, as far as the first line goes.
pub fn reply(stream: &mut TcpStream, words: &[&str]) -> String {
    let mut request = format!("*{}\r\n", words.len());
    for word in words {
        request += &format!("${}\r\n{word}\r\n", word.len());
    }
    stream.write_all(request.as_bytes()).expect("it takes it");
    let mut line = String::new();
    let mut byte = [0];
    while !line.ends_with("\r\n") {
        stream.read_exact(&mut byte).expect("it answers");
        line.push(char::from(byte[0]));
    }
    if let Some(length) = line.strip_prefix('$')
        && let Ok(length) = length.trim().parse::<usize>()
    {
        let mut body = vec![0; length + 2];
        stream.read_exact(&mut body).expect("it answers");
        return String::from_utf8_lossy(&body[..length]).into_owned();
    }
    line.trim().to_owned()
}

#[test]
fn the_doors_for_keys_and_streams_ask_for_tokens_too() {
    let place = tempfile::tempdir().expect("a place");
    let ip = harness::own_ip();
    let (kv, http) = (format!("{ip}:6379"), format!("{ip}:8080"));
    let arguments = [
        "--bootstrap",
        "--voters",
        "1",
        "--kv",
        &kv,
        "--http",
        &http,
        "--insecure",
    ];
    let mut node = Node::new(place.path().join("n1"), format!("{ip}:7117"), &arguments);
    node.start();
    node.wait_answers();
    let socket = unix(&node);
    let at_socket = |arguments: &[&str]| well(logberg(&socket, arguments));
    wait_for(
        || {
            let init = logberg(&socket, &["kv", "init"]).output().expect("it runs");
            (code(&init) == Some(0)).then_some(())
        },
        || node.said(),
    );
    let dial = || TcpStream::connect(&kv).expect("it listens");
    let mut open = dial();
    wait_for(
        || (reply(&mut open, &["SET", "app:1", "one"]) == "+OK").then_some(()),
        || node.said(),
    );
    assert!(reply(&mut open, &["AUTH", "x"]).starts_with("-ERR"));
    let put = |path: &str, token: Option<&str>, body: &str| {
        let bearer = token.map(|token| format!("Authorization: Bearer {token}\r\n"));
        let head = format!(
            "PUT {path} HTTP/1.1\r\nHost: {http}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n{}Connection: close\r\n\r\n{body}",
            body.len(),
            bearer.unwrap_or_default()
        );
        crate::http::send(&http, head.as_bytes())
            .expect("it answers")
            .status
    };
    let get = |path: &str, token: Option<&str>| {
        let bearer = token.map(|token| format!("Authorization: Bearer {token}\r\n"));
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: {http}\r\n{}Connection: close\r\n\r\n",
            bearer.unwrap_or_default()
        );
        crate::http::send(&http, head.as_bytes()).expect("it answers")
    };
    assert_eq!(put("/v1/stream/chat/1", None, "hello"), 201);

    at_socket(&["token", "create", "root", "--allow", "all on *"]);
    let app = at_socket(&[
        "token",
        "create",
        "app",
        "--allow",
        "read,append on key/app:*",
        "--allow",
        "read on stream/default/chat/*",
        "--allow",
        "read,append,create on stream/team/*",
    ]);
    let app = app.trim();
    at_socket(&["log", "create", "team", "--kind", "streams"]);
    at_socket(&["auth", "enable"]);
    wait_for(
        || {
            reply(&mut open, &["GET", "app:1"])
                .starts_with("-NOAUTH")
                .then_some(())
        },
        || node.said(),
    );
    assert!(reply(&mut open, &["AUTH", "nonsense"]).starts_with("-WRONGPASS"));
    assert!(reply(&mut open, &["PING"]).starts_with("-NOAUTH"));
    assert!(reply(&mut open, &["HELLO", "3"]).starts_with("-NOAUTH"));
    assert_eq!(reply(&mut open, &["AUTH", "app", app]), "+OK");
    assert_eq!(reply(&mut open, &["GET", "app:1"]), "one");
    assert_eq!(reply(&mut open, &["SET", "app:2", "two"]), "+OK");
    for refused in [
        &["GET", "other"][..],
        &["SET", "other", "1"],
        &["COPY", "other", "app:3"],
        &["FLUSHALL"],
        &["SCAN", "0"],
        &["CONFIG", "SET", "maxmemory", "1"],
        &["SLOWLOG", "GET"],
    ] {
        let said = reply(&mut open, refused);
        assert!(said.starts_with("-NOPERM"), "{refused:?}: {said}");
    }
    assert!(!reply(&mut open, &["CLUSTER", "MYID"]).starts_with('-'));

    assert_eq!(get("/v1/stream/chat/1", None).status, 401);
    assert_eq!(get("/v1/stream/chat/1", Some("nonsense")).status, 401);
    assert_eq!(get("/v1/stream/chat/1", Some(app)).status, 200);
    assert_eq!(get("/v1/stream/private", Some(app)).status, 404);
    assert_eq!(put("/v1/stream/chat/1", Some(app), "more"), 403);
    assert_eq!(get("/healthz", None).status, 200);
    let listed = get("/v1/list/default", Some(app)).text();
    assert!(listed.contains("chat/1"), "{listed}");
    // A grant in one space is none in another.
    wait_for(
        || (put("/v1/stream/@team/chat/1", Some(app), "ours") == 201).then_some(()),
        || node.said(),
    );
    assert_eq!(get("/v1/stream/@team/chat/1", Some(app)).text(), "ours");
    assert_eq!(get("/v1/stream/@other/chat/1", Some(app)).status, 404);
    assert_eq!(put("/v1/stream/@other/chat/1", Some(app), ""), 403);
    assert_eq!(get("/v1/stream/@team/chat/1", None).status, 401);
    let listed = get("/v1/list/team", Some(app)).text();
    assert!(listed.contains("chat/1"), "{listed}");
    // Names that he may not read cannot be walked through, and no space is told from one that is not there.
    let root = at_socket(&["token", "create", "all", "--allow", "all on *"]);
    let root = root.trim();
    wait_for(
        || (put("/v1/stream/aa-hidden", Some(root), "") == 201).then_some(()),
        || node.said(),
    );
    assert_eq!(put("/v1/stream/zz-hidden", Some(root), ""), 201);
    let first = get("/v1/list/default?limit=1", Some(app)).text();
    assert!(
        first.contains("chat/1") && !first.contains("hidden"),
        "{first}"
    );
    let rest = get("/v1/list/default?limit=1&after=chat%2F1", Some(app)).text();
    assert!(
        rest.contains("\"streams\":[]") && !rest.contains("hidden"),
        "{rest}"
    );
    let nobody = at_socket(&["token", "create", "nobody", "--allow", "read on log/x"]);
    let nobody = Some(nobody.trim());
    wait_for(
        || (get("/v1/list/team", nobody).status == 200).then_some(()),
        || node.said(),
    );
    let lists = ["team", "default", "nospace"].map(|space| {
        let path = format!("/v1/list/{space}");
        get(&path, nobody).text()
    });
    assert!(lists.iter().all(|list| *list == lists[0]), "{lists:?}");
    assert!(lists[0].contains("\"streams\":[]"), "{lists:?}");
    // The command line shows its token over HTTP, too.
    let file = place.path().join("app.token");
    std::fs::write(&file, app).expect("there is room");
    let read = || {
        let mut command = logberg(&socket, &["stream", "read", "chat/1", "--http", &http]);
        command.env_remove("LOGBERG_TOKEN");
        command
    };
    let shown = read()
        .arg("--token-file")
        .arg(&file)
        .output()
        .expect("it runs");
    assert_eq!((code(&shown), &shown.stdout[..]), (Some(0), &b"hello"[..]));
    let none = read().output().expect("it runs");
    let said = String::from_utf8_lossy(&none.stderr).into_owned();
    assert_eq!(code(&none), Some(4), "{said}");
    assert!(said.contains("--token-file"), "{said}");
    // Producers of one name belong to their tokens: neither is known for the other's, nor fenced by its epoch.
    let writer = |name: &str| {
        let allow = "append on stream/default/chat/*";
        let token = at_socket(&["token", "create", name, "--allow", allow]);
        token.trim().to_owned()
    };
    let (ours, theirs) = (writer("ours"), writer("theirs"));
    let append = |token: &str, (epoch, sequence): (u64, u64), body: &str| {
        let head = format!(
            "POST /v1/stream/chat/1 HTTP/1.1\r\nHost: {http}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nAuthorization: Bearer {token}\r\nProducer-Id: p\r\nProducer-Epoch: {epoch}\r\nProducer-Seq: {sequence}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        let answer = crate::http::send(&http, head.as_bytes());
        answer.expect("it answers").status
    };
    // The door hears of a new token a moment later.
    wait_for(
        || (append(&theirs, (5, 0), ",b0") == 200).then_some(()),
        || node.said(),
    );
    wait_for(
        || (append(&ours, (0, 0), ",a0") == 200).then_some(()),
        || node.said(),
    );
    assert_eq!(append(&ours, (0, 0), ",a0"), 204);
    assert_eq!(append(&theirs, (5, 0), ",b0"), 204);
    assert_eq!(append(&ours, (0, 1), ",a1"), 200);
    assert_eq!(append(&theirs, (4, 1), ",no"), 403);
    let all = get("/v1/stream/chat/1", Some(app)).text();
    assert_eq!(all, "hello,b0,a0,a1");
    // A live read ends when its token is revoked.
    let mut live = get("/v1/stream/chat/1?offset=-1&live=sse", Some(app));
    assert_eq!(live.status, 200);
    at_socket(&["token", "revoke", "app", "--yes"]);
    while let Ok(Some(_)) = live.piece() {}
    wait_for(
        || {
            reply(&mut open, &["GET", "app:1"])
                .starts_with("-NOAUTH")
                .then_some(())
        },
        || node.said(),
    );
    assert_eq!(get("/v1/stream/chat/1", Some(app)).status, 401);
    let secret = secret_of(app);
    assert!(!node.said().contains(secret), "a journal has a secret");
    node.kill();
}
