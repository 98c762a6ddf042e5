//! `logberg-lab node`: the node of `logberg`, whose disk can be told to fail.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use linux::KernelConfig;
use serve::Carry;
use terminal::exit::Failure;

use crate::carriers::{Altered, PhaseOne, Transport};

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
    /// With --ink pmem: files are taken for persistent memory although they are not; for measuring what it would cost
    #[arg(long)]
    emulate_pmem: bool,
    /// The carrier between this node and the others, which have the same
    #[arg(long, value_name = "TRANSPORT", value_enum, default_value = "tcp")]
    carry: Transport,
    /// All timers of this node take so many times as long, and of the others, too
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    time_scale: u32,
    /// This node, while it leads, does phase 1 so often
    #[arg(long, value_name = "WHEN", value_enum, default_value_t)]
    phase_one: PhaseOne,
    /// With --carry unix: the sockets of all nodes are in this directory
    #[arg(long, value_name = "DIR")]
    sockets: Option<PathBuf>,
    /// Break this rule, of a program that was built with the feature `mutations`
    #[arg(long, value_name = "RULE", hide = true)]
    mutate: Option<String>,
}

impl Arguments {
    pub fn run(self) -> Result<()> {
        if let Some(rule) = &self.mutate {
            break_rule(rule)?;
        }
        let mut kernel = KernelConfig::default();
        if let Some(file) = &self.faults {
            tracing::warn!(file = %file.display(), "the disk fails as this file says");
        }
        kernel.faults.file = self.faults;
        kernel.faults.emulate_pmem = self.emulate_pmem;
        kernel.congestion_always = self.carry.congestion().map(str::to_owned);
        kernel.send_buffer = self.carry.buffer_bytes();
        kernel.receive_buffer = self.carry.buffer_bytes();
        let carry = self.carry.carry(self.sockets)?;
        if carry.is_some() {
            let by = self.carry.name();
            tracing::warn!(by, "what nodes say is carried as the lab has it");
        }
        if self.phase_one != PhaseOne::Once {
            let when = self.phase_one.name();
            tracing::warn!(
                when,
                "phase 1 is done more often than it need be, as the lab has it"
            );
        }
        let altered = Altered {
            transport: self.carry,
            carry,
            pace: self.time_scale,
            phase_one: self.phase_one,
        };
        let carry: Option<Box<dyn Carry>> = match altered.is_as_shipped() {
            true => None,
            false => Some(Box::new(altered)),
        };
        self.node.run_carried(kernel, None, carry)
    }
}

#[cfg(feature = "mutations")]
fn break_rule(name: &str) -> Result<()> {
    use paxos::mutation::{Mutation, select, set_asserts};
    let Some(rule) = Mutation::named(name) else {
        return Err(Failure::usage(format!("there is no rule {name}")).into());
    };
    // Its clients are to see it, and not its own asserts.
    set_asserts(false);
    select(Some(rule));
    Ok(())
}

#[cfg(not(feature = "mutations"))]
fn break_rule(name: &str) -> Result<()> {
    let sentence = format!("{name} can be broken by a program with the feature `mutations` only");
    Err(Failure::usage(sentence).into())
}
