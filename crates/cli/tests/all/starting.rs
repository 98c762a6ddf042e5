//! A node that cannot start says why in one sentence, and which way out there is.

use crate::harness;

use std::fs;
use std::net::TcpListener;
use std::path::Path;

use harness::{
    Cluster, Content, Node, Raw, as_nobody, ask, copy_tree, err, is_root, own_ip, raw, wait_for,
};

/// A node of no cluster, to be run until it gives up.
fn lone(directory: &Path, arguments: &[&str]) -> Node {
    Node::new(
        directory.to_owned(),
        format!("{}:7001", own_ip()),
        arguments,
    )
}

/// Ends with that code and one sentence that contains each of these.
fn check_refuses(node: &Node, code: i32, parts: &[&str]) {
    let output = node.run();
    let said = err(&output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    let sentence = said.lines().last().unwrap_or_default();
    assert!(sentence.starts_with("logberg: "), "{said}");
    for part in parts {
        assert!(sentence.contains(part), "{part:?} is not in: {sentence}");
    }
    assert!(!said.contains("panicked"), "{said}");
}

/// One node that served and ended, and its directory.
fn served() -> (Cluster, Content) {
    let mut cluster = Cluster::start(1);
    let content = Content::new(1, 3_000_000);
    cluster.append("main", &[], content);
    cluster.nodes[0].signal("-TERM");
    assert_eq!(cluster.nodes[0].wait(), Some(0));
    (cluster, content)
}

/// Rewrites the manifest's page and gives it a fitting checksum and this version.
fn edit_manifest(directory: &Path, version: u32, edit: impl FnOnce(String) -> String) {
    let path = directory.join("manifest");
    let text = fs::read_to_string(&path).expect("a manifest");
    let (_, body) = text.split_once('\n').expect("a first line");
    let body = edit(body.to_owned());
    let sealed = crc32c::crc32c(&version.to_le_bytes());
    let checksum = crc32c::crc32c_append(sealed, body.as_bytes());
    let text = format!("logberg-manifest {version} crc32c={checksum:08x}\n{body}");
    fs::write(path, text).expect("room");
}

#[test]
fn a_port_in_use_is_named() {
    let directory = tempfile::tempdir().expect("a place");
    let node = lone(&directory.path().join("d"), &["--bootstrap"]);
    let _other = TcpListener::bind(&node.listen).expect("a free port");
    check_refuses(&node, 1, &[&node.listen, "in use", "--listen"]);
}

#[test]
fn an_address_that_is_not_ours_is_refused() {
    let directory = tempfile::tempdir().expect("a place");
    let mut node = lone(&directory.path().join("d"), &["--bootstrap"]);
    node.listen = "203.0.113.1:7001".to_owned();
    check_refuses(&node, 1, &["203.0.113.1:7001", "--listen"]);
}

#[test]
fn a_file_in_the_place_of_the_directory_is_refused() {
    let directory = tempfile::tempdir().expect("a place");
    let file = directory.path().join("d");
    fs::write(&file, "a file").expect("room");
    check_refuses(&lone(&file, &["--bootstrap"]), 1, &["/d", "--data"]);
    check_refuses(
        &lone(&file.join("below"), &["--bootstrap"]),
        1,
        &["below", "--data"],
    );
    assert_eq!(fs::read_to_string(&file).expect("there"), "a file");
}

#[test]
fn a_directory_that_may_not_be_written_is_refused() {
    if !is_root() {
        println!("not run: only root can become another user");
        return;
    }
    let directory = tempfile::tempdir().expect("a place");
    let place = directory.path().join("d");
    fs::create_dir(&place).expect("a directory");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(directory.path(), open).expect("ours");
    let binary = directory.path().join("logberg");
    fs::copy(harness::BINARY, &binary).expect("a copy");
    for data in [place.clone(), place.join("new")] {
        let mut command = std::process::Command::new(&binary);
        command.args([
            "node",
            "--bootstrap",
            "--listen",
            &format!("{}:7001", own_ip()),
        ]);
        command.arg("--data").arg(&data);
        as_nobody(&mut command);
        let output = command.output().expect("it runs");
        let said = err(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(
            said.contains("ermission denied") && said.contains("/d"),
            "{said}"
        );
    }
    assert_eq!(fs::read_dir(&place).expect("there").count(), 0);
}

#[test]
fn an_empty_directory_needs_bootstrap_or_join() {
    let directory = tempfile::tempdir().expect("a place");
    let place = directory.path().join("d");
    check_refuses(&lone(&place, &[]), 2, &["/d", "--bootstrap", "--join"]);
}

#[test]
fn a_directory_of_something_else_is_left_alone() {
    let directory = tempfile::tempdir().expect("a place");
    let place = directory.path().join("photos");
    fs::create_dir(&place).expect("a directory");
    fs::write(place.join("cat.jpg"), "meow").expect("room");
    for words in [&["--bootstrap"][..], &["--join", "127.0.0.1:1"]] {
        check_refuses(
            &lone(&place, words),
            4,
            &["photos", "not a Logberg directory", "--data"],
        );
    }
    assert_eq!(
        fs::read_to_string(place.join("cat.jpg")).expect("there"),
        "meow"
    );
    assert!(!place.join("manifest").exists());
}

/// Killed in the middle of writing its first manifest.
#[test]
fn a_first_start_that_was_killed_is_begun_again() {
    let directory = tempfile::tempdir().expect("a place");
    let place = directory.path().join("node1");
    fs::create_dir(&place).expect("a directory");
    fs::write(place.join("lock"), "").expect("room");
    fs::write(place.join(".manifest.new"), "logberg-mani").expect("room");
    let mut node = lone(&place, &["--bootstrap"]);
    node.start();
    assert_eq!(node.wait_answers()["node"], 1);
}

/// A node that was killed while it joined has no id; without servers to ask it would wait for ever.
#[test]
fn a_node_that_has_not_joined_yet_needs_servers_to_ask() {
    let directory = tempfile::tempdir().expect("a place");
    let place = directory.path().join("node2");
    let mut node = lone(&place, &["--join", "127.0.0.1:1"]);
    node.start();
    wait_for(
        || place.join("manifest").exists().then_some(()),
        || node.said(),
    );
    node.kill();
    for words in [&[][..], &["--bootstrap"]] {
        check_refuses(&lone(&place, words), 2, &["node2", "--join HOST:PORT"]);
    }
    let cluster = Cluster::start(1);
    node.arguments = vec!["--join".to_owned(), cluster.nodes[0].listen.clone()];
    node.start();
    wait_for(
        || node.status().filter(|status| status["node"] == 2),
        || node.said(),
    );
}

#[test]
fn a_directory_in_use_is_refused_and_its_user_goes_on() {
    let cluster = Cluster::start(1);
    let mut second = lone(&cluster.nodes[0].data, &[]);
    check_refuses(&second, 4, &["node1", "in use"]);
    second.arguments.push("--bootstrap".to_owned());
    check_refuses(&second, 4, &["node1", "in use"]);
    cluster.append("main", &[], Content::new(2, 1000));
    cluster.check_same("main", &[Content::new(2, 1000)]);
}

#[test]
fn a_newer_manifest_needs_a_newer_program() {
    let (cluster, content) = served();
    let node = &cluster.nodes[0];
    edit_manifest(&node.data, 9, |body| body);
    check_refuses(node, 1, &["manifest", "version 9", "newer program"]);
    edit_manifest(&node.data, 1, |body| body);
    check_reads_again(cluster, content);
}

#[test]
fn a_newer_segment_needs_a_newer_program_and_stays() {
    let (cluster, content) = served();
    let node = &cluster.nodes[0];
    let first = node.segments(1)[0].clone();
    let whole = fs::read(&first).expect("a segment");
    let mut newer = whole.clone();
    // The version after the checksum, which a newer program would have computed the same way.
    newer[12] += 1;
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&newer[..8]), &newer[12..4096]);
    newer[8..12].copy_from_slice(&checksum.to_le_bytes());
    fs::write(&first, &newer).expect("room");
    check_refuses(node, 9, &["log-1", "newer"]);
    assert!(fs::read(&first).expect("still there") == newer);
    fs::write(&first, whole).expect("room");
    check_reads_again(cluster, content);
}

