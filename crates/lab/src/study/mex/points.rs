//! Clusters that live at once, and the loads that have a turn in each round: one client, or many.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};
use clap::Args;
use testbed::environment::Machine;
use testbed::scratch::{Scratch, go_on};
use testbed::watch::Watch;
use wire::quantity;

use super::clusters::Setup;
use super::loads::{Crowd, Keys, One};
use crate::benches::kv::generator::Length;
use crate::benches::kv::nodes::Nodes;
use crate::study::common::{Common, new_run};
use crate::study::published;
use crate::study::rounds::{Draw, Samples};
use crate::study::run::{Cell, Figure, Pair, Published, Rate, Run, Variant};
use crate::study::statistics;

#[derive(Clone, Debug, Args)]
pub struct Keyed {
    /// How long many clients ask in a turn [default: 1, or 0.4 with --quick]
    #[arg(long, value_name = "SECONDS", value_parser = quantity::seconds)]
    slice: Option<f64>,
    /// Where logs are written: disk or ram
    #[arg(long, value_name = "INK", default_value = "disk", value_parser = ["disk", "ram"])]
    ink: String,
    #[command(flatten)]
    pub common: Common,
}

/// Rounds of a whole run, and of a quick one. Of twelve the third and the tenth are the interval, which the two that lie furthest out do not move.
const ROUNDS: (u32, u32) = (12, 6);
const SLICE_SECONDS: (f64, f64) = (1.0, 0.4);
const WARM_UP: Duration = Duration::from_millis(100);
/// Commands of a turn of one client that count; one goes before them.
const COUNTED: usize = 20;
/// The clients of the paper's system throughput.
pub const CROWD: u32 = 35;
/// More nodes on a machine of this kind are too many at once.
const AT_ONCE_MAX: u32 = 45;
/// A replica writes so much to its log and its rows in a second of full load, and less was seen; and a node has so much in the making.
const REPLICA_BYTES_PER_S: f64 = 8e6;
const NODE_BYTES_MIN: u64 = 128 << 20;

/// One variant at one place of the x axis.
#[derive(Clone, Debug)]
pub struct Point {
    variant: String,
    x: f64,
    /// Which cluster.
    setup: usize,
    keys: Keys,
    load: Load,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Load {
    One,
    Crowd(u32),
}

impl Load {
    fn figure(self) -> Figure {
        match self {
            Load::One => Figure::Time,
            Load::Crowd(_) => Figure::Rate,
        }
    }
}

pub struct Experiment<'a> {
    name: &'static str,
    x: &'static str,
    keyed: &'a Keyed,
    setups: Vec<Setup>,
    points: Vec<Point>,
    pub published: Vec<Published>,
}

/// Milliseconds of one client, or commands a second of many, of each point.
type Found = Vec<Samples>;

impl Keyed {
    pub fn setup(&self, groups: u16, replicas: u32) -> Setup {
        let mut setup = Setup::of(groups, replicas);
        if self.ink == "ram" {
            setup.arguments = ["--ink", "ram"].map(str::to_owned).to_vec();
        }
        setup
    }

    fn length(&self) -> Length {
        let (whole, quick) = SLICE_SECONDS;
        let usual = if self.common.quick { quick } else { whole };
        Length {
            warm_up: WARM_UP,
            counted: Duration::from_secs_f64(self.slice.unwrap_or(usual)),
        }
    }

    fn rounds(&self) -> u32 {
        self.common.rounds(ROUNDS)
    }
}

