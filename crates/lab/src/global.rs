//! The arguments that every command understands.

use clap::Args;
use terminal::program::LogFormat;

#[derive(Debug, Args)]
#[command(next_help_heading = "Everywhere")]
pub struct Global {
    /// Answers and errors as JSON, for machines
    #[arg(long, global = true)]
    pub json: bool,
    /// How to write log lines, which go to standard error
    #[arg(long, global = true, value_name = "FORMAT", default_value = "text")]
    pub log_format: LogFormat,
}
