//! Zero-copy Paxos' experiments.
//!
//! | module | what it holds |
//! |---|---|
//! | `grid` | its own experiment: which cells, in which order, and what stands beside them |
//! | `cells`, `published` | the cells, and what was published of them |
//! | `measured` | one cell: a fresh cluster or its floor, loaded and gone |
//! | `report` | what a grid found |
//! | `judged`, `limits`, `tables`, `plots` | its claims, the limit of each cell, its tables and its plots |
//! | `batches` | the work of a batch by its size, and the sizes of batches |
//! | `stack` | ways between nodes |

mod batches;
mod cells;
mod grid;
mod judged;
mod limits;
mod measured;
mod plots;
mod published;
pub mod report;
mod stack;
mod tables;

use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};

use grid::{Grid, HELP};

/// Repeat Zero-copy Paxos' experiments
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Debug, Subcommand)]
enum Experiment {
    Grid(Box<Grid>),
    Stack(Box<stack::Stack>),
    Batches(Box<batches::Batches>),
}

impl Arguments {
    pub fn run(self, json: bool) -> Result<()> {
        match self.experiment {
            Experiment::Grid(grid) => grid.run(json),
            Experiment::Stack(stack) => stack.run(json),
            Experiment::Batches(batches) => batches.run(json),
        }
    }
}

/// The earlier words for the grid.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct OfAPaper {
    paper: Paper,
    #[command(flatten)]
    grid: Box<Grid>,
}

impl OfAPaper {
    pub fn run(self, json: bool) -> Result<()> {
        let Paper::ZeroCopyPaxos = self.paper;
        self.grid.run(json)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Paper {
    /// Throughput, latency and batches by target rate and size of writes
    ZeroCopyPaxos,
}
