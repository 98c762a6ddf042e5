//! The whole command line.

use clap::Parser;
use terminal::program::STYLES;

use crate::commands::Command;
use crate::global::Global;

const EXIT_CODES: &str = "\
Exit codes:
  0  done; also when the reader of our output went away
  1  failure
  2  wrong usage
  3  nobody reachable, no quorum, or no answer in time
  4  refused: the log has a writer or too many streams, another writer took over, a disk is full,
     too great a risk, a node cannot lead, a directory is in use or not empty
  5  no such log, stream, node or file
  6  bytes arrived damaged, or a node answered what cannot be
  7  the bytes asked for were trimmed
  8  status: all is served, and something is wrong; 3 if something is not served
  9  acknowledged bytes are lost, or a node cannot start from its directory
  10 agreed for good, and not yet in force in some log; repeat the command to wait for it
  11 read: the named stream was cut: its writer vanished or was superseded
  12 done, but the answer could not be written to standard output: it is on standard error

Environment:
  LOGBERG_SERVER  as --server
  LOGBERG_CLUSTER as --cluster
  LOGBERG_LOG     what to log on standard error: error, warn, info, debug; a node's default is info
  NO_COLOR        no colours

Example: append a file and read it back
  logberg append main /etc/hostname
  logberg read main";

/// Streams of bytes, kept by several machines, acknowledged only when safe.
#[derive(Debug, Parser)]
#[command(name = "logberg", version = serve::version(), styles = STYLES, after_help = EXIT_CODES)]
#[command(arg_required_else_help = true, max_term_width = 100)]
pub struct Cli {
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
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_shows_an_example() {
        fn visit(command: &clap::Command) {
            // Commands that are in the lab now have no help here.
            let here = |sub: &&clap::Command| !sub.is_disable_help_flag_set();
            for sub in command.get_subcommands().filter(here) {
                let help = sub
                    .get_after_help()
                    .map(ToString::to_string)
                    .unwrap_or_default();
                let group = sub.get_subcommands().next().is_some();
                assert!(group || help.contains("Example"), "{}", sub.get_name());
                visit(sub);
            }
        }
        visit(&Cli::command());
    }
}
