//! `ramp simulated`: the simulator's series, of machines that share nothing, and the same as figures beside a real series.

mod apart;

use std::time::{Instant, SystemTime};

use anyhow::Result;
use clap::Args;
use testbed::environment::Machine;
use testbed::scratch::go_on;
use wire::quantity;

use super::clusters::MACHINES_MAX;
use super::kinds::{Ink, Kind};
use crate::study::common::{Common, finish, new_run};
use crate::study::rounds::Samples;
use crate::study::run::{Cell, Checked, Group, Measure, Run, Variant};
use crate::study::statistics;
use apart::{Assumed, Simulated, proposals};

pub const HELP: &str = "\
In the simulator each machine has a disk and a line of its own, and time is virtual: it shows what the protocol costs where machines are apart,
which no number of processes on one machine can. The nodes are those that are shipped. No time passes in their processors, so nothing is said of
what the program costs; what a hop, a message and a durable write cost is assumed, and said. Equal seeds give equal numbers, and the numbers are
never mixed with measured ones: variants are called simulated.

Example:
  logberg-lab ramp simulated --machines 3,10,30,100 --hop-us 500";

#[derive(Debug, Args)]
pub struct Arguments {
    /// Machines [default: 3, 5, 10, 20, 30, 50, 70 and 100, or 3, 10 and 30 with --quick]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(i64::from(LEAST)..=MACHINES_MAX))]
    machines: Vec<u32>,
    /// Bytes of a proposal
    #[arg(long, value_name = "BYTES", default_value = "1k", value_parser = quantity::at_least_one)]
    size: u64,
    /// From one machine to another it takes so many µs
    #[arg(long, value_name = "N", default_value_t = Assumed::default().hop_us, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    hop_us: u64,
    /// Each message keeps its sender's line busy for so many µs, beside its bytes
    #[arg(long, value_name = "N", default_value_t = Assumed::default().message_us, value_parser = clap::value_parser!(u64).range(0..=10_000))]
    message_us: u64,
    /// A durable write takes so many µs
    #[arg(long, value_name = "N", default_value_t = Assumed::default().durable_us, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    durable_us: u64,
    #[command(flatten)]
    common: Common,
}

/// A leader, and followers of which one may be slower.
const LEAST: u32 = 3;
const INKS: [Ink; 2] = [Ink::Disk, Ink::Ram];
const ROUNDS: (u32, u32) = (200, 40);
const MACHINES: &[u32] = &[3, 5, 10, 20, 30, 50, 70, 100];
const MACHINES_QUICK: &[u32] = &[3, 10, 30];

/// One point of the series.
struct Point {
    machines: u32,
    ink: Ink,
    found: Simulated,
}

impl Point {
    fn variant(&self) -> String {
        name_of(self.ink)
    }

    fn frames_each_follower(&self) -> f64 {
        self.found.frames_each() / f64::from(self.machines - 1)
    }
}

fn name_of(ink: Ink) -> String {
    format!("simulated {}", ink.name())
}

/// All points, and whether nobody ended it before.
fn series(
    machines: &[u32],
    (bytes, count): (u64, u32),
    assumed: &Assumed,
    seed: u64,
) -> Result<(Vec<Point>, bool)> {
    let mut points = Vec::new();
    for (machines, ink) in machines.iter().flat_map(|n| INKS.map(|ink| (*n, ink))) {
        let of = (bytes as usize, count as usize);
        match proposals((machines, ink), of, assumed, seed) {
            Ok(found) => points.push(Point {
                machines,
                ink,
                found,
            }),
            Err(error) if points.is_empty() || go_on().is_ok() => return Err(error),
            Err(_) => return Ok((points, false)),
        }
    }
    Ok((points, true))
}

