//! Checks: numbers that must lie here, or must not, for a claim to hold. They are set before they are measured.

use serde::Serialize;

/// One claim, as a number with an interval that was expected before it was measured. A missed one is a finding, and no number to be moved.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Check {
    pub row: &'static str,
    /// The number that is looked at.
    pub name: &'static str,
    pub claim: &'static str,
    pub published: &'static str,
    /// Our expectation: from here …
    pub low: f64,
    /// … to here.
    pub high: f64,
    pub must: Must,
}

/// The fate of the paper's claim here, by the same number.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "claim", rename_all = "kebab-case")]
pub enum Must {
    /// It holds if the number is at least this.
    HoldAbove { least: f64 },
    /// It holds if the number is at most this.
    HoldBelow { most: f64 },
    /// There was none.
    New,
}

/// How a claim came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Holds,
    Fails,
    /// The interval lies on both sides.
    Undecided,
    NotJudged,
}

/// How our expectation came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expectation {
    Met,
    Missed,
    /// The interval is partly in the expected one.
    Open,
}

impl Check {
    pub fn expected(&self) -> String {
        format!("{} to {}", self.low, self.high)
    }

    /// The judgement of a number, of which the truth lies between two.
    pub fn judge(&self, low: f64, high: f64) -> (Verdict, Expectation) {
        let within = (
            low >= self.low && high <= self.high,
            high < self.low || low > self.high,
        );
        let expectation = match within {
            (true, _) => Expectation::Met,
            (_, true) => Expectation::Missed,
            _ => Expectation::Open,
        };
        let verdict = match self.must {
            Must::New => Verdict::NotJudged,
            Must::HoldAbove { least } if low >= least => Verdict::Holds,
            Must::HoldAbove { least } if high < least => Verdict::Fails,
            Must::HoldBelow { most } if high <= most => Verdict::Holds,
            Must::HoldBelow { most } if low > most => Verdict::Fails,
            _ => Verdict::Undecided,
        };
        (verdict, expectation)
    }
}

impl Must {
    pub fn sentence(self) -> String {
        match self {
            Must::HoldAbove { least } => format!("holds from {least} on"),
            Must::HoldBelow { most } => format!("holds up to {most}"),
            Must::New => "there was none".to_owned(),
        }
    }
}

/// A check by its name.
pub fn check(name: &str) -> Option<&'static Check> {
    CHECKS.iter().find(|check| check.name == name)
}

const fn of(
    (row, name): (&'static str, &'static str),
    claim: &'static str,
    published: &'static str,
    (low, high): (f64, f64),
    must: Must,
) -> Check {
    Check {
        row,
        name,
        claim,
        published,
        low,
        high,
        must,
    }
}

