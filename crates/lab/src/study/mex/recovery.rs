//! A replica of many bytes comes back, with its disk and without.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bench::roles::Watched;
use clap::{Args, ValueEnum};
use client::members::{Action, Change};
use testbed::cluster::log_of;
use testbed::level;
use testbed::scratch::go_on;
use wire::told::LogStatus;

use super::beside::Beside;
use super::volumes::{NODES, PATIENCE, POLL, READ, Study, Volume, pids, read, volume_bytes};
use crate::benches::kv::generator::Generator;
use crate::benches::kv::load::{Load, Op};
use crate::benches::kv::nodes::Nodes;
use crate::benches::kv::slots::Map;
use crate::study::common::finish;

pub const RECOVERY: &str = "\
lost: a node's directory is taken away; it comes back as a new node, is filled by its peers, and gets the votes of the old one. kept: it
comes back with its directory, after others wrote a tenth of all keys again. all: every node is killed at once, and all come back.
The time ends when the node has the whole state of every group. With --beside one client goes on setting keys, a millisecond after each
answer, in groups that the node does not lead: what it waits is set beside what it waited before the node died.

Example:
  logberg-lab mex recovery --disk lost,kept --bytes 20MB --value-sizes 5KB,1MB";

/// Recover a replica of many bytes, with its disk and without
#[derive(Debug, Args)]
pub struct Recovery {
    /// Bytes of all values [default: 100MB, or 20MB with --quick]
    #[arg(long, value_name = "BYTES", value_parser = volume_bytes)]
    bytes: Option<u64>,
    /// The fate of the disk
    #[arg(
        long,
        value_name = "FATE,…",
        value_delimiter = ',',
        default_value = "lost,kept,all"
    )]
    disk: Vec<Disk>,
    /// One client goes on setting keys of other groups while a replica recovers
    #[arg(long)]
    beside: bool,
    #[command(flatten)]
    volume: Volume,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Disk {
    /// Another directory, which is empty
    Lost,
    /// The same directory
    Kept,
    /// The same directories, of nodes that all died
    All,
}

/// A client is looked at for so long before a replica dies.
const AT_REST: Duration = Duration::from_secs(2);
const AT_REST_TOLD: &str = "a client before";

impl Disk {
    fn name(self) -> &'static str {
        match self {
            Disk::Lost => "disk lost",
            Disk::Kept => "disk kept",
            Disk::All => "all crashed, disks kept",
        }
    }

    /// The client that goes on beside it.
    fn beside(self) -> &'static str {
        match self {
            Disk::Lost => "a client while one recovers, disk lost",
            Disk::Kept => "a client while one recovers, disk kept",
            Disk::All => "nobody",
        }
    }
}

impl Recovery {
    pub fn run(self, json: bool) -> Result<()> {
        let common = &self.volume.common;
        let report = common.report.open()?;
        let fates = self.disk.clone();
        let bytes = (self.bytes, 100_000_000, 20_000_000);
        let mut study = self.volume.begin(bytes, 3, fates.len() as u64)?;
        study.each_size(|study, nodes, size| {
            study.watch.says(format!("writing values of {size} B"));
            let map = Map::of_cluster(&nodes.doors, study.keys(size))?;
            let mut generator = Generator::new(map, size as usize)?;
            generator.fill(|_| ())?;
            nodes.wait_whole(PATIENCE)?;
            for fate in &fates {
                study
                    .watch
                    .says(format!("values of {size} B: {}", fate.name()));
                let beside = match self.beside && *fate != Disk::All {
                    true => {
                        let away = nodes.door(NODES);
                        let beside = Beside::start(&nodes.doors, study.keys(size), away)?;
                        thread::sleep(AT_REST);
                        Some((beside, Instant::now()))
                    }
                    false => None,
                };
                let (began, took) = recover(study, nodes, (&mut generator, size), *fate)?;
                study.note(fate.name(), size, took);
                if let Some((beside, before)) = beside {
                    let waited = beside.end(before, (began, began + took))?;
                    study.note_all(AT_REST_TOLD, size, waited.before);
                    study.note_all(fate.beside(), size, waited.meanwhile);
                }
                read(&mut generator)?;
                study.watch.step(1);
            }
            Ok(())
        })?;
        let items = ["recovery of 100 MB, SSD", "recovery of 100 MB, HDD"];
        let items = if study.bytes == 100_000_000 {
            &items[..]
        } else {
            &[]
        };
        let run = study.run("mex recovery", 1, items);
        finish(run, common, (json, report), |_| {
            let lost = Disk::Lost.name();
            let ratio = study.small_to_large("recovery, small/large values", lost);
            let meanwhile = [Disk::Lost.beside(), Disk::Kept.beside()];
            let beside = study.progress(AT_REST_TOLD, &meanwhile);
            let all = ratio.into_iter().chain(study.memory());
            all.chain(beside).collect()
        })
    }
}

