//! The checks that are fuzzed, on the corpus.

#[path = "../../../../fuzz/replay.rs"]
mod replay;
mod resp_replies;
mod resp_requests;

#[test]
fn requests() {
    replay::replay("resp_requests", resp_requests::check);
}

#[test]
fn replies() {
    replay::replay("resp_replies", resp_replies::check);
}
