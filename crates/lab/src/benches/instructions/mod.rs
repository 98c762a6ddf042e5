//! `bench instructions`: how many instructions a batch takes, counted by valgrind's callgrind, beside
//! what is written down. Time depends on the machine and on who else uses it; this hardly does, so
//! that a slow-down of a few percent shows on the busiest one.
//!
//! ```text
//!   for each work:  valgrind ─ this program ─ the work ─► counted: functions named so, and what they call
//!                   baseline.json ──────────────────────► more than TOLERANCE above it fails
//! ```

mod cluster;
pub mod valgrind;
pub mod work;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;

use terminal::exit::{Failure, Kind};
use terminal::show;
use valgrind::Callgrind;
use work::Work;

/// The difference that is allowed, as a part of the written figure. Libraries of the system (memcpy, malloc)
/// differ by less between machines; two runs on one machine do not differ.
const TOLERANCE: f64 = 0.02;

const BASELINE: &str = "crates/lab/src/benches/instructions/baseline.json";

/// Instructions per batch, beside those that are written down
#[derive(Debug, Args)]
#[command(after_help = "\
For who works on this program: counts what the engine, the formats and three simulated nodes do for a
batch, and the nodes for their start, and fails if that is more than 2 % above the baseline in the repository. Needs valgrind, and a
release build for x86-64; without them it says so and is content.

Example: in the repository's root
  cargo run --release --bin logberg-lab -- bench instructions
  cargo run --release --bin logberg-lab -- bench instructions --renew")]
pub struct Arguments {
    /// Write down what is counted now
    #[arg(long)]
    renew: bool,
    #[arg(long, value_name = "FILE", default_value = BASELINE)]
    baseline: PathBuf,
    /// Do this work and nothing else: to be run by valgrind
    #[arg(long, hide = true)]
    work: Option<Work>,
    /// With --work: so often
    #[arg(long, hide = true, requires = "work")]
    times: Option<u64>,
    /// With --work: batches of so many bytes
    #[arg(long, hide = true, requires = "work")]
    batch_bytes: Option<u64>,
}

type Counts = BTreeMap<String, u64>;

impl Arguments {
    pub fn run(self, json: bool) -> Result<()> {
        if let Some(work) = self.work {
            let times = self.times.unwrap_or(work.times());
            work.perform(times, self.batch_bytes.unwrap_or(work.batch_bytes()));
            return Ok(());
        }
        if let Some(why) = valgrind::unusable() {
            eprintln!("instructions are not counted: {why}");
            return Ok(());
        }
        let callgrind = Callgrind::new()?;
        let mut totals = Counts::new();
        let mut counted = Counts::new();
        for work in Work::ALL {
            let total = callgrind.count(work)?;
            totals.insert(work.name().to_owned(), total);
            let before = work.begins_with().and_then(|w| totals.get(w.name()));
            let batches = total.saturating_sub(before.copied().unwrap_or(0));
            counted.insert(work.name().to_owned(), batches / work.times());
        }
        if self.renew {
            let text = serde_json::to_string_pretty(&counted)? + "\n";
            std::fs::write(&self.baseline, text)
                .with_context(|| format!("cannot write {}", self.baseline.display()))?;
        }
        let baseline = read(&self.baseline)?;
        match json {
            true => show::print_json(&serde_json::json!({
                "bench": "instructions", "counted": counted, "baseline": baseline,
            }))?,
            false => print(&counted, &baseline)?,
        }
        check(&counted, &baseline)
    }
}

fn read(path: &Path) -> Result<Counts> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| {
        format!("cannot read {shown}; run this in the repository's root, or name the --baseline")
    })?;
    serde_json::from_str(&text)
        .with_context(|| format!("{shown} is no baseline; --renew makes another"))
}

fn print(counted: &Counts, baseline: &Counts) -> Result<()> {
    let mut table = show::table(&[
        "instructions per batch or start",
        "now",
        "baseline",
        "ratio",
    ]);
    for (name, now) in counted {
        let was = baseline.get(name);
        let ratio = was.map(|was| format!("{:.4}", *now as f64 / *was as f64));
        table.add_row([
            comfy_table::Cell::new(name),
            show::number(now),
            show::number(was.map_or("-".to_owned(), u64::to_string)),
            show::number(ratio.unwrap_or("-".to_owned())),
        ]);
    }
    show::print(show::lines(&table))
}

fn check(counted: &Counts, baseline: &Counts) -> Result<()> {
    let mut slower = Vec::new();
    for (name, now) in counted {
        let Some(was) = baseline.get(name) else {
            slower.push(format!("{name} has no baseline"));
            continue;
        };
        let change = *now as f64 / *was as f64 - 1.0;
        if change > TOLERANCE {
            slower.push(format!(
                "{name} takes {now} instructions, {:.1} % more than {was}",
                change * 100.0
            ));
        } else if change < -TOLERANCE {
            eprintln!("{name} takes fewer instructions than is written down: --renew");
        }
    }
    if slower.is_empty() {
        return Ok(());
    }
    let sentence = format!(
        "{}; mend it, or say in the commit why it has to be, with --renew",
        slower.join("; ")
    );
    Err(Failure::new(Kind::Failure, sentence).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(of: &[(&str, u64)]) -> Counts {
        of.iter().map(|(name, n)| (name.to_string(), *n)).collect()
    }

    #[test]
    fn a_slow_down_beyond_the_tolerance_fails_and_is_named() {
        let baseline = counts(&[("engine", 1000), ("formats", 1000)]);
        let check = |now| check(&counts(&[("engine", now), ("formats", 1000)]), &baseline);
        assert!(check(1019).is_ok() && check(500).is_ok());
        let said = check(1021).unwrap_err().to_string();
        assert!(said.contains("engine takes 1021 instructions, 2.1 % more than 1000"));
        assert!(!said.contains("formats"));
    }

    #[test]
    fn what_has_no_baseline_fails() {
        let said = check(&counts(&[("new", 1)]), &Counts::new());
        assert!(said.unwrap_err().to_string().contains("no baseline"));
    }

    #[test]
    fn the_baseline_in_the_repository_is_of_all_there_is() {
        let baseline: Counts = serde_json::from_str(include_str!("baseline.json")).unwrap();
        let names: Vec<&str> = baseline.keys().map(String::as_str).collect();
        let mut all: Vec<&str> = Work::ALL.iter().map(|work| work.name()).collect();
        all.sort_unstable();
        assert_eq!(names, all);
        assert!(baseline.values().all(|count| *count > 0));
    }
}
