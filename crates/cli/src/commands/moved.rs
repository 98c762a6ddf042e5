//! Commands that were here and are in `logberg-lab` now. A user who types one is told its new name.

use std::ffi::OsString;

use clap::Args;
use terminal::exit::Failure;

/// Is in logberg-lab now
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
#[group(skip)]
pub struct Arguments {
    /// Whatever was said to it
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGUMENT"
    )]
    _said: Vec<OsString>,
}

pub fn to_the_lab(command: &str) -> anyhow::Error {
    let sentence = format!(
        "`logberg {command}` is in another program now: say `logberg-lab {command}`, which cargo builds with --bin logberg-lab"
    );
    Failure::usage(sentence).into()
}
