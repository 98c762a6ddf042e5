//! How the bytes of a node move and where they stay: for a node, and for commands that start some.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use linux::{Ink, LinuxDisk, Mover};
use node::store::Manifest;

use crate::exit::Failure;

#[derive(Clone, Debug, Default, Args)]
pub struct Moving {
    /// How the nodes' bytes move: direct, uring or auto [default: direct]
    #[arg(long, value_name = "MOVER")]
    pub mover: Option<Mover>,
}

/// Also where they stay.
#[derive(Clone, Debug, Default, Args)]
pub struct MovingAndInk {
    #[command(flatten)]
    pub moving: Moving,
    /// Where the nodes' records go: disk, pmem, or ram, where nothing survives a process
    #[arg(long, value_name = "INK")]
    pub ink: Option<Ink>,
}

impl Moving {
    /// For each node.
    pub fn arguments(&self) -> Vec<String> {
        let mover = self.mover.iter();
        mover
            .flat_map(|mover| ["--mover".to_owned(), mover.to_string()])
            .collect()
    }
}

impl MovingAndInk {
    pub fn arguments(&self) -> Vec<String> {
        let mut all = self.moving.arguments();
        all.extend(
            self.ink
                .iter()
                .flat_map(|ink| ["--ink".to_owned(), ink.to_string()]),
        );
        all
    }
}

/// Stands in the directory of a node that made its cluster in memory.
const MADE_IN_MEMORY: &str = "made-in-memory";

/// A node whose records are in memory knows nothing of what it was. It must not seem to be what a
/// directory holds, nor make a second cluster under the address of the first.
pub fn check_memory(directory: &Path, bootstrap: bool) -> Result<()> {
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
