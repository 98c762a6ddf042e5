//! TLS between clients and nodes, and between nodes, with real processes and certificates that the program makes.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use client::Transport;

use crate::harness;

use harness::{Cluster, Content, Node, Raw, err, logberg, out, own_ip, wait_for};

/// An authority in a directory, and what it gives to nodes at one address.
pub struct Certs {
    pub directory: PathBuf,
    ip: String,
}

impl Certs {
    pub fn make(directory: PathBuf, ip: &str) -> Certs {
        let certs = Certs {
            directory,
            ip: ip.to_owned(),
        };
        certs.run(&["init"]);
        certs
    }

    pub fn run(&self, words: &[&str]) -> String {
        let directory = self.directory.to_str().expect("a plain path");
        let mut command = logberg("127.0.0.1:1", &["certs"]);
        let output = command.args(words).args(["--dir", directory]).output();
        let output = output.expect("the binary runs");
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        out(&output)
    }

    /// What a node is started with.
    pub fn of_node(&self, name: &str, mode: &str) -> Vec<String> {
        self.run(&["node", name, "--host", &self.ip]);
        self.words(name, mode)
    }

    pub fn words(&self, name: &str, mode: &str) -> Vec<String> {
        let own = self.directory.join(name).display().to_string();
        ["--tls", mode, "--tls-dir", &own]
            .map(str::to_owned)
            .to_vec()
    }

    pub fn ca(&self) -> String {
        self.directory.join("ca.crt").display().to_string()
    }
}

/// Three nodes that take connections by TLS alone.
pub fn secured() -> (Cluster, Certs) {
    let mut certs = None;
    let cluster = Cluster::start_with(3, 3, |node| {
        let (ip, _) = node.listen.split_once(':').expect("a port");
        let beside = node.data.parent().expect("the cluster's").join("certs");
        let certs = certs.get_or_insert_with(|| Certs::make(beside, ip));
        let words = certs.of_node(&format!("n{}", node.id), "require");
        node.arguments.extend(words);
    });
    cluster.wait_whole();
    (cluster, certs.expect("there are nodes"))
}

/// One node that serves streams and keys, too: their addresses.
fn with_doors() -> (Cluster, Certs, String, String) {
    let mut certs = None;
    let mut doors = (String::new(), String::new());
    let cluster = Cluster::start_with(1, 1, |node| {
        let (ip, _) = node.listen.split_once(':').expect("a port");
        let beside = node.data.parent().expect("the cluster's").join("certs");
        let certs = certs.get_or_insert_with(|| Certs::make(beside, ip));
        doors = (format!("{ip}:7080"), format!("{ip}:7079"));
        let own = certs.of_node("n1", "require");
        node.arguments.extend(own);
        let more = ["--http", &doors.0, "--kv", &doors.1, "--insecure"];
        node.arguments.extend(more.map(str::to_owned));
    });
    (cluster, certs.expect("there is a node"), doors.0, doors.1)
}

/// What a server says to these words, by TLS and in plain text.
fn said_to(certs: &Certs, server: &str, words: &str) -> [String; 2] {
    let trust = tls::Trust::read(Path::new(&certs.ca())).expect("an authority");
    let socket = TcpStream::connect(server).expect("it listens");
    let secured = trust.secure(socket, server, Duration::from_secs(5));
    let mut secured = secured.expect("a handshake").socket;
    let mut plain = TcpStream::connect(server).expect("it listens");
    let patience = Some(Duration::from_secs(10));
    secured.set_read_timeout(patience).expect("a socket");
    plain.set_read_timeout(patience).expect("a socket");
    let mut answer = [vec![0; 400], vec![0; 400]];
    secured.write_all(words.as_bytes()).expect("sent");
    plain.write_all(words.as_bytes()).expect("sent");
    let counts = [
        secured.read(&mut answer[0]).expect("an answer"),
        plain.read(&mut answer[1]).expect("an answer"),
    ];
    [0, 1].map(|at| String::from_utf8_lossy(&answer[at][..counts[at]]).into_owned())
}

