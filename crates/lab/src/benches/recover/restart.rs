//! All nodes killed and started: how soon the cluster serves.

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use client::{AppendOptions, Client, Timeouts};
use serde::Serialize;

use super::cluster::{LOG, NODES};
use bench::history::forget_pages;
use bench::latency::{ms, rounded};
use testbed::cluster::LocalCluster;
use testbed::level;
use testbed::process::peak_rss_bytes;
use testbed::scratch::go_on;

#[derive(Debug, Serialize)]
pub struct Restart {
    /// The last of the nodes.
    pub answers_after_ms: f64,
    /// A byte that is appended now is acknowledged.
    pub serves_after_ms: f64,
    /// The peak of the node that had most by then.
    pub peak_rss_mb: f64,
}

const PATIENCE: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(5);

pub fn measure(cluster: &LocalCluster) -> Result<Restart> {
    for node in 1..=NODES {
        cluster.kill(node)?;
    }
    for node in 1..=NODES {
        forget_pages(&cluster.node_directory(node))?;
    }
    let began = Instant::now();
    for node in 1..=NODES {
        cluster.restart(node)?;
    }
    let addresses = cluster.addresses();
    let (answers, serves) = std::thread::scope(|scope| {
        let last = scope.spawn(|| last_answers(&addresses, began));
        let serves = first_ack(&addresses).map(|()| began.elapsed());
        (last.join(), serves)
    });
    let answers = answers.map_err(|_| anyhow::anyhow!("a thread panicked"))??;
    let mut peak = 0;
    for node in 1..=NODES {
        let pid = cluster.pid(node);
        peak = peak.max(peak_rss_bytes(
            pid.with_context(|| format!("node {node} ended"))?,
        )?);
    }
    Ok(Restart {
        answers_after_ms: rounded(ms(answers)),
        serves_after_ms: rounded(ms(serves?)),
        peak_rss_mb: rounded(peak as f64 / 1e6),
    })
}

fn last_answers(addresses: &[String], began: Instant) -> Result<Duration> {
    for address in addresses {
        while level::status(address).is_none() {
            go_on()?;
            if began.elapsed() > PATIENCE {
                anyhow::bail!("{address} does not answer after {} s", PATIENCE.as_secs());
            }
            std::thread::sleep(POLL);
        }
    }
    Ok(began.elapsed())
}

fn first_ack(addresses: &[String]) -> Result<()> {
    let timeouts = Timeouts {
        connect: Duration::from_millis(500),
        silence: Duration::from_secs(1),
        total: PATIENCE,
    };
    let client = Client::new(addresses.to_vec(), timeouts);
    let mut appender = client.append(LOG, AppendOptions::default())?;
    appender.write_all(b"!")?;
    appender.wait_acknowledged(1)?;
    appender.close()?;
    Ok(())
}
