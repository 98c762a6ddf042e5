//! The findings of a grid, as one object of JSON: its tables, its plots and its page are made of it, at once or later.

use std::fmt;

use bench::figures::Figures;
use bench::latency::{quantile_ms, rounded, slower_than};
use bench::measure::Measured;
use clap::ValueEnum;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::cells::{Cell, Rate};
use super::limits::{self, Limit};
use super::published::{Published, QUANTILES};
use crate::study::run::{Checked, Circumstances, Program};
use crate::study::statistics;

pub const BENCH: &str = "paper";

/// The client of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Who {
    #[default]
    Library,
    Raw,
}

/// The latencies that are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum LatencyOf {
    #[default]
    Writes,
    RoundTrips,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Report {
    pub bench: String,
    pub paper: String,
    pub run: Circumstances,
    pub program: Program,
    pub nodes: u32,
    pub auxiliaries: u32,
    pub warm_up_s: f64,
    pub measured_s: f64,
    pub client: Who,
    pub latency_of: LatencyOf,
    pub cells: Vec<Outcome>,
    /// The machine's own, measured before the first cell and after every third.
    pub limits: Vec<Figures>,
    /// The paper's claims that these cells can say something of.
    pub checks: Vec<Checked>,
    pub machine: Value,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// `None`: flat out.
    pub rate: Option<u64>,
    pub write_bytes: u64,
    /// `None` if the cell failed.
    pub ours: Option<Ours>,
    pub failure: Option<String>,
    /// The same bytes without agreement, right after it: in every third cell, and in each that misses its target.
    pub floor: Option<Ours>,
    /// Our library's client, right after a raw one that misses its target.
    pub library: Option<Ours>,
    pub published: Option<Published>,
}

/// As in the paper's tables, and all else that is known.
#[derive(Debug, Serialize, Deserialize)]
pub struct Ours {
    /// The delivered part of the target rate; none flat out.
    pub delivered: Option<f64>,
    pub writes_mhz: f64,
    pub batch_bytes: Option<f64>,
    pub median_ms: f64,
    pub p99_ms: f64,
    /// Those of the paper's quantiles, in its order. Empty: a client that is late for the whole time has none.
    latency_ms: Vec<f64>,
    /// Milliseconds, and the part of all that takes longer.
    slower_than: Vec<(f64, f64)>,
    pub figures: Figures,
}

/// The part of a target that counts as all.
pub const ALL_DELIVERED: f64 = 0.98;

impl Ours {
    pub fn of(measured: &Measured, cell: Cell, latency: LatencyOf) -> Ours {
        let target = cell.rate.bytes_per_second();
        let delivered = target.map(|rate| measured.mb_per_s() * 1e6 / rate as f64);
        let mut figures = Figures::of(measured);
        let trips = &measured.round_trips;
        figures.add("round_trips", trips.len() as f64);
        for (name, part) in [
            ("round_trip_p50_ms", 0.5),
            ("round_trip_p99_ms", 0.99),
            ("round_trip_max_ms", 1.0),
        ] {
            figures.add(name, quantile_ms(trips, part));
        }
        let micros = match latency {
            LatencyOf::Writes => &measured.micros,
            LatencyOf::RoundTrips => &measured.round_trips,
        };
        Ours {
            delivered: delivered.map(rounded),
            writes_mhz: rounded(measured.writes_per_s() / 1e6),
            batch_bytes: figures.get("mean_ack_bytes"),
            median_ms: rounded(quantile_ms(micros, 0.5)),
            p99_ms: rounded(quantile_ms(micros, 0.99)),
            latency_ms: latencies(micros),
            slower_than: slower_than(micros)
                .into_iter()
                .map(|(ms, part)| (ms, rounded_part(part)))
                .collect(),
            figures,
        }
    }

    /// One of the paper's quantiles.
    pub fn quantile(&self, part: f64) -> Option<f64> {
        let at = QUANTILES.iter().position(|(known, _)| *known == part)?;
        self.latency_ms.get(at).copied()
    }

    pub fn slower_than(&self) -> Vec<(f64, f64)> {
        self.slower_than.clone()
    }

    /// Whether it had a target and did not reach it.
    pub fn misses(&self) -> bool {
        self.delivered.is_some_and(|part| part < ALL_DELIVERED)
    }

