//! `logberg bench`: figures of this program on this machine.

use anyhow::Result;
use bench::failover::Disks;
use clap::{Args, Subcommand};

use super::moved;
use crate::global::Global;

/// Measure appends, reads, failovers and the machine
#[derive(Debug, Args)]
#[command(after_help = "\
Each bench starts what it needs on this machine, ends by itself and cleans up. Say --json for one
line with everything that was measured, and the machine it was measured on. A figure from a
machine that did something else meanwhile is none. More benches are in logberg-lab.

Example: what agreement costs
  logberg bench append --seconds 20")]
pub struct Arguments {
    #[command(subcommand)]
    bench: Bench,
}

macro_rules! benches {
    ($($moved:ident $name:literal),* $(,)?) => {
        #[derive(Debug, Subcommand)]
        enum Bench {
            Append(bench::append::Arguments),
            Read(bench::read::Arguments),
            Failover(bench::failover::Arguments),
            Machine(bench::machine::Arguments),
            FloorNode(bench::floor_cluster::Arguments),
            $(#[command(hide = true)] $moved(moved::Arguments),)*
        }

        impl Arguments {
            pub fn run(self, global: &Global) -> Result<()> {
                match self.bench {
                    Bench::Append(arguments) => arguments.run(global.json),
                    Bench::Read(arguments) => arguments.run(global.json),
                    Bench::Failover(arguments) => arguments.run(global.json, Disks::AsTheyAre),
                    Bench::Machine(arguments) => arguments.run(global.json),
                    Bench::FloorNode(arguments) => arguments.run(),
                    $(Bench::$moved(_) => Err(moved::to_the_lab(concat!("bench ", $name))),)*
                }
            }
        }
    };
}

benches! {
    Move "move",
    Auxiliary "auxiliary",
    Memory "memory",
    CatchUp "catch-up",
    ManyLogs "many-logs",
    Reconfigure "reconfigure",
    Elections "elections",
    Paper "paper",
    Recover "recover",
    Rivals "rivals",
    Instructions "instructions",
}
