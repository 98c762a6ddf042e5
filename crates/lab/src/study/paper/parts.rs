//! The tables and plots of a run, by the words of a block.
//!
//! | words | table | figure |
//! |---|---|---|
//! | `R22` | the checks of that row; of a grid, the paper's table | the plot of that row; of a run, its times or its rates |
//! | `checks` | all of them | |
//! | `times`, `times p99` | medians, or that quantile, by variant and place, beside what was published | times |
//! | `times all`, `rates all` | all that is known of each variant and place | |
//! | `rates` | throughputs, by variant and place | throughputs |
//! | `ratios`, `counts` | pairs, counts | |
//! | `groups`, `groups 2` | figures of other kinds | the same |
//! | `values`, `values figures` | of a bench: all numbers and words, or those below a key such as `figures` or `limits` | |

use anyhow::Result;
use terminal::exit::{Failure, Kind};

use super::blocks::Block;
use super::kept::Kept;
use super::values;
use crate::study::plots::Plot;
use crate::study::run::{Cell, Run};
use crate::study::tables::{self, Table};

/// A table with its title.
pub struct Part {
    pub title: String,
    pub table: Table,
}

impl Part {
    fn new(title: &str, table: Table) -> Part {
        Part {
            title: title.to_owned(),
            table,
        }
    }
}

/// The words that a table of this run may be asked for by.
pub fn known(kept: &Kept) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    words.extend(kept.checks().iter().map(|check| check.row.clone()));
    match kept {
        Kept::Grid(grid) => {
            words.extend(grid.grids().iter().map(|grid| grid.row.to_owned()));
            words.extend(grid.plots().iter().map(|plot| plot.row.clone()));
        }
        Kept::Bench(_) => return vec!["values".to_owned()],
        Kept::Run(run) => {
            for (word, is_there) in [
                ("times", !run.cells.is_empty()),
                ("rates", !run.rates.is_empty()),
                ("ratios", !run.pairs.is_empty()),
                ("counts", !run.counts.is_empty()),
                ("groups", !run.groups.is_empty()),
            ] {
                words.extend(is_there.then(|| word.to_owned()));
            }
        }
    }
    words.push("checks".to_owned());
    words.sort();
    words.dedup();
    words
}

fn nothing(kept: &Kept, block: &Block) -> anyhow::Error {
    let sentence = format!(
        "{} asks for what the run has not: it has {}",
        block.begin(),
        known(kept).join(", ")
    );
    Failure::new(Kind::NotFound, sentence).into()
}

/// Errors: the run has no such table.
pub fn tables(kept: &Kept, block: &Block) -> Result<Vec<Part>> {
    let all = match kept {
        _ if block.what == "checks" => vec![Part::new("", tables::checks(kept.checks()))],
        Kept::Grid(grid) => {
            let grids = grid.grids().into_iter();
            let of_row = grids.filter(|grid| grid.row == block.what);
            of_row
                .map(|grid| Part::new(grid.title, grid.table))
                .collect()
        }
        Kept::Run(run) => of_run(run, block),
        Kept::Bench(bench) => {
            let wanted = (block.what == "values").then(|| values::of(&bench.said, block.part));
            let found = wanted.flatten().map(|table| Part::new("", table));
            found.into_iter().collect()
        }
    };
    let mut all: Vec<Part> = all;
    if let (Some(number), false) = (number(block), matches!(kept, Kept::Bench(_))) {
        all = all.into_iter().skip(number - 1).take(1).collect();
    }
    if all.is_empty() && number(block).is_none() {
        let of_row = kept.checks().iter().filter(|check| check.row == block.what);
        all.push(Part::new(
            "",
            tables::checks(&of_row.cloned().collect::<Vec<_>>()),
        ));
    }
    all.retain(|part| !part.table.is_empty());
    match all.is_empty() {
        true => Err(nothing(kept, block)),
        false => Ok(all),
    }
}

/// One of several, from 1 on.
fn number(block: &Block) -> Option<usize> {
    let number = block.part?.parse().ok();
    number.filter(|number| *number > 0)
}

