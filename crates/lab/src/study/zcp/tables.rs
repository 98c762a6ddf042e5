//! The paper's tables, each cell ours / published.

use anyhow::Result;
use terminal::show;

use super::cells::Rate;
use super::limits::Limit;
use super::published::{Percent, Published};
use super::report::{LatencyOf, Ours, Outcome, Report, Who};
use crate::study::page;
use crate::study::tables::Table;

/// Rates down, sizes of writes across; only those of which a cell was measured.
pub struct Grid {
    /// The catalogue's row.
    pub row: &'static str,
    pub title: &'static str,
    pub table: Table,
}

/// A row of the catalogue, a title, and what a cell holds of ours and of the published.
type Kind = (
    &'static str,
    &'static str,
    fn(&Ours) -> Option<String>,
    fn(&Published) -> Option<String>,
);

const KINDS: [Kind; 10] = [
    (
        "Z1",
        "Table 1. Which part of the target rate was delivered",
        |ours| ours.delivered.map(|part| format!("{part:.3}")),
        |published| Some(format!("{:.3}", published.delivered)),
    ),
    (
        "Z2",
        "Table 2. Writes acknowledged, in millions per second",
        |ours| Some(format!("{:.3}", ours.writes_mhz)),
        |published| Some(format!("{:.3}", published.writes_mhz)),
    ),
    (
        "Z3",
        "Table 3. Mean acknowledged batch, in bytes",
        |ours| ours.batch_bytes.map(|bytes| format!("{bytes:.0}")),
        |published| Some(format!("{:.0}", published.batch_bytes)),
    ),
    (
        "Z4",
        "Table 4. Median latency, in ms",
        |ours| ms(ours, 0.5),
        |published| Some(format!("{:.3}", published.quantile(0.5)?)),
    ),
    (
        "Z5",
        "Table 5. 99th percentile of latency, in ms",
        |ours| ms(ours, 0.99),
        |published| Some(format!("{:.3}", published.quantile(0.99)?)),
    ),
    (
        "Z11",
        "90th percentile of latency, in ms",
        |ours| ms(ours, 0.9),
        |published| Some(format!("{:.3}", published.quantile(0.9)?)),
    ),
    (
        "Z11",
        "95th percentile of latency, in ms",
        |ours| ms(ours, 0.95),
        |published| Some(format!("{:.3}", published.quantile(0.95)?)),
    ),
    (
        "Z11",
        "99.5th percentile of latency, in ms",
        |ours| ms(ours, 0.995),
        |published| Some(format!("{:.3}", published.quantile(0.995)?)),
    ),
    (
        "Z11",
        "99.9th percentile of latency, in ms",
        |ours| ms(ours, 0.999),
        |published| Some(format!("{:.3}", published.quantile(0.999)?)),
    ),
    (
        "Z9",
        "CPU in percent of a core, leader user+system, follower user+system",
        |ours| Some(cpu(ours.cpu("leader"), ours.cpu("follower"))),
        |published| Some(cpu(published.leader_cpu, published.follower_cpu)),
    ),
];

fn ms(ours: &Ours, part: f64) -> Option<String> {
    Some(format!("{:.3}", ours.quantile(part)?))
}

fn cpu(leader: Percent, follower: Percent) -> String {
    format!(
        "{:.0}+{:.0}, {:.0}+{:.0}",
        leader.0, leader.1, follower.0, follower.1
    )
}

impl Report {
    pub fn grids(&self) -> Vec<Grid> {
        let kind = |(row, title, ours, published): Kind| {
            self.grid(row, title, |outcome| text(outcome, ours, published))
        };
        let mut grids: Vec<Grid> = KINDS.map(kind).into();
        grids.push(self.grid(
            "Z15",
            "The limit of each cell: the client's core, disk, loopback, the nodes, or none; and of one that misses its target whether the floor beside it misses it",
            |outcome| self.limit(outcome),
        ));
        let floors = self.cells.iter().filter(|outcome| outcome.floor.is_some());
        if floors.count() > 0 {
            grids.push(self.grid(
                "Z14",
                "The floor, the same bytes without agreement, right after the cell: what it delivered; its median and 99th percentile in ms, cell / floor",
                floor,
            ));
        }
        let beside = self
            .cells
            .iter()
            .filter(|outcome| outcome.library.is_some());
        if beside.count() > 0 {
            grids.push(self.grid(
                "Z12",
                "Millions of writes a second where a raw client misses its target, raw / the library's client beside it",
                library,
            ));
        }
        grids
    }

