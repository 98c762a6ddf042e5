//! `logberg node`: one node of a cluster, in the foreground.

use anyhow::Result;
use clap::Args;
use linux::KernelConfig;

use crate::global::Global;

/// Run one node of a cluster
#[derive(Debug, Args)]
#[command(after_help = serve::HELP)]
#[group(skip)]
pub struct Arguments {
    #[command(flatten)]
    node: serve::Arguments,
}

impl Arguments {
    pub fn run(self, global: &Global) -> Result<()> {
        let token = global.token_file.clone();
        self.node.run(KernelConfig::default(), token)
    }
}
