//! `logberg-lab torture`: real nodes under every fault.

use anyhow::Result;
use clap::Args;

use crate::global::Global;

/// Torture a local cluster for minutes or hours, and prove that nothing was lost
#[derive(Debug, Args)]
#[command(after_help = torture::HELP)]
#[group(skip)]
pub struct Arguments {
    #[command(flatten)]
    torture: torture::Arguments,
}

impl Arguments {
    pub fn run(self, global: &Global) -> Result<()> {
        self.torture.run(global.json)
    }
}
