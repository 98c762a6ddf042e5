//! The check that `fuzz/` runs on drawn bytes, here on the corpus that stays in the tree.

mod settings;

#[path = "../../../../fuzz/replay.rs"]
mod replay;

#[test]
fn settings_of_the_corpus() {
    replay::replay("settings", settings::check);
}
