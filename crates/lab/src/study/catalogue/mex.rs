//! The rows of the sharded key/value store of 6.824.

use super::{Row, have, missing, not_built, part};

const KV: &str = "logberg-lab bench kv";
const RECOVER: &str = "logberg-lab bench recover";
const PHASE_ONE: &str = "variants of phase 1 in the engine, which the product does not have";
const REPLICAS: &str = "several numbers of replicas in one run";
const MOVES: &str = "a move of slots with so many bytes, timed";
const BY_SIZE: &str = "states of so many bytes in values of several sizes";

pub(super) const ROWS: &[Row] = &[
    missing(
        "M1",
        "table 1, vanilla: latency and throughput by one key, many keys, replicas, groups (17 numbers)",
        PHASE_ONE,
    ),
    part(
        "M2",
        "table 2, multipaxos: the same (18 numbers)",
        KV,
        "one key beside many, and other numbers of replicas and groups",
    ),
    missing(
        "M3",
        "figure 1: 2 to 10 replicas [65, 31, 22, 12, 1 /s]",
        REPLICAS,
    ),
    missing(
        "M4",
        "figure 2: 1 to 5 groups [75, 112, 167, 194, 266 /s]",
        "several numbers of groups in one run",
    ),
    missing(
        "M5",
        "table 3, requests for 5 instances, one and three proposers [30, 89; 20, 27; 17, 20]",
        PHASE_ONE,
    ),
    part(
        "M6",
        "1 GB written to the database [HDD 21.5 s, SSD 6.1 s]",
        "logberg-lab bench shelf",
        "exactly 1 GB",
    ),
    part(
        "M7",
        "recovery of 1 GB [\"TBD\"]",
        RECOVER,
        "keys; it is of logs",
    ),
    missing(
        "M8",
        "recovery of 100 MB without disk, values of 5 KB to 1.5 MB [473 to 8.3 s, 465 to 1.4 of them reading]",
        BY_SIZE,
    ),
    missing(
        "M9",
        "moving a shard of 100 MB [163 to 9 s, 4 to 5 messages]",
        MOVES,
    ),
    missing(
        "M10",
        "the same, 500 MB under a threshold of 75 MB [66 s, 23 messages]",
        MOVES,
    ),
    missing(
        "M11",
        "claim: the leader's optimisations are worth a factor of two",
        PHASE_ONE,
    ),
    missing(
        "M12",
        "claim: replicas cost traffic [system 27 to 2, 45 to 10.3 /s from 3 to 10]",
        REPLICAS,
    ),
    missing(
        "M13",
        "claim: groups scale linearly [45 to 124 /s for 3]",
        "several numbers of groups in one run",
    ),
    missing(
        "M14",
        "claim: one key is slower than many, also in one group; unexplained [19 × at 10 replicas]",
        "one key beside many in one run",
    ),
    part(
        "M15",
        "claim: saturation at 10 to 50 clients, then decline",
        KV,
        "100 clients",
    ),
    missing(
        "M16",
        "claim: simple logging costs a factor of ten",
        "levels of logging in one run",
    ),
    part(
        "M17",
        "claim: a leader writes less Paxos state",
        "logberg bench append",
        "records by kind; it has bytes on disk per byte",
    ),
    not_built(
        "M18",
        "suspicion: UDP would be faster",
        "a transport without a system call bounds what any transport could give",
    ),
    part(
        "M19",
        "a database of 100 MB over plain TCP in < 1 s",
        RECOVER,
        "keys; it is of logs",
    ),
    part(
        "M20",
        "recovery with disk, one replica",
        "logberg-lab bench catch-up",
        "keys; it is of logs",
    ),
    part(
        "M21",
        "recovery without disk, one replica",
        RECOVER,
        "keys; it is of logs",
    ),
    part(
        "M22",
        "all crash, disks kept",
        RECOVER,
        "keys; it is of logs",
    ),
    part(
        "M23",
        "progress while a replica recovers",
        RECOVER,
        "keys; it is of logs",
    ),
    part(
        "M24",
        "transfers within a memory limit [100 MB]",
        "logberg-lab bench memory",
        "moves of slots; it is of streams",
    ),
    have(
        "M25",
        "at most once across restarts",
        "logberg-lab torture --kv --minutes 1",
    ),
    part(
        "M26",
        "four AgreementSpeed benchmarks (1 and 5 instances, values, 1 and 3 proposers)",
        "logberg-lab bench instructions",
        "three proposers",
    ),
    missing(
        "M27",
        "Join, Leave, JoinLeave speed",
        "changes of the map of slots, timed",
    ),
    missing(
        "M28",
        "balance within one, fewest moves",
        "a count beside M27; tests hold it",
    ),
    missing(
        "M29",
        "variable: Unix socket, TCP",
        "carriers between nodes; clients have both",
    ),
    part(
        "M30",
        "variable: persistent or not, values kept in memory, cache, compression",
        SIZE,
        "keys; inks of logs are there",
    ),
    missing(
        "M31",
        "a transfer goes on from another peer when one dies",
        "a move of slots whose source dies, timed; tests hold it",
    ),
];

const SIZE: &str = "logberg-lab ramp size";
