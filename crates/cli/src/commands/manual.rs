//! `logberg manual`: the pages of the manual, one for each command, as their `--help` says.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Command, CommandFactory};

use crate::arguments::Cli;
use crate::global::Global;
use crate::help::flowing;
use terminal::show;

/// Write the pages of the manual: logberg.1, logberg-append.1 and so on
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  logberg manual --to /usr/share/man/man1
  man logberg-append")]
pub struct Arguments {
    /// The directory for them, made if it does not exist
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
}

impl Arguments {
    pub fn run(self, global: &Global) -> Result<()> {
        let shown = self.to.display();
        fs::create_dir_all(&self.to).with_context(|| format!("cannot make {shown}"))?;
        clap_mangen::generate_to(flowing(Cli::command()), &self.to)
            .with_context(|| format!("cannot write to {shown}"))?;
        let pages = pages(&Cli::command());
        match global.json {
            true => show::print_json(&serde_json::json!({ "directory": self.to, "pages": pages })),
            false => show::print(format_args!("{pages} pages in {shown}")),
        }
    }
}

/// The number of commands that are shown, with all below them.
fn pages(command: &Command) -> usize {
    let shown = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    1 + shown.map(pages).sum::<usize>()
}
