//! The paper's plots, ours and the published ones.

use anyhow::Result;

use super::published::{CPU, Published};
use super::{Ours, Outcome, Report};
use bench::latency::slower_than;
use bench::report::Page;
use bench::report::plot::{Axis, Line, Lines};

/// More lines cannot be told apart.
const CURVES_MAX: usize = 8;

impl Report {
    pub(super) fn page(&self) -> Result<Page> {
        let mut page = Page::new("Zero-copy Paxos' experiment", &self.machine);
        page.text(&format!(
            "{} nodes, {} of them auxiliary, one client; {} s of warm-up and {} s measured in each cell.",
            self.nodes, self.auxiliaries, self.warm_up_s, self.measured_s
        ));
        for failure in self.failures() {
            page.text(&failure);
        }
        let mb = |outcome: &Outcome| outcome.rate.unwrap_or(0) as f64 / 1e6;
        let ours = |value: fn(&Ours) -> Option<f64>| {
            move |outcome: &Outcome| outcome.ours.as_ref().and_then(value)
        };
        let theirs = |value: fn(&Published) -> f64| {
            move |outcome: &Outcome| outcome.published.as_ref().map(value)
        };
        let delivered = |part: Option<f64>, outcome: &Outcome| Some(part? * mb(outcome));
        page.lines(
            &self.by_size("Delivered, ours", Axis::linear("MB/s"), |outcome| {
                delivered(ours(|ours| ours.delivered)(outcome), outcome)
            }),
        )?;
        page.lines(
            &self.by_size("Delivered, published", Axis::linear("MB/s"), |outcome| {
                delivered(theirs(|published| published.delivered)(outcome), outcome)
            }),
        )?;
        let mhz = || Axis::log("million writes/s");
        let writes = ours(|ours| Some(ours.writes_mhz));
        page.lines(&self.by_size("Writes, ours", mhz(), writes))?;
        let writes = theirs(|published| published.writes_mhz);
        page.lines(&self.by_size("Writes, published", mhz(), writes))?;
        page.lines(&self.curves())?;
        let ms = || Axis::log("ms");
        let p99 = ours(|ours| Some(ours.p99_ms));
        page.lines(&self.by_size("99th percentile of latency, ours", ms(), p99))?;
        let p99 = theirs(|published| published.p99_ms);
        page.lines(&self.by_size("99th percentile of latency, published", ms(), p99))?;
        let bytes = || Axis::log("bytes");
        let batch = ours(|ours| ours.batch_bytes);
        page.lines(&self.by_size("Mean acknowledged batch, ours", bytes(), batch))?;
        let batch = theirs(|published| published.batch_bytes);
        page.lines(&self.by_size("Mean acknowledged batch, published", bytes(), batch))?;
        let percent = || Axis::linear("percent of a core");
        let leader = |outcome: &Outcome| outcome.cpu("leader");
        page.lines(&self.by_size("CPU of the leader, ours", percent(), leader))?;
        let follower = |outcome: &Outcome| outcome.cpu("follower");
        page.lines(&self.by_size("CPU of the follower, ours", percent(), follower))?;
        page.text(CPU);
        page.heading("Tables: ours / published");
        for grid in self.grids() {
            page.text(grid.title);
            page.table(&grid.headings, &grid.rows);
        }
        Ok(page)
    }

    /// A line for each size of writes, over the target rate.
    fn by_size(&self, title: &str, y: Axis, value: impl Fn(&Outcome) -> Option<f64>) -> Lines {
        let line = |write_bytes: &u64| {
            let cells = self.cells.iter();
            let cells = cells.filter(|outcome| outcome.write_bytes == *write_bytes);
            let point = |outcome: &Outcome| Some((outcome.rate? as f64 / 1e6, value(outcome)?));
            Line {
                name: format!("{write_bytes} B"),
                points: cells.filter_map(point).collect(),
                ..Line::default()
            }
        };
        Lines {
            title: title.to_owned(),
            x: Axis::linear("target MB/s"),
            y,
            lines: self.sizes().iter().map(line).collect(),
        }
    }

    /// Curves of the largest writes, at rates as far apart as there are lines for.
    fn curves(&self) -> Lines {
        let largest = self.sizes().last().copied().unwrap_or(0);
        let rates = self.rates();
        let every = rates.len().div_ceil(CURVES_MAX).max(1);
        let cells = rates.into_iter().step_by(every);
        let cells = cells.filter_map(|rate| {
            self.outcome(rate, largest)?
                .ours
                .as_ref()
                .map(|of| (rate, of))
        });
        Lines {
            title: format!("Writes of {largest} B that take longer, ours"),
            x: Axis::log("ms"),
            y: Axis::log("of all"),
            lines: cells
                .map(|(rate, ours)| Line {
                    name: rate.shown(),
                    points: slower_than(&ours.micros),
                    ..Line::default()
                })
                .collect(),
        }
    }
}

impl Outcome {
    fn cpu(&self, role: &str) -> Option<f64> {
        let figures = &self.ours.as_ref()?.figures;
        let percent = |kind| figures.get(&format!("{role}_{kind}_percent"));
        Some(percent("user")? + percent("system")?)
    }
}
