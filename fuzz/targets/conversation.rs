//! A whole node, and whoever talks to it. The check is the one that `cargo test` runs on this target's corpus.

#![no_main]

#[path = "../../crates/sim/tests/fuzzed/conversation.rs"]
mod conversation;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| conversation::check(bytes));
