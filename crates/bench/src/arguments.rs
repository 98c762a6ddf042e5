//! Which benches there are.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};
use terminal::moving::MovingAndInk;

pub const HELP: &str = "\
Each bench starts what it needs on this machine, ends by itself and cleans up. Say --json for one line
with everything that was measured, and the machine it was measured on. A figure from a machine that
did something else meanwhile is none.

Example: what agreement costs
  logberg bench append --seconds 20";

#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Debug, Subcommand)]
enum Bench {
    Append(crate::append::Arguments),
    Failover(crate::failover::Arguments),
    Move(crate::moves::Arguments),
    Auxiliary(crate::auxiliary::Arguments),
    Memory(crate::memory::Arguments),
    CatchUp(crate::catch_up::Arguments),
    ManyLogs(crate::many_logs::Arguments),
    Reconfigure(crate::reconfigure::Arguments),
    Elections(crate::elections::Arguments),
    Paper(crate::paper::Arguments),
    Read(crate::read::Arguments),
    Recover(crate::recover::Arguments),
    Rivals(crate::rivals::Arguments),
    Machine(crate::machine::Arguments),
    #[command(hide = true)]
    Instructions(crate::instructions::Arguments),
    FloorNode(FloorNode),
}

/// One process of the floor; `bench append` starts it.
#[derive(Debug, Args)]
#[command(
    hide = true,
    after_help = "Example: logberg bench floor-node --data d1"
)]
struct FloorNode {
    #[arg(long)]
    data: PathBuf,
    #[arg(long, value_delimiter = ',')]
    followers: Vec<String>,
    #[arg(long, default_value_t = 1)]
    quorum: usize,
    #[arg(long, default_value_t = 0)]
    recycled: u32,
    #[command(flatten)]
    moving: MovingAndInk,
}

impl Arguments {
    pub fn run(self, json: bool) -> Result<()> {
        match self.bench {
            Bench::Append(arguments) => arguments.run(json),
            Bench::Failover(arguments) => arguments.run(json),
            Bench::Move(arguments) => arguments.run(json),
            Bench::Auxiliary(arguments) => arguments.run(json),
            Bench::Memory(arguments) => arguments.run(json),
            Bench::CatchUp(arguments) => arguments.run(json),
            Bench::ManyLogs(arguments) => arguments.run(json),
            Bench::Reconfigure(arguments) => arguments.run(json),
            Bench::Elections(arguments) => arguments.run(json),
            Bench::Paper(arguments) => arguments.run(json),
            Bench::Read(arguments) => arguments.run(json),
            Bench::Recover(arguments) => arguments.run(json),
            Bench::Rivals(arguments) => arguments.run(json),
            Bench::Machine(arguments) => arguments.run(json),
            Bench::Instructions(arguments) => arguments.run(json),
            Bench::FloorNode(node) => {
                let FloorNode {
                    data,
                    followers,
                    quorum,
                    ..
                } = node;
                crate::serve_floor(data, followers, quorum, node.recycled, node.moving)
            }
        }
    }
}
