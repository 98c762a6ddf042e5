//! Whatever happens to a shelf's files: the rows of before, or a word that it is damaged; never other rows.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::tree_of;
use shelf::contract::History;
use shelf::{Applied, Identity, Settings, Shelf, ShelfError, Tree};

const IDENTITY: Identity = Identity {
    cluster: [3; 16],
    log: 3,
};

fn open(directory: &Path) -> Result<Tree, ShelfError> {
    Tree::open(directory, IDENTITY, Settings::default())
}

/// A shelf of some tables, and what is in it.
fn made(directory: &Path) -> (History, Applied) {
    let tree = open(directory).expect("it opens");
    let mut history = History::new(5);
    for batch in 0..300 {
        let (writes, applied) = history.draw();
        tree.apply(&writes, applied).expect("it applies");
        if batch % 100 == 99 {
            tree.flush().expect("it flushes");
        }
    }
    (history, tree.applied())
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found.sort();
    found
}

/// Returns whether the shelf was seen to be damaged.
fn is_seen(directory: &Path, (history, applied): &(History, Applied), what: &str) -> bool {
    let tree = match open(directory) {
        Ok(tree) => tree,
        Err(
            ShelfError::Damaged { .. } | ShelfError::NotAShelf { .. } | ShelfError::Newer { .. },
        ) => {
            return true;
        }
        Err(error) => panic!("{what}: {error}"),
    };
    match tree.verify(&mut |_| {}) {
        Ok(()) => {
            assert_eq!(history.holds(&tree), *applied, "{what}");
            false
        }
        Err(ShelfError::Damaged { .. }) => true,
        Err(error) => panic!("{what}: {error}"),
    }
}

#[test]
fn a_flipped_bit_in_any_file_gives_no_other_rows() {
    std::panic::set_hook(Box::new(|_| {}));
    let place = tempfile::tempdir().expect("a place");
    let directory = place.path().join("shelf");
    let whole = made(&directory);
    assert!(!is_seen(&directory, &whole, "nothing was done to it"));
    let mut seen = 0;
    let mut all = 0;
    for file in files(&directory) {
        let bytes = fs::read(&file).expect("it reads");
        for at in (0..bytes.len()).step_by(1 + bytes.len() / 60) {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            fs::write(&file, &flipped).expect("it writes");
            all += 1;
            seen += usize::from(is_seen(&directory, &whole, &format!("{file:?} at {at}")));
        }
        fs::write(&file, &bytes).expect("it writes");
        for length in [0, bytes.len() / 2, bytes.len().saturating_sub(1)] {
            fs::write(&file, &bytes[..length]).expect("it writes");
            all += 1;
            seen += usize::from(is_seen(
                &directory,
                &whole,
                &format!("{file:?} cut at {length}"),
            ));
        }
        fs::write(&file, &bytes).expect("it writes");
    }
    assert!(!is_seen(&directory, &whole, "all is mended"));
    println!("{seen} of {all} damages were seen; the others hit nothing that counts");
    assert!(seen * 2 > all, "{seen} of {all}");
}

#[test]
fn a_lost_file_is_damage_and_a_damaged_shelf_is_put_aside() {
    let place = tempfile::tempdir().expect("a place");
    let directory = place.path().join("shelf");
    let whole = made(&directory);
    let mut seen = Vec::new();
    for file in files(&directory) {
        let bytes = fs::read(&file).expect("it reads");
        fs::remove_file(&file).expect("it goes");
        if is_seen(&directory, &whole, &format!("{file:?} is gone")) {
            seen.push(file.strip_prefix(&directory).expect("below it").to_owned());
        }
        fs::write(&file, bytes).expect("it writes");
    }
    let tree = tree_of(&directory);
    let tree = tree.strip_prefix(&directory).expect("below it");
    let is_table = |file: &&PathBuf| file.starts_with(tree.join("tables"));
    assert_eq!(seen.iter().filter(is_table).count(), 3, "{seen:?}");
    for file in [PathBuf::from("shelf"), tree.join("current")] {
        assert!(seen.contains(&file), "{file:?}: {seen:?}");
    }
    for round in 0..2 {
        let aside = Tree::put_aside(&directory).expect("it moves");
        assert_eq!(aside, place.path().join("shelf.damaged"), "round {round}");
        let new = open(&directory).expect("a new one");
        assert_eq!(new.applied(), Applied::default());
        assert_eq!(fs::read_dir(place.path()).expect("it lists").count(), 2);
    }
}

#[test]
fn what_is_not_this_log_s_shelf_is_refused_and_left_alone() {
    let place = tempfile::tempdir().expect("a place");
    let directory = place.path().join("shelf");
    let (history, applied) = made(&directory);
    let others = [
        Identity { log: 4, ..IDENTITY },
        Identity {
            cluster: [9; 16],
            ..IDENTITY
        },
    ];
    for other in others {
        let refused = Tree::open(&directory, other, Settings::default()).map(|_| ());
        let said = refused.expect_err("another log's").to_string();
        assert!(
            said.contains("log 3 in cluster 0303") && said.contains(&other.to_string()),
            "{said}"
        );
    }
    let name = directory.join("shelf");
    let lines = fs::read_to_string(&name).expect("it reads");
    let newer = lines.replace("shelf 1", "shelf 2");
    let body = newer.rsplit_once("checksum").expect("it has one").0;
    let newer = format!("{body}checksum {:08x}\n", crc32c::crc32c(body.as_bytes()));
    fs::write(&name, newer).expect("it writes");
    let said = open(&directory)
        .map(|_| ())
        .expect_err("a newer one's")
        .to_string();
    assert!(
        said.contains("version 2") && said.contains("newer"),
        "{said}"
    );
    fs::write(&name, &lines).expect("it writes");
    let tree = open(&directory).expect("nothing happened to it");
    assert_eq!(history.holds(&tree), applied);

    let mine = place.path().join("mine");
    fs::create_dir(&mine).expect("a directory");
    fs::write(mine.join("letter"), "dear").expect("it writes");
    let said = open(&mine).map(|_| ()).expect_err("no shelf").to_string();
    assert!(said.contains("is no shelf"), "{said}");
    assert_eq!(fs::read_dir(&mine).expect("it lists").count(), 1);
}
