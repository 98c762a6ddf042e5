//! Texts that are played: commands, and below each its result, four blanks to the right.
//!
//! ```text
//! # what it tells                    stays as it is
//! ## A chapter                       likewise
//! deliver 1 2                        a command
//!     2 <- 1  prepare 0.1.1          what came of it
//! ```
//!
//! `REWRITE=1` in the environment writes what came of each command anew. The stories of one log
//! (`crates/sim/tests/scenarios/stories`) are held to their texts by this file too.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

const INDENT: &str = "    ";

pub trait Player: Default {
    /// The results of the command, in lines.
    fn perform(&mut self, command: &str) -> Result<Vec<String>, String>;

    /// Checks what must hold at the end of every story.
    fn end(&mut self) {}
}

/// Every `.txt` in the directory; `count_min` of them are there.
pub fn hold<P: Player>(directory: &Path, count_min: usize) {
    let rewrite = std::env::var_os("REWRITE").is_some();
    let mut told_otherwise = String::new();
    let stories = stories(directory);
    assert!(
        stories.len() >= count_min,
        "some are not found: {stories:?}"
    );
    for path in stories {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let text = fs::read_to_string(&path).expect("a text");
        let played = play::<P>(&text);
        if played.lines().any(|line| line.starts_with("    !!")) {
            let _ = writeln!(told_otherwise, "{name}\n{played}");
            continue;
        }
        assert_eq!(play::<P>(&text), played, "{name} is not deterministic");
        if rewrite && played != text {
            fs::write(&path, &played).expect("testdata is writable");
        } else if played != text {
            let difference = difference(&text, &played);
            let _ = writeln!(told_otherwise, "{name}\n{difference}");
        }
    }
    assert!(
        told_otherwise.is_empty(),
        "- stands in the story, + happens now (REWRITE=1 writes it there):\n{told_otherwise}"
    );
}

fn stories(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("testdata is there");
    let paths = entries.map(|entry| entry.expect("it is listed").path());
    let mut stories: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|ending| ending == "txt"))
        .collect();
    stories.sort();
    stories
}

/// The text with the present results of its commands.
fn play<P: Player>(text: &str) -> String {
    let mut player = P::default();
    let mut played = String::new();
    let lines = text.lines().filter(|line| !line.starts_with(INDENT));
    for line in lines {
        let _ = writeln!(played, "{line}");
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let came = player.perform(line);
        for line in came.unwrap_or_else(|why| vec![format!("!! {why}")]) {
            let _ = writeln!(played, "{INDENT}{line}");
        }
    }
    player.end();
    played
}

/// Lines around a difference that are shown too.
const AROUND: usize = 4;

fn difference(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let marked = marked(&old, &new);
    let differs: Vec<usize> = (0..marked.len())
        .filter(|at| marked[*at].0 != ' ')
        .collect();
    let mut text = String::new();
    let mut skipped = true;
    for (at, (mark, line)) in marked.iter().enumerate() {
        if !differs.iter().any(|other| other.abs_diff(at) <= AROUND) {
            skipped = true;
            continue;
        }
        if std::mem::take(&mut skipped) {
            let _ = writeln!(text, "  ...");
        }
        let _ = writeln!(text, "{mark} {line}");
    }
    text
}

/// By the longest common subsequence.
fn marked<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<(char, &'a str)> {
    let mut common = vec![vec![0_usize; new.len() + 1]; old.len() + 1];
    for o in (0..old.len()).rev() {
        for n in (0..new.len()).rev() {
            common[o][n] = match old[o] == new[n] {
                true => common[o + 1][n + 1] + 1,
                false => common[o + 1][n].max(common[o][n + 1]),
            };
        }
    }
    let (mut o, mut n, mut marked) = (0, 0, Vec::new());
    while o < old.len() || n < new.len() {
        if o < old.len() && n < new.len() && old[o] == new[n] {
            marked.push((' ', old[o]));
            (o, n) = (o + 1, n + 1);
        } else if n == new.len() || o < old.len() && common[o + 1][n] >= common[o][n + 1] {
            marked.push(('-', old[o]));
            o += 1;
        } else {
            marked.push(('+', new[n]));
            n += 1;
        }
    }
    marked
}