    fn grid(
        &self,
        row: &'static str,
        title: &'static str,
        text: impl Fn(&Outcome) -> String,
    ) -> Grid {
        let sizes = self.sizes();
        let mut headings = vec![String::new()];
        headings.extend(sizes.iter().map(|bytes| format!("{bytes} B")));
        let of_rate = |rate: &Rate| {
            let mut cells = vec![rate.shown()];
            cells.extend(sizes.iter().map(|bytes| {
                let outcome = self.outcome(*rate, *bytes);
                outcome.map_or_else(String::new, &text)
            }));
            cells
        };
        Grid {
            row,
            title,
            table: Table {
                headings,
                rows: self.rates().iter().map(of_rate).collect(),
            },
        }
    }

    fn limit(&self, outcome: &Outcome) -> String {
        let ours = outcome.ours.as_ref();
        let mut said = ours
            .map_or("failed", |ours| {
                ours.limit(&self.limits, self.copies()).name()
            })
            .to_owned();
        said += match outcome.floor_misses_too() {
            Some(true) => " (the floor, too)",
            Some(false) => " (not the floor)",
            None => "",
        };
        match &outcome.published {
            // Its disk and network are not known by cell.
            Some(of) => {
                let theirs = Limit::of(Some(of.delivered), of.client_cpu, false, false);
                format!("{said} / {}", theirs.name())
            }
            None => said,
        }
    }

    pub fn print(&self) -> Result<()> {
        for grid in self.grids() {
            let headings: Vec<&str> = grid.table.headings.iter().map(String::as_str).collect();
            let rows = show::rows(&headings, grid.table.rows);
            show::print(format!("{}\n{rows}\n", grid.title))?;
        }
        for failure in self.failures() {
            show::print(failure)?;
        }
        page::print_checks(&self.checks)?;
        let (client, latency) = (self.client, self.latency_of);
        if client == Who::Raw {
            show::print("The client: one write() for each write.")?;
        }
        if latency == LatencyOf::RoundTrips {
            show::print("Latencies: of round trips that follow each other.")?;
        }
        show::print("Ours / published.")?;
        show::print(format!(
            "{} s of warm-up and {} s measured; {}",
            self.warm_up_s, self.measured_s, self.run.machine
        ))
    }
}

fn floor(outcome: &Outcome) -> String {
    let (Some(floor), Some(ours)) = (&outcome.floor, &outcome.ours) else {
        return String::new();
    };
    let delivered = floor
        .delivered
        .map_or(String::new(), |part| format!("{part:.3}; "));
    format!(
        "{delivered}{:.3} / {:.3}, {:.3} / {:.3}",
        ours.median_ms, floor.median_ms, ours.p99_ms, floor.p99_ms
    )
}

fn library(outcome: &Outcome) -> String {
    match (&outcome.ours, &outcome.library) {
        (Some(raw), Some(library)) => {
            format!("{:.3} / {:.3}", raw.writes_mhz, library.writes_mhz)
        }
        _ => String::new(),
    }
}

fn text(
    outcome: &Outcome,
    ours: fn(&Ours) -> Option<String>,
    published: fn(&Published) -> Option<String>,
) -> String {
    let ours = match &outcome.ours {
        Some(of) => ours(of).unwrap_or_else(|| "-".to_owned()),
        None => "failed".to_owned(),
    };
    match outcome.published.as_ref().and_then(published) {
        Some(published) => format!("{ours} / {published}"),
        None => ours,
    }
}
