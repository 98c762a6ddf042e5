//! A run for people: a table in the terminal, and a page with the published numbers beside ours.

use anyhow::Result;
use bench::report::Page;
use bench::report::plot::{Axis, Line, Lines};
use terminal::show;

use super::run::{Cell, Checked, Figure, Histogram, Rate, Run};

impl Run {
    pub fn print(&self) -> Result<()> {
        let mut table = show::table(&[
            &*self.run.x,
            "variant",
            "p50 ms",
            "p90 ms",
            "p99 ms",
            "max ms",
            "proposals",
        ]);
        for cell in &self.cells {
            table.add_row([
                show::number(cell.x),
                cell.variant.as_str().into(),
                show::number(cell.p50_ms),
                show::number(cell.p90_ms),
                show::number(cell.p99_ms),
                show::number(cell.max_ms),
                show::number(cell.count),
            ]);
        }
        if !self.cells.is_empty() {
            show::print(format_args!("{}\n", show::lines(&table)))?;
        }
        let mut table = show::table(&[
            &*self.run.x,
            "variant",
            "per s",
            "lowest",
            "highest",
            "slices",
        ]);
        for rate in &self.rates {
            table.add_row([
                show::number(rate.x),
                rate.variant.as_str().into(),
                show::number(rate.per_s),
                show::number(rate.min_per_s),
                show::number(rate.max_per_s),
                show::number(rate.slices_per_s.len()),
            ]);
        }
        if !self.rates.is_empty() {
            show::print(format_args!("{}\n", show::lines(&table)))?;
        }
        let mut table = show::table(&[
            "RATIO",
            "OF",
            &*self.run.x,
            "MEDIAN",
            "FROM",
            "TO",
            "ROUNDS",
            "MEASURED",
        ]);
        for pair in &self.pairs {
            table.add_row([
                format!("{} / {}", pair.a, pair.b),
                pair.figure.word().to_owned(),
                pair.x.to_string(),
                format!("{:.2}", pair.of.ratio),
                format!("{:.2}", pair.of.low),
                format!("{:.2}", pair.of.high),
                pair.of.rounds.to_string(),
                beside(pair.beside).to_owned(),
            ]);
        }
        if !self.pairs.is_empty() {
            show::print(format_args!("{}\n", show::lines(&table)))?;
        }
        print_checks(&self.checks)?;
        for remark in self.remarks() {
            show::print(remark)?;
        }
        show::print(&self.run.machine)
    }

    /// Remarks without which the numbers mislead.
    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if !self.run.complete {
            remarks.push("somebody asked this run to end: it has not all of its rounds".to_owned());
        }
        if !self.counts.is_empty() {
            let counts = self
                .counts
                .iter()
                .map(|(name, count)| format!("{name}: {count}"));
            remarks.push(counts.collect::<Vec<_>>().join(", "));
        }
        for x in self.proves_nothing_at() {
            remarks.push(format!(
                "at {x} {} the same variant twice was told apart: nothing is proved there; the machine may have done something else meanwhile",
                self.run.x
            ));
        }
        if self.pairs.iter().any(|pair| !pair.beside) {
            remarks.push("pairs measured apart lie minutes from each other: a slow minute is in one of them alone".to_owned());
        }
        remarks
    }

    pub fn page(&self) -> Result<Page> {
        let title = format!("Lab: {}", self.run.experiment);
        let mut page = Page::of(&title, &self.run.command, &self.run.machine);
        self.add_to(&mut page)?;
        Ok(page)
    }

    pub fn add_to(&self, page: &mut Page) -> Result<()> {
        page.heading(&self.run.experiment);
        page.text(&format!(
            "{}; {}; {} rounds, seed {}",
            self.run.command, self.run.machine, self.run.rounds, self.run.seed
        ));
        for remark in self.remarks() {
            page.text(&remark);
        }
        page.text("Solid: ours, median; its bars are the 10th and the 90th percentile. Dashed: published. The settings differ: ratios and shapes may be compared, and absolute times may not.");
        if !self.cells.is_empty() {
            page.lines(&self.times())?;
        }
        if !self.rates.is_empty() {
            page.lines(&self.throughputs())?;
        }
        page.text("Ratios are medians of the rounds' ratios, with an interval of order statistics (sign test).");
        let texts = |headings: &[&str]| {
            headings
                .iter()
                .map(|text| (*text).to_owned())
                .collect::<Vec<_>>()
        };
        let with_bins = |cell: &Cell| {
            let mut texts = cell.texts();
            texts.push(
                cell.histogram
                    .as_ref()
                    .map(Histogram::drawn)
                    .unwrap_or_default(),
            );
            texts
        };
        let rows: Vec<Vec<String>> = self.cells.iter().map(with_bins).collect();
        page.table(
            &texts(&[
                "variant",
                &self.run.x,
                "p50 ms",
                "p90 ms",
                "p99 ms",
                "max ms",
                "mean ms",
                "proposals",
                "20 bins from the shortest to the longest",
            ]),
            &rows,
        );
        let rows: Vec<Vec<String>> = self.rates.iter().map(Rate::texts).collect();
        if !rows.is_empty() {
            let headings = [
                "variant",
                &self.run.x,
                "per s",
                "lowest",
                "highest",
                "slices",
            ];
            page.table(&texts(&headings), &rows);
        }
        let rows: Vec<Vec<String>> = self
            .pairs
            .iter()
            .map(|pair| {
                let of = &pair.of;
                let figures = [pair.x, of.ratio, of.low, of.high, of.confidence]
                    .map(|value| format!("{value:.3}"));
                let named = format!("{} / {}", pair.a, pair.b);
                let mut row = vec![named, pair.figure.word().to_owned()];
                row.extend(figures);
                row.extend([of.rounds.to_string(), beside(pair.beside).to_owned()]);
                row
            })
            .collect();
        page.table(
            &texts(&[
                "ratio",
                "of",
                &self.run.x,
                "median",
                "from",
                "to",
                "confidence",
                "rounds",
                "measured",
            ]),
            &rows,
        );
        judged(&self.checks, page);
        Ok(())
    }

    fn times(&self) -> Lines {
        let of_variant = |id: &str| {
            let cells = self.cells.iter().filter(|cell| cell.variant == id);
            Line {
                name: id.to_owned(),
                points: cells.clone().map(|cell| (cell.x, cell.p50_ms)).collect(),
                bars: cells
                    .map(|cell| (cell.x, cell.p10(), cell.p90_ms))
                    .collect(),
                dashed: false,
            }
        };
        self.lines("Time of a proposal", "ms", of_variant)
    }

    fn throughputs(&self) -> Lines {
        let of_variant = |id: &str| {
            let rates = self.rates.iter().filter(|rate| rate.variant == id);
            Line {
                name: id.to_owned(),
                points: rates.clone().map(|rate| (rate.x, rate.per_s)).collect(),
                bars: rates
                    .map(|rate| (rate.x, rate.min_per_s, rate.max_per_s))
                    .collect(),
                dashed: false,
            }
        };
        self.lines("Commands a second", "per_s", of_variant)
    }

    /// Ours, and what was published in this unit.
    fn lines(&self, title: &str, unit: &str, of_variant: impl Fn(&str) -> Line) -> Lines {
        let variants = self.variants.iter();
        let mut lines: Vec<Line> = variants.map(|variant| of_variant(&variant.id)).collect();
        lines.retain(|line| !line.points.is_empty());
        let published = || self.published.iter().filter(|number| number.unit == unit);
        let mut series: Vec<(&str, &str)> = published()
            .map(|number| (&*number.item, &*number.series))
            .collect();
        series.dedup();
        lines.extend(series.into_iter().map(|(item, name)| {
            let its = published().filter(|number| number.item == item && number.series == name);
            Line {
                name: format!("published {item}: {name}"),
                points: its.map(|number| (number.x, number.value)).collect(),
                dashed: true,
                ..Line::default()
            }
        }));
        Lines {
            title: title.to_owned(),
            x: Axis::log(match &*self.run.x {
                "bytes" => "bytes of a proposal",
                "replicas" => "replicas",
                "groups" => "groups",
                "clients" => "clients",
                "KB of a value" => "KB of a value",
                _ => "machines",
            }),
            y: Axis::log(match unit {
                "per_s" => "per s",
                _ => "ms",
            }),
            lines,
        }
    }
}

