//! The checks that `fuzz/` runs on drawn bytes, here on the corpora that stay in the tree.

mod dialect;
mod settings;

#[path = "../../../../fuzz/replay.rs"]
mod replay;

#[test]
fn lines_of_the_corpus_mean_the_same_to_client_and_node() {
    replay::replay("dialect", dialect::check);
}

#[test]
fn settings_of_the_corpus() {
    replay::replay("settings", settings::check);
}
