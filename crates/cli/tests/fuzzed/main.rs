//! The check that `fuzz/` runs on drawn bytes, here on the corpus that stays in the tree.

mod dialect;

#[path = "../../../../fuzz/replay.rs"]
mod replay;

#[test]
fn lines_of_the_corpus_mean_the_same_to_client_and_node() {
    replay::replay("dialect", dialect::check);
}
