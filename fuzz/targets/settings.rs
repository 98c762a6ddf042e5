//! A node's settings file. The check is the one that `cargo test` runs on this target's corpus.

#![no_main]

#[path = "../../crates/serve/tests/fuzzed/settings.rs"]
mod settings;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| settings::check(bytes));
