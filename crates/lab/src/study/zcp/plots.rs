//! The paper's plots, ours and the published ones.

use anyhow::Result;

use super::cells::Rate;
use super::published::{Percent, Published};
use super::{COPIES, Ours, Outcome, Report};
use bench::latency::slower_than;
use bench::report::Page;
use bench::report::plot::{Axis, Line, Lines};

use crate::study::page::judged;
use crate::study::statistics::median;

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
        let mut lines = self.by_size("Writes, ours, and what the disk alone takes", mhz(), writes);
        lines.lines.extend(self.disk_lines());
        page.lines(&lines)?;
        let writes = theirs(|published| published.writes_mhz);
        page.lines(&self.by_size("Writes, published", mhz(), writes))?;
        for rate in self.rates() {
            page.lines(&self.curves(rate))?;
        }
        let ms = || Axis::log("ms");
        let p99 = ours(|ours| Some(ours.p99_ms));
        page.lines(&self.by_size("99th percentile of latency, ours", ms(), p99))?;
        let p99 = theirs(|published| published.quantile(0.99).unwrap_or(f64::NAN));
        page.lines(&self.by_size("99th percentile of latency, published", ms(), p99))?;
        let bytes = || Axis::log("bytes");
        let batch = ours(|ours| ours.batch_bytes);
        page.lines(&self.by_size("Mean acknowledged batch, ours", bytes(), batch))?;
        let batch = theirs(|published| published.batch_bytes);
        page.lines(&self.by_size("Mean acknowledged batch, published", bytes(), batch))?;
        let percent = || Axis::linear("percent of a core");
        let sum = |(user, system): Percent| user + system;
        let of = |role: &'static str| {
            move |outcome: &Outcome| outcome.ours.as_ref().map(|ours| sum(ours.cpu(role)))
        };
        page.lines(&self.by_size("CPU of the leader, ours", percent(), of("leader")))?;
        let leader = theirs(|published| published.leader_cpu.0 + published.leader_cpu.1);
        page.lines(&self.by_size("CPU of the leader, published", percent(), leader))?;
        page.lines(&self.by_size("CPU of the follower, ours", percent(), of("follower")))?;
        let follower = theirs(|published| published.follower_cpu.0 + published.follower_cpu.1);
        page.lines(&self.by_size("CPU of the follower, published", percent(), follower))?;
        page.heading("Claims");
        judged(&self.checks, &mut page);
        page.heading("Tables: ours / published");
        for grid in self.grids() {
            page.text(grid.title);
            page.table(&grid.headings, &grid.rows);
        }
        Ok(page)
    }

    /// For each size of writes, as many as the disk takes when it writes every copy a mebibyte at a time.
    fn disk_lines(&self) -> Vec<Line> {
        let each = self.limits.iter();
        let each = each.filter_map(|limits| limits.get("direct_1_mib_mb_per_s"));
        let Some(disk) = median(&each.collect::<Vec<_>>()) else {
            return Vec::new();
        };
        let rates = self.rates();
        let targets = rates.iter().filter_map(|rate| rate.bytes_per_second());
        let targets: Vec<f64> = targets.map(|rate| rate as f64 / 1e6).collect();
        let line = |bytes: &u64| {
            let most = disk / f64::from(COPIES) / *bytes as f64;
            Line {
                name: format!("disk, {bytes} B"),
                points: targets.iter().map(|rate| (*rate, most)).collect(),
                dashed: true,
                ..Line::default()
            }
        };
        self.sizes().iter().map(line).collect()
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

    /// At one rate: a curve for each size, and those that were published dashed.
    fn curves(&self, rate: Rate) -> Lines {
        let cells = self.cells.iter();
        let cells = cells.filter(|outcome| outcome.cell.rate == rate);
        let lines = cells.flat_map(|outcome| {
            let size = outcome.write_bytes;
            let ours = outcome.ours.as_ref().map(|ours| Line {
                name: format!("{size} B"),
                points: slower_than(&ours.micros),
                ..Line::default()
            });
            let published = outcome.published.as_ref().map(|published| Line {
                name: format!("{size} B, published"),
                points: published.slower_than(),
                dashed: true,
                ..Line::default()
            });
            ours.into_iter().chain(published)
        });
        Lines {
            title: format!("Writes that take longer, {}", rate.shown()),
            x: Axis::log("ms"),
            y: Axis::log("of all"),
            lines: lines.collect(),
        }
    }
}
