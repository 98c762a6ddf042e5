//! A node whose records are in memory may not be taken for one whose records last.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use linux::LinuxDisk;
use store::Manifest;
use terminal::exit::Failure;

/// Stands in the directory of a node that made its cluster in memory.
const MADE_IN_MEMORY: &str = "made-in-memory";

/// A node whose records are in memory knows nothing of what it was. It must not seem to be what a
/// directory holds, nor make a second cluster under the address of the first.
pub fn check(directory: &Path, bootstrap: bool) -> Result<()> {
    if !matches!(Manifest::load(&mut LinuxDisk::new(), directory), Ok(None)) {
        let sentence = format!(
            "{} holds a node on the disk: start that with --ink disk, or choose another directory with --data",
            directory.display()
        );
        return Err(Failure::usage(sentence).into());
    }
    if !bootstrap {
        return Ok(());
    }
    let mark = mark_of(directory);
    if mark.exists() {
        let sentence = format!(
            "this node made a cluster in memory before, and knows nothing of it any more: join the others with --join, or remove {} to make another cluster",
            mark.display()
        );
        return Err(Failure::usage(sentence).into());
    }
    let made = std::fs::create_dir_all(directory).and_then(|()| std::fs::write(&mark, ""));
    made.with_context(|| format!("cannot write {}", mark.display()))
}

fn mark_of(directory: &Path) -> PathBuf {
    directory.join(MADE_IN_MEMORY)
}
