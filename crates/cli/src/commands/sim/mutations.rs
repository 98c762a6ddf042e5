//! `logberg sim --mutate` and `--mutations`: whether the simulator would see a broken rule.

use std::ops::Range;

use anyhow::Result;
use clap::{Args, ValueEnum};

use crate::arguments::Global;

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
    /// Whether engine and nodes assert their own invariants, or only others may notice
    #[arg(long, value_name = "WHETHER", value_enum, default_value_t = Asserts::On)]
    asserts: Asserts,
    /// How often to look for each rule: first in --seeds, then in as many seeds behind them
    #[arg(long, value_name = "TIMES", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    repeats: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Asserts {
    On,
    Off,
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
        match self.mutate.is_some() || self.asserts == Asserts::Off {
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
    let sentence = "this build cannot break rules: make one that can with cargo build --release --features mutations";
    crate::exit::Failure::usage(sentence).into()
}

#[cfg(feature = "mutations")]
mod breaking {
    use std::io::IsTerminal;

    use ::sim::mutations::{Broken, Row, Search, Sighting};
    use paxos::mutation::Mutation;
    use serde::Serialize;

    use super::*;
    use crate::exit::{Failure, Kind};
    use crate::show;

    #[derive(Serialize)]
    struct Json<'a> {
        asserts: bool,
        seeds_each: u64,
        repeats: u64,
        mutations: Vec<JsonRow<'a>>,
        not_found: Vec<&'static str>,
    }

    #[derive(Serialize)]
    struct JsonRow<'a> {
        name: &'static str,
        sentence: &'static str,
        place: &'static str,
        median_seeds: Option<u64>,
        checkers: Vec<&'static str>,
        sightings: &'a [Option<Sighting>],
    }

    impl Arguments {
        pub fn are_searched(&self) -> bool {
            self.mutations
        }

        /// What was asked for is broken as long as the result lives.
        pub fn begin(&self) -> Result<Broken> {
            let mutation = self.mutate.as_deref().map(named).transpose()?;
            Ok(Broken::new(mutation, self.asserts == Asserts::On))
        }

        pub fn search(&self, seeds: Range<u64>, jobs: u16, global: &Global) -> Result<()> {
            let search = Search {
                seeds,
                repeats: self.repeats,
                asserts: self.asserts == Asserts::On,
                jobs: jobs.into(),
            };
            let names = self.mutate.iter().flat_map(|names| names.split(','));
            let mut mutations = names.map(named).collect::<Result<Vec<_>>>()?;
            if mutations.is_empty() {
                mutations.extend_from_slice(Mutation::ALL);
            }
            let tell = std::io::stderr().is_terminal() || !global.json;
            let mut rows = Vec::new();
            for mutation in mutations {
                let row = search.look_for(mutation);
                if tell {
                    eprintln!("{}", progress(&row));
                }
                rows.push(row);
            }
            let lost: Vec<&str> = rows
                .iter()
                .filter(|row| row.median().is_none())
                .map(|row| row.mutation.name())
                .collect();
            match global.json {
                true => show::print_json(&Json {
                    asserts: search.asserts,
                    seeds_each: search.seeds.end - search.seeds.start,
                    repeats: search.repeats,
                    mutations: rows.iter().map(json).collect(),
                    not_found: lost.clone(),
                })?,
                false => show::print(table(&rows))?,
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

    fn named(name: &str) -> Result<Mutation> {
        Mutation::named(name).ok_or_else(|| {
            let names: Vec<&str> = Mutation::ALL.iter().map(|m| m.name()).collect();
            let sentence = format!("there is no rule {name:?}: say one of {}", names.join(", "));
            Failure::usage(sentence).into()
        })
    }

    fn json(row: &Row) -> JsonRow<'_> {
        JsonRow {
            name: row.mutation.name(),
            sentence: row.mutation.sentence(),
            place: row.mutation.place(),
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

    fn table(rows: &[Row]) -> String {
        let mut table = show::table(&["RULE", "SEEDS", "SEEN BY"]);
        for row in rows {
            let median = row.median().map_or("-".to_owned(), |median| median.to_string());
            table.add_row([
                row.mutation.name().into(),
                show::number(median),
                checkers(row).join(", ").into(),
            ]);
        }
        show::lines(&table)
    }
}