#[test]
fn streams_and_keys_are_served_by_tls_too() {
    let (cluster, certs, http, kv) = with_doors();
    let ca = certs.ca();
    let stream = |words: &[&str]| {
        let words = [&["stream"], words, &["--http", &http, "--ca", &ca]].concat();
        let mut command = cluster.logberg(&words);
        let mut child = command.stdin(Stdio::piped()).spawn().expect("it runs");
        let mut input = child.stdin.take().expect("piped");
        let _ = input.write_all(b"said by TLS");
        drop(input);
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        out(&output)
    };
    stream(&["put", "notes", "--type", "text/plain"]);
    stream(&["append", "notes"]);
    assert_eq!(stream(&["read", "notes"]), "said by TLS");
    let health = "GET /v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let [by_tls, plain] = said_to(&certs, &http, health);
    assert!(by_tls.starts_with("HTTP/1.1 200"), "{by_tls}");
    assert!(plain.starts_with("HTTP/1.1 426"), "{plain}");
    let made = "PUT /v1/stream/more HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n";
    let [by_tls, _] = said_to(&certs, &http, made);
    let location = "location: https://localhost/v1/stream/more\r\n";
    assert!(by_tls.contains(location), "{by_tls}");
    let [by_tls, plain] = said_to(&certs, &kv, "PING\r\n");
    assert_eq!(by_tls, "+PONG\r\n");
    assert!(plain.starts_with("-ERR this server takes"), "{plain}");
}

/// What is in the log, as a client reads it by TLS.
fn check(cluster: &Cluster, certs: &Certs, contents: &[Content]) {
    let ca = certs.ca();
    let mut command = cluster.logberg(&["read", "main", "--ca", &ca, "--timeout", "30"]);
    let mut child = command.spawn().expect("the binary runs");
    let mut output = child.stdout.take().expect("piped");
    for content in contents {
        content.compare(&mut output).expect("what was appended");
    }
    let mut more = Vec::new();
    output.read_to_end(&mut more).expect("a pipe");
    assert!(more.is_empty(), "{} bytes more", more.len());
    assert_eq!(child.wait().expect("our child").code(), Some(0));
}

/// Puts other words in the place of those for TLS, and starts the node again.
fn restart(cluster: &mut Cluster, index: usize, words: Vec<String>) {
    let node = &mut cluster.nodes[index];
    node.signal("-TERM");
    assert_eq!(node.wait(), Some(0), "{}", node.said());
    if let Some(at) = node.arguments.iter().position(|word| word == "--tls") {
        node.arguments.drain(at..at + 4);
    }
    node.arguments.extend(words);
    node.start();
    cluster.wait_whole();
}

#[test]
fn who_believes_the_authority_is_served_through_a_killed_leader_and_nobody_in_plain_text() {
    let (mut cluster, certs) = secured();
    let ca = certs.ca();
    let content = Content::new(1, 20_000_000);
    let with_ca = ["--ca", &ca, "--rate", "8M"];
    let appending = cluster.append_in_background("main", &with_ca, content);
    wait_for(
        || (cluster.nodes[0].output_bytes("main") > 2_000_000).then_some(()),
        || cluster.logs(),
    );
    let leader = cluster.leader("main");
    cluster.nodes[leader].kill();
    let output = appending.wait();
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    cluster.nodes[leader].start();
    cluster.wait_whole();
    check(&cluster, &certs, &[content]);
    // In plain text a client is told, and a node is not let in.
    let plain = cluster.run(&["read", "main"]);
    assert_eq!(plain.status.code(), Some(4), "{}", err(&plain));
    assert!(err(&plain).contains("--ca FILE"), "{}", err(&plain));
    for line in ["peer from=2 to=1", "join address=127.0.0.1:9"] {
        let mut raw = Raw::say(&cluster.nodes[0].listen, &format!("logberg/1 {line}\n"));
        let answer = raw.line();
        assert!(answer.starts_with("error tls-required"), "{answer}");
    }
}

