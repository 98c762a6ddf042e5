//! The arguments that every command understands.

use std::time::Duration;

use clap::{Args, Parser};
use client::{Client, Timeouts};
use terminal::program::{LogFormat, STYLES};

use crate::commands::Command;

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
  10 agreed for good, and not yet in force in some log; the same command again waits on

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

#[derive(Debug, Args)]
#[command(next_help_heading = "Everywhere")]
pub struct Global {
    /// Nodes to ask, in this order; others are learned from those that answer
    #[arg(
        long,
        global = true,
        value_name = "HOST:PORT,…",
        env = "LOGBERG_SERVER",
        hide_env_values = true,
        value_delimiter = ',',
        value_parser = server,
        default_value = "127.0.0.1:7117,127.0.0.1:7118,127.0.0.1:7119"
    )]
    pub server: Vec<String>,
    /// Talk to no other cluster than that with this id, which `logberg status --json` tells: after a rescue
    /// nodes of the lost one may come back
    #[arg(long, global = true, value_name = "ID", env = "LOGBERG_CLUSTER", hide_env_values = true, value_parser = cluster)]
    pub cluster: Option<String>,
    /// Give up after this long without progress
    #[arg(long, global = true, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub timeout: Duration,
    /// Answers and errors as JSON, for machines
    #[arg(long, global = true)]
    pub json: bool,
    /// How to write log lines, which go to standard error
    #[arg(long, global = true, value_name = "FORMAT", default_value = "text")]
    pub log_format: LogFormat,
}

impl Global {
    pub fn client(&self) -> Client {
        let defaults = Timeouts::default();
        let timeouts = Timeouts {
            connect: defaults.connect.min(self.timeout),
            silence: defaults.silence.min(self.timeout),
            total: self.timeout,
        };
        let servers = self.server.clone();
        match &self.cluster {
            Some(cluster) => Client::of_cluster(servers, cluster, timeouts),
            None => Client::new(servers, timeouts),
        }
    }
}

fn server(text: &str) -> Result<String, String> {
    let port = text
        .rsplit_once(':')
        .map(|(host, port)| (host, port.parse::<u16>()));
    match port {
        Some((host, Ok(_))) if !host.is_empty() => Ok(text.to_owned()),
        _ => Err("a server is HOST:PORT, such as 127.0.0.1:7117".to_owned()),
    }
}

fn cluster(text: &str) -> Result<String, String> {
    let lengths = text.split('-').map(str::len);
    let is_hex = |c: char| c == '-' || matches!(c, '0'..='9' | 'a'..='f');
    match lengths.eq([8, 4, 4, 4, 12]) && text.chars().all(is_hex) {
        true => Ok(text.to_owned()),
        false => Err("an id as `logberg status --json` tells it under `cluster`".to_owned()),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let wrong = || "a time in seconds, more than 0 and at most a day, such as 2.5".to_owned();
    let seconds: f64 = text.parse().map_err(|_| wrong())?;
    match seconds > 0.0 && seconds <= 86_400.0 {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err(wrong()),
    }
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

    #[test]
    fn a_server_without_a_port_is_refused() {
        for text in ["", "host", "host:", ":7117", "host:70000"] {
            assert!(server(text).is_err(), "{text}");
        }
        assert!(server("[::1]:7117").is_ok());
    }
}
