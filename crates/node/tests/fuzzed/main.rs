//! The checks that `fuzz/` runs on drawn bytes, here on the corpora that stay in the tree: golden
//! bytes, and what fuzzing found. docs/testing.md says how to fuzz.

mod directory_commands;
mod peers_files;

#[path = "../../../../fuzz/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn peers_files_of_the_corpus() {
    replay("peers_files", peers_files::check);
}

#[test]
fn directory_commands_of_the_corpus() {
    replay("directory_commands", directory_commands::check);
}
