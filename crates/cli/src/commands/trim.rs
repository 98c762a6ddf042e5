//! `logberg trim`: forgetting the beginning of a log.

use anyhow::Result;
use clap::Args;
use client::request::Before;

use crate::global::Global;
use terminal::{quantity, show};

/// Forget the beginning of a log, on every node
#[derive(Debug, Args)]
#[command(after_help = "\
What is trimmed is gone for good: readers of it are told where what is left begins, and each node frees
the files that hold nothing else. Positions keep their meaning. --plan only says what would be forgotten.
Slots are those of `logberg status`, streams those of `logberg streams`.

Example:
  logberg trim main --before 1.4.2 --plan
  logberg trim main --before 1.4.2@1000000")]
pub struct Arguments {
    #[arg(value_name = "LOG")]
    log: String,
    /// The first place to keep: a slot, a stream, or a position in one
    #[arg(long, value_name = "SLOT|STREAM[@POSITION]")]
    before: Before,
    /// Say what would be forgotten, and do nothing
    #[arg(long)]
    plan: bool,
}

impl Arguments {
    pub fn run(self, global: &Global) -> Result<()> {
        let client = global.client();
        let trimmed = match self.plan {
            true => client.plan_trim(&self.log, self.before)?,
            false => client.trim(&self.log, self.before)?,
        };
        if global.json {
            return show::print_json(&trimmed);
        }
        let would = match self.plan {
            true => "would be",
            false => "are",
        };
        let streams = match trimmed.streams {
            1 => "1 stream".to_owned(),
            count => format!("{count} streams"),
        };
        show::print(format_args!(
            "{} of {} {would} forgotten, {streams} altogether; {} are left, from position {} on",
            quantity::shown(trimmed.bytes),
            self.log,
            quantity::shown(trimmed.left_bytes),
            trimmed.left_from,
        ))
    }
}
