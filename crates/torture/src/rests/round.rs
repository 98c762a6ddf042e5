//! One round: commands, bytes, rest, death, and what must be so afterwards.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::ValueEnum;
use client::members::{Action, Change};
use client::{Client, NewLog, Timeouts};

use super::READY_MAX;
use crate::answered::{self, Answered, Found, append};
use crate::content;
use testbed::cluster::LocalCluster;
use testbed::watch::{Watch, sleep_until};

const LOG: &str = "main";
const NARROW: &str = "1MB";
const WIDE: &str = "forever";
/// The retention of a new log: one that can be told from the default.
const OF_NEW_LOG: &str = "1GiB,9d";
/// A leader looks at what its log is to keep twice a second: a wrong trim has happened by then.
const SETTLE: Duration = Duration::from_millis(1500);
/// The size of pieces of appends that are not the round's own matter.
const ASIDE_BYTES: u64 = 1_000_000;
/// Streams of other logs, and deleted names, of the latest rounds are looked at again and again.
const LOOKED_AT_MAX: usize = 4;

/// Which command is the last of log 0 before the death of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Last {
    /// What a log keeps
    Retention,
    /// A log is deleted
    Deletion,
    /// A log is made
    NewLog,
    /// A node's weight is changed
    Weight,
    /// A log is deleted, and made anew
    Anew,
}

impl Last {
    /// Every other one is what a log keeps: that is what was seen to lose bytes.
    pub fn in_turn() -> Vec<Last> {
        let others = [Self::Deletion, Self::NewLog, Self::Weight, Self::Anew];
        let pairs = others.into_iter().map(|other| [Self::Retention, other]);
        pairs.flatten().collect()
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Retention => "retention",
            Self::Deletion => "deletion",
            Self::NewLog => "new-log",
            Self::Weight => "weight",
            Self::Anew => "anew",
        }
    }
}

pub struct Rounds<'a> {
    cluster: &'a LocalCluster,
    client: Client,
    seed: u64,
    append_bytes: u64,
    rest: Duration,
    answered: Answered,
    pub acked_bytes: u64,
    pub lost_bytes: u64,
    pub longest_start: Duration,
    pub violations: Vec<String>,
}

impl<'a> Rounds<'a> {
    pub fn new(cluster: &'a LocalCluster, seed: u64, append_bytes: u64, rest: Duration) -> Self {
        let timeouts = Timeouts {
            total: READY_MAX,
            ..Timeouts::default()
        };
        Self {
            cluster,
            client: Client::new(cluster.addresses(), timeouts),
            seed,
            append_bytes,
            rest,
            answered: Answered::default(),
            acked_bytes: 0,
            lost_bytes: 0,
            longest_start: Duration::ZERO,
            violations: Vec::new(),
        }
    }

    /// Errors: a step could not be done at all. A step done wrongly is a violation.
    pub fn round(&mut self, number: u32, last: Last, watch: &Watch) -> Result<()> {
        self.command(number, last)?;
        self.append(LOG, number, 0, self.append_bytes)?;
        let nodes = self.cluster.addresses().len();
        watch.says(format!(
            "round {number}: {}; {nodes} nodes rest",
            last.name()
        ));
        sleep_until(Instant::now() + self.rest)?;
        self.cluster.kill_all()?;
        let started = Instant::now();
        // At once: then each log finds a leader of its own, and one that leads acts on a directory that
        // another node has not told it the end of.
        for id in 1..=nodes as u32 {
            self.cluster.restart(id)?;
        }
        let mut found = Found::default();
        self.answered.check_names(&self.client, &mut found)?;
        self.cluster.wait_ready(READY_MAX)?;
        self.longest_start = self.longest_start.max(started.elapsed());
        sleep_until(Instant::now() + SETTLE)?;
        self.judge(&mut found)?;
        self.lost_bytes += found.lost_bytes;
        self.violations.append(&mut found.violations);
        self.forget_old();
        Ok(())
    }

