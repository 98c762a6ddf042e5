//! Every shelf keeps to the contract.

use std::sync::Arc;

use shelf::{Identity, Media, Memory, Settings, Shelf, Tree, contract};

const IDENTITY: Identity = Identity {
    cluster: [7; 16],
    log: 7,
};

#[test]
fn memory_keeps_to_it() {
    for seed in 0..40 {
        let media = Media::default();
        let mut open = || Memory::open(&media, IDENTITY).map(|shelf| Arc::new(shelf) as _);
        contract::drawn(seed, 300, &mut open);
    }
    let shelf = Memory::open(&Media::default(), IDENTITY).expect("it opens");
    contract::beside_each_other(1, 500, &shelf);
}

#[test]
fn a_tree_keeps_to_it() {
    // Some remember few prefixes, and delete what is below the others.
    for (seed, forgotten_max) in [(0, 10_000), (1, 0), (2, 3), (3, 10_000), (4, 1), (5, 70)] {
        let place = tempfile::tempdir().expect("a place");
        let settings = Settings {
            forgotten_max,
            table_bytes: 4000,
            ..Settings::default()
        };
        let directory = place.path().join("shelf");
        let mut open = || {
            let tree = Tree::open(&directory, IDENTITY, settings);
            tree.map(|tree| Arc::new(tree) as Arc<dyn Shelf>)
        };
        contract::drawn(seed, 400, &mut open);
    }
}

#[test]
fn a_tree_is_read_flushed_and_compacted_while_batches_come() {
    for seed in 0..2 {
        let place = tempfile::tempdir().expect("a place");
        let settings = Settings {
            table_bytes: 16_000,
            ..Settings::default()
        };
        let tree = Tree::open(&place.path().join("shelf"), IDENTITY, settings);
        contract::beside_each_other(seed, 3000, &tree.expect("it opens"));
    }
}
