//! A machine whose command does not end, on three real nodes: another node leads its log soon, and goes on. This program is the nodes, too.

use std::io::{BufRead, Write, stdin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use embed::{Machine, Node, State, Stop};

use nodes::Nodes;

#[allow(dead_code)]
mod nodes;

/// The first command of a node that says so sticks for longer than anybody waits for it here.
const STICKS: Duration = Duration::from_secs(120);
const PATIENCE: Duration = Duration::from_secs(60);

struct Sticks(AtomicBool);

impl Machine for Sticks {
    fn execute(&self, state: &mut State<'_>, command: &[u8]) -> Result<Vec<u8>, Stop> {
        if command == b"stick" && !self.0.swap(true, Ordering::Relaxed) {
            sleep(STICKS);
        }
        state.put(b"last", command)?;
        Ok(command.to_vec())
    }
}

fn node() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, listen, servers @ ..] = &arguments[..] else {
        return Err("say DIRECTORY LISTEN [SERVER]".into());
    };
    let node = Node::open(directory).listen(listen).bootstrap(3);
    let node = servers.iter().fold(node, |node, server| node.join(server));
    let node = node
        .machine("sticks", Sticks(AtomicBool::new(false)))
        .start()?;
    let machine = node.machine("sticks");
    for line in stdin().lock().lines() {
        match machine.submit(line?.as_bytes()) {
            Ok(answer) => println!("{}", String::from_utf8_lossy(&answer)),
            Err(failure) => println!("! {failure:?}"),
        }
    }
    Ok(())
}

fn another_node_leads_soon() {
    let mut nodes = Nodes::three("sticks");
    let begun = Instant::now();
    let leader = (0..3)
        .cycle()
        .inspect(|_| assert!(begun.elapsed() < PATIENCE, "nobody leads"))
        .find(|index| {
            sleep(Duration::from_millis(20));
            nodes.node(*index).ask("before").as_deref() == Some("before")
        })
        .expect("it goes on and on");
    writeln!(nodes.node(leader).commands, "stick").expect("it runs");
    let begun = Instant::now();
    let others = [(leader + 1) % 3, (leader + 2) % 3];
    let answered = others
        .into_iter()
        .cycle()
        .inspect(|_| assert!(begun.elapsed() < PATIENCE, "nobody else leads"))
        .find(|index| {
            sleep(Duration::from_millis(20));
            nodes.node(*index).ask("after").as_deref() == Some("after")
        });
    println!("{answered:?} answers after {:?}", begun.elapsed());
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if std::env::var_os(nodes::IS_NODE).is_some() {
        return node();
    }
    nodes::run("another_node_leads_soon", another_node_leads_soon);
    Ok(())
}
