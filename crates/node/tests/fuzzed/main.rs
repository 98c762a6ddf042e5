//! The checks that `fuzz/` runs on drawn bytes, here on the corpora that stay in the tree: golden
//! bytes, and what fuzzing found. docs/testing.md says how to fuzz.

mod control_frames;
mod data_frames;
mod directory_commands;
mod manifests;
mod pasts;
mod peers_files;
mod records;
mod recovery;
mod request_lines;
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
fn records_of_the_corpus() {
    replay("records", records::check);
}

#[test]
fn segment_headers_of_the_corpus() {
    replay("segments", segments::check);
}

#[test]
fn manifests_of_the_corpus() {
    replay("manifests", manifests::check);
}

#[test]
fn pasts_of_the_corpus() {
    replay("pasts", pasts::check);
}

#[test]
fn peers_files_of_the_corpus() {
    replay("peers_files", peers_files::check);
}

#[test]
fn recoveries_of_the_corpus() {
    replay("recovery", recovery::check);
}

#[test]
fn request_lines_of_the_corpus() {
    replay("request_lines", request_lines::check);
}

#[test]
fn directory_commands_of_the_corpus() {
    replay("directory_commands", directory_commands::check);
}
