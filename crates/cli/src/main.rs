//! The one binary, `logberg`.
//!
//! A command is a module under `commands/` with its arguments, its help and a `run` that returns
//! `anyhow::Result<()>`; one line in [`commands`] makes it known. What an error means for the exit
//! code is decided in one place, [`terminal::exit`].

mod admin;
mod arguments;
mod commands;

use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;
use terminal::exit;

fn main() -> ExitCode {
    let json_asked = std::env::args_os().any(|argument| argument == "--json");
    let cli = match arguments::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refuse_usage(&error, json_asked),
    };
    cli.global.start_logging(&cli.command);
    match cli.command.run(&cli.global) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::report(&error, cli.global.json),
    }
}

/// Help and version are no errors and go where clap sends them; the rest is exit code 2.
fn refuse_usage(error: &clap::Error, json: bool) -> ExitCode {
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    ) || !json
    {
        // Nobody is left to tell if this fails.
        let _ = error.print();
        return ExitCode::from(error.exit_code() as u8);
    }
    let text = error.render().to_string();
    let first = text.lines().next().unwrap_or_default();
    let sentence = first.strip_prefix("error: ").unwrap_or(first);
    exit::report(&exit::Failure::usage(sentence).into(), json)
}
