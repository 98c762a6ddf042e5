//! The checks that `fuzz/` runs on drawn bytes, here on the corpora that stay in the tree: golden
//! bytes, and what fuzzing found. docs/testing.md says how to fuzz.

mod manifests;
mod pasts;
mod records;
mod recovery;

#[path = "../../../../fuzz/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn records_of_the_corpus() {
    replay("records", records::check);
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
fn recoveries_of_the_corpus() {
    replay("recovery", recovery::check);
}
