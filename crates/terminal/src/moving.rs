//! The movers and inks of nodes: for a node, and for commands that start some.

use clap::Args;
use linux::{Ink, Mover};

#[derive(Clone, Debug, Default, Args)]
pub struct Moving {
    /// How the nodes' bytes move: direct, splice, uring or auto [default: direct]
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
