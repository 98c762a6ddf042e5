//! `logberg audit`: the last changes, and who asked for them from where.

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use terminal::show;

use super::token::moment;
use crate::global::Global;

/// Show the last changes of tokens, members, logs and leaders, and by whom
#[derive(Debug, Args)]
#[command(after_help = "\
The cluster keeps the last 1,000 in its directory. Refusals are in the journal of each node, under the target `audit`.

Examples:
  logberg audit
  logberg audit --limit 20 --json")]
pub struct Arguments {
    /// Only the last so many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
}

/// A change as `--json` prints it.
#[derive(Serialize)]
struct Shown {
    at: String,
    by: String,
    from: String,
    what: String,
}

impl Arguments {
    pub fn run(self, global: &Global) -> Result<()> {
        let changes = global.client().audit(self.limit)?;
        if global.json {
            let changes = changes.into_iter().map(|change| Shown {
                at: moment(change.at_ms),
                by: change.by,
                from: change.from,
                what: change.what,
            });
            return show::print_json(&changes.collect::<Vec<_>>());
        }
        let mut table = show::table(&["WHEN", "BY", "FROM", "WHAT"]);
        for change in changes {
            table.add_row([moment(change.at_ms), change.by, change.from, change.what]);
        }
        show::print(show::lines(&table))
    }
}