    /// The limit that kept it from its target.
    pub fn limit(&self, limits: &[Figures], copies: u32) -> Limit {
        let rate = self.figures.get("mb_per_s").unwrap_or(0.0);
        let takes = |name: &str| {
            let limit = middle(limits, name);
            limit.is_some_and(|limit| f64::from(copies) * rate >= limits::TAKEN * limit)
        };
        let client = self.cpu("client");
        // Loopback: from the client to the leader, and to the other copies.
        let (disk, loopback) = (takes("direct_1_mib_mb_per_s"), takes("loopback_mb_per_s"));
        Limit::of(self.delivered, client, disk, loopback)
    }

    /// Percent of a core of a role, of user and of system.
    pub fn cpu(&self, role: &str) -> (f64, f64) {
        let percent = |kind: &str| {
            let figure = self.figures.get(&format!("{role}_{kind}_percent"));
            figure.unwrap_or(0.0)
        };
        (percent("user"), percent("system"))
    }
}

fn latencies(micros: &Histogram<u64>) -> Vec<f64> {
    match micros.is_empty() {
        true => Vec::new(),
        false => QUANTILES
            .iter()
            .map(|(part, _)| quantile_ms(micros, *part))
            .collect(),
    }
}

/// Small parts, to so many digits that a curve does not change.
fn rounded_part(part: f64) -> f64 {
    let digits = 10f64.powi(4 - part.log10().floor() as i32);
    (part * digits).round() / digits
}

/// The median of a machine's limit.
pub fn middle(limits: &[Figures], name: &str) -> Option<f64> {
    let each = limits.iter().filter_map(|figures| figures.get(name));
    statistics::median(&each.collect::<Vec<_>>())
}

impl Outcome {
    pub fn cell(&self) -> Cell {
        Cell {
            write_bytes: self.write_bytes,
            rate: self.rate.map_or(Rate::FlatOut, Rate::BytesPerSecond),
        }
    }

    /// Whether a cell that misses its target has a floor beside it that misses it too. `None`: the cell does not, or
    /// there is none.
    pub fn floor_misses_too(&self) -> Option<bool> {
        let floor = self.floor.as_ref()?;
        let misses = self.ours.as_ref().is_none_or(Ours::misses);
        misses.then(|| floor.misses())
    }

    pub fn sentence(&self) -> String {
        let cell = self.cell().shown();
        let mut said = match (&self.ours, &self.failure) {
            (Some(ours), _) => format!("{cell}: {ours}"),
            (None, failure) => format!("{cell}: {}", failure.as_deref().unwrap_or("not measured")),
        };
        if let Some(floor) = &self.floor {
            said += &format!("; the floor beside it: {floor}");
        }
        said += match self.floor_misses_too() {
            Some(true) => "; the floor misses it too",
            Some(false) => "; the floor does not miss it",
            None => "",
        };
        if let Some(library) = &self.library {
            said += &format!("; the library's client: {library}");
        }
        said
    }
}

impl fmt::Display for Ours {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(part) = self.delivered {
            write!(to, "{part} of it, ")?;
        }
        write!(to, "p50 {} ms, p99 {} ms", self.median_ms, self.p99_ms)
    }
}

impl Report {
    pub fn rates(&self) -> Vec<Rate> {
        let mut rates: Vec<Rate> = self.cells.iter().map(|one| one.cell().rate).collect();
        rates.sort();
        rates.dedup();
        rates
    }

    pub fn sizes(&self) -> Vec<u64> {
        let mut sizes: Vec<u64> = self.cells.iter().map(|one| one.write_bytes).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    pub fn outcome(&self, rate: Rate, write_bytes: u64) -> Option<&Outcome> {
        let mut cells = self.cells.iter();
        cells.find(|one| one.cell().rate == rate && one.write_bytes == write_bytes)
    }

    pub fn failures(&self) -> Vec<String> {
        let failed = self.cells.iter().filter(|one| one.failure.is_some());
        failed.map(Outcome::sentence).collect()
    }

    /// Nodes that hold the bytes.
    pub fn copies(&self) -> u32 {
        self.nodes - self.auxiliaries
    }
}