#[test]
fn servers_that_prove_something_else_are_not_believed() {
    let (cluster, certs) = secured();
    let other = Certs::make(cluster.directory.path().join("other"), &certs.ip);
    let ca = other.ca();
    let refused = cluster.run(&["read", "main", "--ca", &ca, "--timeout", "2"]);
    assert_eq!(refused.status.code(), Some(3), "{}", err(&refused));
    let said = err(&refused);
    assert!(said.contains("not of an authority in --ca"), "{said}");
    // Behind an address that no certificate names.
    let (_, port) = cluster.nodes[0].listen.split_once(':').expect("a port");
    let target = cluster.nodes[0].listen.clone();
    let address = format!("{}:{port}", own_ip());
    let _proxy = harness::Proxy::start(&address, &target);
    let ca = certs.ca();
    let words = ["status", "--ca", &ca, "--timeout", "2"];
    let elsewhere = logberg(&address, &words).output().expect("it runs");
    assert_eq!(elsewhere.status.code(), Some(3), "{}", err(&elsewhere));
    let said = err(&elsewhere);
    assert!(said.contains("does not name"), "{said}");
    // A node of another authority is not let in, and does not take ours for its own.
    let words = other.of_node("n9", "require");
    let data = cluster.directory.path().join("node9");
    let mut stranger = Node::new(data, format!("{}:7009", cluster.ip), &[]);
    stranger.arguments = [
        vec!["--join".to_owned(), cluster.nodes[0].listen.clone()],
        words,
    ]
    .concat();
    stranger.start();
    let says = || {
        stranger
            .said()
            .contains("no TLS with this node")
            .then_some(())
    };
    wait_for(says, || stranger.said());
    assert_eq!(
        stranger.status().map(|status| status["node"].clone()),
        None.or(Some(0.into()))
    );
}

#[test]
fn a_plain_cluster_goes_over_to_tls_and_tokens_by_rolling_restarts_under_appends() {
    let mut cluster = Cluster::start(3);
    let beside = cluster.directory.path().join("certs");
    let certs = Certs::make(beside, &cluster.ip);
    let ca = certs.ca();
    let first = Content::new(1, 6_000_000);
    let appending = cluster.append_in_background("main", &["--rate", "1M"], first);
    for index in 0..3 {
        let words = certs.of_node(&format!("n{}", index + 1), "accept");
        restart(&mut cluster, index, words);
    }
    let output = appending.wait();
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let bound = cluster.run(&["members", "bind", "--ca", &ca]);
    assert_eq!(bound.status.code(), Some(0), "{}", err(&bound));
    assert_eq!(
        out(&bound).matches("to be bound").count(),
        3,
        "{}",
        out(&bound)
    );
    // ‡ Plain text is taken, and no word of a node in it.
    let from = "peer kind=control log=0 from=2 to=1 guest=1 speaks=1-2 cluster=";
    let id = cluster.nodes[0].wait_answers()["cluster"].clone();
    let line = format!("logberg/1 {from}{}\n", id.as_str().expect("an id"));
    // A follower hears of it a moment later, and takes the stranger for that node until then: it may end his connection without a word.
    let refused = || {
        let answer = Raw::say(&cluster.nodes[0].listen, &line).try_line()?;
        (answer.starts_with("error no-proof") && answer.contains("n2 alone")).then_some(())
    };
    wait_for(refused, || cluster.logs());
    // Both are taken now.
    let second = Content::new(2, 6_000_000);
    let with_ca = ["--ca", &ca, "--rate", "1M"];
    let appending = cluster.append_in_background("main", &with_ca, second);
    for index in 0..3 {
        let words = certs.words(&format!("n{}", index + 1), "require");
        restart(&mut cluster, index, words);
    }
    let output = appending.wait();
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    check(&cluster, &certs, &[first, second]);
    // And tokens.
    let socket = format!("unix:{}/admin.sock", cluster.nodes[0].data.display());
    let words = ["token", "create", "root", "--allow", "all on *"];
    let made = logberg(&socket, &words).output().expect("it runs");
    assert_eq!(made.status.code(), Some(0), "{}", err(&made));
    let token = out(&made).trim().to_owned();
    let enabled = logberg(&socket, &["auth", "enable"]).output();
    let enabled = enabled.expect("it runs");
    assert_eq!(enabled.status.code(), Some(0), "{}", err(&enabled));
    let asks = |token: Option<&str>| {
        let mut command = cluster.logberg(&["streams", "main", "--ca", &ca]);
        if let Some(token) = token {
            command.env("LOGBERG_TOKEN", token);
        }
        command.output().expect("it runs").status.code()
    };
    wait_for(|| (asks(None) == Some(4)).then_some(()), || cluster.logs());
    assert_eq!(asks(Some(&token)), Some(0));
}

