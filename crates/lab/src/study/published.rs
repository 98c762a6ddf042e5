//! The numbers of the papers, as files of their own.
//!
//! `ramp-mex.tsv`: paper, item, series, what x is, x, value, unit, how it was had (a table, a text, a spreadsheet, or read off a plot).

use serde::Serialize;

const RAMP_MEX: &str = include_str!("published/ramp-mex.tsv");

/// One published number.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Number {
    #[serde(skip)]
    pub paper: &'static str,
    /// The table, figure or section: `4.1.1`, `table 1 vanilla`.
    pub item: &'static str,
    pub series: &'static str,
    pub x_name: &'static str,
    /// NaN where x is no number.
    pub x: f64,
    /// x where it is none: `1 group x 3`.
    #[serde(skip)]
    pub setup: Option<&'static str>,
    pub value: f64,
    pub unit: &'static str,
    pub how: &'static str,
}

/// All numbers of an item of a paper (`ramp`, `mex`), in the file's order.
pub fn of(paper: &str, item: &str) -> Vec<Number> {
    let mut all = numbers();
    all.retain(|number| number.paper == paper && number.item == item);
    all
}

fn numbers() -> Vec<Number> {
    RAMP_MEX.lines().skip(1).filter_map(number).collect()
}

fn number(line: &'static str) -> Option<Number> {
    let mut fields = line.split('\t');
    let mut next = || fields.next();
    let (paper, item, series, x_name, x) = (next()?, next()?, next()?, next()?, next()?);
    let place = x.parse().ok();
    Some(Number {
        paper,
        item,
        series,
        x_name,
        x: place.unwrap_or(f64::NAN),
        setup: place.is_none().then_some(x),
        value: next()?.parse().ok()?,
        unit: next()?,
        how: next()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_number() {
        let lines = RAMP_MEX.lines().skip(1).count();
        assert!(lines > 200, "{lines}");
        assert_eq!(numbers().len(), lines);
        assert!(numbers().iter().all(|number| number.value > 0.0));
        let sizes = of("ramp", "4.1.1");
        assert_eq!(sizes.len(), 12);
        assert_eq!(
            (sizes[0].x, sizes[0].value, sizes[0].unit),
            (10.0, 0.017, "s")
        );
    }
}
