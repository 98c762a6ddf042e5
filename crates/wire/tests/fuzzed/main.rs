//! The checks that `fuzz/` runs on drawn bytes, here on the corpora that stay in the tree: golden
//! bytes, and what fuzzing found. docs/testing.md says how to fuzz.

/// Tests call it as the workspace does, which has some of them elsewhere, too.
extern crate logberg_wire as wire;

mod answers;
mod request_lines;

#[path = "../../../../fuzz/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn answers_of_the_corpus() {
    replay("answers", answers::check);
}

#[test]
fn request_lines_of_the_corpus() {
    replay("request_lines", request_lines::check);
}
