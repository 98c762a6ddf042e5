//! The checks that `fuzz/` runs on drawn bytes, here on the corpora that stay in the tree: golden
//! bytes, and what fuzzing found. docs/testing.md says how to fuzz.

/// Tests call it as the workspace does, which has some of them elsewhere, too.
extern crate logberg_formats as formats;

mod control_frames;
mod data_frames;
mod segments;

#[path = "../../../../fuzz/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn control_frames_of_the_corpus() {
    replay("control_frames", control_frames::check);
}

#[test]
fn data_frames_of_the_corpus() {
    replay("data_frames", data_frames::check);
}

#[test]
fn segment_headers_of_the_corpus() {
    replay("segments", segments::check);
}