#[test]
fn a_renewed_certificate_is_taken_up_and_a_pair_that_does_not_fit_is_not() {
    let (cluster, certs) = secured();
    let own = certs.directory.join("n1");
    let says = |what: &str| {
        let has_said = || cluster.nodes[0].said().contains(what).then_some(());
        wait_for(has_said, || cluster.nodes[0].said());
    };
    // The key of another certificate.
    std::fs::copy(certs.directory.join("n2/tls.key"), own.join("tls.key")).expect("a copy");
    says("is not the key of");
    let ca = certs.ca();
    let one = cluster.nodes[0].listen.clone();
    let served = || {
        let words = ["status", "--ca", &ca, "--timeout", "5", "--json"];
        let output = logberg(&one, &words).output().expect("it runs");
        matches!(output.status.code(), Some(0 | 8)) && out(&output).contains("\"node\":1,")
    };
    assert!(
        served(),
        "it goes on with the certificate that it read before"
    );
    certs.run(&["node", "n1", "--host", &certs.ip, "--again"]);
    says("new connections are made by the new certificate");
    assert!(served());
}

#[test]
fn half_a_configuration_is_refused_with_the_remedy() {
    let directory = tempfile::tempdir().expect("a place");
    let ip = own_ip();
    let certs = Certs::make(directory.path().join("certs"), &ip);
    let words = certs.of_node("n1", "require");
    let own = certs.directory.join("n1");
    let refuses = |arguments: &[String], part: &str| {
        let data = directory.path().join("data");
        let mut node = Node::new(data, format!("{ip}:7001"), &["--bootstrap"]);
        node.arguments.extend(arguments.iter().cloned());
        let output = node.run();
        assert_eq!(output.status.code(), Some(2), "{}", err(&output));
        assert!(err(&output).contains(part), "{part}: {}", err(&output));
    };
    refuses(&words[..2], "--tls-dir DIR");
    refuses(&words[2..], "--tls accept");
    let wrong = [&["--tls".to_owned(), "maybe".to_owned()], &words[2..]].concat();
    refuses(&wrong, "neither accept nor require");
    let key = own.join("tls.key");
    let mode = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
    std::fs::set_permissions(&key, mode(0o644)).expect("ours");
    refuses(&words, "chmod 600");
    std::fs::set_permissions(&key, mode(0o600)).expect("ours");
    certs.run(&["node", "n2", "--host", &ip]);
    let whole = std::fs::read(&key).expect("a key");
    std::fs::copy(certs.directory.join("n2/tls.key"), &key).expect("a copy");
    refuses(&words, "is not the key of");
    std::fs::write(&key, "no key").expect("room");
    refuses(&words, "no private key");
    std::fs::write(&key, whole).expect("room");
    let certificate = own.join("tls.crt");
    let whole = std::fs::read(&certificate).expect("a certificate");
    std::fs::write(&certificate, &whole[..whole.len() / 2]).expect("room");
    refuses(&words, "no certificate");
    // The authority's own certificate names no node.
    std::fs::copy(certs.directory.join("ca.crt"), &certificate).expect("a copy");
    refuses(&words, "names no node");
    std::fs::remove_file(own.join("ca.crt")).expect("it is there");
    std::fs::write(&certificate, &whole).expect("room");
    refuses(&words, "cannot read");
}