fn check_reads_again(mut cluster: Cluster, content: Content) {
    cluster.nodes[0].start();
    cluster.wait_whole();
    cluster.check_same("main", &[content]);
}

#[test]
fn a_damaged_manifest_is_no_empty_directory() {
    let (cluster, _) = served();
    let node = &cluster.nodes[0];
    let path = node.data.join("manifest");
    let whole = fs::read(&path).expect("a manifest");
    let half = whole[..whole.len() / 2].to_vec();
    let mut flipped = whole.clone();
    flipped[60] ^= 4;
    for damaged in [half, flipped, Vec::new(), b"hello\n".to_vec()] {
        fs::write(&path, &damaged).expect("room");
        check_refuses(node, 9, &["manifest", "damaged"]);
        assert!(fs::read(&path).expect("still there") == damaged);
    }
}

#[test]
fn a_node_goes_on_in_its_own_cluster_where_another_one_answers() {
    let (mut first, content) = served();
    let second = Cluster::start(1);
    let server = second.nodes[0].listen.clone();
    let mut strayed = Node::new(
        first.nodes[0].data.clone(),
        format!("{}:7009", own_ip()),
        &["--join", &server],
    );
    strayed.id = first.nodes[0].id;
    first.nodes[0] = strayed;
    first.nodes[0].start();
    wait_for(
        || {
            first.nodes[0]
                .said()
                .contains("to another cluster")
                .then_some(())
        },
        || first.nodes[0].said(),
    );
    let said = first.nodes[0].said();
    for part in [&server, "goes on in its own", "--data", "--join"] {
        assert!(said.contains(part), "{part:?} is not in: {said}");
    }
    first.wait_whole();
    first.check_same("main", &[content]);
    assert!(first.nodes[0].is_running());
}

