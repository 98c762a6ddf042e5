//! A disk is lost: its node comes back as a new one and is filled by its peers.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use client::members::{Action, Change};
use client::{Client, Timeouts};
use hdrhistogram::Histogram;
use serde::Serialize;

use super::cluster::{LOG, NODES};
use bench::latency::{histogram, quantile_ms, rounded};
use bench::load::{Content, Plan, Writer};
use testbed::cluster::{LocalCluster, log_of};
use testbed::level;
use testbed::scratch::Scratch;
use testbed::watch::{Watch, sleep_until};

pub struct Refill<'a> {
    pub cluster: &'a LocalCluster,
    pub scratch: &'a Scratch,
    pub watch: &'a Watch,
    pub patience: Duration,
    /// The ids of the nodes, in the order of their addresses: they change with a lost disk.
    pub ids: Vec<u64>,
}

#[derive(Debug, Serialize)]
pub struct Refilled {
    /// Until it lacked nothing of what is chosen, since its empty directory was started.
    pub seconds: f64,
    pub bytes: u64,
    pub mb_per_s: f64,
    /// Latencies of appends while the node was away, and while it was filled.
    pub before_p50_ms: Option<f64>,
    pub before_p99_ms: Option<f64>,
    pub while_p50_ms: Option<f64>,
    pub while_p99_ms: Option<f64>,
    pub ratio_p99: Option<f64>,
    #[serde(skip)]
    pub micros: [Histogram<u64>; 2],
}

const POLL: Duration = Duration::from_millis(50);
/// For the disk, after so much was removed.
const REST: Duration = Duration::from_secs(5);
/// No window ends before it is read.
const FAR: Duration = Duration::from_secs(100_000);

impl Refill<'_> {
    pub fn quiet(&mut self) -> Result<Refilled> {
        let (lost, aside) = self.lose_a_disk()?;
        self.watch.says("filling a node, nobody appends");
        let (seconds, bytes) = self.fill(lost, &mut || Ok(()))?;
        self.take_its_place(lost)?;
        self.scratch.retire(&aside)?;
        sleep_until(Instant::now() + REST)?;
        Ok(Refilled::new(seconds, bytes, None))
    }

    pub fn under_load(
        &mut self,
        rate: u64,
        write_bytes: usize,
        before: Duration,
    ) -> Result<Refilled> {
        let client = Client::new(self.cluster.addresses(), Timeouts::default());
        let plan = Plan {
            write_bytes,
            rate: Some(rate),
            buffer_bytes: 64 << 20,
            content: Content::Repeated,
        };
        let (lost, _) = self.lose_a_disk()?;
        let mut writer = Writer::start(&client, LOG, &plan)?;
        self.watch.says("a node is away");
        sleep_until(Instant::now() + Duration::from_secs(1))?;
        let count_anew = |writer: &Writer| {
            let now = Instant::now();
            writer.latencies().set_window(now, now + FAR);
        };
        count_anew(&writer);
        sleep_until(Instant::now() + before)?;
        writer.check()?;
        let away = writer.latencies().micros();
        self.watch.says("filling a node under load");
        count_anew(&writer);
        let (seconds, bytes) = self.fill(lost, &mut || writer.check())?;
        let filling = writer.latencies().micros();
        writer.finish()?;
        self.take_its_place(lost)?;
        Ok(Refilled::new(seconds, bytes, Some([away, filling])))
    }

    /// Loses the disk of a node that does not lead. Returns the node's place among the addresses, from 1, and
    /// where its files are now: a disk that is told of so much free space is slow for seconds, and they are
    /// what is measured.
    fn lose_a_disk(&self) -> Result<(u32, PathBuf)> {
        let leader = level::leader(&self.cluster.addresses(), LOG);
        let leader = leader.context("there is no leader")?;
        let lost = (1..=NODES).find(|place| *place != leader);
        let lost = lost.context("there is a follower")?;
        self.cluster.kill(lost)?;
        let directory = self.cluster.node_directory(lost);
        let aside = directory.with_extension("lost");
        fs::rename(directory, &aside)?;
        Ok((lost, aside))
    }

    /// Returns the seconds it took, and how many bytes the log had when it was done.
    fn fill(&self, lost: u32, check: &mut dyn FnMut() -> Result<()>) -> Result<(f64, u64)> {
        let least = self.output_bytes(lost)?;
        let began = Instant::now();
        self.cluster.restart(lost)?;
        loop {
            let status = level::status(self.cluster.address(lost));
            let log = status.as_ref().and_then(|status| log_of(status, LOG));
            if let Some(log) = log.filter(|log| log.missing_bytes == 0 && log.output_bytes >= least)
            {
                return Ok((began.elapsed().as_secs_f64(), log.output_bytes));
            }
            check()?;
            self.scratch.check_space()?;
            if began.elapsed() > self.patience {
                let (seconds, has) = (
                    self.patience.as_secs(),
                    log.map_or(0, |log| log.output_bytes),
                );
                let missing = log.map_or(0, |log| log.missing_bytes);
                bail!(
                    "the node is not whole after {seconds} s: it knows of {has} bytes of {least}, \
                     and lacks {missing}"
                );
            }
            sleep_until(Instant::now() + POLL)?;
        }
    }

    /// The bytes of the log's output, by the account of another node.
    fn output_bytes(&self, lost: u32) -> Result<u64> {
        let other = (1..=NODES).find(|place| *place != lost);
        let address = self.cluster.address(other.context("there are others")?);
        let status = level::status(address).with_context(|| format!("{address} is mute"))?;
        let log = log_of(&status, LOG).context("a node lost its log")?;
        Ok(log.output_bytes)
    }

    /// The new node gets the votes of the one that it was, in every log: until then one more lost disk
    /// may be one too many.
    fn take_its_place(&mut self, lost: u32) -> Result<()> {
        let address = self.cluster.address(lost);
        let status = level::status(address).with_context(|| format!("{address} is mute"))?;
        let new = status.node;
        let old = std::mem::replace(&mut self.ids[lost as usize - 1], new);
        let addresses = self.cluster.addresses();
        let client = Client::new(addresses.clone(), Timeouts::default());
        client.change_members(&Change::new(Action::Replace { old, new }))?;
        let deadline = Instant::now() + self.patience;
        while !client.members()?.removed.contains(&old) {
            if Instant::now() > deadline {
                bail!("node {new} has not got all votes of node {old}");
            }
            sleep_until(Instant::now() + POLL)?;
        }
        level::wait_ready(&addresses, LOG, self.patience)
    }
}

impl Refilled {
    fn new(seconds: f64, bytes: u64, acks: Option<[Histogram<u64>; 2]>) -> Refilled {
        let quantile = |at: usize, quantile| {
            let micros = acks.as_ref().map(|acks| &acks[at]);
            micros.map(|micros| rounded(quantile_ms(micros, quantile)))
        };
        let (before, during) = (quantile(0, 0.99), quantile(1, 0.99));
        let ratio = before.zip(during);
        Refilled {
            seconds: rounded(seconds),
            bytes,
            mb_per_s: rounded(bytes as f64 / 1e6 / seconds),
            before_p50_ms: quantile(0, 0.5),
            before_p99_ms: before,
            while_p50_ms: quantile(1, 0.5),
            while_p99_ms: during,
            ratio_p99: ratio.map(|(before, during)| rounded(during / before.max(0.001))),
            micros: acks.unwrap_or_else(|| [histogram(), histogram()]),
        }
    }
}
