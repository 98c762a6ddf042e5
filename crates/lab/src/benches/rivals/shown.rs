//! The results of `bench rivals`, as a table and as a page.

use anyhow::Result;

use super::{Outcome, Report};
use bench::report::Page;
use bench::report::plot::Bars;
use terminal::show;

const HEADINGS: [&str; 8] = [
    "who, what an ack means, messages",
    "MB/s",
    "messages/s",
    "p50 ms",
    "p99 ms",
    "CPU s/GB",
    "our MB/s ×",
    "our MB/CPU s ×",
];

impl Outcome {
    fn row(&self) -> Vec<String> {
        let shown = |value: Option<f64>| value.map_or("-".to_owned(), |value| value.to_string());
        let figure = |name| shown(self.figures.get(name));
        vec![
            self.sentence(),
            figure("mb_per_s"),
            figure("writes_per_s"),
            figure("p50_ms"),
            figure("p99_ms"),
            figure("cpu_s_per_gb"),
            shown(self.we_mb_per_s_ratio),
            shown(self.we_mb_per_cpu_s_ratio),
        ]
    }
}

impl Report {
    fn remarks(&self) -> Vec<String> {
        let mut remarks: Vec<String> = self.skipped.iter().map(|s| (*s).to_owned()).collect();
        for outcome in &self.results {
            for failure in &outcome.failures {
                remarks.push(format!("{}: a turn failed: {failure}", outcome.sentence()));
            }
        }
        remarks
    }

    fn rows(&self) -> Vec<Vec<String>> {
        self.results.iter().map(Outcome::row).collect()
    }

    pub(super) fn print(&self) -> Result<()> {
        show::print(show::rows(&HEADINGS, self.rows()))?;
        for remark in self.remarks() {
            show::print(remark)?;
        }
        show::print(self.machine.sentence())
    }

    pub(super) fn page(&self) -> Result<Page> {
        let mut page = Page::new("Rivals", &self.machine);
        page.text("Three nodes and one producer of each, flat out, in turn on one machine.");
        let bars = |title: &str, unit, name: &str| {
            let group = |outcome: &Outcome| {
                let value = outcome.figures.get(name).unwrap_or(0.0);
                (outcome.sentence(), vec![value])
            };
            Bars {
                title: title.to_owned(),
                unit,
                parts: vec![title.to_owned()],
                groups: self.results.iter().map(group).collect(),
            }
        };
        page.bars(&bars("Throughput", "MB/s", "mb_per_s"))?;
        page.bars(&bars(
            "CPU of all nodes",
            "s per acknowledged GB",
            "cpu_s_per_gb",
        ))?;
        page.table(&HEADINGS.map(str::to_owned), &self.rows());
        for remark in self.remarks() {
            page.text(&remark);
        }
        Ok(page)
    }
}
