//! The work of one batch: instructions where they can be counted, CPU time of real nodes always.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bench::batches;
use bench::bed::Bed;
use testbed::cluster::log_of;
use testbed::process::cpu_of_threads;
use testbed::scratch::{Scratch, go_on};
use testbed::watch::Watch;

use crate::benches::instructions::valgrind::Callgrind;
use crate::benches::instructions::work::Work;
use crate::study::rounds::{Appends, Draw, Proposer, Samples};
use crate::study::run::{Group, Measure, Pair, Run};
use crate::study::statistics;

pub const ENGINE: &str = "Work of a batch in three engines alone, by its slots";
pub const NODES: &str = "Work of a write in three simulated nodes";
pub const CPU: &str = "CPU of a write in three real nodes";
pub const ALONE: &str = "three engines";
pub const COUNTED: &str = "instructions";
const SIMULATED: &str = "three simulated nodes";
const REAL: &str = "three nodes";
/// Slots of a batch, for engines alone.
const SLOTS: [u64; 4] = [1, 1_000, 30_000, 250_000];
/// The work that is counted lies between these numbers of batches, so that a start and an opened stream do not count.
const BATCHES: (u64, u64) = (20, 120);
const QUICK_BATCHES: (u64, u64) = (20, 80);
const MACHINES: u32 = 3;
/// The size that is measured twice, beside which the others are set.
const BASE: u64 = 1_000;
/// Writes of a second, by clients that wait; none is faster.
const WRITES_PER_S_MAX: u64 = 5_000;
const BYTES_PER_S_MAX: u64 = 1_000_000_000;

pub struct Turns {
    pub rounds: u32,
    pub slice: Duration,
    pub seed: u64,
}

/// The time of one size in each round.
pub fn slice(is_quick: bool) -> Duration {
    match is_quick {
        true => Duration::from_millis(300),
        false => Duration::from_secs(1),
    }
}

/// Each log keeps no more than this.
const KEPT: (&str, u64) = ("128MiB", 512 << 20);

pub fn bytes_needed(sizes: &[u64]) -> u64 {
    let each = |size: &u64| (size * WRITES_PER_S_MAX).min(BYTES_PER_S_MAX).min(KEPT.1);
    sizes.iter().map(each).sum::<u64>() * u64::from(MACHINES) + (1 << 30)
}

/// Instructions of a batch by its slots, and of a write by its bytes.
pub fn instructions(sizes: &[u64], is_quick: bool, watch: &Watch) -> Result<Vec<Group>> {
    let callgrind = Callgrind::new()?;
    let (few, many) = match is_quick {
        true => QUICK_BATCHES,
        false => BATCHES,
    };
    let of_one = |work: Work, size: u64| -> Result<f64> {
        go_on()?;
        watch.says(format!("counting instructions: {}, {size}", work.name()));
        let before = callgrind.count_of(work, few, size)?;
        let after = callgrind.count_of(work, many, size)?;
        Ok((after.saturating_sub(before) / (many - few)) as f64)
    };
    let group = |title: &str, x: &str, variant: &str, work: Work, sizes: &[u64]| {
        let measures = sizes
            .iter()
            .map(|size| Ok(counted(variant, *size, of_one(work, *size)?)));
        anyhow::Ok(Group {
            title: title.to_owned(),
            x: x.to_owned(),
            unit: COUNTED.to_owned(),
            measures: measures.collect::<Result<_>>()?,
        })
    };
    Ok(vec![
        group(ENGINE, "slots of a batch", ALONE, Work::Engine, &SLOTS)?,
        group(NODES, "bytes of a write", SIMULATED, Work::Nodes, sizes)?,
    ])
}

fn counted(variant: &str, x: u64, value: f64) -> Measure {
    measure(variant, x, COUNTED, (value, value, value))
}

fn measure(variant: &str, x: u64, name: &str, (value, low, high): (f64, f64, f64)) -> Measure {
    Measure {
        variant: variant.to_owned(),
        x: x as f64,
        name: name.to_owned(),
        value,
        low,
        high,
    }
}

fn id(size: u64) -> String {
    format!("{size} B")
}

fn log(at: usize) -> String {
    format!("size-{at}")
}

