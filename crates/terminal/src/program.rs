//! The work of a program around each of its commands.

use std::process::ExitCode;

use clap::ValueEnum;
use clap::builder::styling::{AnsiColor, Styles};
use clap::error::ErrorKind;
use tracing_subscriber::EnvFilter;

use crate::exit::{self, Failure};
use crate::show;

pub const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default())
    .placeholder(AnsiColor::Cyan.on_default());

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
}

/// Log lines go to standard error. `usual`: what is logged unless LOGBERG_LOG asks for more or less.
pub fn start_logging(format: LogFormat, usual: &str) {
    let filter = EnvFilter::try_from_env("LOGBERG_LOG");
    // The library that keeps rows says an error when a node that stops ends its compactions. What fails there in earnest a shelf's own words say.
    let usual = || EnvFilter::new(format!("{usual},lsm_tree=off"));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter.unwrap_or_else(|_| usual()))
        .with_ansi(show::colours_on_stderr())
        .with_writer(std::io::stderr);
    match format {
        LogFormat::Text => builder.init(),
        LogFormat::Json => builder.json().init(),
    }
}

/// Help and version are no errors and go where clap sends them; the rest is exit code 2.
pub fn refuse_usage(program: &str, error: &clap::Error, json: bool) -> ExitCode {
    if error.kind() == ErrorKind::DisplayVersion && json {
        let text = error.render().to_string();
        let (name, version) = text.trim().split_once(' ').unwrap_or((program, ""));
        let object = serde_json::json!({ "name": name, "version": version });
        let _ = show::print_json(&object);
        return ExitCode::SUCCESS;
    }
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
    exit::report(program, &Failure::usage(sentence).into(), json)
}