/// The certificate of a client, or of a server that is no node, makes no node.
#[test]
fn nonsense_in_the_place_of_a_handshake_ends_alone() {
    let (cluster, certs) = secured();
    let address = &cluster.nodes[0].listen;
    let mut held = Vec::new();
    // Half handshakes, more than may shake hands at once; and what only looks like one.
    for _ in 0..400 {
        let Ok(mut socket) = TcpStream::connect(address) else {
            continue;
        };
        let _ = socket.write_all(&[0x16, 3, 1, 2, 0, 1, 0, 1, 252]);
        held.push(socket);
    }
    let mut socket = TcpStream::connect(address).expect("it listens");
    let _ = socket.write_all(&[0x16; 4096]);
    let mut rest = Vec::new();
    let _ = socket.read_to_end(&mut rest);
    let content = Content::new(3, 1_000_000);
    cluster.append("main", &["--ca", &certs.ca()], content);
    check(&cluster, &certs, &[content]);
    drop(held);
}

#[test]
fn dev_serves_tls_with_certificates_of_its_own() {
    let directory = tempfile::tempdir().expect("a place");
    let place = directory.path().join("dev");
    let shown = place.to_str().expect("a plain path");
    let port = harness_port();
    let mut dev = logberg(
        "127.0.0.1:1",
        &["dev", "--tls", "--json", "--dir", shown, "--no-kv"],
    );
    dev.args(["--no-http", "--port", &port.to_string()])
        .stderr(Stdio::null());
    let mut child = dev.spawn().expect("it runs");
    let mut line = String::new();
    let output = child.stdout.take().expect("piped");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).expect("a line");
    let told: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    let ca = told["ca"].as_str().expect("a path").to_owned();
    assert!(Path::new(&ca).exists());
    let server = format!("127.0.0.1:{port}");
    let status = logberg(
        &server,
        &["status", "--wait", "--ca", &ca, "--timeout", "60"],
    )
    .output();
    let status = status.expect("it runs");
    let _ = std::process::Command::new("kill")
        .arg(child.id().to_string())
        .status();
    assert_eq!(child.wait().expect("our child").code(), Some(0));
    assert_eq!(
        status.status.code(),
        Some(0),
        "{}{}",
        out(&status),
        err(&status)
    );
}

/// A port with two free ones behind it.
fn harness_port() -> u16 {
    for base in (18_000..30_000).step_by(7) {
        let free = |port| std::net::TcpListener::bind(("127.0.0.1", port)).is_ok();
        if (base..base + 3).all(free) {
            return base;
        }
    }
    panic!("no three ports are free");
}

/// What `status` warns of at one node, by its socket.
pub fn warns(node: &Node, code: &str) -> bool {
    let status = node.status().unwrap_or_default();
    let warnings = status["health"]["warnings"].as_array();
    warnings.is_some_and(|all| {
        all.iter()
            .any(|one| one["code"] == code && one["active"] == true)
    })
}

/// Starts a node again with the directory of that certificate.
fn show(cluster: &mut Cluster, certs: &Certs, index: usize, name: &str) {
    let node = &mut cluster.nodes[index];
    if node.is_running() {
        node.kill();
    }
    let at = node.arguments.iter().position(|word| word == "--tls");
    let at = at.expect("it speaks TLS");
    node.arguments.drain(at..at + 4);
    node.arguments.extend(certs.words(name, "require"));
    node.start();
}

