//! Clients of the same machine, over Unix sockets.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::harness;

use harness::{Cluster, Content, Node, err, logberg, out, own_ip, wait_for};

fn admin(node: &Node) -> PathBuf {
    node.data.join("admin.sock")
}

fn unix(path: &Path) -> String {
    format!("unix:{}", path.display())
}

fn asks(server: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = logberg(server, arguments)
        .output()
        .expect("the binary runs");
    (output.status.code(), out(&output), err(&output))
}

#[test]
fn a_client_of_the_same_machine_needs_no_port() {
    let place = tempfile::tempdir().expect("a place");
    let shared = place.path().join("shared.sock");
    let cluster = Cluster::start_with(3, 3, |node| {
        if node.id == 2 {
            let also = format!("{}?mode=0660", unix(&shared));
            node.arguments.extend(["--listen".to_owned(), also]);
        }
    });
    let content = Content::new(1, 3_000_000);
    cluster.append("main", &[], content);
    let mode = |path: &Path| {
        fs::metadata(path)
            .expect("it is there")
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!(mode(&shared), 0o660);
    for (log, path) in [
        ("a", admin(&cluster.nodes[0])),
        ("b", admin(&cluster.nodes[2])),
        ("c", shared),
    ] {
        let server = unix(&path);
        // Whoever of the three leads: the answer says where the leader is.
        let (code, said, why) = asks(&server, &["log", "create", log]);
        assert_eq!(code, Some(0), "{said}{why}");
        let read = logberg(&server, &["read", "main"]).output();
        let read = read.expect("the binary runs");
        assert_eq!(read.status.code(), Some(0), "{}", err(&read));
        assert_eq!(read.stdout.len(), 3_000_000);
        // A log was made just now: how well it is, is another question.
        let (_, said, why) = asks(&server, &["status", "--json"]);
        assert!(said.contains("\"cluster\""), "{said}{why}");
    }
    assert_eq!(mode(&admin(&cluster.nodes[0])), 0o600);
}

#[test]
fn a_socket_is_taken_over_from_a_killed_node_and_from_no_living_one() {
    let place = tempfile::tempdir().expect("a place");
    let path = place.path().join("own.sock");
    let shown = path.to_str().expect("plain").to_owned();
    let mut cluster = Cluster::start_with(1, 1, |node| {
        node.arguments
            .extend(["--socket".to_owned(), shown.clone()]);
    });
    let node = &mut cluster.nodes[0];
    assert!(!admin(node).exists(), "another path was said");
    node.kill();
    assert!(path.exists(), "a killed node leaves its file");
    node.start();
    wait_for(
        || asks(&unix(&path), &["members"]).0.filter(|code| *code == 0),
        || node.said(),
    );
    let second = |arguments: &[&str]| {
        let listen = format!("{}:7117", own_ip());
        let data = place.path().join("second");
        let mut command = logberg("x:1", &["node", "--bootstrap", "--listen", &listen]);
        let output = command.arg("--data").arg(&data).args(arguments).output();
        let output = output.expect("the binary runs");
        (output.status.code(), err(&output))
    };
    let (code, why) = second(&["--socket", &shown]);
    assert_eq!(code, Some(1), "{why}");
    assert!(why.contains("a living process listens on"), "{why}");
    let (code, why) = second(&["--listen", &unix(&path)]);
    assert_eq!(code, Some(1), "{why}");
    assert!(why.contains("a living process listens on"), "{why}");
    let node = &mut cluster.nodes[0];
    node.signal("-TERM");
    assert_eq!(node.wait(), Some(0));
    assert!(!path.exists(), "a node that ends takes its file along");
    // Nobody listens: the sentence is of the path.
    let (code, _, why) = asks(&unix(&path), &["--timeout", "0.5", "status"]);
    assert!(
        code != Some(0) && why.contains("own.sock"),
        "{code:?} {why}"
    );
}

#[test]
fn a_path_that_is_too_long_for_a_socket_is_a_warning_and_no_reason_not_to_start() {
    let place = tempfile::tempdir().expect("a place");
    let deep = place.path().join("d".repeat(120));
    fs::create_dir(&deep).expect("room");
    let listen = format!("{}:7117", own_ip());
    let mut node = Node::new(deep.join("data"), listen.clone(), &["--bootstrap"]);
    node.start();
    node.wait_answers();
    let said = node.said();
    assert!(
        said.contains("at most 107") && said.contains("--socket"),
        "{said}"
    );
    node.kill();
    let mut node = Node::new(
        place.path().join("quiet"),
        listen,
        &["--bootstrap", "--socket", "off"],
    );
    node.start();
    node.wait_answers();
    assert!(!admin(&node).exists());
    assert!(!node.said().contains("socket"), "{}", node.said());
}

/// The mode of the file keeps others out; and if somebody changes that, its owner is still the only one.
#[test]
fn the_socket_of_a_node_answers_nobody_else() {
    if !harness::is_root() {
        return;
    }
    let place = tempfile::tempdir().expect("a place");
    let open = |path: &Path, mode| {
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(path, mode).expect("ours");
    };
    open(place.path(), 0o755);
    let listen = format!("{}:7117", own_ip());
    let shared = place.path().join("shared.sock");
    let also = format!("{}?mode=0666", unix(&shared));
    let data = place.path().join("data");
    let mut node = Node::new(data, listen, &["--bootstrap", "--listen", &also]);
    node.start();
    node.wait_answers();
    let own = admin(&node);
    open(&node.data, 0o755);
    open(&own, 0o777);
    let as_nobody = |path: &Path| {
        let server = unix(path);
        let mut command = logberg(&server, &["--timeout", "1", "status", "--json"]);
        harness::as_nobody(&mut command);
        let output = command.output().expect("the binary runs");
        (output.status.code(), err(&output))
    };
    let (code, why) = as_nobody(&shared);
    assert_eq!(code, Some(0), "{why}");
    let (code, why) = as_nobody(&own);
    assert_ne!(code, Some(0), "{why}");
    assert_eq!(asks(&unix(&own), &["status"]).0, Some(0));
}
