//! Three real nodes that have a guest, a bank on a log of its own, while the bank's leader is killed, or
//! stopped for a while, again and again.
//! This program is the nodes, too: it starts itself.
//!
//! ```text
//!  bank                                        the test
//!  bank node DIRECTORY LISTEN [SERVER]         a node; its guest writes `outcomes` and, when it is stopped, `balances`
//! ```

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use client::{Client, NewLog, Timeouts};
use commands::{Applied, Frame, SessionBounds};
use formats::{LogKind, Speaks};
use linux::{Kernel, KernelConfig};
use node::Node;
use node::config::{NodeConfig, Start};
use node::hosted::{CallId, Hosted, Hosts, Outcome, Small};
use paxos::Time;
use replica::{Event, Limits, Port};
use rustix::process::{Pid, Signal, kill_process};

use machine::Bank;

#[path = "../../commands/examples/bank.rs"]
#[allow(dead_code)]
mod machine;

const LOG: &str = "bank";
const PACE: Duration = Duration::from_millis(2);
const ROUNDS: usize = 4;

/// A guest that deposits coins, each into an account of its own, where this node leads the bank.
struct Teller {
    small: Small<Bank>,
    directory: PathBuf,
    outcomes: File,
    process: u32,
    waiting: BTreeMap<CallId, String>,
    deposits: u64,
    next_at: Time,
}

impl Teller {
    fn new(directory: &Path) -> Teller {
        let mut appending = OpenOptions::new();
        appending.create(true).append(true);
        let outcomes = appending.open(beside(directory, "outcomes"));
        Teller {
            small: Small::new(Bank::default(), SessionBounds::default(), 20_000),
            directory: directory.to_owned(),
            outcomes: outcomes.expect("it can be made"),
            process: std::process::id(),
            waiting: BTreeMap::new(),
            deposits: 0,
            next_at: Time::ZERO,
        }
    }

    fn deposit(&mut self) {
        self.deposits += 1;
        let account = format!("{}-{}", self.process, self.deposits);
        let command = format!("deposit {account} 1");
        let call = self.small.call(&Frame::Command(command.as_bytes()));
        if let Ok(call) = call {
            self.waiting.insert(call, account);
        }
    }

    /// One write for each: a killed process leaves whole lines.
    fn note(&mut self) {
        while let Some((call, outcome)) = self.small.next_outcome() {
            let account = self.waiting.remove(&call).expect("it was called once");
            let line = match outcome {
                Outcome::Answered(Applied::Command { answer }) => {
                    let answer = String::from_utf8_lossy(&answer).into_owned();
                    format!("done {account} {answer}\n")
                }
                Outcome::Answered(other) => panic!("{account}: {other:?}"),
                Outcome::Never => format!("never {account} 0\n"),
                Outcome::Unknown => format!("unknown {account} 0\n"),
            };
            self.outcomes
                .write_all(line.as_bytes())
                .expect("it is there");
        }
    }
}

impl Hosted for Teller {
    fn on_event(&mut self, event: Event, port: &mut Port<'_>) {
        self.small.on_event(event, port);
    }

    fn on_settled(&mut self, now: Time, port: &mut Port<'_>) {
        if now >= self.next_at {
            self.next_at = now + PACE;
            if port.is_leading() && !beside(&self.directory, "closed").exists() {
                self.deposit();
            }
        }
        self.small.on_settled(now, port);
        assert_eq!(self.small.halted(), None);
        self.note();
    }

    fn deadline(&self) -> Option<Time> {
        Some(self.next_at)
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        let balances = self.small.replica().balances.iter();
        let lines = balances.map(|(account, coins)| format!("{account} {coins}\n"));
        let lines: String = lines.collect();
        fs::write(beside(&self.directory, "balances"), lines).expect("it can be written");
    }
}

/// A file about a node, outside of its directory.
fn beside(directory: &Path, what: &str) -> PathBuf {
    directory.with_extension(what)
}

fn run_node(arguments: &[String]) {
    let directory = PathBuf::from(&arguments[0]);
    let start = match arguments.get(2) {
        _ if directory.exists() => Start::Again,
        None => Start::Bootstrap { voters: 3 },
        Some(server) => Start::Join {
            servers: vec![server.clone()],
        },
    };
    let own = directory.clone();
    let config = NodeConfig {
        directory,
        listen: arguments[1].clone(),
        advertise: arguments[1].clone(),
        start,
        places: Vec::new(),
        token: None,
        replaces: None,
        standing: Default::default(),
        limits: Limits::default(),
        nodes_show_certificates: false,
        wires: Default::default(),
        version: "bank",
        speaks: Speaks::THIS,
        altered: None,
        hosts: Hosts::new(move |name| {
            let is_bank = name == LOG;
            is_bank.then(|| -> Box<dyn Hosted> { Box::new(Teller::new(&own)) })
        }),
    };
    let mut kernel = Kernel::new(KernelConfig::default()).expect("there is an event loop");
    kernel.bind(&config.listen).expect("the address is free");
    let mut disk = kernel.disk();
    let mut node = Node::start(config, &mut *disk, linux::now()).expect("it starts");
    kernel.run(&mut node).expect("the event loop works");
}

