//! The outcome of a pass, for people and machines (docs/wire.md, `scrub`).

use std::fmt;

use serde::Serialize;

use super::*;

/// The report of one pass, so far or altogether.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    pub number: u64,
    /// Whether somebody asked for it; other passes run by themselves.
    pub asked: bool,
    /// The bytes read at the leader, a second at most.
    pub rate: u64,
    /// The bytes to be looked at, as counted at its beginning.
    pub of_bytes: u64,
    pub bytes: u64,
    /// The bytes with the same digest on two replicas or more.
    pub compared_bytes: u64,
    /// Replicas' pieces with records that could not be read or had a wrong checksum.
    pub damaged: u64,
    /// The damaged pieces that were sound and the same when they were looked at again.
    pub repaired: u64,
    /// The damaged pieces that were trimmed before.
    pub trimmed: u64,
    /// Pieces that are sound on all replicas, and not the same.
    pub different: u64,
    /// The bytes not compared with all replicas: some did not hold them, or did not answer.
    pub unchecked_bytes: u64,
    /// The bytes that no member holds any more: each of them said so.
    pub lost_bytes: u64,
    pub took_ms: u64,
    #[serde(skip)]
    began: Time,
    #[serde(skip)]
    ended: Time,
}

/// Replicas hold different bytes, and every checksum is right.
#[derive(Clone, Debug)]
pub(crate) struct Difference {
    pub stream: StreamName,
    pub bytes: Range<u64>,
    pub digests: BTreeMap<NodeId, Digest>,
}

#[derive(Serialize)]
struct Shown<'a> {
    log: &'a str,
    /// The node that answers.
    node: u32,
    leads: bool,
    pass: Option<Report>,
    last: Option<Last<'a>>,
    differences: Vec<ShownDifference>,
    /// Damaged records on this node's own disk, since it started.
    found_here: u64,
    repaired_here: u64,
    /// The rate of passes that run by themselves, in bytes a second; 0 is never.
    background_rate: u64,
}

#[derive(Serialize)]
struct Last<'a> {
    #[serde(flatten)]
    report: &'a Report,
    ended_ms_ago: u64,
}

#[derive(Serialize)]
struct ShownDifference {
    stream: String,
    from: u64,
    to: u64,
    /// The digests by node.
    digests: BTreeMap<u32, String>,
}

impl Report {
    pub fn new(number: u64, of_bytes: u64, rate: u64, asked: bool, now: Time) -> Report {
        Report {
            number,
            asked,
            rate,
            of_bytes,
            bytes: 0,
            compared_bytes: 0,
            damaged: 0,
            repaired: 0,
            trimmed: 0,
            different: 0,
            unchecked_bytes: 0,
            lost_bytes: 0,
            took_ms: 0,
            began: now,
            ended: now,
        }
    }

    pub fn ended(mut self, now: Time) -> Report {
        self.ended = now;
        self.took_ms = (now - self.began).as_millis() as u64;
        self
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Range { start, end } = self.bytes;
        write!(f, "stream {} from {start} to {end}:", self.stream)?;
        for (node, digest) in &self.digests {
            write!(f, " node {node} has {:08x}", digest.0)?;
        }
        Ok(())
    }
}

impl Scrub {
    pub fn line(&self, core: &Core, env: &Env) -> String {
        let now = env.now;
        let differences = self.differences.iter().map(|d| ShownDifference {
            stream: d.stream.to_string(),
            from: d.bytes.start,
            to: d.bytes.end,
            digests: d
                .digests
                .iter()
                .map(|(node, digest)| (node.0, format!("{:08x}", digest.0)))
                .collect(),
        });
        wire::ok(&Shown {
            log: &core.name,
            node: core.engine.node().0,
            leads: core.is_leading(),
            pass: self
                .pass
                .as_ref()
                .map(|pass| pass.report.clone().ended(now)),
            last: self.last.as_ref().map(|report| Last {
                report,
                ended_ms_ago: (now - report.ended).as_millis() as u64,
            }),
            differences: differences.collect(),
            found_here: core.counts.scrub_damaged,
            repaired_here: core.counts.scrub_repaired,
            background_rate: env.limits.scrub_bytes_per_second,
        })
    }

    /// Places at which replicas were last seen to differ.
    pub fn differences(&self) -> u64 {
        self.differences.len() as u64
    }

    /// A sentence for the viewer of the node, while replicas differ.
    pub fn warning(&self, core: &Core) -> Option<String> {
        let first = self.differences.first()?;
        Some(format!(
            "nodes hold different bytes of {}: {first}; see logberg scrub --log {}",
            core.name, core.name
        ))
    }
}
