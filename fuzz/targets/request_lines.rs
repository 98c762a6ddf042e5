//! Request lines, as a node reads them. The check is the one that `cargo test` runs on this target's corpus.

#![no_main]

#[path = "../../crates/wire/tests/fuzzed/request_lines.rs"]
mod request_lines;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| request_lines::check(bytes));
