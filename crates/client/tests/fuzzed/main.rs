//! The checks that `fuzz/` runs on drawn bytes, here on the corpora that stay in the tree.

mod backups;

#[path = "../../../../fuzz/replay.rs"]
mod replay;

#[test]
fn backups_of_the_corpus() {
    replay::replay("backups", backups::check);
}