/// CPU time of all nodes for a write; sizes take turns. False: somebody asked it to end.
pub fn cpu(
    run: &mut Run,
    sizes: &[u64],
    turns: Turns,
    (scratch, watch): (&Scratch, &Watch),
) -> Result<bool> {
    let mut named: Vec<(String, u64)> = sizes.iter().map(|size| (id(*size), *size)).collect();
    if sizes.contains(&BASE) {
        named.push((format!("{}-again", id(BASE)), BASE));
    }
    watch.says("starting three nodes");
    let directory = scratch.path().join("waited");
    let bed = Bed::start(&directory, MACHINES, 0)?;
    let logs: Vec<String> = (0..named.len()).map(log).collect();
    bed.create(&logs)?;
    let mut proposers = Vec::new();
    for log in &logs {
        bed.client.retain(log, KEPT.0)?;
        proposers.push(Appends::to(&bed.client, log)?);
    }
    let pids: Vec<u32> = (1..=MACHINES)
        .map(|node| bed.cluster.pid(node).context("a node ended"))
        .collect::<Result<_>>()?;
    let spent = || -> Result<Duration> {
        let each = pids.iter().map(|pid| cpu_of_threads(*pid));
        Ok(each.sum::<std::io::Result<Duration>>()?)
    };
    let mut samples = vec![Samples::default(); named.len()];
    let mut draw = Draw::new(turns.seed);
    let mut order: Vec<usize> = (0..named.len()).collect();
    let mut whole = true;
    for _ in 0..turns.rounds {
        if go_on().is_err() {
            whole = false;
            break;
        }
        draw.shuffle(&mut order);
        for at in &order {
            let (id, size) = &named[*at];
            watch.says(format!("CPU of a write of {id}"));
            proposers[*at].propose(*size as usize)?;
            let (before, began, mut writes) = (spent()?, Instant::now(), 0u32);
            while began.elapsed() < turns.slice {
                proposers[*at].propose(*size as usize)?;
                writes += 1;
            }
            let took = spent()?.saturating_sub(before);
            let each = took.as_secs_f64() * 1e3 / f64::from(writes);
            samples[*at].all.push(each);
            samples[*at].rounds.push(each);
            watch.passed(turns.slice);
        }
    }
    let batches = batches_of_a_write(&bed, &logs, &named)?;
    drop((proposers, bed));
    scratch.retire(&directory)?;
    note(run, &named, &samples, &batches);
    Ok(whole)
}

/// Into so many batches a write of each size came.
fn batches_of_a_write(
    bed: &Bed,
    logs: &[String],
    named: &[(String, u64)],
) -> Result<Vec<Option<f64>>> {
    let of = |(log, (_, size)): (&String, &(String, u64))| {
        let directory = directory_of(bed, log)?;
        let mean = batches::mean_bytes(&directory)?;
        anyhow::Ok(mean.map(|mean| *size as f64 / mean))
    };
    logs.iter().zip(named).map(of).collect()
}

/// The log's directory on its leader.
pub fn directory_of(bed: &Bed, log: &str) -> Result<std::path::PathBuf> {
    let leader = bed.cluster.leader(log).context("a log has no leader")?;
    let status = bed.cluster.status(leader)?;
    let known = log_of(&status, log).context("the leader does not know its log")?;
    let name = format!("log-{}", known.id);
    Ok(bed.cluster.node_directory(leader).join(name))
}

fn note(run: &mut Run, named: &[(String, u64)], samples: &[Samples], batches: &[Option<f64>]) {
    let rounded = |value: f64| (value * 1e4).round() / 1e4;
    let mut measures = Vec::new();
    let all = || named.iter().zip(samples);
    for ((id, size), batches) in named.iter().zip(batches) {
        let is_again = id.ends_with("-again");
        let of = all().find(|((other, _), _)| other == id);
        let Some((_, samples)) = of.filter(|_| !is_again) else {
            continue;
        };
        let alone: Vec<(f64, f64)> = samples.rounds.iter().map(|ms| (*ms, 1.0)).collect();
        if let Some(of) = statistics::ratio(&alone) {
            let found = (rounded(of.ratio), rounded(of.low), rounded(of.high));
            measures.push(measure(REAL, *size, "ms of CPU", found));
        }
        if let Some(count) = batches.map(rounded) {
            measures.push(measure(REAL, *size, "batches", (count, count, count)));
        }
    }
    run.groups.push(Group {
        title: CPU.to_owned(),
        x: "bytes of a write".to_owned(),
        unit: "ms of CPU".to_owned(),
        measures,
    });
    let of = |size: u64| all().find(|((id_of, _), _)| *id_of == id(size));
    let base = of(BASE);
    for ((id_of, size), samples) in all().filter(|((id_of, _), _)| *id_of != id(BASE)) {
        let Some((_, base)) = base else { break };
        let pair = ((id_of.as_str(), samples), (&*id(BASE), base));
        run.pairs
            .extend(Pair::of(pair.0, pair.1, *size as f64, true));
    }
    if let (Some(of_one), Some((_, base))) = (of(1), base) {
        let pair = ((&*id(BASE), base), ("1 B", of_one.1));
        run.pairs
            .extend(Pair::of(pair.0, pair.1, BASE as f64, true));
    }
}
