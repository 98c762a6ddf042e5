//! The paper's plots: ours drawn through, and what was published dashed in the same plot.

use anyhow::Result;
use bench::report::Page;
use bench::report::plot::{Axis, Line, Lines, Shade};

use super::cells::Rate;
use super::published::{Percent, Published};
use super::report::{Ours, Outcome, Report, middle};
use crate::study::page::{judged, shown};
use crate::study::plots::Plot;

/// The paper's limits: a client's calls, in millions a second, and what its disk and network took, in MB/s.
const PUBLISHED_MHZ: f64 = 1.0;
const PUBLISHED_MB: f64 = 175.0;

impl Report {
    pub fn page(&self) -> Result<Page> {
        let title = "Zero-copy Paxos' experiment";
        let mut page = Page::of(title, &self.run.command, &self.run.machine);
        self.add_to(&mut page)?;
        Ok(page)
    }

    pub fn add_to(&self, page: &mut Page) -> Result<()> {
        page.heading(&self.run.experiment);
        page.text(&format!(
            "{} nodes, {} of them auxiliary, one client; {} s of warm-up and {} s measured in each cell.",
            self.nodes, self.auxiliaries, self.warm_up_s, self.measured_s
        ));
        for failure in self.failures() {
            page.text(&failure);
        }
        for plot in self.plots() {
            page.svg(&plot.svg()?);
        }
        page.heading("Claims");
        judged(&self.checks, page);
        page.heading("Tables: ours / published");
        for grid in self.grids() {
            page.text(grid.title);
            shown(&grid.table, page);
        }
        Ok(())
    }

    /// All plots, in the paper's order.
    pub fn plots(&self) -> Vec<Plot> {
        let mut plots = vec![self.delivered(), self.writes()];
        let curves = |rate: &Rate| {
            let name = format!("Z8-{}", rate.shown().replace([' ', '/'], ""));
            Plot::new("Z8", &name, self.curves(*rate))
        };
        plots.extend(self.rates().iter().map(curves));
        let ms = || Axis::log("ms");
        plots.push(self.overlaid(
            ("Z5", "99th percentile of latency"),
            ms(),
            |ours| Some(ours.p99_ms),
            |published| published.quantile(0.99).unwrap_or(f64::NAN),
        ));
        plots.push(self.overlaid(
            ("Z10", "Mean acknowledged batch"),
            Axis::log("bytes"),
            |ours| ours.batch_bytes,
            |published| published.batch_bytes,
        ));
        let percent = || Axis::linear("percent of a core");
        let sum = |(user, system): Percent| user + system;
        plots.push(self.overlaid(
            ("Z9-leader", "CPU of the leader"),
            percent(),
            move |ours| Some(sum(ours.cpu("leader"))),
            move |published| sum(published.leader_cpu),
        ));
        plots.push(self.overlaid(
            ("Z9-follower", "CPU of the follower"),
            percent(),
            move |ours| Some(sum(ours.cpu("follower"))),
            move |published| sum(published.follower_cpu),
        ));
        plots
    }

    /// A figure of ours over the target rate, drawn through, and the same one that was published dashed: a colour for each size of writes.
    fn overlaid(
        &self,
        (name, title): (&str, &str),
        y: Axis,
        ours: impl Fn(&Ours) -> Option<f64>,
        published: impl Fn(&Published) -> f64,
    ) -> Plot {
        let of_ours = |outcome: &Outcome| ours(outcome.ours.as_ref()?);
        let of_theirs = |outcome: &Outcome| Some(published(outcome.published.as_ref()?));
        self.by_size((name, title), y, of_ours, of_theirs)
    }

    fn delivered(&self) -> Plot {
        let mb = |outcome: &Outcome| outcome.rate.unwrap_or(0) as f64 / 1e6;
        self.by_size(
            ("Z6", "Delivered"),
            Axis::linear("MB/s"),
            |outcome| Some(outcome.ours.as_ref()?.delivered? * mb(outcome)),
            |outcome| Some(outcome.published.as_ref()?.delivered * mb(outcome)),
        )
    }

    /// Writes a second, where what lies beyond the limits of a client's calls, and of disk and network, is shaded.
    fn writes(&self) -> Plot {
        let mut plot = self.overlaid(
            ("Z7", "Writes"),
            Axis::log("million writes/s"),
            |ours| Some(ours.writes_mhz),
            |published| published.writes_mhz,
        );
        plot.shades.push(Shade {
            name: format!("beyond {PUBLISHED_MHZ} MHz of calls, published"),
            x: None,
            y: Some(PUBLISHED_MHZ),
            published: true,
        });
        plot.shades.push(Shade {
            name: format!("beyond {PUBLISHED_MB} MB/s of disk and network, published"),
            x: Some(PUBLISHED_MB),
            y: None,
            published: true,
        });
        if let Some(calls) = middle(&self.limits, "loopback_1_byte_writes_per_s") {
            let mhz = calls / 1e6;
            plot.shades.push(Shade {
                name: format!("beyond {mhz:.2} MHz of calls, ours"),
                x: None,
                y: Some(mhz),
                published: false,
            });
        }
        if let Some(disk) = middle(&self.limits, "direct_1_mib_mb_per_s") {
            let most = disk / f64::from(self.copies());
            plot.shades.push(Shade {
                name: format!("beyond {most:.0} MB/s of the disk for each copy, ours"),
                x: Some(most),
                y: None,
                published: false,
            });
        }
        plot
    }

    /// Two lines for each size of writes, over the target rate: ours, and the published one dashed in the same colour.
    fn by_size(
        &self,
        (name, title): (&str, &str),
        y: Axis,
        ours: impl Fn(&Outcome) -> Option<f64>,
        published: impl Fn(&Outcome) -> Option<f64>,
    ) -> Plot {
        let points = |write_bytes: u64, value: &dyn Fn(&Outcome) -> Option<f64>| {
            let cells = self.cells.iter();
            let cells = cells.filter(|outcome| outcome.write_bytes == write_bytes);
            let point = |outcome: &Outcome| Some((outcome.rate? as f64 / 1e6, value(outcome)?));
            cells.filter_map(point).collect::<Vec<_>>()
        };
        let ours = |size: &u64| Line {
            name: format!("{size} B"),
            points: points(*size, &ours),
            ..Line::default()
        };
        let published = |size: &u64| Line {
            name: format!("{size} B, published"),
            points: points(*size, &published),
            dashed: true,
            like: format!("{size} B"),
            ..Line::default()
        };
        let sizes = self.sizes();
        // Colours go by the place of a line: those of ours first.
        let lines = sizes.iter().map(ours).chain(sizes.iter().map(published));
        let row = name.split('-').next().unwrap_or(name);
        let lines = Lines {
            title: format!("{title}: ours, and what was published dashed"),
            x: Axis::linear("target MB/s"),
            y,
            lines: lines.collect(),
        };
        Plot::new(row, name, lines)
    }

    /// At one rate: a curve for each size, and those that were published dashed.
    fn curves(&self, rate: Rate) -> Lines {
        let cells = self.cells.iter();
        let cells = cells.filter(|outcome| outcome.cell().rate == rate);
        let lines = cells.flat_map(|outcome| {
            let size = outcome.write_bytes;
            let ours = outcome.ours.as_ref().map(|ours| Line {
                name: format!("{size} B"),
                points: ours.slower_than(),
                ..Line::default()
            });
            let published = outcome.published.as_ref().map(|published| Line {
                name: format!("{size} B, published"),
                points: published.slower_than(),
                dashed: true,
                like: format!("{size} B"),
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
