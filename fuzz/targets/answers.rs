//! A node's answers, as clients read them. The check is the one that `cargo test` runs on this target's corpus.

#![no_main]

#[path = "../../crates/wire/tests/fuzzed/answers.rs"]
mod answers;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| answers::check(bytes));
