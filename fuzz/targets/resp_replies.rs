//! Replies to Redis' clients. The check is the one that `cargo test` runs on this target's corpus.

#![no_main]

#[path = "../../crates/resp/tests/fuzzed/resp_replies.rs"]
mod resp_replies;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| resp_replies::check(bytes));
