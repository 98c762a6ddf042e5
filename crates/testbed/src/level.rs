//! Asking nodes by their addresses, which may be proxies', whether the cluster is whole.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use client::admin::{LogStatus, Status};
use client::{Client, Timeouts};

use crate::cluster::log_of;
use crate::scratch::go_on;

const POLL: Duration = Duration::from_millis(20);

/// A node's own view; none if it does not answer within a second.
pub fn status(address: &str) -> Option<Status> {
    let timeouts = Timeouts {
        connect: Duration::from_millis(500),
        silence: Duration::from_secs(1),
        total: Duration::from_secs(1),
    };
    let client = Client::new(vec![address.to_owned()], timeouts);
    client.status_of(address).ok()
}

/// `era.number.owner`, in an order that can be compared.
pub fn term(text: &str) -> Vec<u64> {
    text.split('.')
        .map(|part| part.parse().unwrap_or(0))
        .collect()
}

/// The node that leads, by its own account; of several, the one with the newest term.
pub fn leader(addresses: &[String], log: &str) -> Option<u32> {
    let claims = (1..).zip(addresses).filter_map(|(id, address)| {
        let status = status(address)?;
        let log = log_of(&status, log)?;
        (log.role == "leader").then(|| (term(&log.term), id))
    });
    claims.max().map(|(_, id)| id)
}

pub fn wait_id(address: &str, id: u32, timeout: Duration) -> Result<()> {
    wait(timeout, || match status(address) {
        Some(status) if status.node == u64::from(id) => None,
        _ => Some(format!("node {id} has not joined")),
    })
}

/// Every node votes and knows the leader.
pub fn wait_ready(addresses: &[String], log: &str, timeout: Duration) -> Result<()> {
    wait_all_ready(addresses, &[log.to_owned()], timeout)
}

/// The same of many logs.
pub fn wait_all_ready(addresses: &[String], logs: &[String], timeout: Duration) -> Result<()> {
    wait(timeout, || {
        for address in addresses {
            let Some(status) = status(address) else {
                return Some(format!("{address} does not answer"));
            };
            let known: HashMap<&str, &LogStatus> = status
                .logs
                .iter()
                .map(|log| (log.name.as_str(), log))
                .collect();
            for log in logs {
                let Some(log) = known.get(log.as_str()) else {
                    return Some(format!("{address} does not know the log {log}"));
                };
                let voters = log.weights.iter().filter(|weight| weight.weight > 0);
                if voters.count() < addresses.len() || log.leader.is_none() {
                    return Some(format!("{address} has no leader or not all voters"));
                }
            }
        }
        None
    })
}

/// The log's auxiliaries get nothing, because the others are well.
pub fn wait_at_rest(addresses: &[String], log: &str, timeout: Duration) -> Result<()> {
    wait(timeout, || {
        let rests = addresses.iter().any(|address| {
            let status = status(address);
            let log = status.as_ref().and_then(|status| log_of(status, log));
            log.is_some_and(|log| log.role == "leader" && !log.engaged)
        });
        (!rests).then(|| format!("an auxiliary of the log {log} still stands in"))
    })
}

/// Every node holds everything and knows the same to be chosen. Nobody may append meanwhile.
pub fn wait_level(addresses: &[String], log: &str, timeout: Duration) -> Result<()> {
    wait(timeout, || {
        let mut chosen = Vec::new();
        for address in addresses {
            let status = status(address);
            let Some(log) = status.as_ref().and_then(|status| log_of(status, log)) else {
                return Some(format!("{address} does not answer"));
            };
            if log.missing_bytes > 0 || log.leader.is_none() {
                return Some(format!("{address} lacks {} bytes", log.missing_bytes));
            }
            chosen.push((log.first_unchosen, log.output_bytes, log.leader));
        }
        let level = chosen.windows(2).all(|pair| pair[0] == pair[1]);
        (!level).then(|| format!("the nodes do not know the same to be chosen: {chosen:?}"))
    })
}

fn wait(timeout: Duration, mut why_not: impl FnMut() -> Option<String>) -> Result<()> {
    let deadline = Instant::now() + timeout;
    while let Some(why) = why_not() {
        go_on()?;
        if Instant::now() >= deadline {
            bail!("not after {} s: {why}", timeout.as_secs());
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}
