//! `logberg-lab sim --mutate` and `--mutations`: whether the simulator would see a broken rule.

use std::ops::Range;

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::global::Global;

/// Only in a build with the cargo feature `mutations`; without it they say how to make one.
#[derive(Debug, Args)]
#[group(skip)]
#[command(next_help_heading = "Rules broken on purpose (in a build with --features mutations)")]
pub struct Arguments {
    /// Break this rule in every node; a name that is none lists them all
    #[arg(long, value_name = "NAME")]
    mutate: Option<String>,
    /// Break every rule, one after the other, and tell who noticed and after how many seeds
    #[arg(long, conflicts_with_all = ["seed", "script", "steps", "trace", "save"])]
    mutations: bool,
    /// Whether engine and nodes assert their own invariants, or only others may notice; both tells
    /// of each rule who noticed with them and who without
    #[arg(long, value_name = "WHETHER", value_enum, default_value_t = Asserts::On)]
    asserts: Asserts,
    /// How often to look for each rule: first in --seeds, then in as many seeds behind them
    #[arg(long, value_name = "TIMES", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    repeats: u64,
    /// Print the table as docs/mutations.md holds it
    #[arg(long, requires = "mutations")]
    markdown: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Asserts {
    On,
    Off,
    Both,
}

/// Is broken in this build.
#[cfg(not(feature = "mutations"))]
pub struct Nothing;

#[cfg(not(feature = "mutations"))]
impl Arguments {
    pub fn are_searched(&self) -> bool {
        self.mutations
    }

    pub fn begin(&self) -> Result<Nothing> {
        match self.mutate.is_some() || self.asserts != Asserts::On {
            true => Err(not_in_this_build()),
            false => Ok(Nothing),
        }
    }

    pub fn search(&self, _seeds: Range<u64>, _jobs: u16, _global: &Global) -> Result<()> {
        Err(not_in_this_build())
    }
}

#[cfg(not(feature = "mutations"))]
fn not_in_this_build() -> anyhow::Error {
    let sentence = "this build cannot break rules: make one that can with cargo build --release --features mutations --bin logberg-lab";
    terminal::exit::Failure::usage(sentence).into()
}

#[cfg(feature = "mutations")]
mod breaking {
    use std::io::IsTerminal;

    use ::sim::mutations::{Broken, Row, Search, Sighting};
    use paxos::mutation::Mutation;

    use super::*;
    use terminal::exit::{Failure, Kind};
    use terminal::show;

    #[derive(Serialize)]
    struct Json<'a> {
        asserts: Asserts,
        seeds_each: u64,
        repeats: u64,
        mutations: Vec<JsonRow<'a>>,
        not_found: Vec<&'static str>,
        /// Only in a search for both.
        #[serde(skip_serializing_if = "Option::is_none")]
        not_found_with_asserts_off: Option<Vec<&'static str>>,
    }