fn of_run(run: &Run, block: &Block) -> Vec<Part> {
    match (block.what, block.part) {
        ("times", Some("all")) => vec![Part::new("", run.times_table())],
        ("times", quantile) => times(run, quantile.unwrap_or("p50")).into_iter().collect(),
        ("rates", Some("all")) => vec![Part::new("", run.rates_table())],
        ("rates", _) => vec![rates(run)],
        ("ratios", _) => vec![Part::new("", run.ratios_table())],
        ("counts", _) => vec![Part::new("", run.counts_table())],
        ("groups", _) => {
            let groups = run.groups.iter();
            let titled = groups.map(|group| {
                Part::new(
                    &format!("{}, in {}", group.title, group.unit),
                    group.table(),
                )
            });
            titled.collect()
        }
        _ => Vec::new(),
    }
}

/// A quantile of times, by variant and place. `None`: it is not known.
fn times(run: &Run, quantile: &str) -> Option<Part> {
    let of: fn(&Cell) -> f64 = match quantile {
        "p50" => |cell| cell.p50_ms,
        "p90" => |cell| cell.p90_ms,
        "p99" => |cell| cell.p99_ms,
        "max" => |cell| cell.max_ms,
        "mean" => |cell| cell.mean_ms,
        _ => return None,
    };
    let ours = run.cells.iter();
    let ours = ours.map(|cell| (cell.variant.clone(), cell.x, of(cell)));
    let title = format!("Times in ms, {quantile}, by {}", run.run.x);
    Some(Part::new(&title, by_place(run, ours.collect(), "ms")))
}

fn rates(run: &Run) -> Part {
    let ours = run.rates.iter();
    let ours = ours.map(|rate| (rate.variant.clone(), rate.x, rate.per_s));
    let title = format!("Commands a second, by {}", run.run.x);
    Part::new(&title, by_place(run, ours.collect(), "per_s"))
}

/// A row for each variant and each series that was published in this unit, a column for each place.
fn by_place(run: &Run, ours: Vec<(String, f64, f64)>, unit: &str) -> Table {
    let published = run.published.iter().filter(|number| number.unit == unit);
    let published = published.map(|number| {
        let series = format!("published {}: {}", number.item, number.series);
        (series, number.x, number.value)
    });
    let all: Vec<(String, f64, f64)> = ours.into_iter().chain(published).collect();
    let mut places: Vec<f64> = all.iter().map(|(_, x, _)| *x).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let mut names: Vec<&String> = Vec::new();
    for (name, ..) in &all {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let row = |name: &&String| {
        let at = |x: &f64| {
            let mut of = all.iter();
            let found = of.find(|(other, place, _)| other == *name && place == x);
            found.map_or(String::new(), |(_, _, value)| value.to_string())
        };
        let mut row = vec![(*name).clone()];
        row.extend(places.iter().map(at));
        row
    };
    let mut headings = vec!["variant".to_owned()];
    headings.extend(places.iter().map(f64::to_string));
    Table {
        headings,
        rows: names.iter().map(row).collect(),
    }
}

/// Errors: the run has no such plot.
pub fn plots(kept: &Kept, block: &Block) -> Result<Vec<Plot>> {
    let mut all = match kept {
        Kept::Grid(grid) => grid.plots(),
        Kept::Run(run) => plots_of(run, block.what, kept),
        Kept::Bench(_) => Vec::new(),
    };
    all.retain(|plot| plot.row == block.what);
    if let Some(part) = block.part {
        let wanted = format!("{}-{part}", block.what);
        all = match number(block) {
            Some(number) => all.into_iter().skip(number - 1).take(1).collect(),
            None => all.into_iter().filter(|plot| plot.name == wanted).collect(),
        };
    }
    match all.is_empty() {
        true => Err(nothing(kept, block)),
        false => Ok(all),
    }
}

/// A row's plot is that of times, or else that of rates, or those of other figures.
fn plots_of(run: &Run, what: &str, kept: &Kept) -> Vec<Plot> {
    let times = run
        .times_plot()
        .map(|plot| Plot::new("times", "times", plot));
    let rates = run
        .rates_plot()
        .map(|plot| Plot::new("rates", "rates", plot));
    let groups = run.groups.iter().enumerate();
    let groups =
        groups.map(|(at, group)| Plot::new("groups", &format!("groups-{}", at + 1), group.plot()));
    let mut all: Vec<Plot> = times.into_iter().chain(rates).chain(groups).collect();
    if kept.checks().iter().any(|check| check.row == what) {
        let first = all.first().map(|plot| plot.row.clone());
        all.retain(|plot| Some(&plot.row) == first.as_ref());
        for plot in &mut all {
            plot.name = plot.name.replacen(&plot.row, what, 1);
            plot.row = what.to_owned();
        }
    }
    all
}
