//! The program that is shipped, `logberg`: the one that operators use.
//!
//! A command is a module under `commands/` with its arguments, its help and a `run` that returns
//! `anyhow::Result<()>`; one line in [`commands`] makes it known. One place decides what an error means for
//! the exit code: [`terminal::exit`].

mod arguments;
mod certs;
mod commands;
mod confirm;
mod global;
mod help;
mod places;
mod states;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};
use terminal::{exit, program};

/// As it names itself where something went wrong.
const NAME: &str = env!("CARGO_BIN_NAME");

fn main() -> ExitCode {
    let json_asked = std::env::args_os().any(|argument| argument == "--json");
    let matches = help::flowing(arguments::Cli::command()).try_get_matches();
    let mut cli = match matches.and_then(|matches| arguments::Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => return program::refuse_usage(NAME, &error, json_asked),
    };
    let taken = cli.global.take_token();
    if let Err(error) = taken.and_then(|()| cli.global.take_certificate()) {
        return exit::report(NAME, &error.into(), json_asked);
    }
    program::start_logging(cli.global.log_format, cli.command.usual_log());
    match cli.command.run(&cli.global) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::report(NAME, &error, cli.global.json),
    }
}
