//! Every story in `testdata/` is played, and what happens is compared with what stands there.
//!
//! `REWRITE=1 cargo test -p logberg-paxos --test all stories` writes what came of each command anew: read the
//! difference before you commit it. `stage.rs` has the list of commands.

mod shown;
mod stage;
mod text;
mod words;

use std::path::Path;

#[test]
fn stories_are_told_as_they_happen() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    text::hold::<stage::Stage>(&directory, 8);
}
