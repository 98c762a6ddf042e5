//! `logberg doctor`: what of a machine a node would suffer from, before it does.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;

use super::kv::findings::findings;
use super::kv::view::View;
use crate::global::Global;
use terminal::exit::{Failure, Kind};
use terminal::show;
use testbed::watch::Watch;

mod disk;
pub mod finding;
mod http;
mod past;
mod system;

use finding::{Finding, Verdict};

/// Check this machine, and the disk of a directory, before a node runs here
#[derive(Debug, Args)]
#[command(after_help = "\
Looks at the limits of this process, at what the kernel is set to, and at the file system of DIR, where
it writes a file of some megabytes for two seconds and removes it; a node may be running there. If none is, the
files of a node's directory are judged as its start would judge them. Each line is `ok`, `better` (it works, and would with less delay or risk if changed) or `must`, with the
command that changes it. Limits are those of the shell that asks: a service has those of its unit.
Where a node answers (--server) that serves keys, its cluster's groups are looked at, too, and each place where
Redis clients are told to go is tried from here. So are doors for HTTP, and whether their nodes have the streams.
Ends with 1 if something must be changed, and with 0 otherwise.

Example:
  logberg doctor /var/lib/logberg
  logberg doctor --json | jq '.checks[] | select(.verdict != \"ok\")'")]
pub struct Arguments {
    /// Where the node's data is to be, or the nearest directory above it that is there
    #[arg(value_name = "DIR", default_value = ".")]
    directory: PathBuf,
}

#[derive(Serialize)]
struct Report<'a> {
    ok: bool,
    directory: &'a Path,
    checks: &'a [Finding],
}

impl Arguments {
    pub fn run(self, global: &Global) -> Result<()> {
        let directory = nearest(&self.directory)?;
        // The disk is timed twice, and nothing else takes time.
        let watch = Watch::new(3);
        watch.says("limits and settings");
        let mut checks = system::checks();
        watch.step(1);
        checks.extend(disk::checks(&directory, &watch));
        checks.extend(past::checks(&self.directory));
        checks.extend(keys(global));
        checks.extend(http::findings(&global.client_within(ANSWERS_WITHIN)));
        drop(watch);
        let needed = checks.iter().filter(|c| c.verdict == Verdict::Must).count();
        match global.json {
            true => show::print_json(&Report {
                ok: needed == 0,
                directory: &directory,
                checks: &checks,
            })?,
            false => show::print(render(&checks))?,
        }
        match needed {
            0 => Ok(()),
            1 => Err(Failure::new(Kind::Failure, "1 thing must be changed").into()),
            more => {
                let sentence = format!("{more} things must be changed");
                Err(Failure::new(Kind::Failure, sentence).into())
            }
        }
    }
}

/// A cluster that answers within so long is looked at.
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);

/// The groups of keys of the cluster that answers, if one does.
fn keys(global: &Global) -> Vec<Finding> {
    let client = global.client_within(ANSWERS_WITHIN);
    View::of(&client).map_or_else(|_| Vec::new(), |view| findings(&view))
}

/// The directory, or the nearest above it: a node makes what is missing.
fn nearest(wanted: &Path) -> Result<PathBuf> {
    let whole =
        std::path::absolute(wanted).with_context(|| format!("{} is no path", wanted.display()))?;
    let there = whole.ancestors().find(|path| path.exists());
    let there = there.with_context(|| format!("nothing of {} exists", whole.display()))?;
    match there.is_dir() {
        true => Ok(there.to_owned()),
        false => {
            let sentence = format!(
                "{} is no directory: name the one for the node's data",
                there.display()
            );
            Err(Failure::new(Kind::NotFound, sentence).into())
        }
    }
}

fn render(checks: &[Finding]) -> String {
    let mut lines = Vec::new();
    for Finding {
        check,
        verdict,
        found,
        change,
    } in checks
    {
        let word = match verdict {
            Verdict::Ok => "ok    ",
            Verdict::Better => "better",
            Verdict::Must => "MUST  ",
        };
        lines.push(format!("{word}  {check}: {found}"));
        lines.extend(change.iter().map(|change| format!("        {change}")));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_exist_yet_is_judged_by_what_is_above_it() {
        let place = tempfile::tempdir().expect("a place");
        let wanted = place.path().join("a/b");
        assert_eq!(nearest(&wanted).expect("there is one above"), place.path());
        let file = place.path().join("file");
        std::fs::write(&file, "x").expect("room");
        assert!(nearest(&file).is_err());
    }

    #[test]
    fn a_change_stands_below_what_it_changes() {
        let checks = [
            Finding::ok("a", "fine"),
            Finding::must("b", "bad", "do this"),
        ];
        assert_eq!(
            render(&checks),
            "ok      a: fine\nMUST    b: bad\n        do this"
        );
    }
}
