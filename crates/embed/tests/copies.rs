//! A machine on three real nodes, whose log is trimmed behind its states: what becomes of a node whose state is lost, damaged, or
//! somebody else's.

use std::fs::{self, OpenOptions};
use std::io::stdin;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use client::{Client, Timeouts};
use embed::{Bounds, Failure, Machine, Node, State, Stop};

use nodes::Nodes;

mod nodes;

const VALUE_BYTES: usize = 32 << 10;

/// `put KEY SEED` writes a row of 32 KiB.
struct Rows;

impl Machine for Rows {
    fn execute(&self, state: &mut State<'_>, command: &[u8]) -> Result<Vec<u8>, Stop> {
        let command = String::from_utf8_lossy(command).into_owned();
        let (key, seed) = command
            .split_once(' ')
            .ok_or_else(|| Stop::refused("what?"))?;
        let value = seed.bytes().cycle().take(VALUE_BYTES);
        state.put(key.as_bytes(), &value.collect::<Vec<u8>>())?;
        Ok(b"ok".to_vec())
    }
}

/// One node. `sum` answers the rows that it has itself, and a checksum of them.
fn node() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let builder = Node::open(&arguments[0]).listen(&arguments[1]);
    let builder = match arguments.get(2) {
        Some(first) => builder.join(first),
        None => builder.bootstrap(3),
    };
    let bounds = Bounds {
        flush_bytes: 512 << 10,
        flush_after: Duration::from_millis(200),
        ..Bounds::default()
    };
    let node = builder.bounds(bounds).machine("rows", Rows).start()?;
    let rows = node.machine("rows");
    for line in stdin().lines() {
        let answer = match line?.as_str() {
            "sum" => rows.read_stale(|view| {
                let (mut count, mut sum, mut from) = (0, 0_u32, Vec::new());
                while let Ok(page) = view.range(&from, b"z", 100) {
                    for (key, value) in &page.rows {
                        count += 1;
                        let row = key.iter().chain(value);
                        sum = row.fold(sum, |sum, byte| sum.rotate_left(5) ^ u32::from(*byte));
                        from = [key, &b"\0"[..]].concat();
                    }
                    if page.is_last {
                        break;
                    }
                }
                format!("{count} rows, {sum:08x}").into_bytes()
            }),
            command => rows.submit(command.as_bytes()),
        };
        match answer {
            Ok(answer) => println!("{}", String::from_utf8_lossy(&answer)),
            Err(Failure::NotLeader { .. }) => println!("! not here"),
            Err(other) => println!("! {other}"),
        }
    }
    Ok(())
}

struct Load {
    nodes: Nodes,
    leader: usize,
    puts: u64,
}

impl Load {
    fn put(&mut self, count: u64) {
        for _ in 0..count {
            self.puts += 1;
            let begun = Instant::now();
            loop {
                let command = format!("put-{} {}", self.puts % 150, self.puts);
                let answer = self.nodes.node(self.leader).ask(&command).expect("it runs");
                if answer == "ok" {
                    break;
                }
                assert!(begun.elapsed() < Duration::from_secs(60), "{answer}");
                self.leader = (self.leader + 1) % 3;
                while self.nodes.running[self.leader].is_none() {
                    self.leader = (self.leader + 1) % 3;
                }
                sleep(Duration::from_millis(10));
            }
        }
    }

    /// Waits until all states are whole and say the same.
    fn wait_same(&mut self, why: &str) {
        let begun = Instant::now();
        loop {
            let sums: Vec<String> = (0..3)
                .map(|index| self.nodes.node(index).ask("sum").expect("it runs"))
                .collect();
            let whole = (0..3).all(|index| status(&self.nodes.addresses[index]).1);
            if whole && sums[0].contains(" rows") && sums.iter().all(|sum| *sum == sums[0]) {
                return;
            }
            let waited = begun.elapsed();
            assert!(
                waited < Duration::from_secs(60),
                "{why}: {sums:?}, whole {whole}"
            );
            sleep(Duration::from_millis(50));
        }
    }
}

/// How much of the log was trimmed there, and whether the node holds all that it is to hold.
fn status(address: &str) -> (u64, bool) {
    let second = Duration::from_secs(1);
    let timeouts = Timeouts {
        connect: second,
        silence: second,
        total: second,
    };
    let Ok(status) = Client::new(vec![address.to_owned()], timeouts).status() else {
        return (0, false);
    };
    let log = status.logs.iter().find(|log| log.name == "rows");
    log.map_or((0, false), |log| {
        let whole = log.state.is_some_and(|state| state.whole);
        (log.trimmed_bytes, whole && log.missing_bytes == 0)
    })
}

/// Overwrites the middle of the largest file below.
fn damage(directory: &Path) {
    let mut files = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).expect("it is there") {
            let entry = entry.expect("it is there");
            let about = entry.metadata().expect("it is there");
            match about.is_dir() {
                true => directories.push(entry.path()),
                false => files.push((about.len(), entry.path())),
            }
        }
    }
    let (length, path) = files.into_iter().max().expect("there are files");
    let file = OpenOptions::new()
        .write(true)
        .open(path)
        .expect("it is ours");
    let bytes = vec![0x5a; (length as usize / 2).max(1)];
    file.write_all_at(&bytes, length / 4)
        .expect("there is room");
}

fn states_are_made_good() {
    let mut load = Load {
        nodes: Nodes::three("rows"),
        leader: 0,
        puts: 0,
    };
    load.put(400);
    load.wait_same("at first");
    let trimmed = status(&load.nodes.addresses[load.leader]).0;
    assert!(trimmed > 1 << 20, "{trimmed} bytes of the log were trimmed");

    // Lost while it was down.
    let victim = (load.leader + 1) % 3;
    load.nodes.kill(victim);
    fs::remove_dir_all(load.nodes.data(victim).join("state")).expect("it is there");
    load.put(50);
    load.nodes.start(victim);
    load.put(200);
    load.wait_same("a lost state");

    // Killed while it copies, again and again.
    load.nodes.kill(victim);
    fs::remove_dir_all(load.nodes.data(victim).join("state")).expect("it is there");
    for pause in [100, 200, 300, 400] {
        load.nodes.start(victim);
        sleep(Duration::from_millis(pause));
        load.nodes.kill(victim);
    }
    load.nodes.start(victim);
    load.put(50);
    load.wait_same("a copy that was interrupted");

    // Damaged: put aside, and copied.
    let victim = (load.leader + 2) % 3;
    load.nodes.kill(victim);
    damage(&load.nodes.data(victim).join("state"));
    load.nodes.start(victim);
    load.put(100);
    load.wait_same("a damaged state");

    // All at once: the states, and what is left of the log, are all there is.
    (0..3).for_each(|index| load.nodes.kill(index));
    (0..3).for_each(|index| load.nodes.start(index));
    load.put(20);
    load.wait_same("after all died");
    println!("{} puts", load.puts);
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if std::env::var_os(nodes::IS_NODE).is_some() {
        return node();
    }
    nodes::run("states_are_made_good", states_are_made_good);
    Ok(())
}
