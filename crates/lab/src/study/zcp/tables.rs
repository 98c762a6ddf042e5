//! The paper's tables, each cell ours / published.

use anyhow::Result;

use super::cells::Rate;
use super::limits::Limit;
use super::published::{Percent, Published};
use super::{LatencyOf, Ours, Outcome, Report, Who};
use bench::latency::quantile_ms;
use terminal::show;

use crate::study::page;

/// Rates down, sizes of writes across; only those of which a cell was measured.
pub struct Grid {
    pub title: &'static str,
    pub headings: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

/// A title, and what a cell holds of ours and of the published.
type Kind = (
    &'static str,
    fn(&Ours) -> Option<String>,
    fn(&Published) -> Option<String>,
);

const KINDS: [Kind; 10] = [
    (
        "Table 1. Which part of the target rate was delivered",
        |ours| ours.delivered.map(|part| format!("{part:.3}")),
        |published| Some(format!("{:.3}", published.delivered)),
    ),
    (
        "Table 2. Writes acknowledged, in millions per second",
        |ours| Some(format!("{:.3}", ours.writes_mhz)),
        |published| Some(format!("{:.3}", published.writes_mhz)),
    ),
    (
        "Table 3. Mean acknowledged batch, in bytes",
        |ours| ours.batch_bytes.map(|bytes| format!("{bytes:.0}")),
        |published| Some(format!("{:.0}", published.batch_bytes)),
    ),
    (
        "Table 4. Median latency, in ms",
        |ours| ms(ours, 0.5),
        |published| Some(format!("{:.3}", published.quantile(0.5)?)),
    ),
    (
        "Table 5. 99th percentile of latency, in ms",
        |ours| ms(ours, 0.99),
        |published| Some(format!("{:.3}", published.quantile(0.99)?)),
    ),
    (
        "90th percentile of latency, in ms",
        |ours| ms(ours, 0.9),
        |published| Some(format!("{:.3}", published.quantile(0.9)?)),
    ),
    (
        "95th percentile of latency, in ms",
        |ours| ms(ours, 0.95),
        |published| Some(format!("{:.3}", published.quantile(0.95)?)),
    ),
    (
        "99.5th percentile of latency, in ms",
        |ours| ms(ours, 0.995),
        |published| Some(format!("{:.3}", published.quantile(0.995)?)),
    ),
    (
        "99.9th percentile of latency, in ms",
        |ours| ms(ours, 0.999),
        |published| Some(format!("{:.3}", published.quantile(0.999)?)),
    ),
    (
        "CPU in percent of a core, leader user+system, follower user+system",
        |ours| Some(cpu(ours.cpu("leader"), ours.cpu("follower"))),
        |published| Some(cpu(published.leader_cpu, published.follower_cpu)),
    ),
];

fn ms(ours: &Ours, part: f64) -> Option<String> {
    // A client that is late for the whole time has none.
    let has_some = !ours.micros.is_empty();
    has_some.then(|| format!("{:.3}", quantile_ms(&ours.micros, part)))
}

fn cpu(leader: Percent, follower: Percent) -> String {
    format!(
        "{:.0}+{:.0}, {:.0}+{:.0}",
        leader.0, leader.1, follower.0, follower.1
    )
}

impl Report {
    pub(super) fn grids(&self) -> Vec<Grid> {
        let (rates, sizes) = (self.rates(), self.sizes());
        let mut headings = vec![String::new()];
        headings.extend(sizes.iter().map(|bytes| format!("{bytes} B")));
        let grid = |(title, ours, published): Kind| {
            let row = |rate: &Rate| {
                let mut row = vec![rate.shown()];
                row.extend(sizes.iter().map(|bytes| {
                    let outcome = self.outcome(*rate, *bytes);
                    outcome.map_or_else(String::new, |outcome| text(outcome, ours, published))
                }));
                row
            };
            Grid {
                title,
                headings: headings.clone(),
                rows: rates.iter().map(row).collect(),
            }
        };
        let mut grids: Vec<Grid> = KINDS.map(grid).into();
        grids.push(self.limits(headings));
        grids
    }

    /// The limit that kept each cell from its target.
    fn limits(&self, headings: Vec<String>) -> Grid {
        let cell = |outcome: &Outcome| {
            let ours = outcome.ours.as_ref();
            let ours = ours.map_or("failed", |ours| ours.limit(&self.limits).name());
            match &outcome.published {
                // Its disk and network are not known by cell.
                Some(of) => {
                    let theirs = Limit::of(Some(of.delivered), of.client_cpu, false, false);
                    format!("{ours} / {}", theirs.name())
                }
                None => ours.to_owned(),
            }
        };
        let row = |rate: &Rate| {
            let mut row = vec![rate.shown()];
            row.extend(self.sizes().iter().map(|bytes| {
                let outcome = self.outcome(*rate, *bytes);
                outcome.map_or_else(String::new, cell)
            }));
            row
        };
        Grid {
            title: "The limit of each cell: the client's core, disk, loopback, the nodes, or none",
            headings,
            rows: self.rates().iter().map(row).collect(),
        }
    }

    pub(super) fn rates(&self) -> Vec<Rate> {
        let mut rates: Vec<Rate> = self.cells.iter().map(|outcome| outcome.cell.rate).collect();
        rates.sort();
        rates.dedup();
        rates
    }

    pub(super) fn sizes(&self) -> Vec<u64> {
        let mut sizes: Vec<u64> = self
            .cells
            .iter()
            .map(|outcome| outcome.write_bytes)
            .collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    pub(super) fn outcome(&self, rate: Rate, write_bytes: u64) -> Option<&Outcome> {
        let mut cells = self.cells.iter();
        cells.find(|outcome| outcome.cell.rate == rate && outcome.write_bytes == write_bytes)
    }

    pub(super) fn failures(&self) -> Vec<String> {
        let failed = self
            .cells
            .iter()
            .filter(|outcome| outcome.failure.is_some());
        failed.map(Outcome::sentence).collect()
    }

    pub(super) fn print(&self) -> Result<()> {
        for grid in self.grids() {
            let headings: Vec<&str> = grid.headings.iter().map(String::as_str).collect();
            let rows = show::rows(&headings, grid.rows);
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
            self.warm_up_s,
            self.measured_s,
            self.machine.sentence()
        ))
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