/// ‡ The disk is its own, and so is its key: only the certificate is another node's.
#[test]
fn a_node_with_anothers_certificate_is_refused_and_told_in_the_audit() {
    let (mut cluster, certs) = secured();
    let ca = certs.ca();
    let listed = cluster.run(&["members", "--ca", &ca]);
    assert_eq!(listed.status.code(), Some(0), "{}", err(&listed));
    assert!(out(&listed).contains("CERTIFICATE"), "{}", out(&listed));
    assert!(!warns(&cluster.nodes[0], "names-not-bound"));
    let one = cluster.nodes.iter().position(|node| node.id == 3);
    let index = one.expect("there are three");
    show(&mut cluster, &certs, index, "n2");
    let told = |node: &Node| {
        let said = node.said();
        let audit = said.lines().find(|line| {
            line.contains("audit")
                && line.contains("peer as node 3")
                && line.contains("certificate n2")
        });
        audit.map(|line| assert!(line.contains("n3 alone"), "{line}"))
    };
    wait_for(|| told(&cluster.nodes[0]), || cluster.logs());
    let hears_why = || {
        let said = cluster.nodes[index].said();
        said.contains("let --tls-dir of each node hold its own certificate")
            .then_some(())
    };
    wait_for(hears_why, || cluster.logs());
    let content = Content::new(1, 100_000);
    cluster.append("main", &["--ca", &ca], content);
    show(&mut cluster, &certs, index, "n3");
    cluster.wait_whole();
    check(&cluster, &certs, &[content]);
    // A certificate's new name, bound by hand.
    certs.run(&["node", "cellar", "--host", &certs.ip]);
    let renamed = cluster.run(&["members", "rename-certificate", "3", "cellar", "--ca", &ca]);
    assert_eq!(renamed.status.code(), Some(0), "{}", err(&renamed));
    let own = certs.directory.join("n3");
    for file in ["tls.crt", "tls.key"] {
        std::fs::copy(certs.directory.join("cellar").join(file), own.join(file)).expect("a copy");
    }
    // It is read at once.
    cluster.nodes[index].signal("-HUP");
    let reads = || {
        let said = cluster.nodes[index].said();
        said.contains("new connections are made by the new certificate")
            .then_some(())
    };
    wait_for(reads, || cluster.logs());
    cluster.wait_whole();
    let listed = out(&cluster.run(&["members", "--ca", &ca, "--json"]));
    assert!(listed.contains("\"certificate\":\"cellar\""), "{listed}");
}

#[test]
fn a_lost_disk_keeps_its_certificate_and_the_old_id_is_nobody() {
    let (mut cluster, certs) = secured();
    let ca = certs.ca();
    let index = cluster.nodes.iter().position(|node| node.id == 3);
    let index = index.expect("there are three");
    cluster.nodes[index].kill();
    let kept = cluster.directory.path().join("kept");
    std::fs::rename(&cluster.nodes[index].data, &kept).expect("a disk that is lost");
    // The machine has its certificate still, and a disk that nobody knows.
    cluster.nodes[index].start();
    let refused = || {
        let said = cluster.nodes[index].said();
        said.contains("n3 is the certificate of node 3")
            .then_some(())
    };
    wait_for(refused, || cluster.logs());
    cluster.nodes[index].kill();
    let replaces = ["--replaces", "3"].map(str::to_owned);
    cluster.nodes[index].arguments.extend(replaces);
    cluster.nodes[index].start();
    let joined = || {
        let status = cluster.nodes[index].status()?;
        (status["node"] == 4).then_some(())
    };
    wait_for(joined, || cluster.logs());
    let words = ["members", "replace", "3", "4", "--yes", "--ca", &ca];
    let replaced = cluster.run(&words);
    assert_eq!(replaced.status.code(), Some(0), "{}", err(&replaced));
    let content = Content::new(1, 100_000);
    cluster.append("main", &["--ca", &ca], content);
    check(&cluster, &certs, &[content]);
    // The disk turns up, with the key that proves it and the certificate that is another node's by now.
    let mut old = Node::new(kept, format!("{}:7009", cluster.ip), &[]);
    old.arguments = certs.words("n3", "require");
    old.start();
    let removed = || {
        let said = old.said();
        said.contains("a peer refuses this node").then_some(())
    };
    wait_for(removed, || old.said());
}

