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

/// Log lines go to standard error. Those that it does not take are lost, and end nothing: it may be a file on a disk that is full just now. `usual`: what is logged unless LOGBERG_LOG asks for more or less.
pub fn start_logging(format: LogFormat, usual: &str) {
    let filter = EnvFilter::try_from_env("LOGBERG_LOG");
    // The library that keeps rows says an error when a node that stops ends its compactions. What fails there in earnest a shelf's own words say.
    let usual = || EnvFilter::new(format!("{usual},lsm_tree=off"));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter.unwrap_or_else(|_| usual()))
        .with_ansi(show::colours_on_stderr())
        // The library would say there that it cannot write there, and panic.
        .log_internal_errors(false)
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
        let (version, speaks) = version
            .split_once(" (speaks version ")
            .unwrap_or((version, ""));
        let mut object = serde_json::json!({ "name": name, "version": version });
        if let Some(speaks) = speaks.strip_suffix(')') {
            object["speaks"] = speaks.into();
        }
        let _ = show::print_json(&object);
        return ExitCode::SUCCESS;
    }
    let is_answer = matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    );
    if is_answer {
        // Nobody is left to tell if this fails.
        let _ = error.print();
        return ExitCode::from(error.exit_code() as u8);
    }
    if !json {
        let text = error.render();
        match show::colours_on_stderr() {
            true => eprint!("{}", worded(text.ansi().to_string())),
            false => eprint!("{}", worded(text.to_string())),
        }
        return ExitCode::from(error.exit_code() as u8);
    }
    let text = worded(error.render().to_string());
    let first = text.lines().next().unwrap_or_default();
    let sentence = first.strip_prefix("error: ").unwrap_or(first);
    exit::report(program, &Failure::usage(sentence).into(), json)
}

/// Numbers are parsed by the standard library, whose words name no remedy.
fn worded(text: String) -> String {
    const WORDS: [(&str, &str); 3] = [
        (
            "invalid digit found in string",
            "no whole number; write one such as 3",
        ),
        (
            "cannot parse integer from empty string",
            "no whole number; write one such as 3",
        ),
        (
            "number too large to fit in target type",
            "too large a number; write one such as 3",
        ),
    ];
    let mut text = text;
    for (theirs, ours) in WORDS {
        text = text.replace(theirs, ours);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Arg, Command, value_parser};

    #[test]
    fn a_number_that_is_none_is_refused_with_the_remedy() {
        // (Of a number out of bounds the library tells the bounds.)
        for wrong in ["", "abc", "3.5", "1e3"] {
            let number = Arg::new("n").long("n").value_parser(value_parser!(u32));
            let program = Command::new("x").arg(number);
            let refused = program.try_get_matches_from(["x", &format!("--n={wrong}")]);
            let said = worded(refused.expect_err(wrong).render().to_string());
            assert!(said.contains("; write one such as 3"), "{wrong}: {said}");
        }
    }
}
