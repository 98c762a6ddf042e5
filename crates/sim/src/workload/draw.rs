//! The one workload of all seeds: what each of them draws.

use std::collections::BTreeSet;
use std::str::FromStr;

use thiserror::Error;

use crate::random::{PerMillion, Random};
use crate::scenario::{BatchTerms, Scenario};
use crate::swarm::{Act, Swarm};
use crate::upgrade::Upgrade;

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
    // The first node's disk is not lost: an operator that starts that node with `--bootstrap` again makes
    // another cluster.
    let loses_disk = !damaged && seed % 16 == 5 && !seed.is_multiple_of(nodes as u64);
    if loses_disk {
        swarm = swarm.with(Act::LoseDisk, 1);
    }
    // Nor that one's, and all tell what their disks have been through.
    let puts_back = !damaged && seed % 16 == 13 && !seed.is_multiple_of(nodes as u64);
    if puts_back {
        swarm.acts.retain(|(_, weight)| weight % 2 == 0);
        swarm = swarm.with(Act::PutBack, 16);
    }
    let loses_disk = loses_disk || puts_back;
    let writers = match random.below(3) {
        0 => 1 + random.below(3),
        _ => 1,
    };
    let bytes = 30_000 << random.below(4);
    let mut scenario = Scenario {
        nodes,
        logs: vec!["main".to_owned(); writers as usize],
        readers_per_writer: 1 + random.below(2) as usize,
        bytes_per_writer: bytes / writers,
        stale_ppm: [0, 200_000, 800_000][random.below(3) as usize],
        follow_ppm: [0, 200_000, 800_000][random.below(3) as usize],
        // A trim of a log takes the bytes of all who write to it.
        trims: writers == 1 && seed % 3 == 1,
        moves: seed % 5 == 2,
        scrubs: seed % 4 == 3,
        // One of too few must not lose what the others do not have yet.
        begin_well: damaged || loses_disk || random.coin(),
        harm_us: match puts_back {
            false => 2_000_000 << random.below(4),
            true => 24_000_000,
        },
        // A lost or damaged disk must not hold one of few copies.
        auxiliary: nodes == 3 && !damaged && !loses_disk && seed % 3 == 1,
        // Some networks carry a few KiB a second, and everybody reads everything.
        calm_us: 1_200_000_000,
        swarm,
        upgrade: Upgrade::draw(seed).filter(|_| !puts_back),
        ..Scenario::draw(seed)
    };
    if random.coin() {
        let weight = 1 + random.below(16) as u32;
        scenario.swarm.acts.push((Act::Depose, weight));
    }
    let only_deposes = random.below(4) == 0;
    if only_deposes {
        // Nothing else, one after the other, with time for each to show.
        scenario.swarm.acts = vec![(Act::Depose, 1)];
        scenario.swarm.rest_us = 300_000..2_000_000;
        scenario.swarm.victims_max = scenario.swarm.victims_max.max(1);
        scenario.harm_us = 16_000_000;
        scenario.begin_well = true;
    }
    if damaged && random.coin() {
        let weight = 1 + random.below(8) as u32;
        scenario.swarm.acts.push((Act::FlipBitInTail, weight));
    }
    if random.below(8) == 0 {
        scenario.dark_us = 10_000_000 << random.below(3);
    }
    // Facts that all must remember have to be on their disks before some may stay away.
    let spoiled = damaged || loses_disk;
    scenario.swarm.leaves_dead = scenario.begin_well && !spoiled && (random.coin() || only_deposes);
    // Weights that may move to those who stay away leave no quorum.
    if seed % 4 == 2 && !spoiled {
        scenario.member_changes = 1 + seed / 4 % 12;
        scenario.swarm.leaves_dead = false;
    }
    scenario.probes = random.below(4) > 0;
    scenario.patience_us = match random.below(4) {
        0 => 10_000_000,
        // Long enough for a stream to be opened, mostly; on fast machines so short that a leader
        // cut off from its peers has not noticed yet when its writer writes elsewhere.
        _ => {
            let Swarm { network, disk, .. } = &scenario.swarm;
            250_000 + 12 * network.latency_us.end + 12 * disk.write_us.end
        }
    };
    if scenario.member_changes > 0 {
        disturb_eras(&mut scenario);
    } else if !spoiled {
        swap_leaders(&mut scenario);
    }
    ask_much(&mut scenario);
    if puts_back {
        // A log that is made on those alone whose disks went can never be deleted.
        scenario.churns = 0;
    }
    // Bytes left behind the end of a file are no damage that somebody has to find.
    let random = &mut Random::new(seed ^ 0x006c_616e_6473);
    scenario.lands = !damaged && random.below(4) == 0;
    scenario.batch_terms = match seed % 16 {
        7 => Some(BatchTerms::OnDemand),
        8 => Some(BatchTerms::Ahead),
        _ => None,
    };
    scenario
}