struct Nodes {
    directory: tempfile::TempDir,
    addresses: Vec<String>,
    running: Vec<Option<Child>>,
}

impl Nodes {
    fn path(&self, index: usize) -> PathBuf {
        self.directory.path().join(format!("node{index}"))
    }

    fn start(&mut self, index: usize) {
        let own = std::env::current_exe().expect("this is a program");
        let mut command = Command::new(own);
        command
            .arg("node")
            .arg(self.path(index))
            .arg(&self.addresses[index]);
        if index > 0 {
            command.arg(&self.addresses[0]);
        }
        let child = command.stdin(Stdio::null()).spawn();
        self.running[index] = Some(child.expect("it starts"));
    }

    fn kill(&mut self, index: usize) {
        if let Some(mut child) = self.running[index].take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn signal(&self, index: usize, signal: Signal) {
        let child = self.running[index].as_ref().expect("it runs");
        kill_process(Pid::from_child(child), signal).expect("it runs");
    }

    fn leader(&self, log: &str) -> Option<usize> {
        let leader = testbed::level::leader(&self.addresses, log)?;
        Some(leader as usize - 1)
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for index in 0..self.running.len() {
            self.kill(index);
        }
    }
}

fn wait_for<T>(what: &str, mut get: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(got) = get() {
            return got;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "waited in vain for {what}"
        );
        sleep(Duration::from_millis(50));
    }
}

fn balances(path: &Path) -> BTreeMap<String, String> {
    let text = fs::read_to_string(path).expect("its node was stopped");
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    pairs
        .map(|(account, coins)| (account.to_owned(), coins.to_owned()))
        .collect()
}

fn coins_are_there_as_was_said() {
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
    let client = Client::new(nodes.addresses.clone(), Timeouts::default());
    let log = NewLog {
        name: LOG.to_owned(),
        kind: LogKind::State,
        ..NewLog::default()
    };
    wait_for("the log", || client.create_new_log(&log).ok());
    for round in 0..ROUNDS {
        let leader = wait_for("a leader", || nodes.leader(LOG));
        sleep(Duration::from_millis(600));
        match round % 2 {
            0 => {
                nodes.kill(leader);
                sleep(Duration::from_millis(700));
                nodes.start(leader);
            }
            // It comes back as a leader of yesterday.
            _ => {
                nodes.signal(leader, Signal::STOP);
                sleep(Duration::from_millis(2_500));
                nodes.signal(leader, Signal::CONT);
            }
        }
    }
    wait_for("a leader", || nodes.leader(LOG));
    sleep(Duration::from_secs(1));
    for index in 0..3 {
        fs::write(beside(&nodes.path(index), "closed"), "").expect("there is room");
    }
    let level = testbed::level::wait_level(&nodes.addresses, LOG, Duration::from_secs(60));
    level.expect("all replicas have all");
    sleep(Duration::from_millis(500));
    for index in 0..3 {
        nodes.signal(index, Signal::TERM);
        if let Some(mut child) = nodes.running[index].take() {
            child.wait().expect("it ends");
        }
    }
    let all: Vec<_> = (0..3)
        .map(|index| balances(&beside(&nodes.path(index), "balances")))
        .collect();
    assert_eq!(all[0], all[1]);
    assert_eq!(all[1], all[2]);
    assert!(
        all[0].values().all(|coins| coins == "1"),
        "a coin was paid twice"
    );
    let (mut done, mut never) = (0, 0);
    for index in 0..3 {
        let said = fs::read_to_string(beside(&nodes.path(index), "outcomes"));
        for line in said.unwrap_or_default().lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let here = all[0].get(words[1]).map(String::as_str);
            match words[0] {
                "done" => {
                    done += 1;
                    assert_eq!((here, words[2]), (Some("1"), "1"), "{line}");
                }
                "unknown" => {}
                _ => {
                    never += 1;
                    assert_eq!(here, None, "{line}");
                }
            }
        }
    }
    println!("{done} done, {never} never, {} coins", all[0].len());
    assert!(done > 500, "{done} deposits were answered");
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "node") {
        return run_node(&arguments[1..]);
    }
    // As the usual harness does: a list, or only what is named.
    let name = "coins_are_there_as_was_said";
    if arguments.iter().any(|argument| argument == "--list") {
        return println!("{name}: test");
    }
    let named = arguments
        .iter()
        .filter(|argument| !argument.starts_with('-'));
    let named: Vec<&String> = named.collect();
    if !named.is_empty() && !named.iter().any(|part| name.contains(part.as_str())) {
        return;
    }
    coins_are_there_as_was_said();
    println!("test {name} ... ok");
}
