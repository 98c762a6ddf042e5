//! Many logs with a writer each: what they reach together, and whether each gets its share.

use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use super::Arguments;
use bench::bed::Bed;
use bench::figures::Figures;
use bench::latency::rounded;
use bench::load::{Content, Plan};
use bench::measure::measure;
use bench::report::plot::{Axis, Line, Lines};
use bench::report::{Opened, Page};
use terminal::show;
use testbed::environment::Machine;
use testbed::scratch::Scratch;
use testbed::watch::Watch;

#[derive(Debug, Serialize)]
struct Report {
    bench: &'static str,
    rate: Option<u64>,
    write_bytes: u64,
    window_bytes: u64,
    mover: Option<String>,
    measured_s: f64,
    times: u32,
    /// Medians over the turns.
    active: Vec<Active>,
    machine: Machine,
}

#[derive(Debug, Serialize)]
struct Active {
    logs: u32,
    /// The part of the throughput of whichever number of logs was fastest.
    of_best: f64,
    figures: Figures,
}

/// Each writer keeps at most and at least so much.
const WINDOW_MOST: usize = 16 << 20;
const WINDOW_LEAST: usize = 256 << 10;
/// A cluster's start and end, for the time that is left.
const AROUND: Duration = Duration::from_secs(2);

impl Arguments {
    pub(super) fn run_active(&self, report_to: Option<Opened>, json: bool) -> Result<()> {
        let numbers = &self.active;
        let whole = Duration::from_secs_f64(self.warm_up + self.seconds);
        let scratch = self.place.make(self.active_bytes(whole))?;
        let machine = Machine::look(scratch.path())?;
        machine.warn_if_no_disk();
        let each = whole + AROUND;
        let watch = Watch::of(each * numbers.len() as u32 * self.times);
        let mut turns: Vec<Vec<Figures>> = numbers.iter().map(|_| Vec::new()).collect();
        for _ in 0..self.times {
            for (number, turns) in numbers.iter().zip(&mut turns) {
                watch.says(format!("{number} active logs"));
                turns.push(self.turn(&scratch, *number)?);
                watch.passed(each);
            }
        }
        drop(watch);
        let mut active: Vec<Active> = numbers
            .iter()
            .zip(&turns)
            .map(|(logs, turns)| Active::new(*logs, turns))
            .collect();
        let rate = |active: &Active| active.figures.get("mb_per_s").unwrap_or(0.0);
        let best = active.iter().map(rate).fold(0.0, f64::max);
        for active in &mut active {
            active.of_best = rounded(rate(active) / best.max(f64::MIN_POSITIVE));
        }
        let report = Report {
            bench: "many-logs",
            rate: self.rate,
            write_bytes: self.write_size,
            window_bytes: self.window,
            mover: self.moving.mover.map(|mover| mover.to_string()),
            measured_s: rounded(self.seconds),
            times: self.times,
            active,
            machine,
        };
        if let Some(to) = report_to {
            to.write(report.page()?)?;
        }
        match json {
            true => show::print_json(&report),
            false => report.print(),
        }
    }

    /// The disk space of one turn: its files are gone before the next.
    fn active_bytes(&self, whole: Duration) -> u64 {
        // More than the disks we know take; padding of small batches; segments that are prepared.
        const FLAT_OUT: f64 = 1e9;
        const PADDING: f64 = 25e6;
        const LOG_BYTES: u64 = 4 << 20;
        let most = self.active.iter().copied().max().unwrap_or(1);
        let rate = self.rate.map_or(FLAT_OUT, |rate| rate as f64 * 1.1);
        let rate = (rate + PADDING * f64::from(most)).min(FLAT_OUT);
        let appended = rate * (whole.as_secs_f64() + 2.0);
        (appended as u64 + LOG_BYTES * u64::from(most)) * u64::from(self.nodes)
    }

