//! `logberg completions`: what a shell completes, for packages and for oneself.

use anyhow::Result;
use clap::{Args, Command, CommandFactory};
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
        clap_complete::generate(self.shell, &mut shown(), "logberg", &mut script);
        show::print(String::from_utf8_lossy(&script).trim_end())
    }
}

/// The command line without what help does not show: names that commands had before, which say where they are now.
fn shown() -> Command {
    let whole = Cli::command();
    let is_shown = |command: &&Command| !command.is_hide_set();
    Command::new("logberg")
        .version(serve::version())
        .args(whole.get_arguments().cloned())
        .subcommands(whole.get_subcommands().filter(is_shown).cloned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_help_does_not_show_are_not_completed() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut shown(), "logberg", &mut script);
            let script = String::from_utf8(script).expect("text");
            assert!(script.contains("restore"), "{shell}");
            assert!(!script.contains("torture"), "{shell}");
        }
    }
}
