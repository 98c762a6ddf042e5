//! The whole command line.

use clap::Parser;
use terminal::program::STYLES;

use crate::commands::Command;
use crate::global::Global;

const EXIT_CODES: &str = "\
Exit codes are those of `logberg --help`: 0 if nothing was wrong, 1 if a mistake was found, 2 for
wrong usage.

Environment:
  LOGBERG_LOG     what to log on standard error: error, warn, info, debug; a node's default is info
  NO_COLOR        no colours

Example: look for mistakes in a hundred simulated worlds, then for a minute with real nodes
  logberg-lab sim --seeds 0..100
  logberg-lab torture --minutes 1";

/// Searches for mistakes of logberg, repeats papers, and compares with others.
#[derive(Debug, Parser)]
#[command(name = "logberg-lab", version = serve::version(), styles = STYLES, after_help = EXIT_CODES)]
#[command(arg_required_else_help = true, max_term_width = 100)]
pub struct Lab {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Lab::command().debug_assert();
    }

    #[test]
    fn every_command_shows_an_example_of_this_program() {
        fn visit(command: &clap::Command) {
            for sub in command.get_subcommands() {
                let help = sub
                    .get_after_help()
                    .map(ToString::to_string)
                    .unwrap_or_default();
                let group = sub.get_subcommands().next().is_some();
                let example = help.contains("logberg-lab ") || help.contains("--bin logberg-lab");
                assert!(group || example, "{}: {help}", sub.get_name());
                visit(sub);
            }
        }
        visit(&Lab::command());
    }
}
