//! The stream, and the kill in the middle of it.
//!
//! ```text
//!   0 ─────────── 25 % ─────────── 50 % ─────────── 75 % ─────────── 100 %   of the bytes
//!                  └─ acknowledged    └─ handed over   └─ no more is handed over before the kill
//!                     at the kill        before it
//! ```
//!
//! Bytes are held back until the kill is done, so it comes in the middle however fast they go.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use client::{AppendOptions, Appender, Client, Statistics};
use hdrhistogram::Histogram;
use sha2::{Digest, Sha256};

use super::nodes::LOG;
use super::source::{Source, fill};
use super::teller::Teller;
use testbed::cluster::LocalCluster;
use wire::quantity;

/// Handed over at a time; also how finely latency is sampled.
const PIECE_BYTES_MAX: u64 = 256 << 10;
/// The bytes that the client keeps until they are acknowledged: enough to keep three disks busy, and few
/// enough that latency speaks of the cluster and not of a queue before it.
const BUFFER_BYTES: usize = 8 << 20;
/// At the kill, so much is to be under way.
const IN_FLIGHT_BYTES: u64 = 4 << 20;
const FAILOVER_MAX: Duration = Duration::from_secs(30);

pub struct Appended {
    pub sha256: [u8; 32],
    pub sent: u64,
    pub acknowledged: u64,
    pub killed: Killed,
    /// From the kill to the first acknowledgement of the next leader.
    pub failover: Duration,
    pub next_leader: Option<u32>,
    pub statistics: Statistics,
    /// From the first byte to the clean end.
    pub took: Duration,
    /// Microseconds from handing over to acknowledgement.
    pub latency: Histogram<u64>,
}

pub struct Killed {
    pub node: u32,
    /// When it was gone.
    pub acknowledged: u64,
    pub in_flight: u64,
    at: Instant,
}

pub fn append(
    source: &Source,
    client: &Client,
    cluster: &LocalCluster,
    teller: &Teller,
) -> Result<Appended> {
    let heard = Arc::new(Mutex::new(Heard::new()?));
    let hear = heard.clone();
    let options = AppendOptions {
        label: Some("demo".to_owned()),
        buffer_bytes_max: BUFFER_BYTES,
        on_acknowledged: Some(Box::new(move |position, when| {
            lock(&hear).on_acknowledged(position, when);
        })),
        ..AppendOptions::default()
    };
    let total = source.length();
    teller.say(format_args!(
        "Appending {} of {} to the log {LOG}.",
        quantity::shown(total),
        source.describe()
    ));
    teller.begin(total, "acknowledged");
    let began = Instant::now();
    let mut feed = Feed {
        source: source.open()?,
        total,
        buffer: vec![0; (total / 64).clamp(1, PIECE_BYTES_MAX) as usize],
        appender: client.append(LOG, options)?,
        heard,
        hash: Sha256::new(),
        teller,
    };
    while feed.appender.position() < total / 2 {
        feed.piece()?;
    }
    let killed = feed.kill_leader(cluster)?;
    if killed.in_flight == 0 {
        // So that there is something for the next leader to acknowledge.
        feed.piece()?;
    }
    let reopened = feed.wait_reopened(&killed)?;
    let next_leader = cluster.leader(LOG);
    cluster.restart(killed.node)?;
    teller.say(format_args!(
        "Started node {} again on its directory.",
        killed.node
    ));
    while feed.piece()? > 0 {}
    feed.check_whole()?;
    let closed = feed.appender.close().with_context(|| {
        let acknowledged = feed.appender.acknowledged();
        format!("{acknowledged} of {total} bytes are acknowledged, and the stream cannot be closed")
    })?;
    let took = began.elapsed();
    teller.finish();
    let heard = lock(&feed.heard);
    let first = heard.since_kill.iter().find(|when| **when >= reopened);
    // Without a byte, the next leader's first word is that the stream goes on there.
    let first = first.copied().unwrap_or(reopened);
    Ok(Appended {
        sha256: feed.hash.finalize_reset().into(),
        sent: feed.appender.position(),
        acknowledged: closed.position,
        failover: first - killed.at,
        killed,
        next_leader,
        statistics: feed.appender.statistics(),
        took,
        latency: heard.latency.clone(),
    })
}

