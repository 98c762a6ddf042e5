//! Parts of backups. The check is the one that `cargo test` runs on this target's corpus.

#![no_main]

#[path = "../../crates/client/tests/fuzzed/backups.rs"]
mod backups;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| backups::check(bytes));