/// Checks, as a table of a page.
pub fn judged(checks: &[Checked], page: &mut Page) {
    let headings = [
        "check",
        "published",
        "ours",
        "expected",
        "expectation",
        "the claim",
    ];
    let rows: Vec<Vec<String>> = checks.iter().map(Checked::texts).collect();
    page.table(&headings.map(str::to_owned), &rows);
}

impl Checked {
    fn texts(&self) -> Vec<String> {
        let ours = match self.low == self.high {
            true => self.ours.to_string(),
            false => format!("{} ({} to {})", self.ours, self.low, self.high),
        };
        vec![
            format!("{}: {}", self.row, self.claim),
            self.published.clone(),
            ours,
            self.expected.clone(),
            self.expectation.clone(),
            self.paper.clone(),
        ]
    }
}

/// Checks, as a table in the terminal.
pub fn print_checks(checks: &[Checked]) -> Result<()> {
    if checks.is_empty() {
        return Ok(());
    }
    let mut table = show::table(&[
        "ROW",
        "CHECK",
        "PUBLISHED",
        "OURS",
        "EXPECTED",
        "EXPECTATION",
        "THE CLAIM",
    ]);
    for check in checks {
        table.add_row([
            check.row.clone(),
            check.name.clone(),
            check.published.clone(),
            format!("{:.2} ({:.2} to {:.2})", check.ours, check.low, check.high),
            check.expected.clone(),
            check.expectation.clone(),
            check.paper.clone(),
        ]);
    }
    show::print(format_args!("{}\n", show::lines(&table)))
}

fn beside(is_beside: bool) -> &'static str {
    match is_beside {
        true => "at once",
        false => "apart",
    }
}

impl Figure {
    fn word(self) -> &'static str {
        match self {
            Figure::Time => "time",
            Figure::Rate => "rate",
        }
    }
}

impl Rate {
    fn texts(&self) -> Vec<String> {
        let figures = [self.x, self.per_s, self.min_per_s, self.max_per_s];
        let mut texts = vec![self.variant.clone()];
        texts.extend(figures.iter().map(f64::to_string));
        texts.push(self.slices_per_s.len().to_string());
        texts
    }
}

impl Cell {
    fn p10(&self) -> f64 {
        super::statistics::quantile(&self.samples_ms, 0.1).unwrap_or(self.p50_ms)
    }

    fn texts(&self) -> Vec<String> {
        let figures = [
            self.x,
            self.p50_ms,
            self.p90_ms,
            self.p99_ms,
            self.max_ms,
            self.mean_ms,
        ];
        let mut texts = vec![self.variant.clone()];
        texts.extend(figures.iter().map(f64::to_string));
        texts.push(self.count.to_string());
        texts
    }
}
