//! The second program, `logberg-lab`: the searches for our mistakes, and the benches that repeat papers or
//! compare with others. Nothing of it is needed to run a cluster, and none of it is shipped.
//!
//! ```text
//!   sim       simulated worlds, one per seed; rules broken on purpose; scripts shrunk
//!   torture   real nodes under every fault
//!   bench     one figure after the other of what is promised, a paper's experiment, rivals
//!   list · show      every table, figure and claim of three papers
//!   ramp · report    their experiments again, and pages of runs that were kept
//!   node      the node of `logberg`, whose disk fails when it is told to; torture starts it
//!   nodes-together   nodes of one process, which have queues between them
//!   guest-node  one of the processes of `bench guest`
//! ```

mod arguments;
mod benches;
mod carriers;
mod commands;
mod global;
mod study;

use std::process::ExitCode;

use clap::Parser;
use terminal::{exit, program};

/// An example of its own that is measured here (`bench instructions`) calls it so.
extern crate paxos as logberg_paxos;

/// As it names itself where something went wrong.
const NAME: &str = env!("CARGO_BIN_NAME");

fn main() -> ExitCode {
    let json_asked = std::env::args_os().any(|argument| argument == "--json");
    let lab = match arguments::Lab::try_parse() {
        Ok(lab) => lab,
        Err(error) => return program::refuse_usage(NAME, &error, json_asked),
    };
    program::start_logging(lab.global.log_format, lab.command.usual_log());
    match lab.command.run(&lab.global) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::report(NAME, &error, lab.global.json),
    }
}
