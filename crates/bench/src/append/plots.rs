//! The report of `bench append`.

use anyhow::Result;
use hdrhistogram::Histogram;

use super::slice::Slice;
use super::{Report, Turn};
use crate::figures::{Compared, Figures};
use crate::latency::{histogram, slower_than};
use crate::measure::Moment;
use crate::report::Page;
use crate::report::plot::{Axis, Bars, Line, Lines};
use crate::roles::Role;

type Side = fn(&Turn) -> &Slice;

const SIDES: [(&str, Side); 2] = [
    ("cluster", |turn| &turn.cluster),
    ("floor", |turn| &turn.floor),
];

impl Report {
    pub(super) fn page(&self) -> Result<Page> {
        let mut page = Page::new("Appending, beside the floor", &self.machine);
        let rate = self.rate.map_or("flat out".to_owned(), |rate| {
            format!("at {} MB/s", rate as f64 / 1e6)
        });
        page.text(&format!(
            "{} writes of {} bytes, {rate}; {} nodes, {} of them auxiliary; {} clients, {} logs; \
             {} turns of {} s each. Throughput is {} of the floor's.",
            self.segments,
            self.write_bytes,
            self.nodes,
            self.auxiliaries,
            self.clients,
            self.logs,
            self.alternations.len(),
            self.slice_ms / 1e3,
            self.ratio,
        ));
        page.lines(&self.over_time("Throughput", "MB/s", |moment| moment.mb_per_s))?;
        page.lines(&self.slower_than()?)?;
        page.lines(&self.over_time("Latency, 99th percentile", "ms", |moment| moment.p99_ms))?;
        page.lines(&self.over_time("Memory of all nodes", "MB", |moment| moment.rss_mb))?;
        page.bars(&self.cpu())?;
        page.heading("Figures");
        let headings = ["figure", "cluster", "floor", "ratio"].map(str::to_owned);
        let rows: Vec<Vec<String>> = self.figures.iter().map(row).collect();
        page.table(&headings, &rows);
        for (heading, figures) in [
            ("The machine alone", &self.limits),
            ("The cluster's share of it", &self.shares),
        ] {
            page.heading(heading);
            page.table(&["figure", "value"].map(str::to_owned), &rows_of(figures));
        }
        Ok(page)
    }

    /// The turns one after the other, without what lay between them.
    fn over_time(&self, title: &str, unit: &'static str, value: fn(&Moment) -> f64) -> Lines {
        let line = |(name, side): (&str, Side)| {
            let slices = self.alternations.iter().map(side).enumerate();
            let points = slices.flat_map(|(turn, slice)| {
                let before = turn as f64 * self.slice_ms / 1e3;
                let moments = slice.over_time.iter();
                moments.map(move |moment| (before + moment.at_ms / 1e3, value(moment)))
            });
            Line {
                name: name.to_owned(),
                points: points.collect(),
                ..Line::default()
            }
        };
        Lines {
            title: title.to_owned(),
            x: Axis::linear("measured seconds"),
            y: Axis::linear(unit),
            lines: SIDES.map(line).into(),
        }
    }

    fn slower_than(&self) -> Result<Lines> {
        let mut lines = Vec::new();
        for (name, side) in SIDES {
            let mut sum: Histogram<u64> = histogram();
            for turn in &self.alternations {
                sum.add(&side(turn).micros)?;
            }
            lines.push(Line {
                name: name.to_owned(),
                points: slower_than(&sum),
                ..Line::default()
            });
        }
        Ok(Lines {
            title: "Writes that take longer".to_owned(),
            x: Axis::log("ms"),
            y: Axis::log("of all"),
            lines,
        })
    }

    fn cpu(&self) -> Bars {
        let figure = |role: Role, kind: &str, floor: bool| {
            let name = format!("{}_{kind}_s_per_gb", role.name());
            let figure = self.figures.iter().find(|figure| figure.name == name)?;
            match floor {
                true => figure.floor,
                false => Some(figure.cluster),
            }
        };
        let mut groups = Vec::new();
        for role in Role::ALL {
            for (side, floor) in [("", false), (" (floor)", true)] {
                let parts = figure(role, "user", floor).zip(figure(role, "system", floor));
                if let Some((user, system)) = parts {
                    groups.push((format!("{}{side}", role.name()), vec![user, system]));
                }
            }
        }
        Bars {
            title: "CPU of each role".to_owned(),
            unit: "s per acknowledged GB",
            parts: vec!["user".to_owned(), "system".to_owned()],
            groups,
        }
    }
}

fn row(figure: &Compared) -> Vec<String> {
    let shown = |value: Option<f64>| value.map_or("–".to_owned(), |value| value.to_string());
    vec![
        figure.name.clone(),
        figure.cluster.to_string(),
        shown(figure.floor),
        shown(figure.ratio),
    ]
}

fn rows_of(figures: &Figures) -> Vec<Vec<String>> {
    let value = |name| figures.get(name).unwrap_or(0.0).to_string();
    let rows = figures
        .names()
        .map(|name| vec![name.to_owned(), value(name)]);
    rows.collect()
}
