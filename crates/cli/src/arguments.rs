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
     too great a risk, a node cannot lead, a directory is in use or not empty, a place lies
     beyond the end, a log has too few voters for so many copies, a token is asked for, or the
     one that was shown does not allow it
  5  no such log, stream, node or file
  6  bytes arrived damaged, or a node answered what cannot be
  7  the bytes asked for were trimmed
  8  status: all is served, and something is wrong; 13 if appends are refused, 3 if something is
     not served
  9  acknowledged bytes are lost, or a node cannot start from its directory
  10 agreed for good, and not yet in force in some log or at some node; repeat the command to
     wait for it
  11 read: the named stream was cut: its writer vanished or was superseded
  12 the answer could not be written to standard output: it is on standard error; what it says is
     done is done
  13 status: appends to a log are refused, and all is read

Environment:
  LOGBERG_SERVER  as --server
  LOGBERG_CLUSTER as --cluster
  LOGBERG_TOKEN   the token to show, where no --token-file (LOGBERG_TOKEN_FILE) is named
  LOGBERG_CA      the file of --ca
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

    /// Whoever parses what a command prints finds its shape on docs/json.md; tests with real nodes hold it to that.
    #[test]
    fn every_command_that_prints_json_is_on_its_page() {
        const WITHOUT: [&str; 2] = ["node", "completions"];
        fn visit(command: &clap::Command, path: &str, all: &mut Vec<String>) {
            let shown =
                |sub: &&clap::Command| !sub.is_hide_set() && !sub.is_disable_help_flag_set();
            for sub in command.get_subcommands().filter(shown) {
                let name = format!("{path} {}", sub.get_name());
                let name = name.trim().to_owned();
                let is_group = sub.get_subcommands().any(|sub| shown(&sub));
                // Some groups do something themselves.
                if !is_group || sub.get_positionals().next().is_some() {
                    all.push(name.clone());
                }
                visit(sub, &name, all);
            }
        }
        let page = include_str!("../../../docs/json.md");
        let headings = page.lines().filter(|line| line.starts_with("### `"));
        let on_page: Vec<&str> = headings
            .flat_map(|line| line.split('`').skip(1).step_by(2))
            .collect();
        let mut all = Vec::new();
        visit(&Cli::command(), "", &mut all);
        assert!(
            all.len() > 40 && all.contains(&"kv join".to_owned()),
            "{all:?}"
        );
        all.retain(|name| !on_page.contains(&name.as_str()));
        assert_eq!(all, WITHOUT);
    }
}
