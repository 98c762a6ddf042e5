//! The rows of Zero-copy Paxos.

use super::{Row, have};

const GRID: &str = "logberg-lab zcp grid --report grid.html";

pub(super) const ROWS: &[Row] = &[
    have(
        "Z1",
        "Table 1, the share of the target that is delivered [≥ 0.99 in 52 cells, < 0.95 in 37]",
        GRID,
    ),
    have(
        "Z2",
        "Table 2, writes per second [1.1 to 1.4 M at the client's limit; one cell 2.2]",
        GRID,
    ),
    have(
        "Z3",
        "Table 3, mean acknowledged batch [283 B to 2.6 MB]",
        GRID,
    ),
    have("Z4", "Table 4, median latency", GRID),
    have("Z5", "Table 5, 99th percentile of latency", GRID),
    have("Z6", "plot: delivered by rate and size", GRID),
    have(
        "Z7",
        "plot: rate of writes, with the two limits shaded [1 MHz, 175 MB/s]",
        GRID,
    ),
    have(
        "Z8",
        "plot: how many are slower than a latency, 16 panels",
        GRID,
    ),
    have(
        "Z9",
        "plot: CPU, user and system, of leader and follower",
        GRID,
    ),
    have("Z10", "plot: mean acknowledged batch", GRID),
    have("Z11", "90th, 95th, 99.5th and 99.9th percentiles", GRID),
    have(
        "Z12",
        "the client: one write() a request, bound at about 1 MHz [100 to 106 % of a core]",
        "logberg-lab zcp grid --client raw",
    ),
    have(
        "Z13",
        "latency by consecutive round trips, one in flight [63,916 samples a cell down to 31]",
        "logberg-lab zcp grid --latency round-trips",
    ),
    have(
        "Z14",
        "claim: ≥ 99 % up to 20 MB/s at 20 B, 120 at 100 B, 190 at 500 and 1000 B",
        GRID,
    ),
    have(
        "Z15",
        "claim: below about 200 B the client's calls limit, above it disk and network [about 180 MB/s]",
        GRID,
    ),
    have(
        "Z16",
        "claim: median < 2 ms at most sizes, 20 to 170 MB/s; 99th percentile < 10 ms, 20 to 140 MB/s",
        GRID,
    ),
    have("Z17", "claim: 14 ms below 20 MB/s, cause unknown", GRID),
    have(
        "Z18",
        "claim: queues explode near the limit [1.0 to 1.5 s from 190 MB/s]",
        GRID,
    ),
    have(
        "Z19",
        "claim: user CPU trivial [≤ 3.0 % to 190 MB/s]; system < 50 % of a core until the limit",
        GRID,
    ),
    have(
        "Z20",
        "claim: work per batch is constant; batches form by themselves, for each connection",
        "logberg-lab zcp batches",
    ),
    have(
        "Z21",
        "runs that failed at first, because the last stream was not closed",
        GRID,
    ),
    have(
        "Z22",
        "claim: f + 1 copies and bandwidth in place of 2f + 1",
        "logberg-lab bench auxiliary",
    ),
    have(
        "Z23",
        "future work: auxiliaries engage by themselves",
        "logberg-lab bench auxiliary",
    ),
    have(
        "Z24",
        "reconfiguration while running",
        "logberg-lab bench reconfigure",
    ),
    have(
        "Z25",
        "claim: > 1 MHz at 1 to 10 ms, where others do 100 to 250 kHz at 10 to 100 µs",
        GRID,
    ),
    have(
        "Z26",
        "future work: other transports, a tuned stack: congestion control, sizes of buffers",
        "logberg-lab zcp stack",
    ),
    have(
        "Z27",
        "what it lacked: restart, catch-up, failover [9.5 s]",
        "logberg-lab bench failover",
    ),
    have(
        "Z28",
        "the engine alone, 10⁶ batches of 1500 slots [0.10 to 0.14 s]",
        "cargo run --release -p logberg-paxos --example batches",
    ),
];
