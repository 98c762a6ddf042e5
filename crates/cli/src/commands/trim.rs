//! `logberg trim`: forgetting the beginning of a log.

use anyhow::Result;
use clap::Args;
use client::admin::Trimmed;
use client::request::Before;

use crate::confirm::confirmed;
use crate::global::Global;
use crate::places;
use terminal::show;
use wire::quantity;

/// Delete the beginning of a log, on every node
#[derive(Debug, Args)]
#[command(after_help = "\
What is trimmed is gone for good: readers of it are told where what is left begins, and each node frees
the files that hold nothing else. Positions keep their meaning. So it is said first what will go, and
asked whether to go on; a script says --yes. A place behind the end of the log is refused.

@BYTES counts the log's output from its beginning, as `logberg read LOG --from @BYTES` does; streams are those
of `logberg streams`. slot:N is for those who read `logberg status --json`.

Example:
  logberg trim main --before @1GiB --plan
  logberg trim main --before 1.4.2
  logberg trim main --before 1.4.2@1000000 --yes")]
pub struct Arguments {
    #[arg(value_name = "LOG")]
    log: String,
    /// The first place to keep: bytes of the log's output, a stream, or a position in one
    #[arg(long, value_name = "@BYTES|STREAM[@BYTES]|slot:N", value_parser = places::before)]
    before: Before,
    /// Say what would be deleted, and do nothing
    #[arg(long)]
    plan: bool,
    /// Delete it without asking
    #[arg(long, conflicts_with = "plan")]
    yes: bool,
}

impl Arguments {
    pub fn run(self, global: &Global) -> Result<()> {
        let client = global.client();
        let mut trimmed = client.plan_trim(&self.log, self.before)?;
        let is_nothing = trimmed.bytes == 0 && trimmed.streams == 0;
        if !self.plan && !is_nothing {
            let what = self.told(&trimmed, "this deletes", "leaves");
            confirmed(&format!("{what}, for good"), self.yes)?;
            trimmed = client.trim(&self.log, self.before)?;
        }
        if global.json {
            return show::print_json(&trimmed);
        }
        if is_nothing {
            let (log, left) = (&self.log, quantity::shown(trimmed.left_bytes));
            return show::print(format_args!(
                "nothing to delete before that place: {log} keeps {left}, from @{} on",
                trimmed.left_from
            ));
        }
        show::print(match self.plan {
            true => self.told(&trimmed, "this would delete", "leave"),
            false => self.told(&trimmed, "deleted", "left"),
        })
    }

    fn told(&self, trimmed: &Trimmed, deletes: &str, leaves: &str) -> String {
        let streams = match trimmed.streams {
            0 => String::new(),
            1 => ", with 1 whole stream".to_owned(),
            count => format!(", with {count} whole streams"),
        };
        format!(
            "{deletes} {} of {}{streams}, and {leaves} {}, from @{} on",
            quantity::shown(trimmed.bytes),
            self.log,
            quantity::shown(trimmed.left_bytes),
            trimmed.left_from,
        )
    }
}
