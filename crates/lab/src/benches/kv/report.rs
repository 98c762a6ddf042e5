//! The report: for each load the medians of its turns, beside those of rivals.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Serialize;

use super::beside::Beside;
use super::failover::Failover;
use super::goals::Goal;
use super::idle::Idle;
use super::load::{Load, Op, Turn};
use super::moved::Moves;
use super::roles::OfRoles;
use super::turns::{Rival, Turns};
use bench::figures::Figures;
use bench::latency::{median, rounded};
use testbed::environment::Machine;
use testbed::scratch::go_on;

#[derive(Debug, Serialize)]
pub struct Report {
    pub bench: &'static str,
    pub keys: u32,
    pub key_bytes: usize,
    pub value_bytes: usize,
    pub seconds: f64,
    pub times: u32,
    /// Three groups, each led by another node.
    pub cells: Vec<Cell>,
    /// One group.
    pub roles: Option<Vec<OfRoles>>,
    pub failover: Option<Failover>,
    pub idle: Option<Idle>,
    pub beside: Vec<Beside>,
    pub moves: Option<Moves>,
    pub goals: Vec<Goal>,
    /// The ways to get the rivals that are not installed, and why others did not start.
    pub skipped: Vec<String>,
    pub machine: Machine,
}

#[derive(Debug, Serialize)]
pub struct Cell {
    #[serde(flatten)]
    pub load: Load,
    #[serde(flatten)]
    pub figures: Figures,
    pub errors: u64,
    /// Values that were read and cannot be.
    pub wrong: u64,
    /// The reason of the last of these.
    pub why: Option<String>,
    pub rivals: BTreeMap<&'static str, OfRival>,
    pub raw_append_p50_ms: Option<f64>,
    pub p50_of_raw_append: Option<f64>,
    pub turns: Vec<Figures>,
}

#[derive(Debug, Serialize)]
pub struct OfRival {
    #[serde(skip)]
    pub name: &'static str,
    #[serde(flatten)]
    pub figures: Figures,
    /// Ours, as a multiple of its.
    pub we_ops_ratio: Option<f64>,
    pub we_p50_ratio: Option<f64>,
    pub we_cpu_ratio: Option<f64>,
    pub errors: u64,
    pub failures: Vec<String>,
    pub turns: Vec<Figures>,
}

impl Cell {
    pub fn new(turns: Turns) -> Cell {
        let Turns {
            load,
            we,
            raw_p50_ms,
            rivals,
        } = turns;
        let figures = medians(&we);
        let raw = (!raw_p50_ms.is_empty()).then(|| rounded(median(raw_p50_ms)));
        let p50 = figures.get("p50_ms");
        let of_rival = |rival: Rival| (rival.who.key(), OfRival::new(rival, &figures));
        Cell {
            load,
            rivals: rivals.into_iter().map(of_rival).collect(),
            errors: we.iter().map(|turn| turn.failed).sum(),
            wrong: we.iter().map(|turn| turn.wrong).sum(),
            why: we.iter().rev().find_map(|turn| turn.why.clone()),
            raw_append_p50_ms: raw,
            p50_of_raw_append: ratio(p50, raw),
            figures,
            turns: we.into_iter().map(|turn| turn.figures).collect(),
        }
    }
}

impl OfRival {
    fn new(rival: Rival, ours: &Figures) -> OfRival {
        let figures = medians(&rival.turns);
        let of = |name| ratio(ours.get(name), figures.get(name));
        OfRival {
            name: rival.who.name(),
            we_ops_ratio: of("ops_per_s"),
            we_p50_ratio: of("p50_ms"),
            we_cpu_ratio: of("cpu_us_per_op"),
            errors: rival
                .turns
                .iter()
                .map(|turn| turn.failed + turn.wrong)
                .sum(),
            failures: rival.failures,
            figures,
            turns: rival.turns.into_iter().map(|turn| turn.figures).collect(),
        }
    }
}

impl Report {
    pub fn cell(&self, op: Op, clients: u32, pipeline: u32) -> Option<&Cell> {
        let load = Load {
            op,
            clients,
            pipeline,
        };
        self.cells.iter().find(|cell| cell.load == load)
    }

    /// A rival that does not start is skipped, and said to be.
    pub fn started<T>(&mut self, rival: Result<T>) -> Result<Option<T>> {
        match rival {
            Ok(rival) => Ok(Some(rival)),
            Err(error) => {
                // Asked to end, and not a rival that cannot start.
                go_on()?;
                self.skipped.push(format!("{error:#}"));
                Ok(None)
            }
        }
    }

    /// Values that were read and cannot be, and answered ones that are gone.
    pub fn wrong(&self) -> u64 {
        let cells: u64 = self.cells.iter().map(|cell| cell.wrong).sum();
        let roles: u64 = self.roles.iter().flatten().map(|of| of.wrong).sum();
        let lost = self.failover.as_ref().map_or(0, |failover| failover.lost);
        let moves = self.moves.as_ref();
        let moves = moves.map_or(0, |moves| moves.under_load.iter().map(|of| of.wrong).sum());
        cells + roles + lost + moves
    }
}

fn medians(turns: &[Turn]) -> Figures {
    let all: Vec<&Figures> = turns.iter().map(|turn| &turn.figures).collect();
    Figures::median(&all)
}

fn ratio(ours: Option<f64>, theirs: Option<f64>) -> Option<f64> {
    let ratio = ours? / theirs?;
    ratio.is_finite().then(|| rounded(ratio))
}