    fn judge(&self, found: &mut Found) -> Result<()> {
        let client = &self.client;
        self.answered.check_names(client, found)?;
        self.answered.check_weights(client, found)?;
        self.answered.check_left(client, LOG, found)?;
        self.cluster.wait_level(LOG, READY_MAX, |_| {})?;
        let mut most = 0;
        for address in self.cluster.addresses() {
            // A byte that is lost on every node is one byte.
            let mut here = Found::default();
            self.answered
                .check_streams(client, &address, &|_| true, &mut here);
            most = most.max(here.lost_bytes);
            found.violations.append(&mut here.violations);
        }
        found.lost_bytes += most;
        Ok(())
    }

    fn command(&mut self, number: u32, last: Last) -> Result<()> {
        let gone = format!("gone-{number}");
        if matches!(last, Last::Deletion | Last::Anew) {
            self.create(&gone, None)?;
            self.append(&gone, number, 1, ASIDE_BYTES)?;
        }
        self.retain(NARROW)?;
        // Bytes that the narrow bound forgets may be gone.
        self.answered.streams.retain(|stream| stream.log != LOG);
        self.retain(WIDE)?;
        let streams = self.client.streams(LOG)?;
        let left =
            |stream: client::admin::StreamInfo| (stream.name, (stream.trimmed, stream.length));
        self.answered.left = streams.into_iter().map(left).collect();
        match last {
            Last::Retention => Ok(()),
            Last::Deletion => self.delete(&gone),
            Last::Anew => {
                self.delete(&gone)?;
                self.create(&gone, None)?;
                self.append(&gone, number, 2, ASIDE_BYTES)
            }
            Last::NewLog => {
                let name = format!("new-{number}");
                self.create(&name, Some(OF_NEW_LOG))?;
                self.append(&name, number, 1, ASIDE_BYTES)
            }
            Last::Weight => {
                let node = self.cluster.addresses().len() as u64;
                let key = (LOG.to_owned(), node);
                let weight = match self.answered.weights.get(&key) {
                    Some(2) => 1,
                    _ => 2,
                };
                let mut change = Change::new(Action::Weight { node, weight });
                change.logs = vec![LOG.to_owned()];
                self.client
                    .change_members(&change)
                    .context("the weight cannot be changed")?;
                self.answered.weights.insert(key, weight);
                Ok(())
            }
        }
    }

    fn retain(&mut self, retention: &str) -> Result<()> {
        let said = self.client.retain(LOG, retention)?;
        let id = self.client.log(LOG)?.id;
        let kept = (id, said.retention);
        self.answered.logs.insert(LOG.to_owned(), kept);
        Ok(())
    }

    fn create(&mut self, name: &str, retention: Option<&str>) -> Result<()> {
        let created = self.client.create_new_log(&NewLog {
            name: name.to_owned(),
            retention: retention.map(str::to_owned),
            ..NewLog::default()
        });
        let created = created.with_context(|| format!("cannot create {name}"))?;
        let kept = retention.unwrap_or(WIDE).to_owned();
        self.answered.deleted.retain(|deleted| deleted != name);
        self.answered
            .logs
            .insert(name.to_owned(), (created.id, kept));
        Ok(())
    }

    fn delete(&mut self, name: &str) -> Result<()> {
        self.client
            .delete_log(name)
            .with_context(|| format!("cannot delete {name}"))?;
        self.answered.logs.remove(name);
        self.answered.streams.retain(|stream| stream.log != name);
        self.answered.deleted.push(name.to_owned());
        Ok(())
    }

    fn append(&mut self, log: &str, number: u32, which: usize, bytes: u64) -> Result<()> {
        let key = content::key(self.seed, which, number);
        let stream = append(&self.client, log, key, bytes)?;
        self.acked_bytes += bytes;
        self.answered.streams.push(stream);
        Ok(())
    }

    /// Rounds must not take longer and longer: logs of old rounds go, and old deletions are believed.
    fn forget_old(&mut self) {
        let excess = self.answered.deleted.len().saturating_sub(LOOKED_AT_MAX);
        self.answered.deleted.drain(..excess);
        let aside = |stream: &&answered::Stream| stream.log != LOG;
        let count = self.answered.streams.iter().filter(aside).count();
        let mut excess = count.saturating_sub(LOOKED_AT_MAX);
        self.answered.streams.retain(|stream| {
            let goes = stream.log != LOG && excess > 0;
            excess -= usize::from(goes);
            !goes
        });
    }
}
