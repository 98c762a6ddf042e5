//! Control frames of peers. The check is the one that `cargo test` runs on this target's corpus.

#![no_main]

#[path = "../../crates/formats/tests/fuzzed/control_frames.rs"]
mod control_frames;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| control_frames::check(bytes));
