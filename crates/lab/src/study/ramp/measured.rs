//! An experiment: its variants, beside which the others are set, and what was found of them. `places` goes through the x axis.

mod places;

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Result;
use testbed::environment::Machine;
use testbed::scratch::{Scratch, go_on};
use testbed::watch::Watch;

use super::kinds::{Ink, Kind};
use crate::study::common::{Common, new_run};
use crate::study::published::{self, Number};
use crate::study::rounds::{COUNTED, Draw, Samples};
use crate::study::run::{Cell, Pair, Published, Run};

/// Rounds of a whole run, and of a quick one.
pub const ROUNDS: (u32, u32) = (200, 40);
/// A node keeps no more than retention lets it, and has two segments in the making.
const PER_NODE_BYTES_MAX: u64 = 512 << 20;
/// The directory's log, and what a segment begins with.
const PER_NODE_BYTES_MIN: u64 = 16 << 20;

pub struct Experiment<'a> {
    name: String,
    x: &'static str,
    common: &'a Common,
    /// With their ids; the last one is another one again.
    variants: Vec<(String, Kind)>,
    /// Beside which the others are set.
    base: String,
    also: Vec<(String, String)>,
    published: Vec<Number>,
}

/// Frames by kind.
type Counted = BTreeMap<String, carrier::Amount>;

struct Found {
    counts: BTreeMap<String, u64>,
    cells: Vec<Cell>,
    pairs: Vec<Pair>,
    complete: bool,
}

impl<'a> Experiment<'a> {
    pub fn new(
        name: &str,
        x: &'static str,
        common: &'a Common,
        kinds: &[Kind],
        base: &str,
    ) -> Experiment<'a> {
        let mut variants: Vec<(String, Kind)> =
            kinds.iter().map(|kind| (kind.id(), *kind)).collect();
        let again = variants.iter().find(|(id, _)| id == base).cloned();
        variants.extend(again.map(|(id, kind)| (format!("{id}-again"), kind)));
        Experiment {
            name: name.to_owned(),
            x,
            common,
            variants,
            base: base.to_owned(),
            also: Vec::new(),
            published: Vec::new(),
        }
    }

    /// Has the paper's numbers of this item beside ours.
    pub fn published(&mut self, item: &str, series: &[&str]) {
        let numbers = published::of("ramp", item);
        let numbers = numbers.into_iter();
        self.published
            .extend(numbers.filter(|number| series.contains(&number.series)));
    }

    /// Compares these two, too.
    pub fn also_pair(&mut self, a: &str, b: &str) {
        self.also.push((a.to_owned(), b.to_owned()));
    }

    /// Whether it differs from the base by its ink and transport alone.
    fn is_like_the_base(&self, id: &str) -> bool {
        let lag = |wanted: &str| {
            let found = self.variants.iter().find(|(id, _)| id == wanted);
            found.map(|(_, kind)| kind.lag)
        };
        lag(id) == lag(&self.base)
    }

    fn rounds(&self) -> u32 {
        self.common.rounds(ROUNDS)
    }

    fn ids(&self) -> Vec<String> {
        self.variants.iter().map(|(id, _)| id.clone()).collect()
    }

    fn note(&self, found: &mut Found, x: f64, ids: &[String], samples: &[Samples], beside: bool) {
        let named = || ids.iter().zip(samples);
        found
            .cells
            .extend(named().filter_map(|(id, samples)| Cell::of(id, x, samples)));
        let of = |wanted: &str| named().find(|(id, _)| *id == wanted);
        let mut pairs: Vec<(&str, &str)> = ids
            .iter()
            .filter(|id| **id != self.base && self.is_like_the_base(id))
            .map(|id| (&**id, &*self.base))
            .collect();
        pairs.extend(self.also.iter().map(|(a, b)| (&**a, &**b)));
        // The other way round is the same pair.
        pairs.retain(|(a, b)| !self.also.iter().any(|(c, d)| (a, b) == (&&**d, &&**c)));
        found.pairs.extend(pairs.into_iter().filter_map(|(a, b)| {
            let (a, b) = (of(a)?, of(b)?);
            Pair::of((a.0, a.1), (b.0, b.1), x, beside)
        }));
        let wanted = self.rounds() as usize;
        found.complete &= samples
            .iter()
            .all(|samples| samples.all.len() == wanted * COUNTED);
    }

    fn around(
        &self,
        (machines, bytes): (u32, u64),
        measure: impl FnOnce(&Scratch, &Watch, &mut Draw, &mut Found) -> Result<()>,
        places: usize,
    ) -> Result<Run> {
        let on_disk = self
            .variants
            .iter()
            .filter(|(_, kind)| kind.ink == Ink::Disk);
        let nodes = on_disk.count() as u64 * u64::from(machines);
        let proposals = u64::from(self.rounds()) * (COUNTED as u64 + 1);
        let each = PER_NODE_BYTES_MIN + proposals.saturating_mul(bytes);
        let scratch = self
            .common
            .place
            .make(nodes * each.min(PER_NODE_BYTES_MAX))?;
        let machine = Machine::look(scratch.path())?;
        machine.warn_if_no_disk();
        let steps = u64::from(self.rounds()) * self.variants.len() as u64 * places as u64;
        let watch = Watch::new(steps);
        let mut found = Found {
            counts: BTreeMap::new(),
            cells: Vec::new(),
            pairs: Vec::new(),
            complete: true,
        };
        let (began, since) = (SystemTime::now(), Instant::now());
        let measured = measure(
            &scratch,
            &watch,
            &mut Draw::new(self.common.seed),
            &mut found,
        );
        drop(watch);
        // A run that somebody asked to end keeps what it measured, and is marked.
        match measured {
            Err(error) if found.cells.is_empty() || go_on().is_ok() => return Err(error),
            Err(_) => found.complete = false,
            Ok(()) => found.complete &= go_on().is_ok(),
        }
        Ok(self.run(found, &machine, began, since.elapsed()))
    }

    fn run(&self, found: Found, machine: &Machine, began: SystemTime, took: Duration) -> Run {
        let mut run = new_run(
            (self.common, self.rounds()),
            (&self.name, self.x),
            machine,
            (began, took),
        );
        run.run.complete = found.complete;
        run.variants = self
            .variants
            .iter()
            .map(|(id, kind)| kind.told(id))
            .collect();
        run.counts = found.counts;
        run.cells = found.cells;
        run.pairs = found.pairs;
        run.published = self.published.iter().filter_map(Published::of).collect();
        run
    }
}