/// Ratios of times unless it says something else.
pub const CHECKS: &[Check] = &[
    of(
        ("Z14", "cells that are not delivered as there"),
        "cells of which 99 % were delivered there are delivered here, 98 % of them at least: cells that are not",
        "0 of 52",
        (-0.5, 0.5),
        Must::HoldBelow { most: 0.0 },
    ),
    of(
        ("Z14", "cells that miss although their floor does not"),
        "cells miss a target where the machine cannot: those that miss it, and whose floor beside them, without agreement, does not",
        "was not measured",
        (-0.5, 0.5),
        Must::HoldBelow { most: 0.0 },
    ),
    of(
        ("Z16", "p50/the floor's"),
        "agreement costs little: median of a cell / of the floor beside it, in the middle of all cells",
        "was not measured",
        (0.8, 1.25),
        Must::New,
    ),
    of(
        ("Z16", "p99/the floor's"),
        "agreement costs little: 99th percentile of a cell / of the floor beside it, in the middle of all cells",
        "was not measured",
        (0.5, 2.0),
        Must::New,
    ),
    of(
        ("Z17", "p50 at 5/50 MB/s"),
        "14 ms below 20 MB/s: median at 5 / at 50 MB/s, 1000 B",
        "12",
        (0.3, 2.0),
        Must::HoldAbove { least: 5.0 },
    ),
    of(
        ("Z18", "p50 at 220/100 MB/s"),
        "queues explode near the limit: median at 220 / at 100 MB/s, 1000 B",
        "1067",
        (0.3, 5.0),
        Must::HoldAbove { least: 50.0 },
    ),
    of(
        ("Z3", "batch at 200/20 MB/s"),
        "batches grow with the rate: mean batch at 200 / at 20 MB/s, 1000 B",
        "487, and 13.7 at 150 / 20",
        (4.0, 1000.0),
        Must::HoldAbove { least: 2.0 },
    ),
    of(
        ("Z19", "most system CPU of a role to 180 MB/s"),
        "system time is below half of a core until 180 MB/s: percent of a core, the most of all cells",
        "44",
        (5.0, 50.0),
        Must::HoldBelow { most: 50.0 },
    ),
    of(
        ("Z19", "median of user CPU of the leader"),
        "user time is trivial: percent of the leader's CPU, in the middle of all cells",
        "at most 9",
        (15.0, 40.0),
        Must::HoldBelow { most: 10.0 },
    ),
    of(
        ("Z12", "most writes of a raw client, millions a second"),
        "one write() for each write bounds them: millions a second, the most of all cells",
        "1.1 to 1.4, and once 2.2",
        (0.5, 5.0),
        Must::HoldBelow { most: 5.0 },
    ),
    of(
        ("Z12", "most writes, library/raw"),
        "one write() for each write bounds them, and not the nodes: a client that gathers writes / one that does not, the most of both",
        "was not measured",
        (10.0, 300.0),
        Must::HoldAbove { least: 2.0 },
    ),
    of(
        ("Z20", "engine, most slots/fewest, instructions"),
        "work per batch is constant: instructions of the engine alone, 250,000 slots / 1",
        "was claimed",
        (0.98, 1.02),
        Must::HoldBelow { most: 1.05 },
    ),
    of(
        ("Z20", "nodes, 100 KB/1 KB, instructions"),
        "work per batch is constant: instructions of three nodes, which check each byte, 100 KB / 1 KB",
        "was claimed",
        (1.3, 4.0),
        Must::HoldBelow { most: 1.2 },
    ),
    of(
        ("Z20", "nodes, 1 KB/1 B, CPU"),
        "work per batch is constant: CPU of three nodes, system and user, 1 KB / 1 B",
        "was claimed",
        (0.8, 1.2),
        Must::HoldBelow { most: 1.2 },
    ),
    of(
        ("Z20", "nodes, 100 KB/1 KB, CPU"),
        "work per batch is constant: CPU of three nodes, system and user, 100 KB / 1 KB",
        "was claimed",
        (1.2, 5.0),
        Must::HoldBelow { most: 1.2 },
    ),
    of(
        ("Z20", "batch by bytes, fastest/slowest rate"),
        "batches form by themselves: the batch in the middle of all bytes, at the fastest / at the slowest rate",
        "was claimed",
        (3.0, 300.0),
        Must::HoldAbove { least: 2.0 },
    ),
    of(
        ("Z20", "batch by bytes, four connections/one"),
        "batches form for each connection: the batch in the middle of all bytes, four connections / one at the same rate together",
        "was not measured",
        (0.2, 1.0),
        Must::New,
    ),
    of(
        ("Z26", "bbr/cubic, a client that waits"),
        "a tuned stack: bbr / cubic, time of 1 KB for a client that waits, no disk",
        "was not measured",
        (0.95, 1.3),
        Must::New,
    ),
    of(
        ("Z26", "bbr/cubic, flat out"),
        "a tuned stack: bbr / cubic, pieces of 64 KiB a second flat out, no disk",
        "was not measured",
        (0.5, 1.0),
        Must::New,
    ),
    of(
        ("Z26", "memory/tcp, flat out"),
        "what any transport could give: queues of one process / TCP, pieces of 64 KiB a second flat out, no disk",
        "was not measured",
        (1.0, 1.8),
        Must::New,
    ),
    of(
        ("Z26", "grpc-stream/tcp, flat out"),
        "another transport: a stream of gRPC for each connection / TCP, pieces of 64 KiB a second flat out, no disk",
        "was not measured",
        (0.3, 0.9),
        Must::New,
    ),
    of(
        ("R22", "disk/ram at 10 B"),
        "for 10 B the ink does not matter: disk / RAM",
        "1.0",
        (1.5, 5.0),
        Must::HoldBelow { most: 1.2 },
    ),
    of(
        ("R22", "disk/ram at 1 KB"),
        "for 1 KB the ink hardly matters: disk / RAM",
        "1.35",
        (1.5, 5.0),
        Must::HoldBelow { most: 1.5 },
    ),
    of(
        ("R22", "disk/ram at 1 MB"),
        "for 1 MB the ink matters: disk / RAM",
        "4.5",
        (1.0, 2.5),
        Must::HoldAbove { least: 2.0 },
    ),
    of(
        ("R15", "page-cache/ram at 1 KB"),
        "a disk that is never synced is as good as RAM at 1 KB: page cache / RAM",
        "about 1",
        (0.8, 1.3),
        Must::New,
    ),
    of(
        ("R15", "emulated-pmem/ram at 1 KB"),
        "persistent memory is as good as RAM at 1 KB: emulated by DRAM / RAM",
        "was the motive",
        (0.8, 1.3),
        Must::New,
    ),
    of(
        ("R25", "two/one by size, 1 KB"),
        "more proposers are slightly slower, by size: the first of two for the same decree / alone, 1 KB",
        "0.6",
        (0.9, 1.6),
        Must::HoldAbove { least: 1.0 },
    ),
    of(
        ("R21", "all/one by size, 1 KB"),
        "until all proposers have learned: two for the same decree / one alone, 1 KB",
        "was not measured",
        (1.0, 2.0),
        Must::New,
    ),
    of(
        ("R23", "grpc-unary/tcp at 1 KB"),
        "gRPC costs: a call for each send / TCP, RAM, 1 KB",
        "17",
        (1.1, 3.0),
        Must::HoldAbove { least: 1.1 },
    ),
    of(
        ("R23", "grpc-unary/tcp at 1 KB, as there"),
        "gRPC costs more than ten times: a call for each send / TCP, RAM, 1 KB",
        "17",
        (1.1, 3.0),
        Must::HoldAbove { least: 10.0 },
    ),
    of(
        ("R23", "grpc-unary/tcp at 1 MB"),
        "gRPC costs: a call for each send / TCP, RAM, 1 MB",
        "2.3",
        (1.5, 5.0),
        Must::HoldAbove { least: 1.1 },
    ),
    of(
        ("R28", "grpc-stream/grpc-unary at 1 KB"),
        "gRPC used better: a stream for each connection / a call for each send, RAM, 1 KB",
        "was not measured",
        (0.7, 1.6),
        Must::New,
    ),
    of(
        ("R16", "memory/tcp at 1 KB"),
        "what any transport could give: queues of one process / TCP, RAM, 1 KB",
        "was not measured",
        (0.4, 0.95),
        Must::New,
    ),
    of(
        ("R16", "unix/tcp at 1 KB"),
        "Unix sockets / TCP, RAM, 1 KB",
        "was not measured",
        (0.7, 1.1),
        Must::New,
    ),
    of(
        ("R16", "count/tcp at 1 KB"),
        "a carrier that only counts bends nothing: with it / without, RAM, 1 KB",
        "was not measured",
        (0.9, 1.02),
        Must::New,
    ),
    of(
        ("R24", "exponent of machines"),
        "more machines, more time: the exponent of time over machines, RAM",
        "1.5 to 1.6 from 10 to 30 machines",
        (0.4, 1.2),
        Must::HoldAbove { least: 1.3 },
    ),
    of(
        ("R24", "more machines take longer"),
        "more machines, more time: the exponent is above 0",
        "1.5 to 1.6",
        (0.1, 1.2),
        Must::HoldAbove { least: 0.1 },
    ),
    of(
        ("R26", "lag/none"),
        "latency dominates: a lag of 5 to 38 ms / none, RAM",
        "14",
        (10.0, 200.0),
        Must::HoldAbove { least: 5.0 },
    ),
    of(
        ("R26", "disk/ram under lag"),
        "latency dominates ink: disk / RAM under that lag",
        "was not measured",
        (0.8, 1.2),
        Must::HoldBelow { most: 1.2 },
    ),
    of(
        ("R25", "two/one"),
        "more proposers are slightly slower: the first of two for the same decree / alone",
        "0.6 by size, 1.7 by machines",
        (0.9, 1.6),
        Must::HoldAbove { least: 1.0 },
    ),
    of(
        ("R14", "three/one"),
        "the first of three at once on five nodes / alone",
        "was not measured",
        (0.9, 2.5),
        Must::New,
    ),
    of(
        ("R13", "the next decree after a death, ms"),
        "the second proposer goes on after the death of the first: ms to its next decree, median to longest",
        "it stopped",
        (50.0, 1000.0),
        Must::HoldBelow { most: 1000.0 },
    ),
    of(
        ("R13", "decrees lost or split"),
        "one value a decree, known to all: decrees of which this is not so",
        "a number of machines that is even broke it",
        (-0.5, 0.5),
        Must::HoldBelow { most: 0.0 },
    ),
    of(
        ("M14", "one/many keys, 3 replicas"),
        "one key is slower than many, also in one group: latency of one / many, 3 replicas",
        "1.1",
        (0.8, 1.25),
        Must::HoldAbove { least: 1.05 },
    ),
    of(
        ("M14", "one/many keys, 10 replicas"),
        "one key is slower than many: latency of one / many, 10 replicas",
        "18 to 19",
        (0.8, 1.25),
        Must::HoldAbove { least: 1.5 },
    ),
    of(
        ("M14", "one/many keys, any replicas"),
        "one key is slower than many: latency of one / many, where there are most replicas",
        "18 to 19 at 10",
        (0.8, 1.25),
        Must::HoldAbove { least: 1.5 },
    ),
    of(
        ("M11", "vanilla/leader, latency"),
        "a leader's one phase 1 is worth a factor of two: latency of a phase 1 for each batch / of one for all",
        "1.49 and 1.63",
        (1.5, 2.6),
        Must::HoldAbove { least: 1.3 },
    ),
    of(
        ("M11", "vanilla/leader, latency under a lag"),
        "a leader's one phase 1 is worth a factor of two: the same under a lag of 5 to 38 ms",
        "was not measured",
        (1.7, 2.3),
        Must::HoldAbove { least: 1.3 },
    ),
    of(
        ("M11", "vanilla/leader, throughput"),
        "a leader's one phase 1 is worth a factor of two: throughput of a phase 1 for each batch / of one for all, 35 clients",
        "0.58",
        (0.2, 0.9),
        Must::HoldBelow { most: 0.8 },
    ),
    of(
        ("M23", "p99 while a replica recovers/before"),
        "others go on while a replica recovers: p99 of a client meanwhile / before",
        "was not measured",
        (0.5, 3.0),
        Must::HoldBelow { most: 3.0 },
    ),
    of(
        ("M23", "longest wait while a replica recovers, ms"),
        "others go on while a replica recovers: the longest that a client waited, ms",
        "was not measured",
        (0.1, 1000.0),
        Must::HoldBelow { most: 1000.0 },
    ),
    of(
        ("M29", "unix/tcp, keys, latency"),
        "Unix sockets between nodes / TCP: latency of one client of keys, disk",
        "was not measured",
        (0.7, 1.1),
        Must::New,
    ),
    of(
        ("M12", "latency, 10/3 replicas"),
        "replicas cost: latency at 10 / at 3, many keys",
        "7.0, and 133 for one key",
        (1.3, 4.0),
        Must::HoldAbove { least: 1.1 },
    ),
    of(
        ("M12", "throughput, 10/3 replicas"),
        "throughput collapses: at 10 / at 3 replicas, many keys, 35 clients",
        "0.07 to 0.23",
        (0.25, 1.0),
        Must::HoldBelow { most: 0.24 },
    ),
    of(
        ("M13", "throughput, 3/1 groups"),
        "groups scale linearly: throughput of 3 / 1, on the same two processors and one disk",
        "2.76, on machines of their own",
        (0.7, 1.6),
        Must::New,
    ),
    of(
        ("M13", "throughput, 5/1 groups"),
        "groups scale linearly: throughput of 5 / 1, on the same two processors and one disk",
        "3.5, on machines of their own",
        (0.6, 1.8),
        Must::New,
    ),
    of(
        ("M15", "throughput, 100 clients/best"),
        "throughput falls beyond 10 to 50 clients: at 100 / at the best",
        "falls",
        (0.9, 1.05),
        Must::HoldBelow { most: 0.8 },
    ),
    of(
        ("M16", "throughput, debug/info"),
        "logging costs a factor of ten: throughput of debug / info",
        "0.1",
        (0.75, 1.1),
        Must::HoldBelow { most: 0.5 },
    ),
    of(
        ("M16", "throughput, off/info"),
        "what is usually logged costs nothing: throughput of off / info",
        "was not measured",
        (0.95, 1.05),
        Must::New,
    ),
    of(
        ("M5", "requests of an agreement, vanilla"),
        "a phase 1 for each agreement: requests, three nodes",
        "6, with those that decide",
        (3.9, 4.1),
        Must::New,
    ),
    of(
        ("M5", "requests of an agreement, leader"),
        "one phase 1 for all: requests of an agreement, three nodes",
        "4, with those that decide",
        (1.9, 2.1),
        Must::New,
    ),
    of(
        ("M5", "requests, vanilla/leader"),
        "a leader spares requests: vanilla / leader",
        "1.5",
        (1.9, 2.1),
        Must::HoldAbove { least: 1.3 },
    ),
    of(
        ("M5", "requests, three proposers/one"),
        "proposers that duel cost requests: three / one, vanilla",
        "3.0",
        (1.0, 20.0),
        Must::HoldAbove { least: 1.5 },
    ),
    of(
        ("M8", "recovery, small/large values"),
        "recovery without a disk suffers from small values: time at 5 KB / at 1 MB",
        "57",
        (0.5, 3.0),
        Must::HoldAbove { least: 10.0 },
    ),
    of(
        ("M9", "move, small/large values"),
        "a move of slots suffers from small values: time at 5 KB / at 1 MB",
        "17",
        (0.5, 3.0),
        Must::HoldAbove { least: 5.0 },
    ),
    of(
        ("M24", "memory of a transfer, MiB"),
        "a transfer stays within a limit of memory: what a node took more, MiB",
        "100 MB were the limit",
        (0.0, 64.0),
        Must::HoldBelow { most: 100.0 },
    ),
    of(
        ("M28", "moves beyond the fewest"),
        "changes of the map balance within one, by the fewest moves: changes and slots of which this is not so",
        "was claimed",
        (-0.5, 0.5),
        Must::HoldBelow { most: 0.0 },
    ),
    of(
        ("R11", "A/A"),
        "the same variant twice, RAM / RAM: a run whose interval lacks 1 proves nothing",
        "was not measured",
        (0.8, 1.25),
        Must::New,
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_can_come_out_in_every_way() {
        let check = check("disk/ram at 1 KB").expect("there");
        for (low, high, verdict, expectation) in [
            (2.0, 3.0, Verdict::Fails, Expectation::Met),
            (1.0, 1.4, Verdict::Holds, Expectation::Missed),
            (1.2, 2.0, Verdict::Undecided, Expectation::Open),
            (6.0, 9.0, Verdict::Fails, Expectation::Missed),
        ] {
            assert_eq!(
                check.judge(low, high),
                (verdict, expectation),
                "{low} to {high}"
            );
        }
    }
}
