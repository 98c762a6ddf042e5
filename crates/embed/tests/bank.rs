//! The example's bank on three real nodes, while its leader is killed, or stopped for a while, again and again. Each deposit of
//! a coin goes into an account of its own, so it is known of each what became of it. This program is the nodes, too.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use nodes::Nodes;

#[path = "../examples/bank.rs"]
mod bank;
#[allow(dead_code)]
mod nodes;

const ROUNDS: usize = 6;

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

fn signal(nodes: &mut Nodes, index: usize, signal: Signal) {
    let pid = Pid::from_child(&nodes.node(index).child);
    kill_process(pid, signal).expect("it runs");
}

fn coins_are_there_as_was_said() {
    let mut nodes = Nodes::three("bank");
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
                signal(&mut nodes, leader, Signal::STOP);
                sleep(Duration::from_millis(2_500));
                signal(&mut nodes, leader, Signal::CONT);
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
    if std::env::var_os(nodes::IS_NODE).is_some() {
        return bank::main();
    }
    nodes::run("coins_are_there_as_was_said", coins_are_there_as_was_said);
    Ok(())
}
