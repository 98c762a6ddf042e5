//! The lab's node: that of `logberg`, whose disk fails when it is told to.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use client::{AppendOptions, Client, Timeouts};

use crate::PROGRAM;

struct Node(Child);

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn command(directory: &Path, listen: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(["node", "--die-with-parent", "--bootstrap", "--voters", "1"]);
    command.args(["--disk-reserve", "1MiB", "--listen", listen, "--data"]);
    command.arg(directory.join("node")).args(arguments);
    command.stdin(Stdio::null());
    command
}

fn start(directory: &Path, arguments: &[&str]) -> (Node, Client) {
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let listen = free.local_addr().expect("bound").to_string();
    drop(free);
    let log = fs::File::create(directory.join("log")).expect("room");
    let node = command(directory, &listen, arguments).stderr(log).spawn();
    let short = Duration::from_secs(2);
    let timeouts = Timeouts {
        connect: short,
        silence: short,
        total: short,
    };
    let node = Node(node.expect("the program runs"));
    (node, Client::new(vec![listen], timeouts))
}

fn appends(client: &Client) -> bool {
    let appender = client.append("main", AppendOptions::default());
    appender.and_then(|mut appender| appender.close()).is_ok()
}

fn wait(directory: &Path, mut until: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !until() {
        let log = || fs::read_to_string(directory.join("log")).unwrap_or_default();
        assert!(Instant::now() < deadline, "{}", log());
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_disk_fails_as_the_file_says_from_the_moment_at_which_it_says_so() {
    let place = tempfile::tempdir().expect("a place");
    let directory = place.path();
    let file = directory.join("faults");
    let named = ["--faults", file.to_str().expect("plain")];
    let (_node, client) = start(directory, &named);
    wait(directory, || appends(&client));
    fs::write(&file, "write-error=EIO\n").expect("room");
    wait(directory, || !appends(&client));
    let log = fs::read_to_string(directory.join("log")).expect("it logs");
    assert!(log.contains("the disk fails as this file says"), "{log}");
}

#[test]
fn an_altered_node_says_so_and_serves_no_directory_of_others() {
    let place = tempfile::tempdir().expect("a place");
    let directory = place.path();
    let altered = ["--time-scale", "2", "--phase-one", "per-batch"];
    let told = |client: &Client| client.status().ok().map(|status| status.altered);
    {
        let (_node, client) = start(directory, &altered);
        wait(directory, || told(&client).is_some());
        let told = told(&client).flatten().expect("it is altered");
        let words = (&*told.carry, told.time_scale, &*told.phase_one);
        assert_eq!(words, ("tcp", 2, "per-batch"));
    }
    // Its own directory again, as it is and as others would serve it.
    {
        let (_node, client) = start(directory, &["--carry", "count"]);
        wait(directory, || told(&client).is_some());
        let told = told(&client).flatten().expect("it is altered");
        assert_eq!((&*told.carry, told.time_scale), ("count", 1));
    }
    let other = tempfile::tempdir().expect("a place");
    {
        let (_node, client) = start(other.path(), &[]);
        wait(other.path(), || told(&client).is_some());
        assert_eq!(told(&client), Some(None));
    }
    for arguments in [&altered[..2], &altered[2..], &["--carry", "grpc-stream"]] {
        let refused = command(other.path(), "127.0.0.1:0", arguments).output();
        let refused = refused.expect("the program runs");
        assert_eq!(refused.status.code(), Some(4), "{arguments:?}");
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(
            said.contains("name an empty directory with --data"),
            "{said}"
        );
    }
}
