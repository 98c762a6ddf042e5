//! A run's tables: a page, and the paper made of runs, show the same ones.

use super::run::{Cell, Checked, Figure, Group, Histogram, Pair, Rate, Run};

/// The first columns are text, the others numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    pub headings: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

impl Table {
    fn of(headings: &[&str], rows: Vec<Vec<String>>) -> Table {
        let headings = headings.iter().map(|text| (*text).to_owned());
        Table {
            headings: headings.collect(),
            rows,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl Run {
    /// Times of proposals, by variant and place.
    pub fn times_table(&self) -> Table {
        let headings = [
            "variant",
            &self.run.x,
            "p50 ms",
            "p90 ms",
            "p99 ms",
            "max ms",
            "mean ms",
            "proposals",
            "20 bins from the shortest to the longest",
        ];
        Table::of(&headings, self.cells.iter().map(Cell::texts).collect())
    }

    /// Throughputs, by variant and place.
    pub fn rates_table(&self) -> Table {
        let headings = [
            "variant",
            &self.run.x,
            "per s",
            "lowest",
            "highest",
            "slices",
        ];
        Table::of(&headings, self.rates.iter().map(Rate::texts).collect())
    }

    /// Pairs of variants that were compared round by round.
    pub fn ratios_table(&self) -> Table {
        let headings = [
            "ratio",
            "of",
            &self.run.x,
            "median",
            "from",
            "to",
            "confidence",
            "rounds",
            "measured",
        ];
        Table::of(&headings, self.pairs.iter().map(Pair::texts).collect())
    }

    pub fn counts_table(&self) -> Table {
        let row = |(name, count): (&String, &u64)| vec![name.clone(), count.to_string()];
        Table::of(
            &["counted", "number"],
            self.counts.iter().map(row).collect(),
        )
    }
}

/// Checks: the claim, what was published, ours with its interval, and how both came out.
pub fn checks(all: &[Checked]) -> Table {
    let headings = [
        "check",
        "published",
        "ours",
        "expected",
        "expectation",
        "the claim",
    ];
    Table::of(&headings, all.iter().map(Checked::texts).collect())
}

impl Group {
    /// A row for each variant and place, a column for each figure.
    pub fn table(&self) -> Table {
        let names = self.names();
        let mut headings = vec!["variant", &*self.x];
        headings.extend(names.iter().copied());
        let mut places: Vec<(&str, f64)> = Vec::new();
        for one in &self.measures {
            let place = (&*one.variant, one.x);
            if !places.contains(&place) {
                places.push(place);
            }
        }
        let row = |(variant, x): &(&str, f64)| {
            let mut row = vec![(*variant).to_owned(), x.to_string()];
            row.extend(names.iter().map(|name| {
                let mut all = self.measures.iter();
                let found =
                    all.find(|one| one.variant == *variant && one.x == *x && one.name == *name);
                found.map_or(String::new(), |one| {
                    with_interval(one.value, one.low, one.high)
                })
            }));
            row
        };
        Table::of(&headings, places.iter().map(row).collect())
    }

    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for one in &self.measures {
            if !names.contains(&&*one.name) {
                names.push(&one.name);
            }
        }
        names
    }
}

fn with_interval(value: f64, low: f64, high: f64) -> String {
    match low == high {
        true => value.to_string(),
        false => format!("{value} ({low} to {high})"),
    }
}

impl Checked {
    fn texts(&self) -> Vec<String> {
        let why = self.why.as_ref().map(|why| format!(" ({why})"));
        vec![
            format!("{}: {}{}", self.row, self.claim, why.unwrap_or_default()),
            self.published.clone(),
            with_interval(self.ours, self.low, self.high),
            self.expected.clone(),
            self.expectation.clone(),
            self.paper.clone(),
        ]
    }
}

pub fn beside(is_beside: bool) -> &'static str {
    match is_beside {
        true => "at once",
        false => "apart",
    }
}

impl Figure {
    pub fn word(self) -> &'static str {
        match self {
            Figure::Time => "time",
            Figure::Rate => "rate",
        }
    }
}

impl Pair {
    fn texts(&self) -> Vec<String> {
        let of = &self.of;
        let mut texts = vec![
            format!("{} / {}", self.a, self.b),
            self.figure.word().to_owned(),
            self.x.to_string(),
        ];
        let figures = [of.ratio, of.low, of.high, of.confidence];
        texts.extend(figures.map(|value| format!("{value:.3}")));
        texts.extend([of.rounds.to_string(), beside(self.beside).to_owned()]);
        texts
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
        let bins = self.histogram.as_ref().map(Histogram::drawn);
        texts.push(bins.unwrap_or_default());
        texts
    }
}

#[cfg(test)]
mod tests {
    use super::super::run::Measure;
    use super::*;

    #[test]
    fn a_group_has_a_row_for_each_place_and_a_column_for_each_figure() {
        let measure = |x: f64, name: &str, (value, low, high)| Measure {
            variant: "nodes".to_owned(),
            x,
            name: name.to_owned(),
            value,
            low,
            high,
        };
        let group = Group {
            title: "Work".to_owned(),
            x: "bytes".to_owned(),
            unit: "instructions".to_owned(),
            measures: vec![
                measure(1.0, "p10", (5.0, 5.0, 5.0)),
                measure(1.0, "p90", (7.0, 6.0, 8.0)),
                measure(10.0, "p90", (9.0, 9.0, 9.0)),
            ],
        };
        let table = group.table();
        assert_eq!(table.headings, ["variant", "bytes", "p10", "p90"]);
        assert_eq!(table.rows[0], ["nodes", "1", "5", "7 (6 to 8)"]);
        assert_eq!(table.rows[1], ["nodes", "10", "", "9"]);
    }
}
