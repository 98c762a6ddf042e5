//! A run for people: a table in the terminal, and a page with the published numbers beside ours.

use anyhow::Result;
use bench::report::Page;
use terminal::show;

use super::run::{Checked, Run};
use super::tables::{self, Table, beside};

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
        for group in &self.groups {
            let table = group.table();
            let headings: Vec<&str> = table.headings.iter().map(String::as_str).collect();
            let rows = show::rows(&headings, table.rows);
            show::print(format_args!("{}, in {}\n{rows}\n", group.title, group.unit))?;
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
        for plot in [self.times_plot(), self.rates_plot()].into_iter().flatten() {
            page.lines(&plot)?;
        }
        for group in &self.groups {
            page.lines(&group.plot())?;
        }
        page.text("Ratios are medians of the rounds' ratios, with an interval of order statistics (sign test).");
        for table in [self.times_table(), self.rates_table(), self.ratios_table()] {
            shown(&table, page);
        }
        for group in &self.groups {
            page.text(&format!("{}, in {}", group.title, group.unit));
            shown(&group.table(), page);
        }
        shown(&self.counts_table(), page);
        judged(&self.checks, page);
        Ok(())
    }
}

/// A table, unless there is nothing in it.
pub fn shown(table: &Table, page: &mut Page) {
    if !table.is_empty() {
        page.table(&table.headings, &table.rows);
    }
}

/// Checks, as a table of a page.
pub fn judged(checks: &[Checked], page: &mut Page) {
    shown(&tables::checks(checks), page);
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
    show::print(format_args!("{}\n", show::lines(&table)))?;
    for check in checks {
        if let Some(why) = &check.why {
            show::print(format_args!("{}, {}: {why}", check.row, check.name))?;
        }
    }
    Ok(())
}
