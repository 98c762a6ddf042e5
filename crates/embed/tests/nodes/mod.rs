//! Three real nodes: processes of this very program, which answer a line with a line.

pub mod rows;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// Set where this program is one of the nodes.
pub const IS_NODE: &str = "EMBED_NODE";

/// A node, and the pipes to it.
pub struct Node {
    pub child: Child,
    pub commands: ChildStdin,
    pub answers: BufReader<ChildStdout>,
}

impl Node {
    /// Its answer, or nothing if it is gone.
    pub fn ask(&mut self, command: &str) -> Option<String> {
        writeln!(self.commands, "{command}").ok()?;
        let mut answer = String::new();
        match self.answers.read_line(&mut answer) {
            Ok(count) if count > 0 => Some(answer.trim_end().to_owned()),
            _ => None,
        }
    }
}

pub struct Nodes {
    pub directory: tempfile::TempDir,
    pub addresses: Vec<String>,
    pub running: Vec<Option<Node>>,
}

impl Nodes {
    /// Three nodes that all vote in the log of this machine.
    pub fn three(machine: &str) -> Nodes {
        let ports = testbed::port::free(3).expect("there are ports");
        let addresses = ports.iter().map(|port| format!("127.0.0.1:{port}"));
        let mut nodes = Nodes {
            directory: tempfile::tempdir().expect("there is room"),
            addresses: addresses.collect(),
            running: vec![None, None, None],
        };
        for index in 0..3 {
            nodes.start(index);
            let (address, id) = (nodes.addresses[index].clone(), index as u32 + 1);
            let joined = testbed::level::wait_id(&address, id, Duration::from_secs(60));
            joined.expect("it joins");
        }
        let ready = testbed::level::wait_ready(&nodes.addresses, machine, Duration::from_secs(60));
        ready.expect("all three vote in the machine's log");
        nodes
    }

    pub fn data(&self, index: usize) -> PathBuf {
        self.directory.path().join(format!("node{index}"))
    }

    pub fn start(&mut self, index: usize) {
        let first = self.addresses.first().filter(|_| index > 0).cloned();
        self.start_with(index, &self.data(index), first);
    }

    /// Starts a node in that directory, by way of a node of its cluster if it is to join one.
    pub fn start_with(&mut self, index: usize, data: &Path, join: Option<String>) {
        let own = std::env::current_exe().expect("this is a program");
        let mut command = Command::new(own);
        command.arg(data);
        command.arg(&self.addresses[index]);
        command.args(join);
        command.env(IS_NODE, "1");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        self.running[index] = Some(Node {
            commands: child.stdin.take().expect("it is a pipe"),
            answers: BufReader::new(child.stdout.take().expect("it is a pipe")),
            child,
        });
    }

    pub fn node(&mut self, index: usize) -> &mut Node {
        self.running[index].as_mut().expect("it runs")
    }

    pub fn kill(&mut self, index: usize) {
        if let Some(mut node) = self.running[index].take() {
            let _ = node.child.kill();
            let _ = node.child.wait();
        }
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for index in 0..self.running.len() {
            self.kill(index);
        }
    }
}

/// As the usual harness does: a list, or only what is named.
pub fn run(name: &str, test: impl FnOnce()) {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        return println!("{name}: test");
    }
    let mut named = arguments
        .iter()
        .filter(|argument| !argument.starts_with('-'));
    let is_meant = named.next().is_none_or(|part| name.contains(part.as_str()));
    if is_meant && named.next().is_none() {
        test();
        println!("test {name} ... ok");
    }
}
