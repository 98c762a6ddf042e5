//! A shelf is removed, and its process dies in the middle.

mod common;

use std::fs;

use common::tree_of;
use shelf::{Applied, Batch, Identity, Settings, Shelf, Tree};

const IDENTITY: Identity = Identity {
    cluster: [7; 16],
    log: 7,
};

/// A shelf with a row, flushed.
fn made(directory: &std::path::Path) {
    let tree = Tree::open(directory, IDENTITY, Settings::default()).expect("it opens");
    let applied = Applied {
        position: 9,
        ..Applied::default()
    };
    tree.apply(Batch::default().put("a", "1"), applied)
        .expect("it applies");
    tree.flush().expect("it flushes");
}

#[test]
fn a_shelf_that_was_removed_in_part_is_begun_anew() {
    let here = tempfile::tempdir().expect("a directory");
    let directory = here.path().join("log-7");
    made(&directory);
    Tree::remove(&directory).expect("it goes");
    assert!(!directory.exists());
    Tree::remove(&directory).expect("there is nothing to remove");
    made(&directory);
    // As after each step of a removal: the claim is there as long as anything is.
    fs::rename(directory.join("shelf"), directory.join("shelf.new")).expect("it is given up");
    let tree = tree_of(&directory);
    for path in [tree.join("current"), tree.join("tables"), tree] {
        match path.is_dir() {
            true => fs::remove_dir_all(&path).expect("it goes"),
            false => fs::remove_file(&path).expect("it goes"),
        }
        let copy = here.path().join("copy");
        fs::create_dir(&copy).expect("a directory");
        copy_into(&directory, &copy);
        let tree = Tree::open(&copy, IDENTITY, Settings::default()).expect("it opens");
        assert_eq!(tree.applied(), Applied::default(), "without {path:?}");
        drop(tree);
        fs::remove_dir_all(&copy).expect("it goes");
    }
}

fn copy_into(from: &std::path::Path, to: &std::path::Path) {
    for entry in fs::read_dir(from).expect("it is there") {
        let entry = entry.expect("readable");
        let target = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => {
                fs::create_dir(&target).expect("a directory");
                copy_into(&entry.path(), &target);
            }
            false => _ = fs::copy(entry.path(), target).expect("it is copied"),
        }
    }
}
