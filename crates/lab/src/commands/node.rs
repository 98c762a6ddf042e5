//! `logberg-lab node`: the node of `logberg`, whose disk can be told to fail.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use linux::KernelConfig;

/// Run one node of a cluster, with a disk that fails when it is told to
#[derive(Debug, Args)]
#[command(after_help = "\
All else is as `logberg node --help` says.

Example: a node whose durable writes take 2 s longer from now on
  logberg-lab node --data d1 --listen 127.0.0.1:7117 --bootstrap --faults d1.faults
  echo write-delay-ms=2000 > d1.faults")]
#[group(skip)]
pub struct Arguments {
    #[command(flatten)]
    node: serve::Arguments,
    /// The disk fails as this file says, which is read at each durable write (crates/linux/src/fault_file.rs)
    #[arg(long, value_name = "FILE")]
    faults: Option<PathBuf>,
}

impl Arguments {
    pub fn run(self) -> Result<()> {
        let mut kernel = KernelConfig::default();
        if let Some(file) = &self.faults {
            tracing::warn!(file = %file.display(), "the disk fails as this file says");
        }
        kernel.faults.file = self.faults;
        self.node.run(kernel)
    }
}
