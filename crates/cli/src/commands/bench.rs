//! `logberg bench`: figures of this program on this machine.

use anyhow::Result;
use clap::Args;

use crate::arguments::Global;

/// Measure appends, reads, failovers, restarts, many logs, rivals and the machine
#[derive(Debug, Args)]
#[command(after_help = bench::HELP)]
#[group(skip)]
pub struct Arguments {
    #[command(flatten)]
    bench: bench::Arguments,
}

impl Arguments {
    pub fn run(self, global: &Global) -> Result<()> {
        self.bench.run(global.json)
    }
}