#[test]
fn a_node_that_requires_certificates_goes_on_where_names_are_not_bound_and_says_so() {
    let mut cluster = Cluster::start_with(1, 1, |_| {});
    // Its entry in log 0 is made without a certificate.
    cluster.append("main", &[], Content::new(1, 1_000));
    let beside = cluster.directory.path().join("certs");
    let certs = Certs::make(beside, &cluster.ip);
    let words = certs.of_node("n1", "require");
    restart(&mut cluster, 0, words);
    let node = &cluster.nodes[0];
    wait_for(
        || warns(node, "names-not-bound").then_some(()),
        || node.said(),
    );
    let ca = certs.ca();
    let plan = cluster.run(&["members", "bind", "--plan", "--ca", &ca]);
    assert_eq!(plan.status.code(), Some(0), "{}", err(&plan));
    assert!(
        out(&plan).contains("node 1  n1  to be bound"),
        "{}",
        out(&plan)
    );
    let bound = cluster.run(&["members", "bind", "--ca", &ca]);
    assert_eq!(bound.status.code(), Some(0), "{}", err(&bound));
    let again = cluster.run(&["members", "bind", "--ca", &ca]);
    assert!(out(&again).contains("node 1  n1  bound"), "{}", out(&again));
    let gone = |code: &str| (!warns(node, code)).then_some(());
    wait_for(|| gone("names-not-bound"), || node.said());
    // Another certificate, which ends soon; then a longer one.
    let host = ["node", "n1", "--host", &certs.ip, "--again", "--days"];
    certs.run(&[&host[..], &["20"]].concat());
    node.signal("-HUP");
    let held = |code: &str| warns(node, code).then_some(());
    wait_for(|| held("certificate-expires"), || node.said());
    certs.run(&[&host[..], &["200"]].concat());
    node.signal("-HUP");
    wait_for(|| gone("certificate-expires"), || node.said());
    // Whoever still speaks plain text is told of, where that is taken.
    let words = certs.words("n1", "accept");
    restart(&mut cluster, 0, words);
    let node = &cluster.nodes[0];
    assert!(!warns(node, "plain-connections"), "{}", node.said());
    let plain = cluster.run(&["status"]);
    // A machine that is slow for a moment makes it 8.
    assert!(
        matches!(plain.status.code(), Some(0 | 8)),
        "{}",
        err(&plain)
    );
    let held = || warns(node, "plain-connections").then_some(());
    wait_for(held, || node.said());
}

/// ‡ Whoever says half of a hello, again and again, takes no place from those who say all of it.
#[test]
fn thousands_of_half_handshakes_lock_out_neither_clients_nor_nodes() {
    const STRANGERS: usize = 3_000;
    let (mut cluster, certs) = secured();
    let ca = certs.ca();
    // A record of a handshake, of which nothing more comes.
    let half = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
    let target = cluster.nodes[0].listen.clone();
    let pid = cluster.nodes[0].pid();
    let open = || {
        let files = std::fs::read_dir(format!("/proc/{pid}/fd"));
        files.expect("it lives").count()
    };
    let before = open();
    let mut held = VecDeque::new();
    let content = Content::new(1, 3_000_000);
    let appending = cluster.append_in_background("main", &["--ca", &ca, "--rate", "1M"], content);
    let mut stranger = |number: usize| {
        let mut socket = TcpStream::connect(&target).expect("it listens");
        // It may have been sent away already.
        let _ = socket.write_all(&half[..1 + number % half.len()]);
        held.push_back(socket);
        // As many as a process may have files, and more than the node keeps.
        if held.len() > 700 {
            held.pop_front();
        }
    };
    (0..STRANGERS).for_each(&mut stranger);
    // Each that the node keeps is a file of its own, and 700 are held here. Others come all the time, so that none
    // of them leaves because its handshake took too long; some that were sent away are being closed still.
    wait_for(
        || {
            (0..20).for_each(&mut stranger);
            (open() < before + 450).then_some(())
        },
        || format!("{} files are open after {before}", open()),
    );
    let status = logberg(&target, &["status", "--ca", &ca, "--timeout", "10"]);
    let status = { status }.output().expect("it runs");
    assert!(
        matches!(status.status.code(), Some(0 | 8)),
        "{}",
        err(&status)
    );
    // A node that comes back shakes hands among them.
    cluster.nodes[2].kill();
    cluster.nodes[2].start();
    cluster.wait_whole();
    let output = appending.wait();
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    check(&cluster, &certs, &[content]);
    drop(held);
}
