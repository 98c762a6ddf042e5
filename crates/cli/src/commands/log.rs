//! `logberg log`: the logs of a cluster.

use anyhow::Result;
use clap::{Args, Subcommand};
use node::retention::Retention;

use crate::arguments::Global;
use crate::show;

/// Create and list logs, and say what is kept of them
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: LogCommand,
}

#[derive(Debug, Subcommand)]
enum LogCommand {
    /// Create a log on all nodes
    #[command(after_help = "\
An auxiliary node votes, and is sent no bytes while the others are well: three nodes of which one is
auxiliary hold two copies of everything. When another one fails it takes its place, by itself.

Examples:
  logberg log create orders
  logberg log create orders --auxiliary 3")]
    Create {
        #[arg(value_name = "NAME")]
        name: String,
        /// Nodes that hold bytes only while others cannot; together less than half of the votes
        #[arg(long, value_name = "ID,…", value_delimiter = ',')]
        auxiliary: Vec<u64>,
    },
    /// Set how much of a log is kept: so many bytes, or for so long
    #[command(after_help = "\
What exceeds the bounds is trimmed by the log's leader, now and then: a size may be exceeded by a sixteenth,
an age by a sixteenth and what a restart of all nodes takes away from the knowledge of ages. The files of a
node shrink by whole segments. Ages are reckoned by the clock of the node that leads.

Example:
  logberg log retain main 10GiB
  logberg log retain main 10GiB,7d
  logberg log retain main forever")]
    Retain {
        #[arg(value_name = "NAME")]
        name: String,
        #[arg(value_name = "SIZE,AGE")]
        retention: Retention,
    },
    /// List the logs
    #[command(after_help = "Example:\n  logberg log list --json")]
    List,
}

impl Arguments {
    pub fn run(self, global: &Global) -> Result<()> {
        let client = global.client();
        match self.command {
            LogCommand::Create { name, auxiliary } => {
                let log = client.create_log_with(&name, &auxiliary)?;
                match global.json {
                    true => show::print_json(&log),
                    false => show::print(format_args!("log {} has id {}", log.name, log.id)),
                }
            }
            LogCommand::Retain { name, retention } => {
                let log = client.retain(&name, &retention.to_string())?;
                match global.json {
                    true => show::print_json(&log),
                    false => show::print(format_args!("{} keeps {}", log.name, log.retention)),
                }
            }
            LogCommand::List => {
                let logs = client.logs()?;
                if global.json {
                    return show::print_json(&logs);
                }
                let mut table = show::table(&["LOG", "ID", "KEEPS"]);
                for log in logs {
                    let id = show::number(log.id);
                    table.add_row([log.name.into(), id, log.retention.into()]);
                }
                show::print(show::lines(&table))
            }
        }
    }
}
