//! Workload c: the node that leads dies after ten decrees of the proposer beside it, and another one goes on.

use std::time::Duration;

use anyhow::{Context, Result};
use testbed::scratch::go_on;
use testbed::watch::Watch;

use super::cluster::Cluster;
use super::found::Found;

const READY: Duration = Duration::from_secs(60);
/// Decrees of each proposer around a death.
const AROUND: u64 = 10;

/// The first decree after a death.
pub const FIRST: &str = "first after a death";

/// So many deaths of each way, in turns.
pub fn through(clusters: &mut [Cluster], deaths: u32, bytes: usize) -> Result<Found> {
    let mut found = Found::default();
    let watch = Watch::new(u64::from(deaths) * clusters.len() as u64);
    for death in 1..=deaths {
        for cluster in clusters.iter_mut() {
            if go_on().is_err() {
                found.ended = true;
                return Ok(found);
            }
            watch.says(format!("death {death} of {deaths}, {}", cluster.way));
            one(cluster, bytes, &mut found)?;
            *found.counts.entry("deaths".to_owned()).or_default() += 1;
            watch.step(1);
        }
    }
    Ok(found)
}

fn one(cluster: &mut Cluster, bytes: usize, found: &mut Found) -> Result<()> {
    let nodes = &cluster.spoken.nodes;
    let group = nodes.groups.first().context("there is no group")?;
    let leader = nodes.leader(group).context("the group has no leader")?;
    let at = leader as usize - 1;
    let mut dies = cluster.proposer(at, bytes);
    // It has a connection, to the node that will die.
    let mut goes_on = cluster.proposer(at + 1, bytes);
    for proposer in [&mut goes_on, &mut dies] {
        for _ in 0..AROUND {
            let took = cluster.propose(proposer)?;
            found.note("before", cluster.way, took);
        }
    }
    cluster.spoken.nodes.cluster.kill(leader)?;
    drop(dies);
    for after in 0..AROUND {
        let took = cluster.propose(&mut goes_on)?;
        let name = if after == 0 { FIRST } else { "after" };
        found.note(name, cluster.way, took);
    }
    let nodes = &cluster.spoken.nodes;
    nodes.cluster.restart(leader)?;
    nodes.wait_whole(READY)?;
    nodes.spread()
}
