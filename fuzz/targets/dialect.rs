//! Request lines, as the client and the node read them. The check is the one that `cargo test` runs on this target's corpus.

#![no_main]

#[path = "../../crates/cli/tests/fuzzed/dialect.rs"]
mod dialect;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| dialect::check(bytes));
