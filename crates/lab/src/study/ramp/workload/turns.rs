//! Workloads a, b and d: decrees of one proposer, and of several, in an order that is drawn anew in each round.

use std::sync::Barrier;
use std::time::Duration;

use anyhow::{Result, anyhow};
use testbed::scratch::go_on;
use testbed::watch::Watch;

use super::super::decrees::Proposer;
use super::cluster::Cluster;
use super::found::{Found, ONE};
use crate::study::rounds::Draw;

/// The proposals of each round to the nodes of each way.
pub struct Turns {
    pub rounds: u32,
    pub seed: u64,
    /// Bytes of a value.
    pub bytes: usize,
    /// The names of those that propose at once, the first of which is that of the kind. Empty: one alone.
    pub together: Vec<String>,
    /// Each of them so much later than the one before it.
    pub later: Duration,
}

/// One cluster, one kind of turn.
#[derive(Clone, Copy)]
enum Turn<'a> {
    Alone(&'a str),
    Together,
}

impl Turns {
    pub fn take(&self, clusters: &mut [Cluster]) -> Result<Found> {
        let count = self.together.len().max(1);
        let mut all: Vec<Vec<Proposer>> = Vec::new();
        for cluster in clusters.iter_mut() {
            let beside = |at| cluster.proposer(at, self.bytes);
            let mut proposers: Vec<Proposer> = (0..count).map(beside).collect();
            // The first ones open connections.
            for proposer in &mut proposers {
                cluster.propose(proposer)?;
            }
            all.push(proposers);
        }
        let mut kinds = vec![Turn::Alone(ONE), Turn::Alone("one-again")];
        if !self.together.is_empty() {
            kinds.push(Turn::Together);
        }
        let order: Vec<(usize, Turn)> = (0..clusters.len())
            .flat_map(|at| kinds.iter().map(move |kind| (at, *kind)))
            .collect();
        let mut places: Vec<usize> = (0..order.len()).collect();
        let mut found = Found::default();
        let mut draw = Draw::new(self.seed);
        let watch = Watch::new(u64::from(self.rounds));
        for _ in 0..self.rounds {
            if go_on().is_err() {
                found.ended = true;
                break;
            }
            draw.shuffle(&mut places);
            for place in &places {
                let (at, turn) = order[*place];
                let (cluster, proposers) = (&mut clusters[at], &mut all[at]);
                match turn {
                    Turn::Alone(name) => {
                        let took = cluster.propose(&mut proposers[0])?;
                        found.note(name, cluster.way, took);
                    }
                    Turn::Together => self.contend(cluster, proposers, &mut found)?,
                }
            }
            watch.step(1);
        }
        Ok(found)
    }

    /// All for the same decree.
    fn contend(
        &self,
        cluster: &mut Cluster,
        proposers: &mut [Proposer],
        found: &mut Found,
    ) -> Result<()> {
        let decree = cluster.next();
        let mut last = Duration::ZERO;
        let learned = together(proposers, decree, self.later)?;
        for ((name, (value, took)), place) in self.together.iter().zip(learned).zip(0u32..) {
            cluster.learned.note(decree, value);
            found.note(name, cluster.way, took);
            last = last.max(self.later * place + took);
        }
        found.note(&format!("{}, all", self.together[0]), cluster.way, last);
        Ok(())
    }
}

/// All for the same decree; each later than the one before it.
fn together(all: &mut [Proposer], decree: u64, later: Duration) -> Result<Vec<(String, Duration)>> {
    let begin = Barrier::new(all.len());
    std::thread::scope(|scope| {
        let threads: Vec<_> = all
            .iter_mut()
            .zip(0u32..)
            .map(|(proposer, place)| {
                let begin = &begin;
                scope.spawn(move || {
                    begin.wait();
                    std::thread::sleep(later * place);
                    proposer.propose(decree)
                })
            })
            .collect();
        let joined = threads.into_iter().map(|thread| match thread.join() {
            Ok(learned) => learned,
            Err(_) => Err(anyhow!("a proposer panicked")),
        });
        joined.collect()
    })
}