/// The simulated series as figures of a run that measured as many real machines.
pub fn beside(run: &mut Run, common: &Common, machines: &[u32], bytes: u64) -> Result<()> {
    let assumed = Assumed::default();
    let count = common.rounds(ROUNDS);
    let several = machines.iter().copied().filter(|count| *count >= LEAST);
    let machines: Vec<u32> = several.collect();
    if machines.is_empty() {
        return Ok(());
    }
    let (points, whole) = series(&machines, (bytes, count), &assumed, common.seed)?;
    run.run.complete &= whole;
    let times = points.iter().flat_map(|point| {
        let quantile = |part| statistics::quantile(&point.found.times_ms, part);
        let name = |name, value| measure(point, name, value);
        [("p50", quantile(0.5)), ("p99", quantile(0.99))]
            .into_iter()
            .filter_map(move |(of, value)| Some(name(of, value?)))
            .collect::<Vec<_>>()
    });
    let title = format!("Simulated, machines apart: {}", assumed.sentence());
    run.groups.push(group(&title, "ms", times.collect()));
    run.groups.push(frames(&points));
    run.checks.extend(checks(&points));
    Ok(())
}

fn measure(point: &Point, name: &str, value: f64) -> Measure {
    Measure {
        variant: point.variant(),
        x: f64::from(point.machines),
        name: name.to_owned(),
        value,
        low: value,
        high: value,
    }
}

fn group(title: &str, unit: &str, measures: Vec<Measure>) -> Group {
    Group {
        title: title.to_owned(),
        x: "machines".to_owned(),
        unit: unit.to_owned(),
        measures,
    }
}

fn frames(points: &[Point]) -> Group {
    let frames = points.iter().map(|point| {
        let frames = point.found.frames_each();
        measure(point, "of a proposal", frames)
    });
    let title = "Simulated: frames between nodes, of proposals and their acceptances";
    group(title, "frames", frames.collect())
}

fn checks(points: &[Point]) -> Vec<Checked> {
    let of_ram = || points.iter().filter(|point| point.ink == Ink::Ram);
    let middles = of_ram().filter_map(|point| {
        let middle = statistics::median(&point.found.times_ms)?;
        Some((f64::from(point.machines), middle))
    });
    let middles: Vec<(f64, f64)> = middles.collect();
    let exponent = statistics::exponent(&middles);
    let most = of_ram().max_by_key(|point| point.machines);
    let found = [
        ("exponent of machines apart, simulated", exponent),
        (
            "frames of a proposal and follower, simulated",
            most.map(Point::frames_each_follower),
        ),
    ];
    let checks = found.into_iter().filter_map(|(name, found)| {
        let found = found?;
        Checked::of(name, (found, found, found))
    });
    checks.collect()
}

impl Arguments {
    pub fn run(self, json: bool) -> Result<()> {
        let report = self.common.report.open()?;
        let machines = match (&self.machines[..], self.common.quick) {
            ([], true) => MACHINES_QUICK,
            ([], false) => MACHINES,
            (given, _) => given,
        };
        let assumed = Assumed {
            hop_us: self.hop_us,
            message_us: self.message_us,
            durable_us: self.durable_us,
            ..Assumed::default()
        };
        let count = self.common.rounds(ROUNDS);
        let scratch = self.common.place.make(0)?;
        let machine = Machine::look(scratch.path())?;
        let (began, since) = (SystemTime::now(), Instant::now());
        let seed = self.common.seed;
        let (points, whole) = series(machines, (self.size, count), &assumed, seed)?;
        let name = format!("ramp simulated, {}", assumed.sentence());
        let mut run = new_run(
            (&self.common, count),
            (&name, "machines"),
            &machine,
            (began, since.elapsed()),
        );
        run.run.complete = whole;
        run.variants = INKS
            .iter()
            .map(|ink| Variant {
                transport: "simulated".to_owned(),
                ..Kind::plain(*ink).told(&name_of(*ink))
            })
            .collect();
        run.cells = points
            .iter()
            .filter_map(|point| {
                let samples = Samples {
                    all: point.found.times_ms.clone(),
                    rounds: point.found.times_ms.clone(),
                };
                Cell::of(&point.variant(), f64::from(point.machines), &samples)
            })
            .collect();
        run.groups.push(frames(&points));
        finish(run, &self.common, (json, report), |_| checks(&points))
    }
}
