//! The checks that `fuzz/` runs on drawn bytes, here on the corpora that stay in the tree.

/// Tests call it as the workspace does, which has some of them elsewhere, too.
extern crate logberg_client as client;

mod backups;

#[path = "../../../../fuzz/replay.rs"]
mod replay;

#[test]
fn backups_of_the_corpus() {
    replay::replay("backups", backups::check);
}