impl<'a> Experiment<'a> {
    pub fn new(name: &'static str, x: &'static str, keyed: &'a Keyed) -> Experiment<'a> {
        Experiment {
            name,
            x,
            keyed,
            setups: Vec::new(),
            points: Vec::new(),
            published: Vec::new(),
        }
    }

    pub fn is_quick(&self) -> bool {
        self.keyed.common.quick
    }

    /// A cluster with the ink of this experiment.
    pub fn usual(&self, groups: u16, replicas: u32) -> Setup {
        self.keyed.setup(groups, replicas)
    }

    pub fn add_setup(&mut self, setup: Setup) -> usize {
        self.setups.push(setup);
        self.setups.len() - 1
    }

    pub fn add(
        &mut self,
        variant: impl Into<String>,
        x: f64,
        setup: usize,
        keys: Keys,
        load: Load,
    ) {
        self.points.push(Point {
            variant: variant.into(),
            x,
            setup,
            keys,
            load,
        });
    }

    /// One key, many keys, and many once more, each with one client and with the paper's crowd.
    pub fn add_all(&mut self, x: f64, setup: usize) {
        for load in [Load::One, Load::Crowd(CROWD)] {
            for keys in [Keys::One, Keys::Many] {
                self.add(keys.name(), x, setup, keys, load);
            }
            let again = format!("{}-again", Keys::Many.name());
            self.add(again, x, setup, Keys::Many, load);
        }
    }

    /// Has the paper's numbers of this item beside ours, those of which x is a number.
    pub fn publish(&mut self, item: &str) {
        let numbers = published::of("mex", item);
        self.published
            .extend(numbers.iter().filter_map(Published::of));
    }

    pub fn measure(&self) -> Result<Run> {
        let nodes = |setup: &Setup| setup.nodes();
        let all: u32 = self.setups.iter().map(nodes).sum();
        // A slice writes to the replicas of its own groups.
        let crowds = self.points.iter().filter(|point| point.load != Load::One);
        let replicas = crowds.map(|point| f64::from(self.setups[point.setup].replicas));
        let slice = (self.keyed.length().counted + WARM_UP).as_secs_f64();
        let written =
            replicas.sum::<f64>() * slice * f64::from(self.keyed.rounds()) * REPLICA_BYTES_PER_S;
        let common = &self.keyed.common;
        let scratch = common
            .place
            .make(u64::from(all) * NODE_BYTES_MIN + written as u64)?;
        let machine = Machine::look(scratch.path())?;
        machine.warn_if_no_disk();
        let steps = u64::from(self.keyed.rounds()) * self.points.len() as u64;
        let watch = Watch::new(steps);
        let (began, since) = (SystemTime::now(), Instant::now());
        let mut found = vec![Samples::default(); self.points.len()];
        let beside = all <= AT_ONCE_MAX;
        let mut draw = Draw::new(common.seed);
        let measured = match beside {
            true => {
                let which: Vec<usize> = (0..self.setups.len()).collect();
                self.live(&which, (&scratch, &watch), &mut draw, &mut found)
            }
            false => (0..self.setups.len()).try_for_each(|setup| {
                self.live(&[setup], (&scratch, &watch), &mut draw, &mut found)
            }),
        };
        drop(watch);
        let has_some = found.iter().any(|samples| !samples.rounds.is_empty());
        // A run that somebody asked to end keeps what it measured, and is marked.
        if let Err(error) = measured
            && (!has_some || go_on().is_ok())
        {
            return Err(error);
        }
        let named = (self.name, self.x);
        let mut run = new_run(
            (common, self.keyed.rounds()),
            named,
            &machine,
            (began, since.elapsed()),
        );
        self.fill(&mut run, &found, beside);
        Ok(run)
    }

    /// These clusters live at once; each point of theirs has a turn in every round.
    fn live(
        &self,
        setups: &[usize],
        (scratch, watch): (&Scratch, &Watch),
        draw: &mut Draw,
        found: &mut Found,
    ) -> Result<()> {
        let mut started: BTreeMap<usize, Nodes> = BTreeMap::new();
        for setup in setups {
            go_on()?;
            let of = &self.setups[*setup];
            watch.says(format!("starting {} nodes: {}", of.nodes(), of.name()));
            let directory = scratch.path().join(format!("setup-{setup}"));
            started.insert(*setup, of.start(directory)?);
        }
        let here = |point: &Point| setups.contains(&point.setup);
        let points = self.points.iter().enumerate();
        let mut order: Vec<usize> = points
            .filter(|(_, point)| here(point))
            .map(|(at, _)| at)
            .collect();
        watch.says("writing keys".to_owned());
        let mut turns = Turns::default();
        for at in &order {
            let point = &self.points[*at];
            let nodes = started.get(&point.setup).context("it is started")?;
            turns.prepare(point, &nodes.doors)?;
        }
        for _ in 0..self.keyed.rounds() {
            draw.shuffle(&mut order);
            for at in &order {
                go_on()?;
                let point = &self.points[*at];
                watch.says(format!("{}, {} {}", point.variant, point.x, self.x));
                let turn = turns.take(point, self.keyed.length())?;
                found[*at].rounds.extend(statistics::median(&turn));
                found[*at].all.extend(turn);
                watch.step(1);
            }
        }
        drop((turns, started));
        for setup in setups {
            scratch.retire(&scratch.path().join(format!("setup-{setup}")))?;
        }
        Ok(())
    }

    fn fill(&self, run: &mut Run, found: &Found, beside: bool) {
        let mut seen = Vec::new();
        for (point, samples) in self.points.iter().zip(found) {
            if !seen.contains(&&point.variant) {
                seen.push(&point.variant);
                run.variants.push(Variant {
                    id: point.variant.clone(),
                    ink: self.keyed.ink.clone(),
                    transport: "tcp".to_owned(),
                    lag: "none".to_owned(),
                });
            }
            match point.load {
                Load::One => run.cells.extend(Cell::of(&point.variant, point.x, samples)),
                Load::Crowd(_) => {
                    run.rates
                        .extend(Rate::of(&point.variant, point.x, &samples.rounds))
                }
            }
            run.run.complete &= samples.rounds.len() == self.keyed.rounds() as usize;
        }
        // Beside the variant of that name, or of its name's beginning.
        for (point, samples) in self.points.iter().zip(found) {
            let Some(other) = self.base_of(point) else {
                continue;
            };
            let base = self.points.iter().zip(found).find(|(base, _)| {
                base.variant == other
                    && base.x == point.x
                    && base.load.figure() == point.load.figure()
            });
            let pair = base.and_then(|(base, of_base)| {
                let a = (&*point.variant, samples);
                let mut pair = Pair::of(a, (&base.variant, of_base), point.x, beside)?;
                pair.figure = point.load.figure();
                Some(pair)
            });
            run.pairs.extend(pair);
        }
        run.published = self.published.clone();
    }

    /// The variant beside which this one is set.
    fn base_of(&self, point: &Point) -> Option<String> {
        match point.variant.strip_suffix("-again") {
            Some(base) => Some(base.to_owned()),
            None if point.variant.ends_with(Keys::One.name()) => {
                Some(point.variant.replace(Keys::One.name(), Keys::Many.name()))
            }
            // A cluster of another kind is set beside the usual one.
            None => {
                let keys = Keys::Many.name();
                let (base, _) = point.variant.split_once(&format!("{keys}, "))?;
                Some(format!("{base}{keys}"))
            }
        }
    }
}

/// The loads of all clusters that live.
#[derive(Default)]
struct Turns {
    ones: BTreeMap<(usize, bool), One>,
    crowds: BTreeMap<(usize, bool), Crowd>,
}

impl Turns {
    fn prepare(&mut self, point: &Point, doors: &[String]) -> Result<()> {
        let at = (point.setup, point.keys == Keys::One);
        match point.load {
            Load::One if !self.ones.contains_key(&at) => {
                self.ones.insert(at, One::of(doors, point.keys)?);
            }
            Load::Crowd(_) if !self.crowds.contains_key(&at) => {
                self.crowds.insert(at, Crowd::of(doors, point.keys)?);
            }
            _ => {}
        }
        Ok(())
    }

