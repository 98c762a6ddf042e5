//! Clusters of three real nodes, by each way between them: what is appended is acknowledged and read back.

use std::io::Read;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use client::{AppendOptions, Client, ReadOptions, Timeouts};
use testbed::cluster::{LocalCluster, LocalOptions};
use testbed::{level, port};

use crate::PROGRAM;

const PATIENCE: Duration = Duration::from_secs(60);

fn appends_and_reads(addresses: &[String]) {
    let client = Client::new(addresses.to_vec(), Timeouts::default());
    let mut appender = client
        .append("main", AppendOptions::default())
        .expect("an appender");
    let pieces = [1usize, 1_000, 100_000, 3_000_000];
    let content: Vec<u8> = pieces
        .iter()
        .flat_map(|length| (0..*length).map(move |at| (at * 7 + length) as u8))
        .collect();
    let mut rest = &content[..];
    for length in pieces {
        let (piece, behind) = rest.split_at(length);
        let position = appender.append(piece).expect("taken");
        appender.acknowledgements().wait(position).expect("chosen");
        rest = behind;
    }
    let closed = appender.close().expect("closed");
    // A node that follows may hear of it a little later.
    level::wait_level(addresses, "main", PATIENCE).expect("level");
    for address in addresses {
        let options = ReadOptions {
            stream: Some(closed.stream),
            to: Some(closed.position),
            follow: true,
            server: Some(address.clone()),
            ..ReadOptions::default()
        };
        let mut read = Vec::new();
        let mut reader = client.read("main", options).expect("a reader");
        reader.read_to_end(&mut read).expect("read");
        assert!(read == content, "{address}: {} bytes", read.len());
    }
}

fn cluster(directory: &Path, carry: &[&str]) -> LocalCluster {
    let mut options = LocalOptions::new(directory, 3);
    options.program = Some(PathBuf::from(PROGRAM));
    options.arguments = carry.iter().map(|word| (*word).to_owned()).collect();
    let cluster = LocalCluster::start(options).expect("nodes");
    cluster.wait_ready(PATIENCE).expect("ready");
    cluster
}

#[test]
fn nodes_that_are_counted_serve_and_tell_what_they_sent() {
    let place = tempfile::tempdir().expect("a place");
    let cluster = cluster(place.path(), &["--carry", "count"]);
    appends_and_reads(&cluster.addresses());
    let mut told = String::new();
    for address in cluster.addresses() {
        let (_, port) = address.rsplit_once(':').expect("a port");
        let mut stream = TcpStream::connect(format!("127.0.0.3:{port}")).expect("it tells");
        stream.read_to_string(&mut told).expect("text");
    }
    for kind in ["propose\t", "accepted\t", "heartbeat\t", "greeting\t"] {
        assert!(told.contains(kind), "{told}");
    }
    assert!(
        !told.contains("no frame") && !told.contains("unknown"),
        "{told}"
    );
}

#[test]
fn nodes_with_unix_sockets_serve() {
    let place = tempfile::tempdir().expect("a place");
    let sockets = tempfile::tempdir_in("/tmp").expect("a place");
    let at = sockets.path().to_str().expect("plain");
    let cluster = cluster(place.path(), &["--carry", "unix", "--sockets", at]);
    appends_and_reads(&cluster.addresses());
}

#[test]
fn nodes_with_calls_serve_and_one_comes_back() {
    let place = tempfile::tempdir().expect("a place");
    let cluster = cluster(place.path(), &["--carry", "grpc-unary"]);
    appends_and_reads(&cluster.addresses());
    cluster.kill(3).expect("killed");
    cluster.restart(3).expect("started");
    cluster.wait_ready(PATIENCE).expect("ready again");
    appends_and_reads(&cluster.addresses());
}

#[test]
fn nodes_with_streams_serve_and_one_comes_back() {
    let place = tempfile::tempdir().expect("a place");
    let cluster = cluster(place.path(), &["--carry", "grpc-stream", "--lag", "1ms"]);
    appends_and_reads(&cluster.addresses());
    cluster.kill(3).expect("killed");
    cluster.restart(3).expect("started");
    cluster.wait_ready(PATIENCE).expect("ready again");
    appends_and_reads(&cluster.addresses());
}

struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn nodes_of_one_process_serve() {
    let place = tempfile::tempdir().expect("a place");
    let ports = port::free(3).expect("ports");
    let addresses: Vec<String> = ports
        .iter()
        .map(|port| format!("127.0.0.1:{port}"))
        .collect();
    let mut command = Command::new(PROGRAM);
    command
        .arg("nodes-together")
        .arg("--directory")
        .arg(place.path());
    command.arg("--listen").arg(addresses.join(","));
    command.args(["--", "--ink", "ram"]);
    let process = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn();
    let _process = Process(process.expect("the program runs"));
    let client = Client::new(addresses.clone(), Timeouts::default());
    let voters = || {
        let status = client.status_of(&addresses[2]).ok()?;
        let main = testbed::cluster::log_of(&status, "main")?;
        let voters = main.weights.iter().filter(|weight| weight.weight > 0);
        main.leader.map(|_| voters.count())
    };
    let since = Instant::now();
    while voters() != Some(3) {
        assert!(since.elapsed() < PATIENCE, "{:?}", voters());
        std::thread::sleep(Duration::from_millis(20));
    }
    appends_and_reads(&addresses);
}

#[test]
fn what_cannot_be_carried_is_refused_with_the_remedy() {
    let place = tempfile::tempdir().expect("a place");
    for (words, remedy) in [
        (&["--carry", "unix"][..], "say --sockets DIR"),
        (&["--carry", "memory"], "nodes-together"),
        (
            &["--carry", "grpc-stream", "--mover", "splice"],
            "leave --mover splice out",
        ),
    ] {
        let mut command = Command::new(PROGRAM);
        command.args(["node", "--bootstrap", "--listen", "127.0.0.1:0", "--data"]);
        command.arg(place.path().join("node")).args(words);
        let output = command.output().expect("the program runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(remedy), "{said}");
    }
}
