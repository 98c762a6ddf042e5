//! How long an auxiliary that stood in keeps bytes, once the active follower is back and the load goes on.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use client::Client;
use serde::Serialize;

use bench::latency::rounded;
use bench::load::{Plan, Writer};
use testbed::cluster::{LocalCluster, log_of};
use testbed::level;
use testbed::watch::sleep_until;

use super::{CHEAP, NODES, PATIENCE};

/// Bytes of the log on the auxiliary's disk.
#[derive(Debug, Serialize)]
pub struct Returned {
    /// The time for which the follower was away.
    pub away_seconds: f64,
    pub watched_seconds: f64,
    pub bytes_when_back: u64,
    pub bytes_max: u64,
    pub bytes_at_end: u64,
    /// From the follower's start until the leader's proposals went past the auxiliary for good; none if they did
    /// not.
    pub at_rest_after_seconds: Option<f64>,
}

const AWAY: Duration = Duration::from_secs(3);
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Kills the active follower under load, starts it again, and watches the auxiliary for so long.
pub fn watch(
    cluster: &LocalCluster,
    client: &Client,
    plan: &Plan,
    seconds: f64,
) -> Result<Returned> {
    let mut writer = Writer::start(client, CHEAP, plan)?;
    sleep_until(Instant::now() + Duration::from_secs(1))?;
    let leader = level::leader(&cluster.addresses(), CHEAP).context("there is no leader")?;
    let active = (1..NODES)
        .find(|node| *node != leader)
        .context("no other active node")?;
    cluster.kill(active)?;
    sleep_until(Instant::now() + AWAY)?;
    writer.check()?;
    let addresses = cluster.addresses();
    let auxiliary = &addresses[NODES as usize - 1];
    let of_log = |address: &str| {
        let status = level::status(address).with_context(|| format!("{address} is mute"))?;
        log_of(&status, CHEAP)
            .cloned()
            .context("a node lacks the log")
    };
    let bytes_when_back = of_log(auxiliary)?.disk_bytes;
    cluster.restart(active)?;
    let back = Instant::now();
    let end = back + Duration::from_secs_f64(seconds);
    let (mut bytes_max, mut bytes_at_end) = (bytes_when_back, bytes_when_back);
    let mut at_rest_since = None;
    while Instant::now() < end {
        sleep_until(Instant::now() + LOOK_EVERY)?;
        writer.check()?;
        bytes_at_end = of_log(auxiliary)?.disk_bytes;
        bytes_max = bytes_max.max(bytes_at_end);
        let leader = level::leader(&addresses, CHEAP).context("there is no leader")?;
        match of_log(&addresses[leader as usize - 1])?.engaged {
            true => at_rest_since = None,
            false => _ = at_rest_since.get_or_insert(Instant::now()),
        }
    }
    writer.finish()?;
    level::wait_level(&addresses, CHEAP, PATIENCE)?;
    Ok(Returned {
        away_seconds: AWAY.as_secs_f64(),
        watched_seconds: seconds,
        bytes_when_back,
        bytes_max,
        bytes_at_end,
        at_rest_after_seconds: at_rest_since.map(|at| rounded((at - back).as_secs_f64())),
    })
}
