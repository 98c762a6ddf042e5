//! Requests of Redis' clients. The check is the one that `cargo test` runs on this target's corpus.

#![no_main]

#[path = "../../crates/resp/tests/fuzzed/resp_requests.rs"]
mod resp_requests;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| resp_requests::check(bytes));
