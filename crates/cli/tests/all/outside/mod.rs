//! The binary and its processes, seen from outside.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

pub fn logberg(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_logberg"));
    command.args(arguments);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

pub fn run(arguments: &[&str]) -> Output {
    logberg(arguments).output().expect("the binary runs")
}

pub fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The one object on standard output.
pub fn json(output: &Output) -> serde_json::Value {
    let text = out(output);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text:?} {}", err(output)))
}

/// A command that runs until it is told to end; killed when dropped.
pub struct Running {
    pub child: Child,
}

impl Running {
    pub fn start(arguments: &[&str]) -> Running {
        let mut command = logberg(arguments);
        // Nobody reads it, and a full pipe would stop the writer.
        command.stderr(Stdio::null());
        Running {
            child: command.spawn().expect("the binary runs"),
        }
    }

    pub fn first_line(&mut self) -> String {
        let mut line = String::new();
        let out = self.child.stdout.as_mut().expect("piped");
        BufReader::new(out).read_line(&mut line).expect("a line");
        line
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }

    pub fn wait(&mut self) -> ExitStatus {
        let mut ended = None;
        wait_until("it ends", || {
            ended = self.child.try_wait().expect("a child");
            ended.is_some()
        });
        ended.expect("waited for")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "a minute is over before {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Ids of the node processes whose data is below `directory`.
pub fn nodes_below(directory: &Path) -> Vec<i32> {
    let directory = directory.to_str().expect("a plain path");
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("Linux").flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse() else {
            continue;
        };
        let mut command = Vec::new();
        if let Ok(mut file) = fs::File::open(entry.path().join("cmdline")) {
            // A process that is gone reads as nothing.
            let _ = file.read_to_end(&mut command);
        }
        let command = String::from_utf8_lossy(&command).into_owned();
        if command.contains(directory) && command.split('\0').nth(1) == Some("node") {
            found.push(pid);
        }
    }
    found.sort_unstable();
    found
}

/// The first of `count` ports in a row, at most 10, that nobody uses now, and no other test of this
/// process gets.
pub fn free_ports(count: u16) -> u16 {
    static TURN: AtomicU16 = AtomicU16::new(0);
    let start = std::process::id() as u16 % 500;
    let mut bases = std::iter::from_fn(|| {
        let turn = (start + TURN.fetch_add(1, Ordering::Relaxed)) % 600;
        Some(12_000 + turn * 10)
    });
    bases
        .by_ref()
        .take(600)
        .find(|base| (0..count).all(|n| TcpListener::bind(("127.0.0.1", base + n)).is_ok()))
        .expect("free ports")
}
