//! A run's plots: ours drawn through, with bars, and what was published dashed.

use anyhow::Result;
use bench::report::plot::{Axis, Line, Lines, Shade};

use super::run::{Cell, Group, Run};

/// A plot, by the row of the catalogue that it shows and a name of its own.
pub struct Plot {
    pub row: String,
    pub name: String,
    pub lines: Lines,
    pub shades: Vec<Shade>,
}

impl Plot {
    pub fn new(row: &str, name: &str, lines: Lines) -> Plot {
        Plot {
            row: row.to_owned(),
            name: name.to_owned(),
            lines,
            shades: Vec::new(),
        }
    }

    pub fn svg(&self) -> Result<String> {
        self.lines.svg_with(&self.shades)
    }
}

impl Run {
    /// Times of proposals. `None`: the run has none.
    pub fn times_plot(&self) -> Option<Lines> {
        let of_variant = |id: &str| {
            let cells = self.cells.iter().filter(|cell| cell.variant == id);
            Line {
                name: id.to_owned(),
                points: cells.clone().map(|cell| (cell.x, cell.p50_ms)).collect(),
                bars: cells
                    .map(|cell| (cell.x, cell.p10(), cell.p90_ms))
                    .collect(),
                ..Line::default()
            }
        };
        (!self.cells.is_empty()).then(|| self.lines("Time of a proposal", "ms", of_variant))
    }

    /// Throughputs. `None`: the run has none.
    pub fn rates_plot(&self) -> Option<Lines> {
        let of_variant = |id: &str| {
            let rates = self.rates.iter().filter(|rate| rate.variant == id);
            Line {
                name: id.to_owned(),
                points: rates.clone().map(|rate| (rate.x, rate.per_s)).collect(),
                bars: rates
                    .map(|rate| (rate.x, rate.min_per_s, rate.max_per_s))
                    .collect(),
                ..Line::default()
            }
        };
        (!self.rates.is_empty()).then(|| self.lines("Commands a second", "per_s", of_variant))
    }

    /// Ours, and what was published in this unit.
    fn lines(&self, title: &str, unit: &str, of_variant: impl Fn(&str) -> Line) -> Lines {
        let variants = self.variants.iter();
        let mut lines: Vec<Line> = variants.map(|variant| of_variant(&variant.id)).collect();
        lines.retain(|line| !line.points.is_empty());
        let published = || self.published.iter().filter(|number| number.unit == unit);
        let mut series: Vec<(&str, &str)> = published()
            .map(|number| (&*number.item, &*number.series))
            .collect();
        series.dedup();
        lines.extend(series.into_iter().map(|(item, name)| {
            let its = published().filter(|number| number.item == item && number.series == name);
            Line {
                name: format!("published {item}: {name}"),
                points: its.map(|number| (number.x, number.value)).collect(),
                dashed: true,
                like: name.to_owned(),
                ..Line::default()
            }
        }));
        Lines {
            title: title.to_owned(),
            x: Axis::log(axis(&self.run.x)),
            y: Axis::log(axis(unit)),
            lines,
        }
    }
}

impl Group {
    /// A line for each variant and figure.
    pub fn plot(&self) -> Lines {
        let mut lines: Vec<Line> = Vec::new();
        for one in &self.measures {
            let name = format!("{}, {}", one.variant, one.name);
            let at = lines.iter().position(|line| line.name == name);
            let at = at.unwrap_or_else(|| {
                lines.push(Line {
                    name,
                    ..Line::default()
                });
                lines.len() - 1
            });
            lines[at].points.push((one.x, one.value));
            if one.low < one.high {
                lines[at].bars.push((one.x, one.low, one.high));
            }
        }
        Lines {
            title: self.title.clone(),
            x: Axis::log(axis(&self.x)),
            y: Axis::log(axis(&self.unit)),
            lines,
        }
    }
}

/// The words at an axis.
fn axis(x: &str) -> &'static str {
    match x {
        "bytes" => "bytes of a proposal",
        "bytes of a write" => "bytes of a write",
        "slots of a batch" => "slots of a batch",
        "MB/s" => "MB/s",
        "instructions" => "instructions",
        "ms of CPU" => "ms of CPU",
        "replicas" => "replicas",
        "groups" => "groups",
        "clients" => "clients",
        "KB of a value" => "KB of a value",
        "per_s" => "per s",
        "ms" => "ms",
        "frames" => "frames",
        _ => "machines",
    }
}

impl Cell {
    fn p10(&self) -> f64 {
        super::statistics::quantile(&self.samples_ms, 0.1).unwrap_or(self.p50_ms)
    }
}
