//! `--tls-crl`: whoever's certificate is in the list is let in no more, and dialled no more.

use std::fs;
use std::path::Path;
use std::process::Output;

use crate::harness::{Cluster, Node, err, logberg, out, own_ip, wait_for};
use crate::tls::Certs;

/// Three nodes that go by a list of revoked certificates, which names one already.
fn with_a_list() -> (Cluster, Certs) {
    let mut certs = None;
    let cluster = Cluster::start_with(3, 3, |node| {
        let (ip, _) = node.listen.split_once(':').expect("a port");
        let beside = node.data.parent().expect("the cluster's").join("certs");
        let certs = certs.get_or_insert_with(|| {
            let certs = Certs::make(beside, ip);
            certs.run(&["client", "gone"]);
            revoke(&certs, "gone");
            certs
        });
        node.arguments
            .extend(certs.of_node(&format!("n{}", node.id), "require"));
        node.arguments.extend(["--tls-crl".to_owned(), list(certs)]);
    });
    cluster.wait_whole();
    (cluster, certs.expect("there are nodes"))
}

fn list(certs: &Certs) -> String {
    certs.directory.join("ca.crl").display().to_string()
}

fn revoke(certs: &Certs, name: &str) {
    let path = certs.directory.join(name).display().to_string();
    let said = certs.run(&["revoke", &path]);
    assert!(said.contains("is revoked; give"), "{said}");
}

/// The status of a node, as a client with a certificate in that directory asks for it.
fn status_as(certs: &Certs, own: &Path, server: &str) -> Output {
    let file = |name: &str| own.join(name).display().to_string();
    let (certificate, key, ca) = (file("tls.crt"), file("tls.key"), certs.ca());
    let words = ["status", "--json", "--timeout", "5", "--ca", &ca];
    let mut command = logberg(server, &words);
    command.args(["--cert", &certificate, "--key", &key]);
    command.output().expect("it runs")
}

fn is_served(output: &Output) -> bool {
    matches!(output.status.code(), Some(0 | 8)) && out(output).contains("\"cluster\"")
}

#[test]
fn who_is_revoked_is_let_in_no_more_and_a_renewed_certificate_is() {
    let (mut cluster, certs) = with_a_list();
    certs.run(&["client", "alice"]);
    let alice = certs.directory.join("alice");
    let one = cluster.nodes[0].listen.clone();
    let gone = status_as(&certs, &certs.directory.join("gone"), &one);
    assert_eq!(gone.status.code(), Some(3), "{}", out(&gone));
    assert!(is_served(&status_as(&certs, &alice, &one)));
    let hang_up = |cluster: &Cluster| cluster.nodes.iter().for_each(|node| node.signal("-HUP"));
    // Kept aside, to be shown again.
    let old = certs.directory.join("old");
    fs::create_dir(&old).expect("room");
    for file in ["tls.crt", "tls.key"] {
        fs::copy(alice.join(file), old.join(file)).expect("a copy");
    }
    revoke(&certs, "alice");
    hang_up(&cluster);
    let is_refused = |own: &Path, server: &str| {
        let refused = status_as(&certs, own, server);
        (refused.status.code() == Some(3)).then_some(())
    };
    for node in &cluster.nodes {
        wait_for(|| is_refused(&old, &node.listen), || node.said());
    }
    certs.run(&["client", "alice", "--again"]);
    for node in &cluster.nodes {
        let served = status_as(&certs, &alice, &node.listen);
        assert!(is_served(&served), "{}", err(&served));
    }

    // A list that cannot be used changes nothing: the one before holds.
    fs::write(list(&certs), "no list").expect("room");
    cluster.nodes[0].signal("-HUP");
    let says = |node: &Node, what: &str| node.said().contains(what).then_some(());
    let node = &cluster.nodes[0];
    wait_for(
        || says(node, "no list of revoked certificates"),
        || node.said(),
    );
    assert!(is_refused(&old, &one).is_some(), "it is revoked still");
    assert!(is_served(&status_as(&certs, &alice, &one)));
    fs::remove_file(list(&certs)).expect("it is there");
    for name in ["gone", "old"] {
        revoke(&certs, name);
    }

    // A node: the others neither let it in nor dial it.
    revoke(&certs, "n3");
    hang_up(&cluster);
    let taken = |node: &Node| says(node, "new connections are made by the new certificate");
    for node in &cluster.nodes[..2] {
        wait_for(|| taken(node), || node.said());
    }
    cluster.nodes[2].kill();
    cluster.nodes[2].start();
    let one = &cluster.nodes[0];
    wait_for(|| says(one, "no TLS with this node"), || one.said());
    assert!(one.said().contains("Revoked"), "{}", one.said());
    let unreachable = || crate::tls::warns(one, "node-unreachable").then_some(());
    wait_for(unreachable, || one.said());
    let ca = certs.ca();
    let append = cluster.run_with_input(&["append", "main", "--ca", &ca], b"bytes");
    assert_eq!(append.status.code(), Some(0), "{}", err(&append));
    certs.run(&["node", "n3", "--host", cluster.ip.as_str(), "--again"]);
    cluster.wait_whole();
}

#[test]
fn a_list_that_is_none_or_anothers_is_refused_at_the_start() {
    let place = tempfile::tempdir().expect("a place");
    let ip = own_ip();
    let certs = Certs::make(place.path().join("certs"), &ip);
    let other = Certs::make(place.path().join("other"), &ip);
    for certs in [&certs, &other] {
        certs.run(&["client", "gone"]);
        revoke(certs, "gone");
    }
    let words = certs.of_node("n1", "require");
    let refuses = |words: &[String], list: &str, part: &str| {
        let data = place.path().join("data");
        let mut node = Node::new(data, format!("{ip}:7001"), &["--bootstrap"]);
        node.arguments.extend(words.iter().cloned());
        node.arguments
            .extend(["--tls-crl".to_owned(), list.to_owned()]);
        let output = node.run();
        assert_eq!(output.status.code(), Some(2), "{}", err(&output));
        assert!(err(&output).contains(part), "{part}: {}", err(&output));
    };
    let file = |name: &str| place.path().join(name).display().to_string();
    refuses(&words, &file("nothing"), "cannot read");
    refuses(
        &words,
        &list(&other),
        "no authority in ca.crt has signed it",
    );
    refuses(&words, &certs.ca(), "no list of revoked certificates");
    let whole = fs::read(list(&certs)).expect("a list");
    fs::write(file("half"), &whole[..whole.len() / 2]).expect("room");
    refuses(&words, &file("half"), "no list of revoked certificates");
    fs::write(file("empty"), "").expect("room");
    refuses(&words, &file("empty"), "no list of revoked certificates");
    refuses(&[], &list(&certs), "--tls require");
}
