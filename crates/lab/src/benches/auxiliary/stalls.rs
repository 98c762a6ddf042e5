//! Disks that stand still for a while and go on: all of them, as those of a common device do, or the active follower's alone.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use client::Client;
use serde::Serialize;

use bench::latency::{quantile_ms, rounded};
use bench::load::{Plan, Writer};
use terminal::show;
use testbed::cluster::{LocalCluster, log_of};
use testbed::level;
use testbed::watch::sleep_until;

use super::{CHEAP, NODES, PATIENCE};

/// Latencies of appends while disks stall, and what the log with an auxiliary sent.
#[derive(Debug, Serialize)]
pub struct Stalls {
    stall_ms: u64,
    stalls: u32,
    /// All disks stall: of three copies, which are what no auxiliary can slow down, and with an auxiliary.
    three_copies_p99_ms: f64,
    with_an_auxiliary_p99_ms: f64,
    p99_ratio: f64,
    /// Bytes that the leader sent per acknowledged byte: 1 if the auxiliary rested.
    leader_sends: f64,
    /// The active follower's disk stalls alone, and the auxiliary stands in.
    of_one_p99_ms: f64,
    of_one_max_ms: f64,
    of_one_leader_sends: f64,
}

/// Longer than the time after which an auxiliary is engaged for one disk, and shorter than that for all.
const STALL: Duration = Duration::from_millis(250);
const GOES_ON: Duration = Duration::from_millis(1_750);

struct Seen {
    p99_ms: f64,
    max_ms: f64,
    sends: f64,
}

impl Stalls {
    pub fn print(&self) -> Result<()> {
        show::print(format_args!(
            "all disks stall for {} ms, {} times: p99 {} ms with an auxiliary and {} ms with three copies ({} times as long); the leader sends {} of each byte",
            self.stall_ms,
            self.stalls,
            self.with_an_auxiliary_p99_ms,
            self.three_copies_p99_ms,
            self.p99_ratio,
            self.leader_sends
        ))?;
        show::print(format_args!(
            "the active follower's disk stalls alone: p99 {} ms, {} ms at most; the leader sends {} of each byte",
            self.of_one_p99_ms, self.of_one_max_ms, self.of_one_leader_sends
        ))
    }
}

/// Each kind so often.
pub fn measure(cluster: &LocalCluster, client: &Client, plan: &Plan, times: u32) -> Result<Stalls> {
    let all: Vec<u32> = (1..=NODES).collect();
    let three = appending(cluster, client, plan, "main", &all, times)?;
    let cheap = appending(cluster, client, plan, CHEAP, &all, times)?;
    let leader = level::leader(&cluster.addresses(), CHEAP).context("there is no leader")?;
    let active = (1..NODES)
        .find(|node| *node != leader)
        .context("no other active node")?;
    let one = appending(cluster, client, plan, CHEAP, &[active], times)?;
    Ok(Stalls {
        stall_ms: STALL.as_millis() as u64,
        stalls: times,
        three_copies_p99_ms: three.p99_ms,
        with_an_auxiliary_p99_ms: cheap.p99_ms,
        p99_ratio: rounded(cheap.p99_ms / three.p99_ms),
        leader_sends: cheap.sends,
        of_one_p99_ms: one.p99_ms,
        of_one_max_ms: one.max_ms,
        of_one_leader_sends: one.sends,
    })
}

/// Appends while the disks of these nodes stall at the same time, so often.
fn appending(
    cluster: &LocalCluster,
    client: &Client,
    plan: &Plan,
    log: &str,
    nodes: &[u32],
    times: u32,
) -> Result<Seen> {
    let before = sent(cluster, log)?;
    let mut writer = Writer::start(client, log, plan)?;
    let begun = Instant::now() + Duration::from_millis(500);
    sleep_until(begun)?;
    writer
        .latencies()
        .set_window(begun, begun + (STALL + GOES_ON) * times);
    for round in 0..times {
        let at = begun + (STALL + GOES_ON) * round;
        sleep_until(at + GOES_ON / 2)?;
        say(
            cluster,
            nodes,
            &format!("write-delay-ms={}\n", 10 * STALL.as_millis()),
        )?;
        let over = sleep_until(at + GOES_ON / 2 + STALL);
        // Whatever happened: the disks go on.
        say(cluster, nodes, "")?;
        over?;
        writer.check()?;
    }
    sleep_until(begun + (STALL + GOES_ON) * times)?;
    let (closed, micros) = writer.finish_measured()?;
    level::wait_level(&cluster.addresses(), log, PATIENCE)?;
    let sends = (sent(cluster, log)? - before) as f64 / closed.position.max(1) as f64;
    Ok(Seen {
        p99_ms: rounded(quantile_ms(&micros, 0.99)),
        max_ms: rounded(quantile_ms(&micros, 1.0)),
        sends: rounded(sends),
    })
}

fn say(cluster: &LocalCluster, nodes: &[u32], what: &str) -> Result<()> {
    for node in nodes {
        let file = cluster.fault_file(*node);
        fs::write(&file, what).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

fn sent(cluster: &LocalCluster, log: &str) -> Result<u64> {
    let mut sent = 0;
    for address in cluster.addresses() {
        let status = level::status(&address).with_context(|| format!("{address} is mute"))?;
        sent += log_of(&status, log).map_or(0, |log| log.proposal_bytes_sent);
    }
    Ok(sent)
}
