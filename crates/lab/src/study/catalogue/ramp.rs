//! The rows of The RAM-ified Part-Time Parliament.

use super::{Row, have};

const SIZE: &str = "logberg-lab ramp size";
const MACHINES: &str = "logberg-lab ramp machines";
const LATENCY: &str = "logberg-lab ramp latency";
const CALLS: &str = "logberg-lab ramp size --transports tcp,grpc-unary";
const WAYS: &str = "logberg-lab ramp size --transports tcp,unix,memory,grpc-unary,grpc-stream";
const MANY: &str = "logberg-lab ramp machines --machines 10,40,70,100 --time-scale 10";
const B: &str = "logberg-lab ramp workload b";

pub(super) const ROWS: &[Row] = &[
    have(
        "R1",
        "4.1.1: one proposer, text over TCP, disk and RAM, 40 machines, 10 B to 1 MB [.017 to .94 s; .017 to .21 s]",
        "logberg-lab ramp size --machines 40 --time-scale 10",
    ),
    have(
        "R2",
        "4.1.2: the same over gRPC [.31 to 2.34 s; .305 to .49 s]",
        CALLS,
    ),
    have(
        "R3",
        "4.1.3: one proposer, RAM, 10 to 100 machines [.004 to .22 s]",
        MANY,
    ),
    have("R4", "4.1.3: the same, disk [.003 to .248 s]", MANY),
    have(
        "R5",
        "4.1.4: RAM, added latency, 10 to 100 machines [.055 to .275 s]",
        "logberg-lab ramp latency --machines 10,40,100 --time-scale 10",
    ),
    have(
        "R6",
        "4.2.1: two proposers, text over TCP, 10 B to 100 KB [.010 to .17 s; .0095 to .041 s]",
        "logberg-lab ramp size --proposers 2",
    ),
    have(
        "R7",
        "4.2.2: two proposers over gRPC, 10 B to 1 MB [.35 to 5.6 s; .33 to 4.33 s]",
        "logberg-lab ramp size --proposers 2 --transports tcp,grpc-unary",
    ),
    have(
        "R8",
        "repository: two proposers, RAM, 10 to 100 machines [.003 to .21 s]",
        "logberg-lab ramp machines --proposers 2 --machines 10,40,100 --time-scale 10",
    ),
    have(
        "R9",
        "repository: the same with latency [.082 to .1325 s]",
        "logberg-lab ramp latency --proposers 2",
    ),
    have("R10", "referenced and absent: disk with latency", LATENCY),
    have(
        "R11",
        "workload A: one proposer",
        "logberg-lab ramp workload a",
    ),
    have(
        "R12",
        "workload B: two, the first a little earlier, for the same decrees",
        B,
    ),
    have(
        "R13",
        "workload C: the first dies after ten decrees; the second must go on (it did not)",
        "logberg-lab ramp workload c",
    ),
    have(
        "R14",
        "workload D: several proposers [3 of 5]",
        "logberg-lab ramp workload d",
    ),
    have(
        "R15",
        "variable: ink, RAM or a disk that was never synced; the motive was persistent memory",
        SIZE,
    ),
    have("R16", "variable: transport, text over TCP or gRPC", WAYS),
    have(
        "R17",
        "variable: size of a proposal, 10 B to 1 MB; here it is sent",
        SIZE,
    ),
    have("R18", "variable: machines, 5 to 100", MANY),
    have(
        "R19",
        "variable: proposers",
        "logberg-lab ramp workload d --proposers 5",
    ),
    have(
        "R20",
        "variable: latency, 5 to 38 ms at each acceptor",
        LATENCY,
    ),
    have(
        "R21",
        "metric: mean and histogram of learning",
        "logberg-lab ramp workload d --report learned.html",
    ),
    have(
        "R22",
        "conclusion: for small proposals ink does not matter; it does from 10 or 100 KB on",
        SIZE,
    ),
    have(
        "R23",
        "conclusion: gRPC is reliable and costs much [17 to 35 ×]",
        CALLS,
    ),
    have(
        "R24",
        "conclusion: more machines, more time [grows as N^1.8 to N^1.95]",
        MACHINES,
    ),
    have("R25", "conclusion: more proposers, slightly slower", B),
    have("R26", "conclusion: latency dominates ink", LATENCY),
    have(
        "R27",
        "question: would C or C++ show the ink more clearly?",
        SIZE,
    ),
    have(
        "R28",
        "gRPC used better, the promise as the answer of the call",
        "logberg-lab ramp size --transports tcp,grpc-unary,grpc-stream",
    ),
];
