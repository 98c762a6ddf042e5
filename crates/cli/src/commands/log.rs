//! `logberg log`: the logs of a cluster.

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::arguments::Global;
use crate::show;

/// Create and list logs
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: LogCommand,
}

#[derive(Debug, Subcommand)]
enum LogCommand {
    /// Create a log on all nodes
    #[command(after_help = "Example:\n  logberg log create orders")]
    Create {
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// List the logs
    #[command(after_help = "Example:\n  logberg log list --json")]
    List,
}

impl Arguments {
    pub fn run(self, global: &Global) -> Result<()> {
        let client = global.client();
        match self.command {
            LogCommand::Create { name } => {
                let log = client.create_log(&name)?;
                match global.json {
                    true => show::print_json(&log),
                    false => show::print(format_args!("log {} has id {}", log.name, log.id)),
                }
            }
            LogCommand::List => {
                let logs = client.logs()?;
                if global.json {
                    return show::print_json(&logs);
                }
                let mut table = show::table(&["LOG", "ID"]);
                for log in logs {
                    table.add_row([log.name.into(), show::number(log.id)]);
                }
                show::print(show::lines(&table))
            }
        }
    }
}