    fn turn(&self, scratch: &Scratch, number: u32) -> Result<Figures> {
        let directory = scratch.path().join("cluster");
        let bed = Bed::start_with(&directory, self.nodes, 0, self.moving.arguments())?;
        let logs: Vec<String> = (1..=number).map(|n| format!("active-{n}")).collect();
        bed.create(&logs)?;
        let rate = self.rate.map(|rate| (rate / u64::from(number)).max(1));
        let window = self.window as usize / number as usize;
        let plan = Plan {
            write_bytes: self.write_size as usize,
            rate,
            buffer_bytes: window.clamp(WINDOW_LEAST, WINDOW_MOST),
            content: Content::Repeated,
        };
        let warm_up = Duration::from_secs_f64(self.warm_up);
        let length = Duration::from_secs_f64(self.seconds);
        let watched = bed.watched(&logs)?;
        let measured = measure(&bed.client, &logs, &plan, warm_up, length, &watched)?;
        drop(bed);
        scratch.retire(&directory)?;
        Ok(Figures::of(&measured))
    }
}

impl Active {
    fn new(logs: u32, turns: &[Figures]) -> Active {
        let turns: Vec<&Figures> = turns.iter().collect();
        Active {
            logs,
            of_best: 0.0,
            figures: Figures::median(&turns),
        }
    }

    /// One log is its own best and worst.
    fn spread(&self, name: &str) -> f64 {
        let of_one = match name {
            "p99_most_of_least_log" => Some(1.0),
            _ => self.figures.get("p99_ms"),
        };
        let of_one = of_one.filter(|_| self.logs == 1);
        // Not a number: a log that got nothing.
        self.figures.get(name).or(of_one).unwrap_or(f64::NAN)
    }

    fn row(&self) -> Vec<String> {
        let figure = |name| self.figures.get(name).unwrap_or(0.0).to_string();
        vec![
            self.logs.to_string(),
            figure("mb_per_s"),
            self.of_best.to_string(),
            figure("p50_ms"),
            figure("p99_ms"),
            self.spread("p99_least_log_ms").to_string(),
            self.spread("p99_most_log_ms").to_string(),
            self.spread("p99_most_of_least_log").to_string(),
            figure("cpu_s_per_gb"),
            figure("leader_peak_mb"),
        ]
    }
}

const HEADINGS: [&str; 10] = [
    "active logs",
    "MB/s",
    "of best",
    "p50 ms",
    "p99 ms",
    "least log's",
    "most log's",
    "most / least",
    "CPU s/GB",
    "leader's peak MB",
];

impl Report {
    fn rows(&self) -> Vec<Vec<String>> {
        self.active.iter().map(Active::row).collect()
    }

    fn print(&self) -> Result<()> {
        show::print(show::rows(&HEADINGS, self.rows()))?;
        show::print(self.machine.sentence())
    }

    fn page(&self) -> Result<Page> {
        let mut page = Page::new("Many active logs", &self.machine);
        let rate = self.rate.map_or("flat out".to_owned(), |rate| {
            format!("at {} MB/s together", rate as f64 / 1e6)
        });
        page.text(&format!(
            "A writer for each log, {rate}, writes of {} bytes; together they keep {} MiB.",
            self.write_bytes,
            self.window_bytes >> 20
        ));
        let over = |value: &dyn Fn(&Active) -> f64| {
            let point = |active: &Active| (f64::from(active.logs), value(active));
            self.active.iter().map(point).collect::<Vec<_>>()
        };
        let line = |name: &str, points| Line {
            name: name.to_owned(),
            points,
            ..Line::default()
        };
        page.lines(&Lines {
            title: "Throughput of all logs".to_owned(),
            x: Axis::log("active logs"),
            y: Axis::linear("MB/s"),
            lines: vec![line(
                "cluster",
                over(&|active| active.figures.get("mb_per_s").unwrap_or(0.0)),
            )],
        })?;
        page.lines(&Lines {
            title: "99th percentile of latency".to_owned(),
            x: Axis::log("active logs"),
            y: Axis::log("ms"),
            lines: vec![
                line(
                    "the log that waits most",
                    over(&|active| active.spread("p99_most_log_ms")),
                ),
                line(
                    "the log that waits least",
                    over(&|active| active.spread("p99_least_log_ms")),
                ),
            ],
        })?;
        page.table(&HEADINGS.map(str::to_owned), &self.rows());
        Ok(page)
    }
}
