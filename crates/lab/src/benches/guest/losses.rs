//! Two losses: all three processes at once, and the state of one.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Serialize;

use super::callers::Figures;
use super::cluster::{Cluster, NODES};
use super::orders::Order;
use super::rows::Rows;
use bench::latency::{ms, rounded};
use testbed::scratch::Scratch;
use testbed::watch::{Watch, sleep_until};

#[derive(Debug, Serialize)]
pub struct Restart {
    /// The bytes of the log that were not flushed, on the node that had most: it applies them again.
    pub unflushed_bytes: u64,
    /// The next submit is answered, since the first process was started.
    pub answers_after_ms: f64,
    /// All three have answered a read.
    pub all_read_after_ms: f64,
}

/// Kills all three processes, and starts them again.
pub fn restart(cluster: &mut Cluster, patience: Duration) -> Result<Restart> {
    let unflushed = (1..=NODES).filter_map(|id| {
        let log = cluster.log(id)?;
        let end = log.trimmed_bytes + log.output_bytes;
        Some(end.saturating_sub(log.state?.durable))
    });
    let unflushed_bytes = unflushed.max().unwrap_or(0);
    cluster.kill(1..=NODES);
    for id in 1..=NODES {
        cluster.forget_pages(id)?;
    }
    let began = Instant::now();
    for id in 1..=NODES {
        cluster.start_node(id)?;
    }
    let (_, answered) = cluster.first_answer(patience)?;
    cluster.wait_reads(patience)?;
    let all_read_after_ms = rounded(ms(began.elapsed()));
    Ok(Restart {
        unflushed_bytes,
        answers_after_ms: rounded(ms(answered - began)),
        all_read_after_ms,
    })
}

#[derive(Debug, Serialize)]
pub struct Refill {
    /// The keys and values of the state.
    pub state_bytes: u64,
    /// The part of the log that was trimmed by then: with nothing trimmed the state is made from the log, and else copied.
    pub trimmed_bytes: u64,
    /// It says that its state is whole and lacks nothing, since the process was started again.
    pub whole_after_s: f64,
    /// It has answered a read.
    pub reads_after_s: f64,
    /// Until then.
    pub mb_per_s: f64,
    pub callers: u32,
    /// Submits with all states whole.
    pub before: Figures,
    /// Submits from the start of the process until it has answered a read.
    pub meanwhile: Figures,
    pub ratio_p99: f64,
}

const WARM_UP: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(50);

/// The load under which a state is lost, and how long the state is waited for.
pub struct Loss<'a> {
    pub rows: Rows,
    pub callers: u32,
    pub before: Duration,
    pub patience: Duration,
    pub scratch: &'a Scratch,
    pub watch: &'a Watch,
}

impl Loss<'_> {
    /// Removes the state of one follower while its process is dead, and starts it under a load of submits.
    pub fn measure(&self, cluster: &mut Cluster) -> Result<Refill> {
        let leader = cluster.gather()?;
        let lost = (1..=NODES).find(|id| *id != leader);
        let lost = lost.context("there is a follower")?;
        let longest = self.before + self.patience + Duration::from_secs(60);
        let load = Order::Load {
            callers: self.callers,
            seconds_max: longest.as_secs_f64(),
        };
        cluster.ask(leader, &load)?;
        sleep_until(Instant::now() + WARM_UP)?;
        cluster.window(leader)?;
        self.watch.says("submits, all states whole");
        sleep_until(Instant::now() + self.before)?;
        let before = cluster.window(leader)?;
        cluster.kill(lost..=lost);
        // Put aside: a disk that is told of so much free space is slow for seconds.
        let directory = cluster.node_directory(lost);
        let aside = directory.with_extension("lost");
        fs::rename(directory.join("state"), &aside).context("there is a state to be lost")?;
        // A while with two nodes is in neither of the two figures.
        sleep_until(Instant::now() + WARM_UP)?;
        cluster.window(leader)?;
        self.watch.says("submits, a state is lost");
        let log = cluster.log(leader).context("the leader is mute")?;
        let began = Instant::now();
        cluster.start_node(lost)?;
        while !cluster.is_whole(lost) {
            if began.elapsed() > self.patience {
                let seconds = self.patience.as_secs();
                bail!("the lost state is not whole after {seconds} s");
            }
            self.scratch.check_space()?;
            sleep_until(Instant::now() + POLL)?;
        }
        let whole_after_s = rounded(began.elapsed().as_secs_f64());
        // A state that is made from the log alone is whole at once, and late.
        cluster.wait_read(lost, self.patience)?;
        let seconds = began.elapsed().as_secs_f64();
        let meanwhile = cluster.window(leader)?;
        cluster.ask(leader, &Order::Rest)?;
        self.scratch.retire(&aside)?;
        Ok(Refill {
            state_bytes: self.rows.bytes(),
            trimmed_bytes: log.trimmed_bytes,
            whole_after_s,
            reads_after_s: rounded(seconds),
            mb_per_s: rounded(self.rows.bytes() as f64 / 1e6 / seconds),
            callers: self.callers,
            ratio_p99: rounded(meanwhile.p99_ms / before.p99_ms.max(0.001)),
            before,
            meanwhile,
        })
    }
}
