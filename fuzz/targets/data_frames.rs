//! Data frames of peers. The check is the one that `cargo test` runs on this target's corpus.

#![no_main]

#[path = "../../crates/formats/tests/fuzzed/data_frames.rs"]
mod data_frames;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| data_frames::check(bytes));
