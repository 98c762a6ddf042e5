//! The commands, one module each.

mod all;
mod bench;
mod guest_node;
mod list;
mod node;
mod nodes_together;
mod paper;
mod sim;
mod torture;

use anyhow::Result;
use clap::Subcommand;

use crate::global::Global;
use crate::study::{mex, ramp, zcp};

#[derive(Debug, Subcommand)]
pub enum Command {
    Sim(sim::Arguments),
    Torture(torture::Arguments),
    Bench(bench::Arguments),
    List(list::List),
    Show(list::Show),
    Zcp(zcp::Arguments),
    Ramp(ramp::Arguments),
    Mex(mex::Arguments),
    All(all::Arguments),
    Report(list::Report),
    Paper(paper::Arguments),
    #[command(hide = true)]
    Node(Box<node::Arguments>),
    #[command(hide = true)]
    NodesTogether(nodes_together::Arguments),
    #[command(hide = true)]
    GuestNode(guest_node::Arguments),
}

impl Command {
    /// The log level of a command unless somebody asks for another. A simulated node is in trouble all the time.
    pub fn usual_log(&self) -> &'static str {
        match self {
            Self::Node(_) | Self::NodesTogether(_) | Self::GuestNode(_) => "info",
            Self::Sim(_) => "off",
            _ => "warn",
        }
    }

    pub fn run(self, global: &Global) -> Result<()> {
        match self {
            Self::Sim(arguments) => arguments.run(global),
            Self::Torture(arguments) => arguments.run(global),
            Self::Bench(arguments) => arguments.run(global),
            Self::List(list) => list.run(global.json),
            Self::Show(show) => show.run(global.json),
            Self::Zcp(arguments) => arguments.run(global.json),
            Self::Ramp(arguments) => arguments.run(global.json),
            Self::Mex(arguments) => arguments.run(global.json),
            Self::All(arguments) => arguments.run(global.json),
            Self::Report(report) => report.run(),
            Self::Paper(arguments) => arguments.run(global.json),
            Self::Node(arguments) => arguments.run(),
            Self::NodesTogether(arguments) => arguments.run(),
            Self::GuestNode(arguments) => arguments.run(),
        }
    }
}
