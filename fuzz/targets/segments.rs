//! The first blocks of segments. The check is the one that `cargo test` runs on this target's corpus.

#![no_main]

#[path = "../../crates/formats/tests/fuzzed/segments.rs"]
mod segments;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| segments::check(bytes));
