//! Flushes and compactions beside each other, and at the end of a shelf.

mod common;

use std::fs;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use common::tree_of;
use shelf::{Applied, Batch, Cursor, Identity, PageBounds, Settings, Shelf, ShelfError, Tree};

const IDENTITY: Identity = Identity {
    cluster: [7; 16],
    log: 7,
};
const ALL: PageBounds = PageBounds {
    rows_max: usize::MAX,
    bytes_max: usize::MAX,
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
    let tables = || fs::read_dir(tree_of(directory).join("tables")).map_or(0, Iterator::count);
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
    let tables = || fs::read_dir(tree_of(here.path()).join("tables")).map_or(0, Iterator::count);
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

#[test]
fn a_compaction_leaves_the_room_that_is_left_to_others() {
    let here = tempfile::tempdir().expect("a directory");
    let settings = Settings {
        free_bytes_min: u64::MAX,
        ..Settings::default()
    };
    let tree = Tree::open(here.path(), IDENTITY, settings).expect("it opens");
    for round in 1..=TABLES {
        add(&tree, round);
        tree.flush().expect("it flushes");
        tree.compact().expect("it is put off");
    }
    let before = bytes_below(here.path());
    drop(tree);
    let tree = Tree::open(here.path(), IDENTITY, Settings::default()).expect("it opens");
    tree.compact().expect("it compacts");
    let after = bytes_below(here.path());
    assert!(after < before / 2, "{before} bytes are {after} now");
}

#[test]
fn a_flush_leaves_the_room_that_is_left_to_logs() {
    let here = tempfile::tempdir().expect("a directory");
    let settings = Settings {
        flush_free_bytes_min: u64::MAX,
        ..Settings::default()
    };
    let tree = Tree::open(here.path(), IDENTITY, settings).expect("it opens");
    let before = bytes_below(here.path());
    let mut batch = Batch::default();
    batch.put(b"more than a short flush".to_vec(), vec![7; 2 << 20]);
    tree.apply(&batch, at(1)).expect("it applies");
    let refused = tree.flush().expect_err("no disk has so many");
    assert!(
        refused.to_string().contains("what is left to logs"),
        "{refused}"
    );
    assert_eq!(bytes_below(here.path()), before);
    assert_eq!(tree.durable(), Applied::default());
    assert_ne!(tree.applied(), Applied::default());
}

#[test]
fn what_is_not_flushed_is_counted_once_whoever_reads() {
    let here = tempfile::tempdir().expect("a directory");
    let tree = Tree::open(here.path(), IDENTITY, Settings::default()).expect("it opens");
    let mut cursors = Vec::new();
    for round in 1..=5 {
        add(&tree, round);
        let cursor = tree.snapshot().cursor(Bound::Unbounded, Bound::Unbounded);
        cursors.push(cursor.expect("it reads"));
        tree.flush().expect("it flushes");
        assert_eq!(tree.figures().unflushed_bytes, 0);
    }
    add(&tree, 6);
    let unflushed = tree.figures().unflushed_bytes;
    assert!((200_000..300_000).contains(&unflushed), "{unflushed}");
}

#[test]
fn what_is_taken_away_while_it_is_used_is_damage() {
    for gone in ["shelf", "current", "all"] {
        let here = tempfile::tempdir().expect("a directory");
        let place = here.path().join("log-7");
        let tree = Tree::open(&place, IDENTITY, Settings::default()).expect("it opens");
        add(&tree, 1);
        tree.flush().expect("it flushes");
        tree.look_after().expect("all is there");
        add(&tree, 2);
        match gone {
            "shelf" => fs::remove_file(place.join(gone)),
            "current" => fs::remove_file(tree_of(&place).join(gone)),
            _ => fs::remove_dir_all(&place),
        }
        .expect("it is there");
        let is_damaged = |result| matches!(result, Err(ShelfError::Damaged { .. }));
        assert!(is_damaged(tree.look_after()), "{gone}");
        assert!(is_damaged(tree.flush().map(|_| ())), "{gone}");
    }
}

#[test]
fn a_short_flush_takes_no_room_of_logs() {
    let here = tempfile::tempdir().expect("a directory");
    let settings = Settings {
        flush_free_bytes_min: u64::MAX,
        ..Settings::default()
    };
    let tree = Tree::open(here.path(), IDENTITY, settings).expect("it opens");
    add(&tree, 1);
    tree.flush()
        .expect("less than a megabyte is always written");
    assert_eq!(tree.durable(), at(1));
}

/// All rows that follow, by pages of so many.
fn pages(cursor: &mut Cursor, mut between: impl FnMut()) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    loop {
        let bounds = PageBounds {
            rows_max: 20,
            bytes_max: usize::MAX,
        };
        let page = cursor.next_page(bounds).expect("it is read");
        rows.extend(page.rows);
        if page.is_last {
            return rows;
        }
        between();
    }
}

#[test]
fn a_cursor_costs_one_state_whatever_is_written() {
    let here = tempfile::tempdir().expect("a directory");
    let tree = Tree::open(here.path(), IDENTITY, Settings::default()).expect("it opens");
    let mut round = 1;
    add(&tree, round);
    tree.flush().expect("it flushes");
    tree.apply(Batch::default().put("pre/fix", "2"), at(2))
        .expect("it applies");
    let all = || {
        let snapshot = tree.snapshot();
        let cursor = snapshot.cursor(Bound::Unbounded, Bound::Unbounded);
        cursor.expect("it is followed")
    };
    let before = pages(&mut all(), || ());
    assert_eq!(before.len(), 201);
    let (mut cursor, mut late) = (all(), all());
    round += 2;
    add(&tree, round);
    let read = pages(&mut cursor, || {
        for _ in 0..TABLES {
            round += 1;
            add(&tree, round);
            tree.flush().expect("it flushes");
        }
        round += 1;
        tree.apply(Batch::default().forget("pre/"), at(round))
            .expect("it applies");
        tree.flush().expect("it flushes");
        tree.compact().expect("it compacts");
    });
    assert_eq!(read, before);
    // One state, what the last round wrote, and nothing of a hundred.
    let figures = tree.figures();
    assert!(figures.disk_bytes < 400_000, "{figures:?}");
    assert!(figures.unflushed_bytes < 400_000, "{figures:?}");
    drop(tree);
    assert_eq!(pages(&mut late, || ()), before);
}

#[test]
fn a_late_reader_of_a_removed_state_does_no_harm_to_the_one_in_its_place() {
    let here = tempfile::tempdir().expect("a directory");
    let begin = || {
        let tree = Tree::open(here.path(), IDENTITY, Settings::default()).expect("it opens");
        for round in 1..=TABLES {
            add(&tree, round);
            tree.flush().expect("it flushes");
        }
        tree
    };
    let old = begin();
    let cursor = old.snapshot().cursor(Bound::Unbounded, Bound::Unbounded);
    old.compact().expect("it compacts");
    old.close();
    Tree::remove(here.path()).expect("it is removed");
    let new = begin();
    let before = new.scan(Bound::Unbounded, Bound::Unbounded, ALL);
    drop(cursor);
    drop(old);
    drop(new);
    let new = Tree::open(here.path(), IDENTITY, Settings::default()).expect("it opens again");
    let after = new.scan(Bound::Unbounded, Bound::Unbounded, ALL);
    assert_eq!(after.expect("it reads"), before.expect("it reads"));
}
