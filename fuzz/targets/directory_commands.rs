//! Commands of the directory. The check is the one that `cargo test` runs on this target's corpus.

#![no_main]

#[path = "../../crates/node/tests/fuzzed/directory_commands.rs"]
mod directory_commands;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| directory_commands::check(bytes));
