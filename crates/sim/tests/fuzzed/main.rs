//! The check that `fuzz/` runs on drawn conversations, here on the corpus that stays in the tree.

mod conversation;

#[path = "../../../../fuzz/replay.rs"]
mod replay;

#[test]
fn conversations_of_the_corpus() {
    replay::replay("conversation", conversation::check);
}
