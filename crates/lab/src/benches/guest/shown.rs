//! The report for people.

use anyhow::Result;

use super::callers::Figures;
use super::turns::{Beside, Neighbour, Turn, What};
use super::{Memory, NEIGHBOURS, Report};
use bench::latency::{median, rounded};
use terminal::show;
use wire::quantity;

impl Neighbour {
    pub fn name(self) -> &'static str {
        match self {
            Neighbour::Idle => "nothing",
            Neighbour::Log => "a busy log",
            Neighbour::Machine => "a busy machine",
        }
    }
}

impl What {
    pub fn name(self) -> &'static str {
        match self {
            What::Submits => "submits",
            What::Appends => "raw appends",
        }
    }
}

/// The median of a figure over the turns.
pub fn middle(turns: &[Turn], what: What, callers: u32, of: fn(&Figures) -> f64) -> f64 {
    let meant = |turn: &&Turn| turn.what == what && turn.callers == callers;
    let figures = turns.iter().filter(meant).map(|turn| of(&turn.figures));
    rounded(median(figures))
}

/// The median of a figure over the turns beside this neighbour.
pub fn of_neighbour(beside: &[Beside], neighbour: Neighbour, of: fn(&Beside) -> f64) -> f64 {
    let turns = beside.iter().filter(|turn| turn.neighbour == neighbour);
    rounded(median(turns.map(of)))
}

fn text(value: impl ToString) -> String {
    value.to_string()
}

impl Report {
    pub fn print(&self) -> Result<()> {
        let headings = ["", "callers", "per s", "p50 ms", "p99 ms", "max ms"];
        show::print(show::rows(&headings, self.turn_rows()))?;
        let headings = [
            "paced appends beside",
            "p50 ms",
            "p99 ms",
            "max ms",
            "its answers/s",
        ];
        show::print(format!("\n{}", show::rows(&headings, self.beside_rows())))?;
        let headings = [
            "all killed, started",
            "unflushed",
            "answers after ms",
            "all read after ms",
        ];
        show::print(format!("\n{}", show::rows(&headings, self.restart_rows())))?;
        let headings = [
            "a lost state",
            "whole after s",
            "reads after s",
            "MB/s",
            "submits p99 ms before",
            "meanwhile",
            "ratio",
        ];
        show::print(format!("\n{}", show::rows(&headings, self.refill_rows())))?;
        let headings = ["memory", "node", "RSS MB", "peak MB"];
        let rows = self.memory.iter().map(Memory::row);
        show::print(format!("\n{}", show::rows(&headings, rows.collect())))?;
        show::print(format!(
            "\na state of {} ({} rows of {} and {} bytes), written at {} MB/s; medians of the turns; all appends by one appender; {}",
            quantity::shown(self.state_bytes),
            self.rows,
            self.key_bytes,
            self.value_bytes,
            self.fill_mb_per_s,
            self.machine.sentence()
        ))
    }

    fn turn_rows(&self) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        for ratio in &self.submit_ratios {
            for what in [What::Submits, What::Appends] {
                let middle = |of| text(middle(&self.turns, what, ratio.callers, of));
                rows.push(vec![
                    text(what.name()),
                    text(ratio.callers),
                    middle(|figures| figures.per_s),
                    middle(|figures| figures.p50_ms),
                    middle(|figures| figures.p99_ms),
                    middle(|figures| figures.max_ms),
                ]);
            }
            rows.push(vec![
                text("ratio"),
                text(ratio.callers),
                text(ratio.per_s),
                text(ratio.p50),
                text(ratio.p99),
                text("-"),
            ]);
        }
        rows
    }

    fn beside_rows(&self) -> Vec<Vec<String>> {
        let row = |neighbour: Neighbour| {
            let of = |of| text(of_neighbour(&self.beside, neighbour, of));
            let per_s = |turn: &Beside| turn.answers.as_ref().map_or(0.0, |all| all.per_s);
            vec![
                text(neighbour.name()),
                of(|turn| turn.p50_ms),
                of(|turn| turn.p99_ms),
                of(|turn| turn.max_ms),
                of(per_s),
            ]
        };
        let ratio = |to: &str, ratio: f64| {
            let none = || text("-");
            vec![
                format!("machine / {to}"),
                none(),
                text(ratio),
                none(),
                none(),
            ]
        };
        let rows = NEIGHBOURS.map(row).into_iter();
        let ratios = [
            ratio("nothing", self.ratio_p99_to_idle),
            ratio("a log", self.ratio_p99_to_log),
        ];
        rows.chain(ratios).collect()
    }

    fn restart_rows(&self) -> Vec<Vec<String>> {
        let rows = self.restarts.iter().zip(1..).map(|(restart, number)| {
            vec![
                text(number),
                quantity::shown(restart.unflushed_bytes),
                text(restart.answers_after_ms),
                text(restart.all_read_after_ms),
            ]
        });
        rows.collect()
    }

    fn refill_rows(&self) -> Vec<Vec<String>> {
        let how = match self.refill.trimmed_bytes {
            0 => "made from the log",
            _ => "copied",
        };
        vec![vec![
            text(how),
            text(self.refill.whole_after_s),
            text(self.refill.reads_after_s),
            text(self.refill.mb_per_s),
            text(self.refill.before.p99_ms),
            text(self.refill.meanwhile.p99_ms),
            text(self.refill.ratio_p99),
        ]]
    }
}

impl Memory {
    fn row(&self) -> Vec<String> {
        vec![
            format!("{}, {}", self.when, self.role),
            text(self.node),
            text(self.rss_mb),
            text(self.peak_rss_mb),
        ]
    }
}
