//! A process that applies, flushes and compacts is killed again and again, and once it may write no file to its end: the
//! shelf stands at what was flushed last, or later at a border between batches, and has exactly those rows.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;
use std::{env, fs};

use common::tree_of;
use rustix::process::{Resource, Rlimit, setrlimit};
use shelf::contract::History;
use shelf::{Identity, Settings, Shelf, ShelfError, Tree};

const IDENTITY: Identity = Identity {
    cluster: [1; 16],
    log: 1,
};
const SETTINGS: Settings = Settings {
    free_bytes_min: 0,
    flush_free_bytes_min: 0,
    cache_bytes: 1 << 20,
    files_max: 64,
    forgotten_max: 100,
    table_bytes: 64 << 10,
    compact_bytes_per_second: 32_000_000,
};
const SEED: u64 = 11;
const DIRECTORY: &str = "SHELF_TEST_DIRECTORY";
const LIMIT: &str = "SHELF_TEST_LIMIT";

fn main() {
    match env::var_os(DIRECTORY) {
        Some(directory) => live(Path::new(&directory)),
        None => {
            killed_at_any_moment();
            a_full_disk_costs_nothing_but_the_flush();
        }
    }
}

/// The child. It says which position it was told to be durable.
fn live(directory: &Path) {
    if let Ok(limit) = env::var(LIMIT) {
        let flag = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(signal_hook::consts::SIGXFSZ, flag).expect("a handler");
        let current = Some(limit.parse().expect("a number"));
        let limit = Rlimit {
            current,
            maximum: None,
        };
        setrlimit(Resource::Fsize, limit).expect("a limit");
    }
    // With a limit each flush but the first ones has more than that to write, however fast flushes and compactions are.
    let pause = match env::var(LIMIT) {
        Ok(_) => Duration::from_millis(100),
        Err(_) => Duration::ZERO,
    };
    let tree = Tree::open(directory, IDENTITY, SETTINGS).expect("it opens");
    let mut history = History::new(SEED);
    history.back_to(SEED, tree.applied());
    let mut said = std::io::stdout();
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0.. {
                if round > 10 {
                    thread::sleep(pause);
                }
                match tree.flush() {
                    Ok(durable) => writeln!(said, "{}", durable.position),
                    Err(ShelfError::Io { source, .. }) => {
                        writeln!(said, "failed {}", source.kind())
                    }
                    Err(error) => panic!("{error}"),
                }
                .and_then(|()| said.flush())
                .expect("somebody listens");
                match tree.compact() {
                    Ok(()) | Err(ShelfError::Io { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        });
        loop {
            let (batch, applied) = history.draw();
            tree.apply(&batch, applied).expect("it applies");
            thread::sleep(Duration::from_micros(200));
        }
    });
}

fn child(directory: &Path, limit: Option<u64>) -> Command {
    let mut child = Command::new(env::current_exe().expect("this program"));
    child.env(DIRECTORY, directory).stdout(Stdio::piped());
    if let Some(limit) = limit {
        child.env(LIMIT, limit.to_string());
    }
    child
}

fn killed_at_any_moment() {
    let place = tempfile::tempdir().expect("a place");
    let directory = place.path().join("shelf");
    let mut reached = 0;
    for round in 0..12 {
        let mut child = child(&directory, None).spawn().expect("it starts");
        let out = BufReader::new(child.stdout.take().expect("it is piped"));
        let told = thread::spawn(move || {
            let lines = out.lines().map_while(Result::ok);
            lines.filter_map(|line| line.parse::<u64>().ok()).last()
        });
        thread::sleep(Duration::from_millis(150 + 37 * round));
        child.kill().expect("it lives");
        child.wait().expect("it ends");
        let told = told.join().expect("the listener lives").unwrap_or(0);
        let tree = Tree::open(&directory, IDENTITY, SETTINGS).expect("it opens after a kill");
        let applied = tree.applied();
        let mut history = History::new(SEED);
        history.back_to(SEED, applied);
        history.holds(&tree);
        assert!(
            told <= applied.position,
            "{told} was durable, and {applied} is"
        );
        assert!(reached <= applied.position);
        reached = applied.position;
    }
    assert!(reached > 0, "no flush was seen");
    println!("killed 12 times, up to position {reached}");
}

fn a_full_disk_costs_nothing_but_the_flush() {
    let place = tempfile::tempdir().expect("a place");
    let directory = place.path().join("shelf");
    let mut child = child(&directory, Some(40_000)).spawn().expect("it starts");
    let out = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut durable = 0;
    let mut failures = 0;
    for line in out.lines().map_while(Result::ok) {
        match line.parse::<u64>() {
            Ok(position) => durable = position,
            Err(_) => failures += 1,
        }
        if failures > 5 {
            break;
        }
    }
    child.kill().expect("it lives");
    child.wait().expect("it ends");
    assert!(failures > 5, "no flush failed");
    let unfinished = fs::read_dir(tree_of(&directory).join("tables")).expect("tables");
    assert!(unfinished.count() < 40, "each attempt left a file");
    let tree = Tree::open(&directory, IDENTITY, SETTINGS).expect("it opens when there is room");
    assert!(durable <= tree.applied().position);
    let mut history = History::new(SEED);
    history.back_to(SEED, tree.applied());
    let applied = history.holds(&tree);
    println!("{failures} flushes had no room, and all is there up to {applied}");
}
