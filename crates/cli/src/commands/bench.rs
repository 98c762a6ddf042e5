//! `logberg bench`: figures of this program on this machine.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::arguments::Global;
use crate::bench;

const HELP: &str = "\
Each bench starts what it needs on this machine, ends by itself and cleans up. Say --json for one line
with everything that was measured, and the machine it was measured on. A figure from a machine that
did something else meanwhile is none.

Example: what agreement costs
  logberg bench append --seconds 20";

/// Measure appends, reads, failovers, restarts, many logs, rivals and the machine
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Debug, Subcommand)]
enum Bench {
    Append(bench::append::Arguments),
    Failover(bench::failover::Arguments),
    Move(bench::moves::Arguments),
    Auxiliary(bench::auxiliary::Arguments),
    Memory(bench::memory::Arguments),
    CatchUp(bench::catch_up::Arguments),
    ManyLogs(bench::many_logs::Arguments),
    Reconfigure(bench::reconfigure::Arguments),
    Elections(bench::elections::Arguments),
    Paper(bench::paper::Arguments),
    Read(bench::read::Arguments),
    Recover(bench::recover::Arguments),
    Rivals(bench::rivals::Arguments),
    Machine(bench::machine::Arguments),
    FloorNode(FloorNode),
}

/// One process of the floor; `bench append` starts it.
#[derive(Debug, Args)]
#[command(hide = true, after_help = "Example: logberg bench floor-node --data d1")]
struct FloorNode {
    #[arg(long)]
    data: PathBuf,
    #[arg(long, value_delimiter = ',')]
    followers: Vec<String>,
    #[arg(long, default_value_t = 1)]
    quorum: usize,
    #[arg(long, default_value_t = 0)]
    recycled: u32,
}

impl Arguments {
    pub fn run(self, global: &Global) -> Result<()> {
        match self.bench {
            Bench::Append(arguments) => arguments.run(global.json),
            Bench::Failover(arguments) => arguments.run(global.json),
            Bench::Move(arguments) => arguments.run(global.json),
            Bench::Auxiliary(arguments) => arguments.run(global.json),
            Bench::Memory(arguments) => arguments.run(global.json),
            Bench::CatchUp(arguments) => arguments.run(global.json),
            Bench::ManyLogs(arguments) => arguments.run(global.json),
            Bench::Reconfigure(arguments) => arguments.run(global.json),
            Bench::Elections(arguments) => arguments.run(global.json),
            Bench::Paper(arguments) => arguments.run(global.json),
            Bench::Read(arguments) => arguments.run(global.json),
            Bench::Recover(arguments) => arguments.run(global.json),
            Bench::Rivals(arguments) => arguments.run(global.json),
            Bench::Machine(arguments) => arguments.run(global.json),
            Bench::FloorNode(node) => {
                bench::serve_floor(node.data, node.followers, node.quorum, node.recycled)
            }
        }
    }
}
