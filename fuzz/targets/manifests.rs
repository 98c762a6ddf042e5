//! Manifests. The check is the one that `cargo test` runs on this target's corpus.

#![no_main]

#[path = "../../crates/store/tests/fuzzed/manifests.rs"]
mod manifests;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| manifests::check(bytes));
