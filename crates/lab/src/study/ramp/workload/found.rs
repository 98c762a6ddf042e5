//! The outcome of a workload: the values that its proposers learned, and the time that it took them.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;

use super::super::decrees::Proposer;
use super::cluster::variant;
use crate::benches::kv::nodes::Nodes;
use crate::carriers::Transport;
use crate::study::rounds::Samples;
use crate::study::run::{Cell, Pair, Run, Variant};

/// The values that the proposers learned.
#[derive(Default)]
pub struct Learned {
    pub decrees: BTreeMap<u64, String>,
    /// Two proposers learned two values of one decree.
    pub split: u64,
    /// Values that were learned and do not stand in the end.
    pub lost: u64,
}

impl Learned {
    pub fn note(&mut self, decree: u64, value: String) {
        let first = self.decrees.entry(decree).or_insert_with(|| value.clone());
        self.split += u64::from(*first != value);
    }

    pub fn look_at(&mut self, nodes: &Nodes) -> Result<()> {
        for at in 0..nodes.doors.len() {
            let mut reader = Proposer::beside(at, &nodes.doors, 0);
            for (decree, value) in &self.decrees {
                self.lost += u64::from(reader.read(*decree)?.as_ref() != Some(value));
            }
        }
        Ok(())
    }
}

/// The times of each way, and counts of all of them.
#[derive(Default)]
pub struct Found {
    /// By what was done, and the way between the nodes.
    samples: BTreeMap<(String, Transport), Samples>,
    pub counts: BTreeMap<String, u64>,
    pub ended: bool,
}

impl Found {
    pub fn note(&mut self, name: &str, way: Transport, took: Duration) {
        let of = (name.to_owned(), way);
        let samples = self.samples.entry(of).or_default();
        let took = took.as_secs_f64() * 1e3;
        samples.all.push(took);
        samples.rounds.push(took);
    }

    pub fn add(&mut self, learned: &Learned) {
        for (name, count) in [
            ("decrees", learned.decrees.len() as u64),
            ("split", learned.split),
            ("lost", learned.lost),
        ] {
            *self.counts.entry(name.to_owned()).or_default() += count;
        }
    }

    /// Each variant beside one proposer of its way, and each way beside TCP.
    pub fn fill(self, run: &mut Run, machines: f64) {
        for ((name, way), samples) in &self.samples {
            let id = variant(name, *way);
            run.cells.extend(Cell::of(&id, machines, samples));
            run.variants.push(Variant {
                id: id.clone(),
                ink: "disk".to_owned(),
                transport: way.name().to_owned(),
                lag: "none".to_owned(),
            });
            let mut beside = Vec::new();
            if name != ONE {
                beside.push((ONE, *way));
            }
            if *way != Transport::Tcp && !name.ends_with("-again") {
                beside.push((name, Transport::Tcp));
            }
            for (other, by) in beside {
                let Some(of_other) = self.samples.get(&(other.to_owned(), by)) else {
                    continue;
                };
                let b = variant(other, by);
                let pair = ((&*id, samples), (&*b, of_other));
                run.pairs.extend(Pair::of(pair.0, pair.1, machines, true));
            }
        }
        run.run.complete &= !self.ended;
        run.counts = self.counts;
    }
}

/// A proposer alone.
pub const ONE: &str = "one";
