//! Records and what they carry. The check is the one that `cargo test` runs on this target's corpus.

#![no_main]

#[path = "../../crates/store/tests/fuzzed/records.rs"]
mod records;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| records::check(bytes));