#[test]
fn a_manifest_without_its_logs_is_a_lost_disk() {
    let (cluster, _) = served();
    let node = &cluster.nodes[0];
    let place = cluster.directory.path().join("new");
    fs::create_dir(&place).expect("a directory");
    fs::copy(node.data.join("manifest"), place.join("manifest")).expect("a copy");
    for words in [&["--bootstrap"][..], &["--join", "127.0.0.1:1"], &[]] {
        check_refuses(
            &lone(&place, words),
            9,
            &["log-0", "disk is lost", "join again"],
        );
    }
}

#[test]
fn a_log_directory_that_was_emptied_is_no_new_log() {
    let (cluster, _) = served();
    let node = &cluster.nodes[0];
    for segment in node.segments(1) {
        fs::remove_file(segment).expect("ours");
    }
    check_refuses(node, 9, &["log 1", "log-1"]);
}

#[test]
fn a_copied_directory_started_twice_is_refused_by_the_peers() {
    let mut cluster = Cluster::start(3);
    let content = Content::new(3, 500_000);
    cluster.append("main", &[], content);
    let third = &mut cluster.nodes[2];
    third.kill();
    let copy = cluster.directory.path().join("copy");
    copy_tree(&third.data, &copy);
    third.start();
    cluster.wait_whole();
    let mut second = lone(&copy, &[]);
    second.start();
    // Nobody believes it, and the three go on as if it were not there.
    wait_for(
        || {
            cluster.nodes[0]
                .said()
                .contains("a peer is refused")
                .then_some(())
        },
        || format!("nobody refused it\n{}\n{}", cluster.logs(), second.said()),
    );
    assert!(
        cluster.nodes[0].said().contains("its directory was copied"),
        "{}",
        cluster.logs()
    );
    let more = Content::new(4, 500_000);
    cluster.append("main", &[], more);
    second.kill();
    cluster.wait_whole();
    cluster.check_same("main", &[content, more]);
}

#[test]
fn a_node_of_another_cluster_is_refused_by_the_peers() {
    let mut ours = Cluster::start(2);
    let mut theirs = Cluster::start(2);
    for node in &mut theirs.nodes {
        node.kill();
    }
    // One of ours answers where their second node was.
    ours.nodes[1].kill();
    ours.nodes[1].listen = theirs.nodes[1].listen.clone();
    ours.nodes[1].start();
    ours.wait_whole();
    let stranger = &mut theirs.nodes[0];
    stranger.start();
    wait_for(
        || stranger.said().contains("is of cluster").then_some(()),
        || {
            format!(
                "it does not say why it is alone\n{}\n{}",
                stranger.said(),
                ours.logs()
            )
        },
    );
    ours.append("main", &[], Content::new(5, 1000));
    ours.nodes[0].kill();
    ours.nodes[0].start();
    ours.wait_whole();
    ours.check_same("main", &[Content::new(5, 1000)]);
}

