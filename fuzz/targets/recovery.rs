//! Recovery from a damaged disk. The check is the one that `cargo test` runs on this target's corpus.

#![no_main]

#[path = "../../crates/store/tests/fuzzed/recovery.rs"]
mod recovery;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| recovery::check(bytes));
