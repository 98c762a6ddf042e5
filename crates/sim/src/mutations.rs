//! Can it see? One rule after the other is broken on purpose, and the default workload is run seed
//! by seed until somebody notices.
//!
//! ```text
//! seeds A..B ─▶ first that shows a violation ─┐
//! seeds B..C ─▶ first …                       ├─▶ median number of seeds to find it, and who saw it
//! seeds C..D ─▶ first …                       ┘
//! ```
//!
//! A rule is broken in the whole process ([`paxos::mutation`]), so one search runs at a time.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use paxos::mutation::{self, Mutation};
use serde::Serialize;

use crate::workload::{Checker, Options, Violation, run};

/// The seeds to search for a mutation, and the number of repetitions.
#[derive(Clone, Debug)]
pub struct Search {
    /// The first range; every repetition takes the next one of the same length.
    pub seeds: Range<u64>,
    pub repeats: u64,
    /// The asserts of the engine and the node. Without them, only checkers that look from outside can notice.
    pub asserts: bool,
    /// Threads.
    pub jobs: usize,
}

/// One repetition's first seed at which somebody noticed.
#[derive(Clone, Debug, Serialize)]
pub struct Sighting {
    pub seed: u64,
    /// Seeds run up to this one, it included.
    pub tried: u64,
    pub checker: Checker,
    pub text: String,
    /// In our source; empty if nothing panicked.
    pub location: String,
}

/// The result of looking for one mutation.
#[derive(Clone, Debug)]
pub struct Row {
    pub mutation: Mutation,
    /// One for each repetition; `None` where its whole range showed nothing.
    pub sightings: Vec<Option<Sighting>>,
}

/// While it lives the rule is broken; one at a time.
pub struct Broken(#[expect(dead_code, reason = "held")] MutexGuard<'static, ()>);

static ONE: Mutex<()> = Mutex::new(());

impl Broken {
    pub fn new(mutation: Option<Mutation>, asserts: bool) -> Broken {
        // A search that panicked broke nothing but its own rule, which is set anew.
        let guard = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        mutation::select(mutation);
        mutation::set_asserts(asserts);
        Broken(guard)
    }
}

impl Drop for Broken {
    fn drop(&mut self) {
        mutation::select(None);
        mutation::set_asserts(true);
    }
}

impl Search {
    /// Looks for one mutation.
    pub fn look_for(&self, mutation: Mutation) -> Row {
        let _broken = Broken::new(Some(mutation), self.asserts);
        let sightings = (0..self.repeats).map(|repeat| self.first_sighting(repeat, 0));
        Row {
            mutation,
            sightings: sightings.collect(),
        }
    }

    /// The result that this search, made with asserts, would have had without. A run is the same until the
    /// first assert fails: only where one of ours did is there anything to look for.
    pub fn without_asserts(&self, row: &Row) -> Row {
        let _broken = Broken::new(Some(row.mutation), false);
        let again = |(repeat, sighting): (u64, &Option<Sighting>)| match sighting {
            Some(sighting) if sighting.is_from_inside() => {
                self.first_sighting(repeat, sighting.tried - 1)
            }
            other => other.clone(),
        };
        Row {
            mutation: row.mutation,
            sightings: (0..).zip(&row.sightings).map(again).collect(),
        }
    }

    /// The first `skipped` seeds show nothing.
    fn first_sighting(&self, repeat: u64, skipped: u64) -> Option<Sighting> {
        let length = self.seeds.end.saturating_sub(self.seeds.start);
        let start = self.seeds.start + repeat * length;
        let violation = first_violation(start + skipped..start + length, self.jobs)?;
        Some(Sighting {
            seed: violation.seed,
            tried: violation.seed - start + 1,
            checker: violation.checker,
            text: violation.text,
            location: violation.location,
        })
    }
}

impl Sighting {
    /// By an assert of the engine or the node, perhaps one that can be turned off.
    fn is_from_inside(&self) -> bool {
        let place = self.location.replace('\\', "/");
        [
            "paxos/src/",
            "formats/src/",
            "store/src/",
            "replica/src/",
            "node/src/",
        ]
        .iter()
        .any(|part| place.contains(part))
    }
}

/// The violation of the least seed that shows one.
pub fn first_violation(seeds: Range<u64>, jobs: usize) -> Option<Violation> {
    let next = AtomicU64::new(seeds.start);
    let end = AtomicU64::new(seeds.end);
    let first: Mutex<Option<Violation>> = Mutex::new(None);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end.load(Ordering::Relaxed) {
                return;
            }
            if let Err(violation) = run(&Options::new(seed)) {
                end.fetch_min(seed, Ordering::Relaxed);
                let mut first = first.lock().unwrap_or_else(PoisonError::into_inner);
                if first.as_ref().is_none_or(|first| seed < first.seed) {
                    *first = Some(violation);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(work);
        }
    });
    first.into_inner().unwrap_or_else(PoisonError::into_inner)
}

impl Row {
    /// In the first range.
    pub fn first(&self) -> Option<&Sighting> {
        self.sightings.first()?.as_ref()
    }

    /// Seeds until it was found; `None` if that is more than a range in half of the repetitions.
    pub fn median(&self) -> Option<u64> {
        let tried = |s: &Option<Sighting>| s.as_ref().map_or(u64::MAX, |s| s.tried);
        let mut tried: Vec<u64> = self.sightings.iter().map(tried).collect();
        tried.sort_unstable();
        let median = *tried.get(tried.len() / 2)?;
        (median < u64::MAX).then_some(median)
    }

    /// The checkers that saw it, the most frequent first.
    pub fn checkers(&self) -> Vec<Checker> {
        let mut counts: BTreeMap<Checker, usize> = BTreeMap::new();
        for sighting in self.sightings.iter().flatten() {
            *counts.entry(sighting.checker).or_default() += 1;
        }
        let mut checkers: Vec<(Checker, usize)> = counts.into_iter().collect();
        checkers.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        checkers.into_iter().map(|(checker, _)| checker).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(tried: &[Option<u64>]) -> Row {
        let sighting = |tried: &Option<u64>| {
            tried.map(|tried| Sighting {
                seed: tried,
                tried,
                checker: Checker::Readers,
                text: String::new(),
                location: String::new(),
            })
        };
        Row {
            mutation: Mutation::ALL[0],
            sightings: tried.iter().map(sighting).collect(),
        }
    }

    #[test]
    fn what_was_not_found_counts_as_more_than_any_number_of_seeds() {
        assert_eq!(row(&[Some(9), Some(1), Some(5)]).median(), Some(5));
        assert_eq!(row(&[Some(9), None, Some(5)]).median(), Some(9));
        assert_eq!(row(&[Some(9), None, None]).median(), None);
        assert_eq!(row(&[]).median(), None);
    }
    #[test]
    fn only_where_an_assert_of_ours_failed_there_is_more_to_see_without() {
        let mut sighting = row(&[Some(3)]).sightings[0].clone().expect("it was seen");
        assert!(!sighting.is_from_inside(), "nothing panicked");
        sighting.location = "crates/sim/src/witness/wire.rs:7".to_owned();
        assert!(!sighting.is_from_inside());
        sighting.location = "crates/node/src/inspect.rs:7".to_owned();
        assert!(sighting.is_from_inside());
    }
}
