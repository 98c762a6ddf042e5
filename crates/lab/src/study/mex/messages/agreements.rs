//! Five agreements, with a phase 1 for each and without.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::network::{Counts, Network};
use crate::study::rounds::Draw;

/// The paper's number of agreements.
pub const AGREEMENTS: u64 = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Vanilla,
    Leader,
}

/// The counts of five agreements, and how long one of them lasted in ms.
pub fn measure(kind: Kind, proposers: usize, seed: u64) -> Result<(Counts, f64)> {
    let mut draw = Draw::new(seed);
    let mut network = Network::new(seed)?;
    if kind == Kind::Leader {
        // The one phase 1 is not part of any agreement.
        network.agree(1, &mut draw)?;
    }
    network.counts = Counts::default();
    let mut took = Duration::ZERO;
    for _ in 0..AGREEMENTS {
        let began = Instant::now();
        network.agree(proposers, &mut draw)?;
        took += began.elapsed();
        if kind == Kind::Vanilla {
            let counts = network.counts;
            network.step_down(&mut draw);
            network.counts = counts;
        }
    }
    let each = took.as_secs_f64() * 1e3 / AGREEMENTS as f64;
    Ok((network.counts, each))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_asks_each_follower_once_and_vanilla_twice() {
        for seed in 1..20 {
            let (vanilla, _) = measure(Kind::Vanilla, 1, seed).expect("it agrees");
            assert_eq!(
                (vanilla.prepares, vanilla.proposals),
                (10, 10),
                "seed {seed}"
            );
            let (leader, _) = measure(Kind::Leader, 1, seed).expect("it agrees");
            assert_eq!((leader.prepares, leader.proposals), (0, 10), "seed {seed}");
            assert!(
                leader.records < vanilla.records,
                "a promise is a record, too"
            );
        }
    }

    #[test]
    fn three_proposers_agree_in_any_order_and_ask_no_less() {
        for seed in 1..50 {
            let (three, _) = measure(Kind::Vanilla, 3, seed).expect("they agree");
            assert!(three.requests() >= 20, "seed {seed}: {three:?}");
        }
    }
}
