//! Every story in `testdata/` is played, and what happens is compared with what stands there.
//!
//! A story is a text of lines:
//!
//! ```text
//! # what it tells                    stays as it is
//! ## A chapter                       likewise
//! deliver 1 2                        a command: `stage.rs` has the list
//!     2 <- 1  prepare 0.1.1          what came of it, four blanks to the right
//! ```
//!
//! `REWRITE=1 cargo test -p paxos --test all stories` writes what came of each command anew: read the
//! difference before you commit it.

mod difference;
mod shown;
mod stage;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use stage::Stage;

const INDENT: &str = "    ";

/// The text with what comes of its commands now.
fn play(name: &str, text: &str) -> String {
    let mut stage = Stage::default();
    let mut played = String::new();
    let lines = text.lines().filter(|line| !line.starts_with(INDENT));
    for line in lines {
        let _ = writeln!(played, "{line}");
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match stage.perform(line) {
            Ok(came) => {
                for came in came {
                    let _ = writeln!(played, "{INDENT}{came}");
                }
            }
            Err(why) => {
                eprintln!("{name}: \"{line}\": {why}");
                let _ = writeln!(played, "{INDENT}!! {why}");
            }
        }
    }
    stage.end();
    played
}

fn stories() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let entries = fs::read_dir(directory).expect("testdata is there");
    let paths = entries.map(|entry| entry.expect("it is listed").path());
    let mut stories: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|ending| ending == "txt"))
        .collect();
    stories.sort();
    stories
}

#[test]
fn stories_are_told_as_they_happen() {
    let rewrite = std::env::var_os("REWRITE").is_some();
    let mut told_otherwise = String::new();
    let stories = stories();
    assert!(stories.len() >= 8, "some are not found: {stories:?}");
    for path in stories {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let text = fs::read_to_string(&path).expect("a text");
        let played = play(&name, &text);
        let wrong = played.lines().find(|line| line.starts_with("    !!"));
        if wrong.is_some() {
            let _ = writeln!(told_otherwise, "{name}\n{played}");
            continue;
        }
        assert_eq!(play(&name, &text), played, "{name} is not deterministic");
        if rewrite && played != text {
            fs::write(&path, &played).expect("testdata is writable");
        } else if played != text {
            let difference = difference::between(&text, &played);
            let _ = writeln!(told_otherwise, "{name}\n{difference}");
        }
    }
    assert!(
        told_otherwise.is_empty(),
        "- stands in the story, + happens now (REWRITE=1 writes it there):\n{told_otherwise}"
    );
}
