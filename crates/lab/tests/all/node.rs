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

fn start(directory: &Path, faults: &[&str]) -> (Node, Client) {
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let listen = free.local_addr().expect("bound").to_string();
    drop(free);
    let mut command = Command::new(PROGRAM);
    command.args(["node", "--die-with-parent", "--bootstrap", "--voters", "1"]);
    command.args(["--disk-reserve", "1MiB", "--listen", &listen, "--data"]);
    command.arg(directory.join("node")).args(faults);
    let log = fs::File::create(directory.join("log")).expect("room");
    let node = command.stdin(Stdio::null()).stderr(log).spawn();
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