/// Draws the acts of operators on whole logs, and the age of their earlier words that may be read again.
/// These draws are none of what other seeds draw.
fn ask_much(scenario: &mut Scenario) {
    let random = &mut Random::new(scenario.seed ^ 0x696e_7465_6e74);
    let one_writer = scenario.logs.len() == 1;
    if one_writer && !scenario.trims && random.below(3) > 0 {
        scenario.retentions = 2 << random.below(4);
    }
    if random.below(3) == 0 {
        scenario.churns = 2 << random.below(4);
    }
    scenario.long_directory = random.below(3) == 0;
    // A directory that is long is read again the slower.
    let slow_of = if scenario.long_directory { 2 } else { 8 };
    if random.below(slow_of) == 0 {
        scenario.swarm.disk.read_us = 5_000..10_000;
    }
    if random.below(3) == 0 {
        let weight = 1 + random.below(8) as u32;
        scenario.swarm.acts.push((Act::KillRested, weight));
    }
    scenario.abandons = scenario.churns > 0 && random.below(3) == 0;
}

/// In half of the seeds in which members change, that is all that matters: changes come in quick succession,
/// little may be under way, and votes on new eras take longer. These draws are none of what other seeds draw.
fn disturb_eras(scenario: &mut Scenario) {
    let random = &mut Random::new(scenario.seed ^ 0x0065_7261_7300);
    if random.coin() {
        return;
    }
    scenario.changes_hurry = true;
    if random.coin() {
        scenario.window_bytes = 2048 << random.below(5);
    }
    let weight = 1 + random.below(16) as u32;
    scenario.swarm.acts.push((Act::StretchVote, weight));
    if random.coin() {
        scenario.swarm.acts = vec![(Act::StretchVote, 1)];
        scenario.swarm.rest_us = 100_000..1_000_000;
        scenario.swarm.victims_max = scenario.swarm.victims_max.max(1);
    }
}

/// In some seeds nothing happens but that leaders take turns.
fn swap_leaders(scenario: &mut Scenario) {
    let random = &mut Random::new(scenario.seed ^ 0x7377_6170_7300);
    if random.below(8) > 0 {
        return;
    }
    scenario.swarm.acts = vec![(Act::SwapLeaders, 1)];
    scenario.swarm.rest_us = 300_000..2_000_000;
    scenario.swarm.victims_max = scenario.swarm.victims_max.max(1);
    scenario.harm_us = 16_000_000;
    scenario.begin_well = true;
}

/// The faults that may be drawn. The others stay off, whatever a seed draws.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultSet(BTreeSet<&'static str>);

/// The names of a [`FaultSet`] besides the nemesis' acts: faults that come by chance, all paths cut for a
/// while after the harm, and a minority that stays dead for some time.
const RATES: [&str; 8] = [
    "darkness",
    "left-dead",
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

const ACTS: [Act; 25] = [
    Act::Kill,
    Act::KillBetweenOps,
    Act::KillAll,
    Act::KillRested,
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
    Act::FlipBitInTail,
    Act::LoseDisk,
    Act::PutBack,
    Act::JumpClock,
    Act::Depose,
    Act::StretchVote,
    Act::SwapLeaders,
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
        swarm.leaves_dead &= has("left-dead");
        if !has("darkness") {
            scenario.dark_us = 0;
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
        // One that has no name here is taken out of every run.
        let unnamed = crate::swarm::ACTS.iter().find(|act| !ACTS.contains(act));
        assert_eq!(unnamed, None);
        for act in &ACTS {
            let drawn = (0..200).any(|seed| draw(seed).swarm.acts.iter().any(|(a, _)| a == act));
            assert!(drawn, "{act:?}");
        }
    }
}
