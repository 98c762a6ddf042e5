//! The example's bank on three real nodes, while its leader is killed, or stopped for a while, again and again. Each deposit of
//! a coin goes into an account of its own, so it is known of each what became of it. This program is the nodes, too.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

#[path = "../examples/bank.rs"]
mod bank;

const ROUNDS: usize = 6;

/// A node of the example, and the pipe to it.
struct Node {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Node {
    /// Its answer, or nothing if it is gone.
    fn ask(&mut self, command: &str) -> Option<String> {
        writeln!(self.commands, "{command}").ok()?;
        let mut answer = String::new();
        match self.answers.read_line(&mut answer) {
            Ok(count) if count > 0 => Some(answer.trim_end().to_owned()),
            _ => None,
        }
    }
}

struct Nodes {
    directory: tempfile::TempDir,
    addresses: Vec<String>,
    running: Vec<Option<Node>>,
}

impl Nodes {
    fn start(&mut self, index: usize) {
        let own = std::env::current_exe().expect("this is a program");
        let mut command = Command::new(own);
        command.arg(self.directory.path().join(format!("node{index}")));
        command.arg(&self.addresses[index]);
        command.args(self.addresses.first().filter(|_| index > 0));
        command.env("BANK_NODE", "1");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        self.running[index] = Some(Node {
            commands: child.stdin.take().expect("it is a pipe"),
            answers: BufReader::new(child.stdout.take().expect("it is a pipe")),
            child,
        });
    }

    fn node(&mut self, index: usize) -> &mut Node {
        self.running[index].as_mut().expect("it runs")
    }

    fn kill(&mut self, index: usize) {
        if let Some(mut node) = self.running[index].take() {
            let _ = node.child.kill();
            let _ = node.child.wait();
        }
    }

    fn signal(&mut self, index: usize, signal: Signal) {
        let pid = Pid::from_child(&self.node(index).child);
        kill_process(pid, signal).expect("it runs");
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for index in 0..self.running.len() {
            self.kill(index);
        }
    }
}

/// The answers to the deposits, by its account.
#[derive(Default)]
struct Said {
    count: u64,
    by_account: BTreeMap<String, String>,
}

impl Said {
    /// Deposits coins where the bank is led, for so long. Returns the node that took the last.
    fn deposit(&mut self, nodes: &mut Nodes, duration: Duration) -> usize {
        let begun = Instant::now();
        let (mut index, mut done) = (0, None);
        while begun.elapsed() < duration || done.is_none() {
            assert!(begun.elapsed() < Duration::from_secs(60), "nobody leads");
            self.count += 1;
            let account = format!("a{}", self.count);
            let command = format!("deposit {account} 1");
            let answer = nodes.node(index).ask(&command).expect("it runs");
            match answer.starts_with('!') {
                false => done = Some(index),
                true => {
                    index = (index + 1) % 3;
                    sleep(Duration::from_millis(5));
                }
            }
            self.by_account.insert(account, answer);
        }
        done.expect("the loop ends with one")
    }
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
    let ready = testbed::level::wait_ready(&nodes.addresses, "bank", Duration::from_secs(60));
    ready.expect("all three vote in the bank's log");
    let mut said = Said::default();
    for round in 0..ROUNDS {
        let leader = said.deposit(&mut nodes, Duration::from_millis(700));
        // One deposit is under way when it happens.
        said.count += 1;
        let account = format!("a{}", said.count);
        writeln!(nodes.node(leader).commands, "deposit {account} 1").expect("it runs");
        match round % 2 {
            0 => {
                nodes.kill(leader);
                said.by_account.insert(account, "! Unknown".to_owned());
                let others = (leader + 1) % 3;
                let answer = nodes.node(others).ask("balance a1").expect("it runs");
                assert_eq!(
                    answer, "1",
                    "round {round}: read on another node while {leader} is away"
                );
                nodes.start(leader);
            }
            // It comes back as a leader of yesterday.
            _ => {
                nodes.signal(leader, Signal::STOP);
                sleep(Duration::from_millis(2_500));
                nodes.signal(leader, Signal::CONT);
                let mut answer = String::new();
                let read = nodes.node(leader).answers.read_line(&mut answer);
                assert!(read.is_ok_and(|count| count > 0));
                said.by_account
                    .insert(account, answer.trim_end().to_owned());
            }
        }
    }
    said.deposit(&mut nodes, Duration::from_millis(300));
    // All killed at once: what was flushed, and the log, are all that is left.
    (0..3).for_each(|index| nodes.kill(index));
    (0..3).for_each(|index| nodes.start(index));
    said.deposit(&mut nodes, Duration::from_millis(300));
    let (mut done, mut unknown) = (0, 0);
    for (account, answer) in &said.by_account {
        let coins: Vec<String> = (0..3)
            .map(|index| nodes.node(index).ask(&format!("balance {account}")))
            .map(|answer| answer.expect("it runs"))
            .collect();
        assert!(
            coins.iter().all(|one| *one == coins[0]),
            "{account}: {coins:?}"
        );
        match answer.as_str() {
            "1" => {
                done += 1;
                assert_eq!(coins[0], "1", "{account} was said to be there");
            }
            "! Unknown" => {
                unknown += 1;
                assert!(["0", "1"].contains(&coins[0].as_str()), "{account}");
            }
            other => assert_eq!(coins[0], "0", "{account}: {other}"),
        }
    }
    println!(
        "{done} done, {unknown} unknown, {} in all",
        said.by_account.len()
    );
    assert!(done > 100, "{done} deposits were answered");
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if std::env::var_os("BANK_NODE").is_some() {
        return bank::main();
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // As the usual harness does: a list, or only what is named.
    let name = "coins_are_there_as_was_said";
    if arguments.iter().any(|argument| argument == "--list") {
        println!("{name}: test");
        return Ok(());
    }
    let mut named = arguments
        .iter()
        .filter(|argument| !argument.starts_with('-'));
    let is_meant = named.next().is_none_or(|part| name.contains(part.as_str()));
    if is_meant && named.next().is_none() {
        coins_are_there_as_was_said();
        println!("test {name} ... ok");
    }
    Ok(())
}
