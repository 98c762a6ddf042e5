//! `logberg-lab bench`: which benches there are beside those of `logberg bench`.

use anyhow::Result;
use bench::failover::{self, Disks};
use bench::floor_cluster;
use clap::{Args, Subcommand};

use crate::benches::{
    auxiliary, catch_up, elections, guest, http, instructions, kv, many_logs, memory, moves,
    reconfigure, recover, rivals, shelf, waited,
};
use crate::global::Global;
use crate::study::zcp;

/// Measure what is promised, and compare with rivals
#[derive(Debug, Args)]
#[command(after_help = "\
Each bench starts what it needs on this machine, ends by itself and cleans up. Say --json for one
line with everything that was measured, and the machine it was measured on. A figure from a
machine that did something else meanwhile is none. `logberg bench`
measures appends, reads and the machine itself.

Example: the memory of nodes under load
  logberg-lab bench memory")]
pub struct Arguments {
    #[command(subcommand)]
    bench: Bench,
}

const FAILOVER: &str = "\
As `logberg bench failover --help` says, with one more --mode. disk-stall: the leader's disk
takes no write for 30 s, while its heartbeats go on.

Example: five leaders whose disks stall
  logberg-lab bench failover --times 5 --mode disk-stall";

const FLOOR_NODE: &str = "\
Example:
  logberg-lab bench floor-node --data d1";

#[derive(Debug, Subcommand)]
enum Bench {
    #[command(after_help = FAILOVER)]
    Failover(failover::Arguments),
    Move(moves::Arguments),
    Auxiliary(auxiliary::Arguments),
    Memory(memory::Arguments),
    CatchUp(catch_up::Arguments),
    ManyLogs(many_logs::Arguments),
    Reconfigure(reconfigure::Arguments),
    Elections(elections::Arguments),
    Recover(recover::Arguments),
    Shelf(shelf::Arguments),
    Guest(guest::Arguments),
    Kv(kv::Arguments),
    Http(http::Arguments),
    Waited(waited::Arguments),
    /// The earlier words for `logberg-lab zcp grid`
    #[command(hide = true)]
    Paper(zcp::OfAPaper),
    Rivals(rivals::Arguments),
    Instructions(instructions::Arguments),
    #[command(after_help = FLOOR_NODE)]
    FloorNode(floor_cluster::Arguments),
}

impl Arguments {
    pub fn run(self, global: &Global) -> Result<()> {
        let json = global.json;
        match self.bench {
            Bench::Failover(arguments) => arguments.run(json, Disks::Obedient),
            Bench::Move(arguments) => arguments.run(json),
            Bench::Auxiliary(arguments) => arguments.run(json),
            Bench::Memory(arguments) => arguments.run(json),
            Bench::CatchUp(arguments) => arguments.run(json),
            Bench::ManyLogs(arguments) => arguments.run(json),
            Bench::Reconfigure(arguments) => arguments.run(json),
            Bench::Elections(arguments) => arguments.run(json),
            Bench::Recover(arguments) => arguments.run(json),
            Bench::Shelf(arguments) => arguments.run(json),
            Bench::Guest(arguments) => arguments.run(json),
            Bench::Kv(arguments) => arguments.run(json),
            Bench::Http(arguments) => arguments.run(json),
            Bench::Waited(arguments) => arguments.run(json),
            Bench::Paper(arguments) => arguments.run(json),
            Bench::Rivals(arguments) => arguments.run(json),
            Bench::Instructions(arguments) => arguments.run(json),
            Bench::FloorNode(arguments) => arguments.run(),
        }
    }
}
