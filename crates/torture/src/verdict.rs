//! The end: whole again, every node's bytes against what was acknowledged, every read against the
//! model.

use std::io::BufRead;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use client::{Client, ReadError, ReadOptions};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::ledger::{Kind, Ledger};
use super::rack::Rack;
use testbed::cluster::LocalCluster;
use testbed::scratch::go_on;

/// The whole cluster has this long to become whole once nothing is done to it any more.
pub const WHOLE_MAX: Duration = Duration::from_secs(120);

/// The bytes that one node returned of one log.
#[derive(Clone, Debug, Serialize)]
pub struct NodeBytes {
    pub node: u32,
    pub log: String,
    pub bytes: u64,
    pub sha256: String,
    /// Acknowledged bytes that it did not return, or returned otherwise.
    pub lost_bytes: u64,
    /// The first difference from what observers saw, or the reason why it could not be read to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wrong: Option<String>,
}

/// The number in the history of the reader that reads at the end.
const LAST_READER: u32 = 0;

/// Every node knows the same to be chosen, and holds it, in every log.
pub fn wait_whole(rack: &Rack, logs: &[String]) -> Result<()> {
    let deadline = Instant::now() + WHOLE_MAX;
    rack.cluster.wait_ready(WHOLE_MAX)?;
    for log in logs {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = left.max(Duration::from_secs(1));
        rack.cluster.wait_level(log, left, |_| {})?;
    }
    Ok(())
}

/// One linearizable read of what was chosen last, so that the history says what became of it.
pub fn last_read(client: &Client, ledger: &Ledger) -> Result<()> {
    let from = ledger.known();
    let invoked = ledger.now();
    let options = ReadOptions {
        from,
        ..ReadOptions::default()
    };
    let mut reader = match client.read(&ledger.log, options) {
        Ok(reader) => reader,
        Err(ReadError::PastEnd { length, .. }) => {
            ledger.observed(Kind::Read, LAST_READER, from, length, invoked);
            return Ok(());
        }
        Err(error) => return Err(error).context("the last read failed"),
    };
    let mut at = from;
    loop {
        let bytes = reader.fill_buf().context("the last read failed")?;
        if bytes.is_empty() {
            break;
        }
        if ledger.see("the last reader", at, bytes).is_err() {
            return Ok(());
        }
        let count = bytes.len();
        at += count as u64;
        reader.consume(count);
    }
    ledger.observed(Kind::Read, LAST_READER, from, at, invoked);
    Ok(())
}

/// Whether streams that writers closed are closed.
pub fn check_ends(client: &Client, ledger: &Ledger) -> Result<()> {
    let streams = client.streams(&ledger.log);
    let streams =
        streams.with_context(|| format!("the streams of {} cannot be had", ledger.log))?;
    ledger.check_ends(&streams);
    Ok(())
}

/// All that every one of these nodes holds of a log, read from it alone; nodes at the same time.
pub fn read_nodes(
    cluster: &LocalCluster,
    client: &Client,
    holders: &dyn Fn(&str) -> Vec<u32>,
    ledgers: &[Arc<Ledger>],
    says: &(dyn Fn(String) + Sync),
) -> Result<Vec<NodeBytes>> {
    let mut all = Vec::new();
    for ledger in ledgers {
        says(format!("reading {} from every node", ledger.log));
        let found = std::thread::scope(|scope| {
            let threads: Vec<_> = holders(&ledger.log)
                .into_iter()
                .map(|id| {
                    let address = cluster.asked_at_of(id);
                    scope.spawn(move || read_node(client, id, &address, ledger))
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| {
                    let found = thread.join();
                    found.map_err(|_| anyhow!("a thread that read a node panicked"))?
                })
                .collect::<Result<Vec<_>>>()
        })?;
        all.extend(found);
    }
    Ok(all)
}

fn read_node(client: &Client, node: u32, address: &str, ledger: &Ledger) -> Result<NodeBytes> {
    let mut hash = Sha256::new();
    let (mut at, mut right) = (0, 0);
    let mut wrong = None;
    let invoked = ledger.now();
    let options = ReadOptions {
        server: Some(address.to_owned()),
        ..ReadOptions::default()
    };
    let mut reader = client
        .read(&ledger.log, options)
        .with_context(|| format!("node {node} cannot be read"))?;
    loop {
        go_on()?;
        let bytes = match reader.fill_buf() {
            Ok(bytes) => bytes,
            Err(error) => {
                wrong.get_or_insert(error.to_string());
                break;
            }
        };
        if bytes.is_empty() {
            break;
        }
        hash.update(bytes);
        if wrong.is_none() {
            // Bytes behind the known end were seen by nobody yet.
            match ledger.see(&format!("node {node}"), at, bytes) {
                Ok(()) => right += bytes.len() as u64,
                Err(found) => {
                    right += ledger.same(at, bytes);
                    let position = found.position;
                    wrong = Some(format!("another byte than was appended at {position}"));
                }
            }
        }
        let count = bytes.len();
        at += count as u64;
        reader.consume(count);
    }
    ledger.observed(Kind::Peek, LAST_READER, 0, right, invoked);
    Ok(NodeBytes {
        node,
        log: ledger.log.clone(),
        bytes: at,
        sha256: hex(&hash.finalize()),
        lost_bytes: ledger.acked_not_below(right),
        wrong,
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The same bytes of each log on every node.
pub fn are_identical(found: &[NodeBytes]) -> bool {
    found.iter().all(|one| {
        let same = |other: &&NodeBytes| other.log == one.log;
        let mut of_log = found.iter().filter(same);
        one.wrong.is_none() && of_log.all(|other| other.sha256 == one.sha256)
    })
}

/// The verdict of the histories.
#[derive(Debug, Default)]
pub struct Judged {
    pub operations: u64,
    /// Reads and peeks that cannot be explained.
    pub unjustified_reads: u64,
    /// Each with its log.
    pub violations: Vec<String>,
}

pub fn judge(ledgers: &[Arc<Ledger>]) -> Result<Judged> {
    let mut judged = Judged::default();
    for ledger in ledgers {
        let wrong_reads = ledger.wrong_reads();
        judged.unjustified_reads += wrong_reads.len() as u64;
        judged.violations.extend(wrong_reads);
        judged.violations.extend(ledger.wrong_appends());
        let history = ledger.history();
        judged.operations += history.len() as u64;
        let violations = match history::check(&history) {
            Ok(violations) => violations,
            Err(error) => bail!("the history of {} cannot be checked: {error}", ledger.log),
        };
        let mut unjustified: Vec<usize> = violations
            .iter()
            .filter_map(history::Violation::observer)
            .collect();
        unjustified.sort_unstable();
        unjustified.dedup();
        judged.unjustified_reads += unjustified.len() as u64;
        let log = &ledger.log;
        let sentences = violations.iter().map(|one| format!("{log}: {one}"));
        judged.violations.extend(sentences);
    }
    Ok(judged)
}
