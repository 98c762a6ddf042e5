//! A machine on three real nodes, whose log is trimmed behind its states: what becomes of a node whose state is lost, damaged, or
//! somebody else's.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nodes::Nodes;
use nodes::rows::{node, status};

mod nodes;

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

/// Overwrites the middle of the largest file below.
fn damage(directory: &Path) {
    let (length, path) = largest(directory);
    let file = OpenOptions::new().write(true).open(path);
    let bytes = vec![0x5a; (length as usize / 2).max(1)];
    let written = file.and_then(|file| file.write_all_at(&bytes, length / 4));
    written.expect("there is room");
}

/// Turns one bit in the middle of the largest file below.
fn rot(directory: &Path) {
    let (length, path) = largest(directory);
    let file = OpenOptions::new().read(true).write(true).open(path);
    let file = file.expect("it is ours");
    let mut byte = [0];
    let rotten = file.read_exact_at(&mut byte, length / 2);
    let rotten = rotten.and_then(|()| file.write_all_at(&[byte[0] ^ 1], length / 2));
    rotten.expect("it is there");
}

fn largest(directory: &Path) -> (u64, PathBuf) {
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
    files.into_iter().max().expect("there are files")
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

    // A byte has rotted, which only who reads it finds: put aside while the node runs, and copied.
    load.nodes.kill(victim);
    rot(&load.nodes.data(victim).join("state"));
    load.nodes.start(victim);
    load.put(150);
    load.wait_same("a state with a rotten byte");

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
