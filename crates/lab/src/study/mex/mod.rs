//! The experiments of the sharded key/value store, on the door of Redis' protocol.
//!
//! ```text
//!   kv        1 group of 3, 1 of 10, 3 groups of 3      one key · many keys       1 client, 35 clients
//!   replicas  1 group of 2, 4 … 10                       the same
//!   groups    1 to 5 groups of 3                         the same
//!   clients   1 group of 3, 1 to 100 clients             the same
//!   logging   1 group of 3, nodes that log more or less  many keys
//!   messages  the engine alone, no disk and no network   requests of each agreement, counted
//!   fill      a gigabyte, by the size of a value          also `move`, to another group, and `recovery` of a replica
//!   controller  groups that leave and join               how long, and how many slots move
//! ```
//!
//! A command is `SET key value`; the one client whose latency is measured sends `SET key value GET`, which answers the old value as
//! PutHash did. Values have some ten bytes, as there.

mod beside;
mod changes;
mod clusters;
mod keyed;
mod loads;
mod messages;
mod moves;
mod others;
mod points;
mod recovery;
mod volumes;

use anyhow::Result;
use clap::{Args, Subcommand};

/// Repeat the experiments of the sharded key/value store of 6.824
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    experiment: Which,
}

#[derive(Debug, Subcommand)]
enum Which {
    #[command(after_help = keyed::KV)]
    Kv(keyed::Kv),
    #[command(after_help = keyed::REPLICAS)]
    Replicas(keyed::Replicas),
    #[command(after_help = keyed::GROUPS)]
    Groups(keyed::Groups),
    #[command(after_help = keyed::CLIENTS)]
    Clients(keyed::Clients),
    #[command(after_help = keyed::LOGGING)]
    Logging(keyed::Logging),
    #[command(after_help = messages::HELP)]
    Messages(messages::Arguments),
    #[command(after_help = volumes::FILL)]
    Fill(volumes::Fill),
    #[command(after_help = moves::MOVE)]
    Move(moves::Move),
    #[command(after_help = recovery::RECOVERY)]
    Recovery(recovery::Recovery),
    #[command(after_help = changes::HELP)]
    Controller(changes::Controller),
}

impl Arguments {
    pub fn run(self, json: bool) -> Result<()> {
        match self.experiment {
            Which::Kv(kv) => kv.run(json),
            Which::Replicas(replicas) => replicas.run(json),
            Which::Groups(groups) => groups.run(json),
            Which::Clients(clients) => clients.run(json),
            Which::Logging(logging) => logging.run(json),
            Which::Messages(messages) => messages.run(json),
            Which::Fill(fill) => fill.run(json),
            Which::Move(moved) => moved.run(json),
            Which::Recovery(recovery) => recovery.run(json),
            Which::Controller(controller) => controller.run(json),
        }
    }
}
