//! `logberg completions`: what a shell completes, for packages and for oneself.

use anyhow::Result;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::arguments::Cli;
use crate::global::Global;
use terminal::show;

/// Print what a shell needs to complete commands and options
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  logberg completions bash > /usr/share/bash-completion/completions/logberg
  logberg completions zsh > /usr/share/zsh/site-functions/_logberg
  logberg completions fish > /usr/share/fish/vendor_completions.d/logberg.fish")]
pub struct Arguments {
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

impl Arguments {
    pub fn run(self, _: &Global) -> Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "logberg", &mut script);
        show::print(String::from_utf8_lossy(&script).trim_end())
    }
}
