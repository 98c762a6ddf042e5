//! The one workload of all seeds: what each of them draws.

use std::collections::BTreeSet;
use std::str::FromStr;

use thiserror::Error;

use crate::random::{PerMillion, Random};
use crate::scenario::Scenario;
use crate::swarm::{Act, Swarm};

/// Logs created by clients besides `main`.
pub(super) const MORE_LOGS: [&str; 1] = ["b"];

/// The scenario of a seed: how many nodes, who writes and reads, and what goes wrong how hard.
pub fn draw(seed: u64) -> Scenario {
    let random = &mut Random::new(seed ^ 0x0077_6f72_6b6c_6f61);
    let nodes = match random.below(8) {
        0 => 5,
        _ => 3,
    };
    let mut swarm = Swarm::draw(seed, nodes);
    let damaged = random.below(8) == 0;
    if damaged {
        swarm = swarm
            .with(Act::FlipBit, 1 + random.below(8) as u32)
            .with(Act::FlipBitAtStart, 1 + random.below(4) as u32);
    }
    // Not the first node's: whoever starts that with `--bootstrap` again makes another cluster.
    let loses_disk = !damaged && seed % 16 == 5 && !seed.is_multiple_of(nodes as u64);
    if loses_disk {
        swarm = swarm.with(Act::LoseDisk, 1);
    }
    let writers = match random.below(3) {
        0 => 1 + random.below(3),
        _ => 1,
    };
    let bytes = 30_000 << random.below(4);
    Scenario {
        nodes,
        logs: vec!["main".to_owned(); writers as usize],
        readers_per_writer: 1 + random.below(2) as usize,
        bytes_per_writer: bytes / writers,
        stale_ppm: [0, 200_000, 800_000][random.below(3) as usize],
        follow_ppm: [0, 200_000, 800_000][random.below(3) as usize],
        // One of too few must not lose what the others do not have yet.
        begin_well: damaged || loses_disk || random.below(4) == 0,
        harm_us: 2_000_000 << random.below(4),
        // Some networks carry a few KiB a second, and everybody reads everything.
        calm_us: 1_200_000_000,
        swarm,
        ..Scenario::draw(seed)
    }
}

/// Which faults may be drawn. The others stay off, whatever a seed draws.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultSet(BTreeSet<&'static str>);

/// What a [`FaultSet`] can name besides the nemesis' acts: faults that come by chance.
const RATES: [&str; 6] = [
    "losses",
    "resets",
    "flips",
    "write-errors",
    "read-errors",
    "clock-drift",
];

#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("there is no fault {0:?}: say all, none, or some of {names}, separated by commas", names = names().join(", "))]
pub struct UnknownFault(String);

const ACTS: [Act; 19] = [
    Act::Kill,
    Act::KillBetweenOps,
    Act::KillAll,
    Act::Vanish,
    Act::Stop,
    Act::Pause,
    Act::CutOneWay,
    Act::CutPair,
    Act::Isolate,
    Act::Reset,
    Act::SlowDisk,
    Act::HangDisk,
    Act::BreakDisk,
    Act::FillDisk,
    Act::FailReadsAtStart,
    Act::FlipBit,
    Act::FlipBitAtStart,
    Act::LoseDisk,
    Act::JumpClock,
];

/// Every fault that can be named.
pub fn names() -> Vec<&'static str> {
    let acts = ACTS.iter().map(|act| act.name());
    acts.chain(RATES).collect()
}

impl FromStr for FaultSet {
    type Err = UnknownFault;

    fn from_str(text: &str) -> Result<FaultSet, UnknownFault> {
        if text == "all" {
            return Ok(FaultSet::all());
        }
        let mut set = BTreeSet::new();
        for word in text.split(',').filter(|word| *word != "none") {
            let found = names().into_iter().find(|name| *name == word);
            set.insert(found.ok_or_else(|| UnknownFault(word.to_owned()))?);
        }
        Ok(FaultSet(set))
    }
}

impl FaultSet {
    pub fn all() -> FaultSet {
        FaultSet(names().into_iter().collect())
    }

    /// Takes out of a scenario what is not in the set.
    pub fn limit(&self, scenario: &mut Scenario) {
        let has = |name: &str| self.0.contains(name);
        let swarm = &mut scenario.swarm;
        swarm.acts.retain(|(act, _)| has(act.name()));
        let rates = [
            ("losses", &mut swarm.network.losses),
            ("resets", &mut swarm.network.resets),
            ("flips", &mut swarm.network.flips),
            ("write-errors", &mut swarm.write_errors),
            ("read-errors", &mut swarm.read_errors),
        ];
        for (name, rate) in rates {
            if !has(name) {
                *rate = PerMillion(0);
            }
        }
        if !has("clock-drift") {
            swarm.clock_drift_ppm_max = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_faults_leaves_only_those() {
        let only: FaultSet = "kill,losses".parse().unwrap();
        for seed in 0..50 {
            let mut scenario = draw(seed);
            only.limit(&mut scenario);
            let swarm = &scenario.swarm;
            assert!(swarm.acts.iter().all(|(act, _)| *act == Act::Kill));
            assert_eq!(swarm.write_errors, PerMillion(0));
            assert_eq!(swarm.network.losses, draw(seed).swarm.network.losses);
        }
        assert!("kill,rain".parse::<FaultSet>().is_err());
        let none: FaultSet = "none".parse().unwrap();
        assert_eq!(none, FaultSet(BTreeSet::new()));
    }

    #[test]
    fn every_act_is_drawn_by_some_seed() {
        for act in &ACTS {
            let drawn = (0..200).any(|seed| draw(seed).swarm.acts.iter().any(|(a, _)| a == act));
            assert!(drawn, "{act:?}");
        }
    }
}
