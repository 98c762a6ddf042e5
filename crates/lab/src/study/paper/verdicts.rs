//! The verdicts of all kept runs of one paper: what each check was, how it came out, and of which run.

use crate::study::run::Checked;
use crate::study::tables::Table;

use super::kept::Kept;
use super::markdown;

/// The check that compares a variant with itself.
const SAME: &str = "A/A";

/// A table of all checks, and below it where each run comes from. `runs`: with their names.
pub fn of(runs: &[(&str, &Kept)]) -> String {
    let mut rows = Vec::new();
    for (name, kept) in runs {
        let checks = kept.checks().iter().filter(|check| check.name != SAME);
        rows.extend(checks.map(|check| row(name, check)));
    }
    rows.sort_by(|a, b| place(&a[0]).cmp(&place(&b[0])));
    let headings = [
        "row",
        "check",
        "published",
        "here",
        "expected",
        "came out",
        "the claim",
        "run",
    ];
    let table = Table {
        headings: headings.map(str::to_owned).to_vec(),
        rows,
    };
    let origins = runs
        .iter()
        .filter(|(_, kept)| !kept.checks().is_empty())
        .map(|(name, kept)| format!("- {}{}", markdown::origin(name, kept), same(kept)));
    let origins: Vec<String> = origins.collect();
    format!("{}\n\n{}", markdown::table(&table), origins.join("\n"))
}

/// A row of the catalogue before those with greater numbers.
fn place(row: &str) -> (&str, u32) {
    let digits = row.trim_start_matches(|letter: char| !letter.is_ascii_digit());
    let (letters, _) = row.split_at(row.len() - digits.len());
    (letters, digits.parse().unwrap_or(u32::MAX))
}

fn row(run: &str, check: &Checked) -> Vec<String> {
    let here = match check.low == check.high {
        true => figure(check.ours),
        false => format!(
            "{} ({} to {})",
            figure(check.ours),
            figure(check.low),
            figure(check.high)
        ),
    };
    let why = check.why.as_ref().map(|why| format!(": {why}"));
    let came_out = match check.is_missed() {
        true => "missed".to_uppercase(),
        false => check.expectation.clone(),
    };
    vec![
        check.row.clone(),
        check.claim.clone(),
        check.published.clone(),
        here,
        check.expected.clone(),
        came_out,
        format!(
            "{}{}",
            check.paper.replace('-', " "),
            why.unwrap_or_default()
        ),
        run.to_owned(),
    ]
}

/// Three digits say what a ratio is.
fn figure(value: f64) -> String {
    let rounded = match value.abs() {
        0.0 => return "0".to_owned(),
        above if above >= 100.0 => format!("{value:.0}"),
        above if above >= 10.0 => format!("{value:.1}"),
        above if above >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    };
    match rounded.contains('.') {
        true => rounded
            .trim_end_matches('0')
            .trim_end_matches('.')
            .to_owned(),
        false => rounded,
    }
}

/// How many comparisons of a variant with itself say so.
fn same(kept: &Kept) -> String {
    let same = kept.checks().iter().filter(|check| check.name == SAME);
    let (mut all, mut hold) = (0, 0);
    for check in same {
        all += 1;
        hold += u32::from(check.low <= 1.0 && 1.0 <= check.high);
    }
    match all {
        0 => String::new(),
        _ => format!(" Of its {all} A/A pairs {hold} contain 1."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_in_the_order_of_the_catalogue() {
        let mut rows = ["R22", "M3", "R4", "R22"];
        rows.sort_by(|a, b| place(a).cmp(&place(b)));
        assert_eq!(rows, ["M3", "R4", "R22", "R22"]);
    }

    #[test]
    fn figures_have_the_digits_that_mean_something() {
        let shown = [0.0, 0.97, 1.0, 1.7397, 12.34, 1067.4, 0.0123].map(figure);
        assert_eq!(shown, ["0", "0.97", "1", "1.74", "12.3", "1067", "0.0123"]);
    }
}
