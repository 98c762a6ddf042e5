//! The places of the x axis, one after the other: all variants at once where the machine holds them, or one cluster after the other.

use anyhow::Result;
use testbed::scratch::{Scratch, go_on};
use testbed::watch::Watch;

use super::super::clusters::Variant;
use super::super::kinds::Kind;
use super::{Counted, Experiment, Found};
use crate::carriers::{self, Transport};
use crate::study::rounds::{COUNTED, Draw, Proposer, Samples, take_turns};
use crate::study::run::Run;

/// More nodes on a machine of this kind are too many at once.
const AT_ONCE_MAX: u32 = 60;

impl Experiment<'_> {
    /// One set of clusters for all sizes.
    pub fn by_size(&self, machines: u32, sizes: &[u64]) -> Result<Run> {
        self.around(
            (machines, sizes.iter().sum()),
            |scratch, watch, draw, found| {
                if machines * self.variants.len() as u32 > AT_ONCE_MAX {
                    return self.sizes_apart((scratch, watch), (machines, sizes), draw, found);
                }
                let mut variants = self.start(scratch, &format!("{machines}"), machines, watch)?;
                let mut appends = taken(&mut variants);
                for size in sizes {
                    watch.says(format!("{size} B"));
                    let before = self.counts(&variants)?;
                    let complete =
                        self.turns(&mut appends, *size, draw, watch, |ids, samples| {
                            self.note(found, *size as f64, ids, samples, true);
                        })?;
                    let after = self.counts(&variants)?;
                    if let (true, Some(before), Some(after)) = (complete, before, after) {
                        self.note_counts(found, *size, &before, &after);
                    }
                    if !complete {
                        break;
                    }
                }
                Ok(())
            },
            sizes.len(),
        )
    }

    /// Clusters of their own for each number of machines.
    pub fn by_machines(&self, machines: &[u32], size: u64) -> Result<Run> {
        let most = machines.iter().copied().max().unwrap_or(0);
        self.around(
            (most, size * machines.len() as u64),
            |scratch, watch, draw, found| {
                for count in machines {
                    let name = format!("{count}");
                    watch.says(format!("starting {count} nodes for each variant"));
                    if count * self.variants.len() as u32 <= AT_ONCE_MAX {
                        let mut variants = self.start(scratch, &name, *count, watch)?;
                        let mut appends = taken(&mut variants);
                        watch.says(format!("{count} machines"));
                        self.turns(&mut appends, size, draw, watch, |ids, samples| {
                            self.note(found, f64::from(*count), ids, samples, true);
                        })?;
                    } else {
                        self.one_after_the_other((scratch, watch), (*count, size), draw, found)?;
                    }
                    if go_on().is_err() {
                        break;
                    }
                }
                Ok(())
            },
            machines.len(),
        )
    }

    /// One cluster after the other, each with all sizes.
    fn sizes_apart(
        &self,
        (scratch, watch): (&Scratch, &Watch),
        (machines, sizes): (u32, &[u64]),
        draw: &mut Draw,
        found: &mut Found,
    ) -> Result<()> {
        let mut all: Vec<Vec<Samples>> = vec![Vec::new(); sizes.len()];
        for (id, kind) in &self.variants {
            watch.says(format!("{machines} machines, {id}"));
            let directory = scratch.path().join(format!("{machines}-{id}"));
            let mut variant = Variant::start(*kind, directory.clone(), machines)?;
            let mut appends = taken(std::slice::from_mut(&mut variant));
            for (of_size, size) in all.iter_mut().zip(sizes) {
                let rounds = (self.rounds(), *size as usize);
                let (samples, complete) = take_turns(&mut appends, rounds, draw, || watch.step(1))?;
                found.complete &= complete;
                of_size.extend(samples);
            }
            drop((appends, variant));
            scratch.retire(&directory)?;
            if !found.complete {
                break;
            }
        }
        for (samples, size) in all.iter().zip(sizes) {
            let ids = &self.ids()[..samples.len()];
            self.note(found, *size as f64, ids, samples, false);
        }
        Ok(())
    }

    fn one_after_the_other(
        &self,
        (scratch, watch): (&Scratch, &Watch),
        (count, size): (u32, u64),
        draw: &mut Draw,
        found: &mut Found,
    ) -> Result<()> {
        let mut all = Vec::new();
        for (id, kind) in &self.variants {
            watch.says(format!("{count} machines, {id}"));
            let directory = scratch.path().join(format!("{count}-{id}"));
            let mut variant = match Variant::start(*kind, directory.clone(), count) {
                Ok(variant) => variant,
                Err(error) if go_on().is_ok() => return Err(error),
                // Somebody asked it to end, and it keeps the clusters before.
                Err(_) => {
                    found.complete = false;
                    break;
                }
            };
            let mut appends = taken(std::slice::from_mut(&mut variant));
            let rounds = (self.rounds(), size as usize);
            let (mut samples, complete) = take_turns(&mut appends, rounds, draw, || watch.step(1))?;
            found.complete &= complete;
            all.append(&mut samples);
            drop((appends, variant));
            scratch.retire(&directory)?;
            if !complete {
                break;
            }
        }
        self.note(
            found,
            f64::from(count),
            &self.ids()[..all.len()],
            &all,
            false,
        );
        Ok(())
    }

    fn start(
        &self,
        scratch: &Scratch,
        name: &str,
        machines: u32,
        watch: &Watch,
    ) -> Result<Vec<Variant>> {
        let mut started = Vec::new();
        for (id, kind) in &self.variants {
            go_on()?;
            watch.says(format!("starting {machines} nodes: {id}"));
            let directory = scratch.path().join(format!("{name}-{id}"));
            started.push(Variant::start(*kind, directory, machines)?);
        }
        Ok(started)
    }

    fn turns(
        &self,
        appends: &mut [Box<dyn Proposer>],
        size: u64,
        draw: &mut Draw,
        watch: &Watch,
        note: impl FnOnce(&[String], &[Samples]),
    ) -> Result<bool> {
        let rounds = (self.rounds(), size as usize);
        let steps = self.variants.len() as u64;
        let (samples, complete) = take_turns(appends, rounds, draw, || watch.step(steps))?;
        note(&self.ids(), &samples);
        Ok(complete)
    }

    /// The frames so far of the first variant that counts them.
    fn counts(&self, variants: &[Variant]) -> Result<Option<Counted>> {
        let counts = |(_, kind): &&(String, Kind)| kind.transport == Transport::Count;
        let mut all = self.variants.iter().zip(variants);
        let found = all.find(|(named, _)| counts(named));
        let counted = found.map(|(_, variant)| carriers::counts_of(variant.addresses()));
        counted.transpose()
    }

    fn note_counts(&self, found: &mut Found, size: u64, before: &Counted, after: &Counted) {
        let proposals = u64::from(self.rounds()) * (COUNTED as u64 + 1);
        for (kind, amount) in carriers::by_kind(before, after) {
            let hundredfold = amount.frames * 100 / proposals;
            let frames = format!("{size} B: {kind}, frames of 100 proposals");
            found.counts.insert(frames, hundredfold);
            let bytes = format!("{size} B: {kind}, bytes of a proposal");
            found.counts.insert(bytes, amount.bytes / proposals);
        }
    }
}

fn taken(variants: &mut [Variant]) -> Vec<Box<dyn Proposer>> {
    variants.iter_mut().filter_map(Variant::take).collect()
}