struct Feed<'a> {
    source: Box<dyn Read + Send>,
    total: u64,
    buffer: Vec<u8>,
    appender: Appender,
    heard: Arc<Mutex<Heard>>,
    hash: Sha256,
    teller: &'a Teller,
}

impl Feed<'_> {
    /// Hands over the next piece and returns its length, 0 at the end.
    fn piece(&mut self) -> Result<u64> {
        let count = fill(&mut *self.source, &mut self.buffer).context("cannot read on")?;
        let piece = &self.buffer[..count];
        self.hash.update(piece);
        let end = self.appender.position() + count as u64;
        lock(&self.heard)
            .handed_over
            .push_back((end, Instant::now()));
        self.appender.write_all(piece)?;
        self.teller.progress(self.appender.acknowledged());
        Ok(count as u64)
    }

    fn kill_leader(&mut self, cluster: &LocalCluster) -> Result<Killed> {
        self.appender.wait_acknowledged(self.total / 4)?;
        let node = cluster.leader(LOG);
        let node = node.ok_or_else(|| anyhow!("no node leads the log {LOG}"))?;
        // While we asked, everything may have been acknowledged.
        let wanted = (self.total / 16).min(IN_FLIGHT_BYTES);
        while self.in_flight() <= wanted && self.may_hand_over() && self.piece()? > 0 {}
        self.appender.flush()?;
        lock(&self.heard).killed = true;
        let at = Instant::now();
        cluster.kill(node)?;
        let acknowledged = self.appender.acknowledged();
        let in_flight = self.appender.position() - acknowledged;
        self.teller.say(format_args!(
            "Killed node {node}, the leader, with -9: {} acknowledged, {} under way.",
            quantity::shown(acknowledged),
            quantity::shown(in_flight)
        ));
        Ok(Killed {
            node,
            acknowledged,
            in_flight,
            at,
        })
    }

    fn in_flight(&self) -> u64 {
        self.appender.position() - self.appender.acknowledged()
    }

    /// Whether another piece leaves a quarter for after the kill.
    fn may_hand_over(&self) -> bool {
        let piece = self.buffer.len() as u64;
        self.appender.position() + piece <= self.total - self.total / 4
    }

    /// Waits until the client has opened a stream at the next leader, and returns a time just
    /// before that.
    fn wait_reopened(&mut self, killed: &Killed) -> Result<Instant> {
        let opened_before = 1;
        let mut before = Instant::now();
        loop {
            // Fails when the client has given up.
            self.appender.flush()?;
            if self.appender.statistics().streams_opened > opened_before {
                return Ok(before);
            }
            if killed.at.elapsed() > FAILOVER_MAX {
                bail!("the client found no next leader within {FAILOVER_MAX:?}");
            }
            before = Instant::now();
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn check_whole(&self) -> Result<()> {
        let sent = self.appender.position();
        match sent == self.total {
            true => Ok(()),
            false => bail!(
                "the file shrank from {} to {sent} bytes while it was read",
                self.total
            ),
        }
    }
}

/// The cluster's answers; filled by the client's thread.
struct Heard {
    /// Ends of pieces not acknowledged yet, and when each was handed over.
    handed_over: VecDeque<(u64, Instant)>,
    latency: Histogram<u64>,
    killed: bool,
    /// The first acknowledgements after the kill.
    since_kill: Vec<Instant>,
}

/// The dead leader's last words and the first of the next are among so many.
const SINCE_KILL_MAX: usize = 10_000;

impl Heard {
    fn new() -> Result<Heard> {
        Ok(Heard {
            handed_over: VecDeque::new(),
            latency: Histogram::new_with_bounds(1, 600_000_000, 3)?,
            killed: false,
            since_kill: Vec::new(),
        })
    }

    fn on_acknowledged(&mut self, position: u64, when: Instant) {
        while let Some((end, since)) = self.handed_over.front().copied()
            && end <= position
        {
            self.handed_over.pop_front();
            let waited = when.saturating_duration_since(since).as_micros() as u64;
            self.latency.saturating_record(waited);
        }
        if self.killed && self.since_kill.len() < SINCE_KILL_MAX {
            self.since_kill.push(when);
        }
    }
}

fn lock(heard: &Mutex<Heard>) -> MutexGuard<'_, Heard> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}
