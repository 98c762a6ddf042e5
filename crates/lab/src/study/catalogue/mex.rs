//! The rows of the sharded key/value store of 6.824.

use super::{Row, have, not_built};

pub(super) const ROWS: &[Row] = &[
    have(
        "M1",
        "table 1, vanilla: latency and throughput by one key, many keys, replicas, groups (17 numbers)",
        "logberg-lab mex kv --phase-one per-batch",
    ),
    have(
        "M2",
        "table 2, multipaxos: the same (18 numbers)",
        "logberg-lab mex kv",
    ),
    have(
        "M3",
        "figure 1: 2 to 10 replicas [65, 31, 22, 12, 1 /s]",
        "logberg-lab mex replicas",
    ),
    have(
        "M4",
        "figure 2: 1 to 5 groups [75, 112, 167, 194, 266 /s]",
        "logberg-lab mex groups",
    ),
    have(
        "M5",
        "table 3, requests for 5 instances, one and three proposers [30, 89; 20, 27; 17, 20]",
        "logberg-lab mex messages",
    ),
    have(
        "M6",
        "1 GB written to the database [HDD 21.5 s, SSD 6.1 s]",
        "logberg-lab mex fill",
    ),
    have(
        "M7",
        "recovery of 1 GB [\"TBD\"]",
        "logberg-lab mex recovery --bytes 1GB",
    ),
    have(
        "M8",
        "recovery of 100 MB without disk, values of 5 KB to 1.5 MB [473 to 8.3 s, 465 to 1.4 of them reading]",
        "logberg-lab mex recovery",
    ),
    have(
        "M9",
        "moving a shard of 100 MB [163 to 9 s, 4 to 5 messages]",
        "logberg-lab mex move",
    ),
    have(
        "M10",
        "the same, 500 MB under a threshold of 75 MB [66 s, 23 messages]",
        "logberg-lab mex move --bytes 500MB --value-sizes 500KB",
    ),
    have(
        "M11",
        "claim: the leader's optimisations are worth a factor of two",
        "logberg-lab mex kv --phase-one per-batch",
    ),
    have(
        "M12",
        "claim: replicas cost traffic [system 27 to 2, 45 to 10.3 /s from 3 to 10]",
        "logberg-lab mex replicas",
    ),
    have(
        "M13",
        "claim: groups scale linearly [45 to 124 /s for 3]",
        "logberg-lab mex groups --apart",
    ),
    have(
        "M14",
        "claim: one key is slower than many, also in one group; unexplained [19 × at 10 replicas]",
        "logberg-lab mex replicas",
    ),
    have(
        "M15",
        "claim: saturation at 10 to 50 clients, then decline",
        "logberg-lab mex clients",
    ),
    have(
        "M16",
        "claim: simple logging costs a factor of ten",
        "logberg-lab mex logging",
    ),
    have(
        "M17",
        "claim: a leader writes less Paxos state",
        "logberg-lab mex messages",
    ),
    not_built(
        "M18",
        "suspicion: UDP would be faster",
        "a transport without a system call bounds what any transport could give",
    ),
    have(
        "M19",
        "a database of 100 MB over plain TCP in < 1 s",
        "logberg-lab mex recovery --disk lost --bytes 100MB",
    ),
    have(
        "M20",
        "recovery with disk, one replica",
        "logberg-lab mex recovery --disk kept",
    ),
    have(
        "M21",
        "recovery without disk, one replica",
        "logberg-lab mex recovery --disk lost",
    ),
    have(
        "M22",
        "all crash, disks kept",
        "logberg-lab mex recovery --disk all",
    ),
    have(
        "M23",
        "progress while a replica recovers",
        "logberg-lab mex recovery --beside",
    ),
    have(
        "M24",
        "transfers within a memory limit [100 MB]",
        "logberg-lab mex move",
    ),
    have(
        "M25",
        "at most once across restarts",
        "logberg-lab torture --kv --minutes 1",
    ),
    have(
        "M26",
        "four AgreementSpeed benchmarks (1 and 5 instances, values, 1 and 3 proposers)",
        "logberg-lab mex messages",
    ),
    have(
        "M27",
        "Join, Leave, JoinLeave speed",
        "logberg-lab mex controller",
    ),
    have(
        "M28",
        "balance within one, fewest moves",
        "logberg-lab mex controller",
    ),
    have(
        "M29",
        "variable: Unix socket, TCP",
        "logberg-lab mex kv --transports unix",
    ),
    not_built(
        "M30",
        "variable: persistent or not, values kept in memory, cache, compression",
        "persistent or not is `logberg-lab mex kv --ink ram`; no number was published for a cache or for compression, and all keys of its experiments fit into the rows' cache of 32 MiB, so that its size could show nothing; rows are not compressed",
    ),
    have(
        "M31",
        "a transfer goes on from another peer when one dies",
        "logberg-lab mex move --kill",
    ),
];
