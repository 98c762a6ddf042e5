//! The faults of a run, and how hard they are: drawn per seed, so that most runs lack most faults.
//!
//! Faults that are always on hide what only shows without them (Groce et al., Swarm Testing,
//! ISSTA 2012): a run that is reset every second never fills a window.

use std::collections::BTreeSet;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::disk::DiskModel;
use crate::media::TornBlocks;
use crate::net::NetworkModel;
use crate::random::{PerMillion, Random};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Swarm {
    /// The time for which the nemesis rests between two acts.
    pub rest_us: Range<u64>,
    /// The time that an act lasts, mostly.
    pub lasts_us: Range<u64>,
    /// At most so many hosts are dead, cut off or without a working disk at once.
    pub victims_max: usize,
    /// The acts, and how frequent each is compared with the others.
    pub acts: Vec<(Act, u32)>,
    /// When it leaves, a minority stays dead until the others have shown that they can do without: those that
    /// are dead at that moment, or else the leader.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub leaves_dead: bool,
    /// The only turns that are performed, of all that there would be: how a shrunk run differs from its seed's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only_turns: Option<BTreeSet<u64>>,
    /// Per op that changes something on a disk.
    pub write_errors: PerMillion,
    /// Per read of a node that runs.
    pub read_errors: PerMillion,
    pub clock_drift_ppm_max: u64,
    pub network: NetworkModel,
    pub disk: DiskModel,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Act {
    /// kill -9 and a restart.
    Kill,
    /// The same between two ops of one round.
    KillBetweenOps,
    /// Power loss: nobody is told.
    Vanish,
    /// SIGTERM and a restart.
    Stop,
    /// Every node at once, and back.
    KillAll,
    /// Nothing happens for a while, then every node dies at once: what was said last is known chosen by
    /// nobody's disk, perhaps. Drawn by the workload only.
    KillRested,
    Pause,
    /// From one to another, one way.
    CutOneWay,
    CutPair,
    /// One host hears or is heard by nobody, or both.
    Isolate,
    SlowDisk,
    HangDisk,
    /// All writes fail; a restart follows the repair.
    BreakDisk,
    /// The disk has little room left; so much later it has room again.
    FillDisk,
    JumpClock,
    /// One connection of a node.
    Reset,
    /// kill -9, and while it starts again its disk answers some reads with an error.
    FailReadsAtStart,
    /// At rest, in one segment of one node, always the same node. Drawn by the workload only.
    FlipBit,
    /// kill -9 of that node, and some reads while it starts again come with a bit flipped. Drawn by
    /// the workload only.
    FlipBitAtStart,
    /// The node comes back with an empty disk. Drawn by the workload only.
    LoseDisk,
    /// The node comes back with an old copy of its disk, while the nodes that counted on what it forgot are
    /// dead. Drawn by the workload only.
    PutBack,
    /// As `FlipBit`, in what that node wrote last, and it starts again; the leader dies meanwhile.
    /// Drawn by the workload only.
    FlipBitInTail,
    /// The leader is killed, held up or cut off from its peers. It dies if the next leader then needs bytes
    /// of it. Drawn by the workload only.
    Depose,
    /// While a casting vote runs, those whom it asks have a disk that hangs or are not heard, or the
    /// leader dies, stands still or has such a disk. Drawn by the workload only.
    StretchVote,
    /// The leader is cut off from its peers, and heard again when the next leader has done something. That
    /// next leader then dies. Drawn by the workload only.
    SwapLeaders,
}

pub(crate) const ACTS: [Act; 16] = [
    Act::Kill,
    Act::KillBetweenOps,
    Act::Vanish,
    Act::Stop,
    Act::KillAll,
    Act::Pause,
    Act::CutOneWay,
    Act::CutPair,
    Act::Isolate,
    Act::SlowDisk,
    Act::HangDisk,
    Act::BreakDisk,
    Act::FillDisk,
    Act::JumpClock,
    Act::Reset,
    Act::FailReadsAtStart,
];

impl Act {
    /// As people and machines write it.
    pub fn name(self) -> &'static str {
        match self {
            Act::Kill => "kill",
            Act::KillBetweenOps => "kill-between-ops",
            Act::Vanish => "vanish",
            Act::Stop => "stop",
            Act::KillAll => "kill-all",
            Act::KillRested => "kill-rested",
            Act::Pause => "pause",
            Act::CutOneWay => "cut-one-way",
            Act::CutPair => "cut-pair",
            Act::Isolate => "isolate",
            Act::SlowDisk => "slow-disk",
            Act::HangDisk => "hang-disk",
            Act::BreakDisk => "break-disk",
            Act::FillDisk => "fill-disk",
            Act::JumpClock => "jump-clock",
            Act::Reset => "reset",
            Act::FailReadsAtStart => "fail-reads-at-start",
            Act::FlipBit => "flip-bit",
            Act::FlipBitAtStart => "flip-bit-at-start",
            Act::LoseDisk => "lose-disk",
            Act::PutBack => "put-back",
            Act::FlipBitInTail => "flip-bit-in-tail",
            Act::Depose => "depose",
            Act::StretchVote => "stretch-vote",
            Act::SwapLeaders => "swap-leaders",
        }
    }

    /// It spoils what a disk holds, so it may befall one node only.
    pub fn is_damage(self) -> bool {
        matches!(
            self,
            Act::FlipBit | Act::FlipBitAtStart | Act::FlipBitInTail | Act::LoseDisk | Act::PutBack
        )
    }
}

