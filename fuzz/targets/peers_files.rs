//! `peers.json`. The check is the one that `cargo test` runs on this target's corpus.

#![no_main]

#[path = "../../crates/node/tests/fuzzed/peers_files.rs"]
mod peers_files;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| peers_files::check(bytes));
