//! `starts`, `ends`, `met` and `refused`. The check is the one that `cargo test` runs on this target's corpus.

#![no_main]

#[path = "../../crates/store/tests/fuzzed/pasts.rs"]
mod pasts;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pasts::check(bytes));