#[test]
fn few_open_files_are_enough_to_serve() {
    let mut cluster = Cluster::start_with(1, 1, |node| node.files_max = Some(128));
    cluster.wait_whole();
    assert!(
        cluster.nodes[0].said().contains("few files may be open"),
        "{}",
        cluster.logs()
    );
    let address = cluster.nodes[0].listen.clone();
    // More than there are files for; the kernel takes the rest into its queue.
    let crowd: Vec<Raw> = (0..100)
        .filter_map(|_| Raw::try_connect(&address))
        .collect();
    assert!(cluster.nodes[0].is_running());
    drop(crowd);
    // Connections that stay, as many as it takes; the segments' files are not theirs.
    let stays = |address: &str| {
        let mut raw = Raw::try_connect(address)?;
        raw.try_send(b"logberg/1 read main follow=1 format=framed\n")?;
        raw.try_line().filter(|line| line.starts_with("reading "))?;
        Some(raw)
    };
    let mut followers: Vec<Raw> = (0..100).filter_map(|_| stays(&address)).collect();
    assert!(followers.len() < 100, "there are no files for so many");
    let refused = raw::answer(&address, "logberg/1 streams main");
    assert!(refused.starts_with("error overloaded: "), "{refused}");
    // It can still be asked what is the matter, and one that leaves makes room for a writer.
    assert!(ask(&address, "status").is_some());
    followers.truncate(followers.len() - 2);
    let content = Content::new(6, 20_000_000);
    cluster.append("main", &[], content);
    drop(followers);
    cluster.check_same("main", &[content]);
    assert!(!cluster.nodes[0].said().contains("Too many open files"));
    let node = &mut cluster.nodes[0];
    node.kill();
    node.start();
    cluster.wait_whole();
    cluster.check_same("main", &[content]);
}

#[test]
fn settings_are_printed_and_read_back() {
    let directory = tempfile::tempdir().expect("a place");
    let print = |arguments: &[&str]| {
        let mut command = harness::logberg("127.0.0.1:1", &["node", "--print-config"]);
        let output = command.args(arguments).output().expect("the binary runs");
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        harness::out(&output)
    };
    let printed = print(&[
        "--data",
        "d",
        "--join",
        "10.0.0.1:7117,10.0.0.2:7117",
        "--disk-reserve",
        "1G",
    ]);
    let file = directory.path().join("settings.toml");
    fs::write(&file, &printed).expect("room");
    assert_eq!(print(&["--config", file.to_str().expect("plain")]), printed);
    fs::write(&file, "dta = \"d\"\n").expect("room");
    let mut command = harness::logberg("127.0.0.1:1", &["node", "--config"]);
    let output = command.arg(&file).output().expect("the binary runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("dta"), "{}", err(&output));
}

#[test]
fn what_no_node_can_ever_do_is_refused_in_one_sentence() {
    let directory = tempfile::tempdir().expect("a place");
    let data = directory.path().join("data");
    let start = |arguments: &[&str]| {
        let mut command = harness::logberg("127.0.0.1:1", &["node", "--listen", "127.0.0.1:7999"]);
        command.arg("--data").arg(&data).args(arguments);
        let output = command.output().expect("the binary runs");
        assert_eq!(output.status.code(), Some(2), "{}", err(&output));
        let said = err(&output);
        assert_eq!(said.lines().count(), 1, "{said}");
        said
    };
    let said = start(&["--bootstrap", "--disk-reserve", "18446744073709551615"]);
    assert!(said.contains("which can never be here; choose"), "{said}");
    let said = start(&["--join", "127.0.0.1:7999"]);
    assert!(
        said.contains("is this node itself") && said.contains("--bootstrap"),
        "{said}"
    );
    for nobody in ["", "nobody", ":1", "host:port"] {
        let said = start(&["--join", nobody]);
        assert!(said.contains("is no address: say HOST:PORT"), "{said}");
    }
    assert!(!data.exists(), "nothing was begun");
}

#[test]
fn a_second_start_ignores_bootstrap_and_join() {
    let mut cluster = Cluster::start(1);
    let before = ask(&cluster.nodes[0].listen, "status").expect("an answer");
    for words in [&["--join", "127.0.0.1:1"][..], &["--bootstrap"], &[]] {
        let node = &mut cluster.nodes[0];
        node.kill();
        node.arguments = words.iter().map(ToString::to_string).collect();
        node.start();
        let after = node.wait_answers();
        assert_eq!(
            (&after["cluster"], &after["node"]),
            (&before["cluster"], &before["node"])
        );
    }
}
