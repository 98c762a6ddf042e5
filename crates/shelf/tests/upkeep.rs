//! Flushes and compactions beside each other, and at the end of a shelf.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use shelf::{Applied, Batch, Identity, Settings, Shelf, ShelfError, Tree};

const IDENTITY: Identity = Identity {
    cluster: [7; 16],
    log: 7,
};
/// Tables that a compaction merges.
const TABLES: u64 = 6;

fn at(position: u64) -> Applied {
    Applied {
        position,
        ..Applied::default()
    }
}

fn add(tree: &Tree, round: u64) {
    let mut batch = Batch::default();
    for row in 0..200u64 {
        batch.put(row.to_be_bytes(), vec![round as u8; 1_000]);
    }
    tree.apply(&batch, at(round)).expect("it applies");
}

/// A shelf whose next compaction would take a day.
fn slow(directory: &Path) -> Arc<Tree> {
    let settings = Settings {
        compact_bytes_per_second: 1,
        ..Settings::default()
    };
    let tree = Tree::open(directory, IDENTITY, settings).expect("it opens");
    for round in 1..=TABLES {
        add(&tree, round);
        tree.flush().expect("it flushes");
    }
    Arc::new(tree)
}

/// Returns once the compaction has written something.
fn compacting(directory: &Path, tree: &Arc<Tree>) -> thread::JoinHandle<Result<(), ShelfError>> {
    let tables = || fs::read_dir(directory.join("tree/tables")).map_or(0, Iterator::count);
    let before = tables();
    let compacts = tree.clone();
    let thread = thread::spawn(move || compacts.compact());
    let began = Instant::now();
    while tables() == before {
        assert!(began.elapsed() < Duration::from_secs(30), "it never begins");
        thread::sleep(Duration::from_millis(5));
    }
    assert!(!thread.is_finished());
    thread
}

#[test]
fn a_flush_does_not_wait_for_a_compaction() {
    let here = tempfile::tempdir().expect("a directory");
    let tree = slow(here.path());
    let thread = compacting(here.path(), &tree);
    add(&tree, TABLES + 1);
    assert_eq!(tree.flush().expect("it flushes"), at(TABLES + 1));
    assert!(!thread.is_finished());
    tree.end_compactions();
    thread
        .join()
        .expect("no panic")
        .expect("it ends in good order");
    // It still flushes, as a process does at its end.
    add(&tree, TABLES + 2);
    assert_eq!(tree.flush().expect("it flushes"), at(TABLES + 2));
    drop(tree);
    let tree = Tree::open(here.path(), IDENTITY, Settings::default()).expect("it opens");
    assert_eq!(tree.applied(), at(TABLES + 2));
    tree.compact().expect("it compacts");
    let value = tree.get(&7u64.to_be_bytes()).expect("it reads");
    assert_eq!(value, Some(vec![TABLES as u8 + 2; 1_000]));
}

#[test]
fn a_closed_shelf_writes_nothing_below_its_directory() {
    let here = tempfile::tempdir().expect("a directory");
    let tree = slow(here.path());
    let thread = compacting(here.path(), &tree);
    add(&tree, TABLES + 1);
    tree.close();
    thread
        .join()
        .expect("no panic")
        .expect("it ends in good order");
    Tree::remove(here.path()).expect("it goes");
    assert!(matches!(tree.flush(), Err(ShelfError::Closed { .. })));
    assert!(matches!(tree.compact(), Err(ShelfError::Closed { .. })));
    assert!(!here.path().exists());
}

#[test]
fn a_compaction_that_falls_behind_hurries() {
    let here = tempfile::tempdir().expect("a directory");
    let tree = slow(here.path());
    let thread = compacting(here.path(), &tree);
    let tables = || fs::read_dir(here.path().join("tree/tables")).map_or(0, Iterator::count);
    let (mut round, mut fewest) = (TABLES, usize::MAX);
    while round < 150 {
        round += 1;
        add(&tree, round);
        tree.flush().expect("it flushes");
        if round > 50 {
            fewest = fewest.min(tables());
        }
        thread::sleep(Duration::from_millis(10));
    }
    assert!(fewest < 40, "{fewest} of {round} are left: it sleeps on");
    tree.end_compactions();
    thread
        .join()
        .expect("no panic")
        .expect("it ends in good order");
    let value = tree.get(&7u64.to_be_bytes()).expect("it reads");
    assert_eq!(value, Some(vec![round as u8; 1_000]));
}

/// The bytes below a directory.
fn bytes_below(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).expect("it is there");
    let sizes = entries.map(|entry| {
        let entry = entry.expect("readable");
        match entry.path().is_dir() {
            true => bytes_below(&entry.path()),
            false => entry.metadata().expect("readable").len(),
        }
    });
    sizes.sum()
}

#[test]
fn tables_that_were_merged_are_gone_though_nothing_more_is_written() {
    let here = tempfile::tempdir().expect("a directory");
    let settings = Settings {
        compact_bytes_per_second: u64::MAX,
        table_bytes: 64 << 10,
        ..Settings::default()
    };
    let tree = Tree::open(here.path(), IDENTITY, settings).expect("it opens");
    for round in 1..=40 {
        add(&tree, round);
        tree.flush().expect("it flushes");
        if round % 4 == 0 {
            tree.compact().expect("it compacts");
        }
    }
    // One copy of 200 rows of 1,000 bytes, and a little.
    let bytes = bytes_below(here.path());
    assert!(bytes < 300_000, "{bytes} bytes for 200,000");
    assert_eq!(tree.applied(), at(40));
    drop(tree);
    let tree = Tree::open(here.path(), IDENTITY, Settings::default()).expect("it opens");
    assert_eq!(tree.applied(), at(40));
}

#[test]
fn a_note_stays_with_its_shelf_and_goes_with_it() {
    let here = tempfile::tempdir().expect("a directory");
    let directory = here.path().join("log-7");
    let open = || Tree::open(&directory, IDENTITY, Settings::default()).expect("it opens");
    let tree = open();
    assert_eq!(tree.note(), None);
    for note in [&b"one"[..], b"another"] {
        tree.keep_note(note).expect("it is kept");
    }
    drop(tree);
    let tree = open();
    assert_eq!(tree.note().as_deref(), Some(&b"another"[..]));
    fs::write(directory.join("note"), b"another, torn").expect("it is written");
    assert_eq!(tree.note(), None);
    tree.keep_note(b"again").expect("it is kept");
    tree.close();
    assert!(matches!(
        tree.keep_note(b"late"),
        Err(ShelfError::Closed { .. })
    ));
    Tree::remove(&directory).expect("it goes");
    assert_eq!(open().note(), None);
}