impl Swarm {
    /// No fault at all.
    pub fn calm() -> Swarm {
        Swarm {
            rest_us: 1_000_000..2_000_000,
            lasts_us: 100_000..1_000_000,
            victims_max: 0,
            acts: Vec::new(),
            leaves_dead: false,
            only_turns: None,
            write_errors: PerMillion(0),
            read_errors: PerMillion(0),
            clock_drift_ppm_max: 0,
            network: NetworkModel::default(),
            disk: DiskModel::default(),
        }
    }

    /// Any mixture; `nodes` is how many there are.
    pub fn draw(seed: u64, nodes: usize) -> Swarm {
        let random = &mut Random::new(seed ^ 0x5a5a);
        let mut swarm = Swarm::calm();
        let rest_us = 10_u64.pow(4 + random.below(3) as u32);
        swarm.rest_us = rest_us / 2..rest_us * 3;
        let lasts_us = 10_u64.pow(4 + random.below(4) as u32);
        swarm.lasts_us = lasts_us / 2..lasts_us * 2;
        swarm.victims_max = match random.below(3) {
            0 => nodes,
            _ => nodes.saturating_sub(1) / 2,
        };
        for act in ACTS {
            if random.below(3) == 0 {
                swarm.acts.push((act, 1 + random.below(8) as u32));
            }
        }
        swarm.draw_network(random);
        swarm.draw_disk(random);
        if random.below(4) == 0 {
            swarm.clock_drift_ppm_max = 10_u64.pow(2 + random.below(4) as u32);
        }
        swarm
    }

    /// With one more, as often as `weight` says compared with the others.
    pub fn with(mut self, act: Act, weight: u32) -> Swarm {
        self.acts.push((act, weight));
        self
    }

    /// Without these, whatever was drawn.
    pub fn without(mut self, acts: &[Act]) -> Swarm {
        self.acts.retain(|(act, _)| !acts.contains(act));
        self
    }

    fn draw_network(&mut self, random: &mut Random) {
        let network = &mut self.network;
        let latency_us = 10_u64.pow(1 + random.below(4) as u32);
        let spread = 1 + random.below(20);
        network.latency_us = latency_us..latency_us * (1 + spread);
        network.bytes_per_us = 10_u64.pow(random.below(4) as u32);
        network.send_buffer_bytes = 1 << (10 + random.below(10));
        network.receive_buffer_bytes = 1 << (10 + random.below(10));
        network.segment_bytes_max = 1 << (7 + random.below(10));
        network.give_up_us = 10_u64.pow(6 + random.below(2) as u32);
        if random.below(4) == 0 {
            network.losses = PerMillion(10_u32.pow(2 + random.below(3) as u32));
        }
        if random.below(4) == 0 {
            network.resets = PerMillion(10_u32.pow(1 + random.below(3) as u32));
        }
        if random.below(8) == 0 {
            network.flips = PerMillion(10_u32.pow(2 + random.below(3) as u32));
        }
    }

    fn draw_disk(&mut self, random: &mut Random) {
        let disk = &mut self.disk;
        let write_us = 10_u64.pow(1 + random.below(4) as u32);
        disk.write_us = write_us / 2..write_us * (1 + random.below(20));
        disk.read_us = 10..write_us;
        disk.names_us = write_us / 2..write_us * 4;
        disk.bytes_per_us = 10_u64.pow(1 + random.below(3) as u32);
        disk.torn = match random.coin() {
            true => TornBlocks::KeepSectors,
            false => TornBlocks::LoseBlocks,
        };
        disk.preallocates = random.coin();
        if random.below(8) == 0 {
            self.write_errors = PerMillion(10_u32.pow(1 + random.below(3) as u32));
        }
        if random.below(8) == 0 {
            self.read_errors = PerMillion(10_u32.pow(2 + random.below(3) as u32));
        }
    }
}