    #[derive(Serialize)]
    struct JsonRow<'a> {
        name: &'static str,
        sentence: &'static str,
        place: &'static str,
        #[serde(flatten)]
        seen: JsonSeen<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        asserts_off: Option<JsonSeen<'a>>,
    }

    #[derive(Serialize)]
    struct JsonSeen<'a> {
        median_seeds: Option<u64>,
        checkers: Vec<&'static str>,
        sightings: &'a [Option<Sighting>],
    }

    /// The result of one rule: as it was asked for, and of both also with asserts off.
    struct Found {
        row: Row,
        off: Option<Row>,
    }

    impl Arguments {
        pub fn are_searched(&self) -> bool {
            self.mutations
        }

        /// Breaks the rule that was asked for as long as the result lives.
        pub fn begin(&self) -> Result<Broken> {
            let mutation = self.mutate.as_deref().map(named).transpose()?;
            if self.asserts == Asserts::Both {
                let sentence = "a run has its asserts on or off: --asserts both is for --mutations";
                return Err(Failure::usage(sentence).into());
            }
            Ok(Broken::new(mutation, self.asserts == Asserts::On))
        }

        pub fn search(&self, seeds: Range<u64>, jobs: u16, global: &Global) -> Result<()> {
            let search = Search {
                seeds,
                repeats: self.repeats,
                asserts: self.asserts != Asserts::Off,
                jobs: jobs.into(),
            };
            let names = self.mutate.iter().flat_map(|names| names.split(','));
            let mut mutations = names.map(named).collect::<Result<Vec<_>>>()?;
            if mutations.is_empty() {
                mutations.extend_from_slice(Mutation::ALL);
            }
            let tell = std::io::stderr().is_terminal() || !global.json;
            let mut all = Vec::new();
            let count = mutations.len();
            for (number, mutation) in (1..).zip(mutations) {
                let began = std::time::Instant::now();
                let row = search.look_for(mutation);
                let both = self.asserts == Asserts::Both;
                let off = both.then(|| search.without_asserts(&row));
                if tell {
                    let took = began.elapsed().as_secs_f64();
                    eprintln!("{number} of {count}, {took:.1} s: {}", progress(&row));
                }
                all.push(Found { row, off });
            }
            let lost = unnoticed(all.iter().map(|found| &found.row));
            let off: Option<Vec<&Row>> = all.iter().map(|found| found.off.as_ref()).collect();
            let lost_off = off.map(unnoticed);
            if let (true, Some(lost_off)) = (tell, &lost_off) {
                let (count, seen) = (all.len(), all.len() - lost.len());
                let seen_off = count - lost_off.len();
                eprintln!("{seen} of {count} were noticed; with asserts off {seen_off}");
            }
            match (global.json, self.markdown) {
                (true, _) => show::print_json(&Json {
                    asserts: self.asserts,
                    seeds_each: search.seeds.end - search.seeds.start,
                    repeats: search.repeats,
                    mutations: all.iter().map(json).collect(),
                    not_found: lost.clone(),
                    not_found_with_asserts_off: lost_off,
                })?,
                (false, true) => show::print(markdown(&all))?,
                (false, false) => show::print(table(&all))?,
            }
            match lost.is_empty() {
                true => Ok(()),
                false => {
                    let sentence = format!("nobody noticed: {}", lost.join(", "));
                    Err(Failure::new(Kind::Failure, sentence).into())
                }
            }
        }
    }

    fn unnoticed<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Vec<&'static str> {
        let rows = rows.into_iter().filter(|row| row.median().is_none());
        rows.map(|row| row.mutation.name()).collect()
    }

    fn named(name: &str) -> Result<Mutation> {
        Mutation::named(name).ok_or_else(|| {
            let names: Vec<&str> = Mutation::ALL.iter().map(|m| m.name()).collect();
            let sentence = format!("there is no rule {name:?}: say one of {}", names.join(", "));
            Failure::usage(sentence).into()
        })
    }

    fn json(found: &Found) -> JsonRow<'_> {
        let mutation = found.row.mutation;
        JsonRow {
            name: mutation.name(),
            sentence: mutation.sentence(),
            place: mutation.place(),
            seen: json_seen(&found.row),
            asserts_off: found.off.as_ref().map(json_seen),
        }
    }

    fn json_seen(row: &Row) -> JsonSeen<'_> {
        JsonSeen {
            median_seeds: row.median(),
            checkers: checkers(row),
            sightings: &row.sightings,
        }
    }

    fn checkers(row: &Row) -> Vec<&'static str> {
        row.checkers().into_iter().map(|c| c.name()).collect()
    }

    fn progress(row: &Row) -> String {
        let name = row.mutation.name();
        match (row.first(), row.median()) {
            (_, None) => format!("{name}: nobody noticed"),
            (first, Some(median)) => {
                let first = first.map_or_else(String::new, |first| {
                    let what = first.text.lines().next().unwrap_or_default();
                    format!("; seed {}: {}: {what}", first.seed, first.checker.name())
                });
                format!("{name}: {median} seeds{first}")
            }
        }
    }

    fn median(row: &Row) -> String {
        row.median()
            .map_or("-".to_owned(), |median| median.to_string())
    }

    fn table(all: &[Found]) -> String {
        let both = all.iter().any(|found| found.off.is_some());
        let headings = ["RULE", "SEEDS", "SEEN BY", "ASSERTS OFF", "SEEN BY"];
        let mut table = show::table(&headings[..if both { 5 } else { 3 }]);
        for Found { row, off } in all {
            let mut cells = vec![row.mutation.name().into()];
            for row in [Some(row), off.as_ref()].into_iter().flatten() {
                cells.push(show::number(median(row)));
                cells.push(checkers(row).join(", ").into());
            }
            table.add_row(cells);
        }
        show::lines(&table)
    }

    fn markdown(all: &[Found]) -> String {
        let both = all.iter().any(|found| found.off.is_some());
        let mut lines = match both {
            true => vec![
                "| rule | what does not hold | seeds | seen by | seeds, asserts off | seen by |",
                "|---|---|---|---|---|---|",
            ],
            false => vec![
                "| rule | what does not hold | seeds | seen by |",
                "|---|---|---|---|",
            ],
        };
        let rows = all.iter().map(|Found { row, off }| {
            let (name, sentence) = (row.mutation.name(), row.mutation.sentence());
            let seen = [Some(row), off.as_ref()].into_iter().flatten();
            let seen: String = seen
                .map(|row| format!(" {} | {} |", median(row), checkers(row).join(", ")))
                .collect();
            format!("| `{name}` | {sentence} |{seen}")
        });
        let rows: Vec<String> = rows.collect();
        lines.extend(rows.iter().map(String::as_str));
        lines.join("\n")
    }
}