    fn take(&mut self, point: &Point, length: Length) -> Result<Vec<f64>> {
        let at = (point.setup, point.keys == Keys::One);
        match point.load {
            Load::One => {
                let one = self.ones.get_mut(&at).context("it is prepared")?;
                one.propose()?;
                (0..COUNTED)
                    .map(|_| Ok(one.propose()?.as_secs_f64() * 1e3))
                    .collect()
            }
            Load::Crowd(clients) => {
                let crowd = self.crowds.get_mut(&at).context("it is prepared")?;
                Ok(vec![crowd.slice(clients, length)?])
            }
        }
    }
}

/// The ratio of one variant at two places, round by round.
pub fn between(
    run: &Run,
    variant: &str,
    figure: Figure,
    (a, b): (f64, f64),
) -> Option<(f64, f64, f64)> {
    let rounds = |x: f64| -> Option<Vec<f64>> {
        match figure {
            Figure::Rate => {
                let mut rates = run.rates.iter();
                let found = rates.find(|rate| rate.variant == variant && rate.x == x)?;
                Some(found.slices_per_s.clone())
            }
            Figure::Time => {
                let mut cells = run.cells.iter();
                let found = cells.find(|cell| cell.variant == variant && cell.x == x)?;
                let turns = found.samples_ms.chunks(COUNTED);
                Some(turns.filter_map(statistics::median).collect())
            }
        }
    };
    let (a, b) = (rounds(a)?, rounds(b)?);
    let pairs: Vec<(f64, f64)> = a.into_iter().zip(b).collect();
    let ratio = statistics::ratio(&pairs)?;
    Some((ratio.ratio, ratio.low, ratio.high))
}