/// Returns when the node came back, and how long it took until the node that came back had the whole state of every group.
fn recover(
    study: &mut Study<'_>,
    nodes: &Nodes,
    (generator, size): (&mut Generator, u64),
    fate: Disk,
) -> Result<(Instant, Duration)> {
    let lost = NODES;
    let directory = nodes.cluster.node_directory(lost);
    let aside = directory.with_extension(format!("lost-{size}"));
    let old = nodes.cluster.status(lost)?.node;
    let mut least = output_bytes(nodes)?;
    match fate {
        Disk::All => nodes.cluster.kill_all()?,
        Disk::Lost | Disk::Kept => nodes.cluster.kill(lost)?,
    }
    match fate {
        Disk::Lost => fs::rename(&directory, &aside)?,
        // Meanwhile others go on.
        Disk::Kept => {
            rewrite(generator)?;
            least = output_bytes(nodes)?;
        }
        Disk::All => {}
    }
    let began = Instant::now();
    let back = match fate {
        Disk::All => 1..=NODES,
        Disk::Lost | Disk::Kept => lost..=lost,
    };
    for node in back {
        nodes.cluster.restart(node)?;
    }
    // Those that go on serve what the other lacks: their memory is looked at.
    let all = pids(nodes)?;
    let others = match fate {
        Disk::All => &[][..],
        Disk::Lost | Disk::Kept => &all[..lost as usize - 1],
    };
    let took = study.watched(others, || {
        wait_whole(nodes, lost, &least)?;
        Ok(began.elapsed())
    })?;
    if fate == Disk::Lost {
        take_its_place(nodes, old, lost)?;
        study.scratch.retire(&aside)?;
    }
    nodes.wait_whole(PATIENCE)?;
    nodes.spread()?;
    Ok((began, took))
}

/// A slice of writes to keys that are drawn.
fn rewrite(generator: &mut Generator) -> Result<()> {
    let load = Load {
        op: Op::Set,
        clients: 4,
        pipeline: 1,
    };
    let turn = generator.turn(load, READ, &Watched::new(Vec::new(), None))?;
    match turn.wrong {
        0 => Ok(()),
        wrong => bail!(
            "{wrong} replies are wrong: {}",
            turn.why.unwrap_or_default()
        ),
    }
}

/// The bytes that each group's log ever had, by the account of the first node.
fn output_bytes(nodes: &Nodes) -> Result<Vec<u64>> {
    let status = nodes.cluster.status(1)?;
    let each = nodes.groups.iter().map(|group| {
        let log = log_of(&status, group).with_context(|| format!("{group} is gone"))?;
        Ok(length_of(log))
    });
    each.collect()
}

/// ‡ With those that were trimmed: a log is trimmed once states have them, and would never be as long again as it was said to be.
fn length_of(log: &LogStatus) -> u64 {
    log.trimmed_bytes + log.output_bytes
}

/// `least`: the bytes that each group's log has had at least. A node that comes back says that it lacks nothing until it hears of more.
fn wait_whole(nodes: &Nodes, node: u32, least: &[u64]) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    let address = nodes.cluster.address(node);
    let is_whole = |(group, least): (&String, &u64)| -> bool {
        let status = level::status(address);
        let log = status.as_ref().and_then(|status| log_of(status, group));
        let state = log
            .filter(|log| log.missing_bytes == 0 && length_of(log) >= *least)
            .and_then(|log| log.state.as_ref());
        state.is_some_and(|state| state.whole)
    };
    while !nodes.groups.iter().zip(least).all(is_whole) {
        go_on()?;
        if Instant::now() > deadline {
            bail!("node {node} is not whole after {} s", PATIENCE.as_secs());
        }
        thread::sleep(POLL);
    }
    Ok(())
}

/// The new node gets the votes of the one that it was, in every log.
fn take_its_place(nodes: &Nodes, old: u64, place: u32) -> Result<()> {
    let new = nodes.cluster.status(place)?.node;
    let client = nodes.client();
    client.change_members(&Change::new(Action::Replace { old, new }))?;
    let deadline = Instant::now() + PATIENCE;
    while !client.members()?.removed.contains(&old) {
        go_on()?;
        if Instant::now() > deadline {
            bail!("node {new} has not got all votes of node {old}");
        }
        thread::sleep(POLL);
    }
    Ok(())
}
