//! The report for people.

use anyhow::Result;

use super::beside::Beside;
use super::goals::Goal;
use super::moved::UnderLoad;
use super::report::{Cell, OfRival, Report};
use super::roles::OfRoles;
use super::turns::Who;
use bench::figures::Figures;
use terminal::show;

fn figure(figures: &Figures, name: &str) -> String {
    shown(figures.get(name))
}

fn shown(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |value| value.to_string())
}

impl Report {
    pub fn print(&self) -> Result<()> {
        if !self.cells.is_empty() {
            let headings = [
                "three groups",
                "per s",
                "p50 ms",
                "p99 ms",
                "CPU µs",
                "load's CPU µs",
                "errors",
                "our rate ×",
            ];
            let rows = self.cells.iter().flat_map(Cell::rows);
            show::print(show::rows(&headings, rows.collect()))?;
        }
        if let Some(roles) = &self.roles {
            let headings = [
                "one group",
                "per s",
                "p50 ms",
                "p99 ms",
                "leader's CPU µs",
                "… system",
                "followers' CPU µs",
                "… system",
                "load's CPU µs",
                "errors",
            ];
            let rows = roles.iter().map(OfRoles::row);
            show::print(format!("\n{}", show::rows(&headings, rows.collect())))?;
        }
        if let Some(failover) = &self.failover {
            let headings = ["leaders killed", "median ms", "max ms", "each", "lost"];
            let each: Vec<String> = failover.all_ms.iter().map(f64::to_string).collect();
            let row = vec![
                failover.times.to_string(),
                failover.median_ms.to_string(),
                failover.max_ms.to_string(),
                each.join(", "),
                failover.lost.to_string(),
            ];
            show::print(format!("\n{}", show::rows(&headings, vec![row])))?;
        }
        if let Some(idle) = &self.idle {
            let headings = ["idle connections", "RSS MB before", "after", "bytes each"];
            let row = vec![
                idle.connections.to_string(),
                idle.before_mb.to_string(),
                idle.after_mb.to_string(),
                idle.bytes_per_connection.to_string(),
            ];
            show::print(format!("\n{}", show::rows(&headings, vec![row])))?;
        }
        if !self.beside.is_empty() {
            let headings = [
                "beside",
                "",
                "p99 ms alone",
                "beside",
                "ratio",
                "max ms alone",
                "beside",
                "RSS MB of its node before",
                "at most",
                "done",
                "errors",
            ];
            let rows = self.beside.iter().map(Beside::row).collect();
            show::print(format!("\n{}", show::rows(&headings, rows)))?;
        }
        if let Some(moves) = &self.moves {
            let headings = [
                "slots move",
                "s",
                "per s",
                "p50, p99 ms of these",
                "before",
                "of others",
                "before",
                "longest wait of a slot",
                "before",
                "max ms",
                "errors",
            ];
            let rows = moves.under_load.iter().map(UnderLoad::row);
            show::print(format!("\n{}", show::rows(&headings, rows.collect())))?;
            let headings = ["at rest: MB", "s", "MB/s", "each", "RSS MB added", "peak"];
            let rest = &moves.at_rest;
            let each: Vec<String> = rest.all_mb_per_s.iter().map(f64::to_string).collect();
            let row = vec![
                rest.mb.to_string(),
                rest.seconds.to_string(),
                rest.mb_per_s.to_string(),
                each.join(", "),
                rest.added_rss_mb.to_string(),
                rest.peak_rss_mb.to_string(),
            ];
            show::print(format!("\n{}", show::rows(&headings, vec![row])))?;
        }
        if !self.goals.is_empty() {
            let headings = ["goal", "wanted", "measured", ""];
            let rows = self.goals.iter().map(Goal::row);
            show::print(format!("\n{}", show::rows(&headings, rows.collect())))?;
        }
        for remark in self.remarks() {
            show::print(remark)?;
        }
        show::print(format!(
            "\n{} keys of {} bytes, values of {}; medians of {} turns of {} s; CPU of all servers for each command; {}",
            self.keys,
            self.key_bytes,
            self.value_bytes,
            self.times,
            self.seconds,
            self.machine.sentence()
        ))
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = self.skipped.clone();
        for cell in &self.cells {
            let load = cell.load.sentence();
            if let Some(why) = &cell.why {
                remarks.push(format!("{load}: an error: {why}"));
            }
            for rival in cell.rivals.values() {
                for failure in &rival.failures {
                    remarks.push(format!(
                        "{load}: a turn of {} failed: {failure}",
                        rival.name
                    ));
                }
            }
        }
        remarks
    }
}

impl Cell {
    fn rows(&self) -> Vec<Vec<String>> {
        let mut ours = row(self.load.sentence(), &self.figures, self.errors);
        ours.push("-".to_owned());
        let mut rows = vec![ours];
        if let Some(p50_ms) = self.raw_append_p50_ms {
            let mut raw = row(format!("  {}", Who::Raw.name()), &Figures::default(), 0);
            raw[2] = p50_ms.to_string();
            raw.push("-".to_owned());
            rows.push(raw);
        }
        rows.extend(self.rivals.values().map(OfRival::row));
        rows
    }
}

impl OfRival {
    fn row(&self) -> Vec<String> {
        let mut row = row(format!("  {}", self.name), &self.figures, self.errors);
        row.push(shown(self.we_ops_ratio));
        row
    }
}

fn row(name: String, figures: &Figures, errors: u64) -> Vec<String> {
    let mut row = vec![name];
    row.extend(
        [
            "ops_per_s",
            "p50_ms",
            "p99_ms",
            "cpu_us_per_op",
            "load_cpu_us_per_op",
        ]
        .map(|name| figure(figures, name)),
    );
    row.push(errors.to_string());
    row
}

impl UnderLoad {
    fn row(&self) -> Vec<String> {
        let of = |name: &str| {
            let ends = ["p50", "p99"].map(|end| figure(&self.figures, &format!("{name}_{end}_ms")));
            ends.join(", ")
        };
        let load = format!("{}, {} clients", self.op.name(), self.clients);
        vec![
            load,
            figure(&self.figures, "seconds"),
            figure(&self.figures, "ops_per_s"),
            of("moving"),
            of("before_moving"),
            of("others"),
            of("before_others"),
            of("longest_of_slot"),
            of("before_longest_of_slot"),
            figure(&self.figures, "max_ms"),
            self.errors.to_string(),
        ]
    }
}

impl OfRoles {
    fn row(&self) -> Vec<String> {
        let mut row = vec![self.load.sentence()];
        row.extend(
            [
                "ops_per_s",
                "p50_ms",
                "p99_ms",
                "leader_cpu_us_per_op",
                "leader_system_us_per_op",
                "followers_cpu_us_per_op",
                "followers_system_us_per_op",
                "load_cpu_us_per_op",
            ]
            .map(|name| figure(&self.figures, name)),
        );
        row.push(self.errors.to_string());
        row
    }
}

impl Goal {
    fn row(&self) -> Vec<String> {
        let sign = if self.at_most { "≤" } else { "≥" };
        vec![
            self.goal.clone(),
            format!("{sign} {}", self.bound),
            self.measured.to_string(),
            if self.is_met { "met" } else { "missed" }.to_owned(),
        ]
    }
}
