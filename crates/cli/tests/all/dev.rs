//! A cluster to work with, from outside.

use crate::outside;

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

use outside::{Running, err, free_ports, nodes_below, out, run, wait_until};
use rustix::process::{Pid, Signal, kill_process};

/// Starts it and waits until it says that it is ready; returns its servers.
fn start(directory: &Path, more: &[&str]) -> (Running, String) {
    let mut arguments = vec!["dev", "--json", "--dir", directory.to_str().unwrap()];
    arguments.extend_from_slice(more);
    let mut dev = Running::start(&arguments);
    let line = dev.first_line();
    let said: serde_json::Value = serde_json::from_str(&line).expect("it gets ready");
    let servers = said["servers"].as_array().unwrap().iter();
    let servers: Vec<&str> = servers.map(|server| server.as_str().unwrap()).collect();
    (dev, servers.join(","))
}

fn stop(mut dev: Running, directory: &Path) {
    dev.signal(Signal::INT);
    assert_eq!(dev.wait().code(), Some(0));
    assert!(nodes_below(directory).is_empty());
}

#[test]
fn it_comes_back_with_its_data_and_minds_its_nodes() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("cluster");
    let note = place.path().join("note");
    std::fs::write(&note, "the law is spoken aloud\n").unwrap();
    let port = free_ports(3).to_string();

    let (dev, servers) = start(&directory, &["--port", &port]);
    // Its nodes have just joined, one after the other: that is no lack of copies, no silence, and nobody is behind. What a
    // machine without time to spare does is told all the same.
    for server in servers.split(',') {
        let status = out(&run(&["--server", server, "status", "--json"]));
        let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
        let warnings = status["health"]["warnings"].as_array().expect("a list");
        let machine = ["disk-slow", "replica-slow", "process-paused"];
        let alarms = warnings.iter().filter(|one| {
            one["state"] != "healthy" && !machine.contains(&one["code"].as_str().unwrap())
        });
        assert_eq!(alarms.count(), 0, "{status}");
    }
    let output = run(&[
        "--server",
        &servers,
        "append",
        "main",
        note.to_str().unwrap(),
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let verify = run(&["verify", directory.join("node-1").to_str().unwrap()]);
    assert_eq!(verify.status.code(), Some(4), "{}", err(&verify));
    assert!(err(&verify).contains("running node"), "{}", err(&verify));
    stop(dev, &directory);

    // Neither the number of nodes nor the port has to be said again.
    let (dev, again) = start(&directory, &[]);
    assert_eq!(again, servers);
    let output = run(&["--server", &servers, "read", "main"]);
    assert_eq!(
        out(&output),
        "the law is spoken aloud\n",
        "{}",
        err(&output)
    );

    let before = nodes_below(&directory);
    kill_process(Pid::from_raw(before[1]).unwrap(), Signal::KILL).unwrap();
    wait_until("the node runs again", || {
        let now = nodes_below(&directory);
        now.len() == 3 && now != before
    });
    let output = run(&["--server", &servers, "read", "main"]);
    assert_eq!(
        out(&output),
        "the law is spoken aloud\n",
        "{}",
        err(&output)
    );
    stop(dev, &directory);
}

#[test]
fn one_node_alone_is_a_cluster() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("cluster");
    let port = free_ports(1).to_string();
    for _ in 0..2 {
        let (dev, servers) = start(&directory, &["--nodes", "1", "--port", &port]);
        // It serves, and its loss would be the cluster's, which is known after a moment.
        wait_until("its state", || {
            run(&["--server", &servers, "status"]).status.code() == Some(8)
        });
        stop(dev, &directory);
    }
    let output = run(&["dev", "--nodes", "3", "--dir", directory.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("1 nodes"), "{}", err(&output));
}

#[test]
fn a_taken_port_is_named() {
    let place = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let directory = place.path().join("cluster");
    let path = directory.to_str().unwrap();
    let output = run(&["dev", "--nodes", "1", "--dir", path, "--port", &port]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        err(&output).contains(&format!("port {port}")),
        "{}",
        err(&output)
    );
}

#[test]
fn nodes_that_are_apart_answer_later_and_serve_all_the_same() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("cluster");
    let port = free_ports(3).to_string();
    let (dev, servers) = start(&directory, &["--delay", "30ms", "--port", &port]);
    let text = "said across a distance";
    let file = place.path().join("said");
    fs::write(&file, text).unwrap();
    let begun = Instant::now();
    let file = file.to_str().unwrap();
    let appended = run(&["--server", &servers, "append", "main", file]);
    assert_eq!(appended.status.code(), Some(0), "{}", err(&appended));
    // Nothing is agreed before a word went there and another one came back.
    assert!(begun.elapsed() >= Duration::from_millis(60));
    let read = run(&["--server", &servers, "read", "main"]);
    assert_eq!(out(&read), text);
    stop(dev, &directory);
    let path = directory.to_str().unwrap();
    for nonsense in ["20", "9ms..5ms", "10s", "-1ms"] {
        let lag = format!("--delay={nonsense}");
        let output = run(&["dev", "--dir", path, &lag]);
        assert_eq!(output.status.code(), Some(2), "{nonsense}");
        assert!(err(&output).contains("20ms"), "{}", err(&output));
    }
}
