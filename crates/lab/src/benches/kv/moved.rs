//! `--move`: a quarter of all slots goes to another group, while clients ask, and while nobody does.
//!
//! ```text
//!  full load ── half of it ─ a quarter of all slots moves ─ as long again ──── and back ─────────── (next round)
//!                            └ not counted: how long ─────┘ └ before: latency ┘ └ latency of its slots, of others,
//!                                                                                 the longest wait of each slot ┘
//!
//!  large values, nobody asks ────── a quarter of all slots moves: bytes per second, memory of the nodes
//! ```

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use client::admin::{ChangeSlots, SlotsVerb};
use serde::Serialize;

use bench::figures::Figures;
use bench::latency::{median, quantile_ms, rounded};
use bench::roles::Watched;
use testbed::process::{cpu, rss_bytes};
use testbed::scratch::go_on;
use testbed::watch::{Watch, sleep_until};

use super::apart::Apart;
use super::generator::{Generator, Length};
use super::load::{Load, Op, Tally};
use super::nodes::{NODES, Nodes};
use super::slots::{Map, SLOTS};
use super::values::{KEY_BYTES, name_of};

#[derive(Debug, Serialize)]
pub struct Moves {
    /// SET, then GET.
    pub under_load: Vec<UnderLoad>,
    pub at_rest: AtRest,
}

#[derive(Debug, Serialize)]
pub struct UnderLoad {
    pub op: Op,
    pub clients: u32,
    pub full_ops_per_s: f64,
    /// Medians of all rounds: latencies before the move, for as long as the last one took; and from the change of the map until every slot is served where
    /// it goes, of slots that move and of others; and the longest wait of each slot that moves, its pause included.
    #[serde(flatten)]
    pub figures: Figures,
    pub errors: u64,
    pub wrong: u64,
    /// The reason of the last of these.
    pub why: Option<String>,
    pub rounds: Vec<Figures>,
}

#[derive(Debug, Serialize)]
pub struct AtRest {
    pub value_bytes: usize,
    /// Keys and values of the slots that moved.
    pub mb: f64,
    pub seconds: f64,
    pub mb_per_s: f64,
    pub all_mb_per_s: Vec<f64>,
    /// The memory of the node that took most more than before.
    pub added_rss_mb: f64,
    pub peak_rss_mb: f64,
}

/// The slots of the first of three groups, most of them.
const MOVING: RangeInclusive<u16> = 0..=SLOTS / 4 - 1;
/// The load runs in before anything is heard.
const WARM: Duration = Duration::from_secs(1);
/// The calm before a move is heard for as long as the last move took, within these: what happens now and then, as memory that is
/// put on disk, falls into both or into neither.
const CALM: RangeInclusive<Duration> = Duration::from_secs(3)..=Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(20);
/// The nodes are at rest when all of them together take no more than this of one processor, for so long. Nodes that nobody asks for take up to 0.07, and one that merges more than 0.3.
const IDLE: f64 = 0.2;
const AT_REST: Duration = Duration::from_secs(2);

/// So many keys that a quarter of them has so many bytes.
pub fn keys_at_rest(moved: u64, value_bytes: usize) -> u32 {
    (4 * moved).div_ceil((value_bytes + KEY_BYTES) as u64) as u32
}

/// Which load, and how often slots move under half of it. `length`: how long full load is measured.
#[derive(Clone, Copy)]
pub struct How {
    pub op: Op,
    pub clients: u32,
    pub times: u32,
    pub length: Length,
}

pub fn under_load(
    nodes: &Nodes,
    generator: &mut Generator,
    how: How,
    watch: &Watch,
) -> Result<UnderLoad> {
    let How {
        op,
        clients,
        times,
        length,
    } = how;
    let load = Load {
        op,
        clients,
        pipeline: 1,
    };
    watch.says(format!("{}: full load", load.sentence()));
    let full = generator.turn(load, length, &Watched::new(Vec::new(), None))?;
    let full_ops_per_s = full.figures.get("ops_per_s").context("no rate")?;
    let pace = Duration::from_secs_f64(2.0 * f64::from(clients) / full_ops_per_s);
    let (mut errors, mut wrong, mut why) = (full.failed, full.wrong, full.why);
    let mut rounds = Vec::new();
    let mut calm = *CALM.start();
    for round in 0..=times {
        let to = &nodes.groups[1 - (round as usize % 2)];
        let which = match round {
            0 => "to see how long it takes".to_owned(),
            _ => format!("{round} of {times}"),
        };
        let said = load.sentence();
        watch.says(format!(
            "{said} at half of full load: slots move to {to}, {which}"
        ));
        let phases = Phases { calm, to };
        let (tally, took, one) = one_round(nodes, generator, load, pace, phases)?;
        errors += tally.failed;
        wrong += tally.wrong;
        why = tally.why.or(why);
        calm = took.clamp(*CALM.start(), *CALM.end());
        if round > 0 {
            rounds.push(one);
            watch.step(1);
        }
    }
    if times.is_multiple_of(2) {
        // The next load finds the slots where this one did.
        move_to(nodes, &nodes.groups[0])?;
    }
    Ok(UnderLoad {
        op,
        clients,
        full_ops_per_s: rounded(full_ops_per_s),
        figures: Figures::median(&rounds.iter().collect::<Vec<_>>()),
        errors,
        wrong,
        why,
        rounds,
    })
}

/// What was heard before the move, and the time of each phase.
struct Heard {
    before: Apart,
    began: Instant,
    took: Duration,
}

/// How long a round is heard before its slots move, and whereto.
struct Phases<'a> {
    calm: Duration,
    to: &'a str,
}

fn one_round(
    nodes: &Nodes,
    generator: &mut Generator,
    load: Load,
    pace: Duration,
    Phases { calm, to }: Phases<'_>,
) -> Result<(Tally, Duration, Figures)> {
    let started = Instant::now();
    let mut is_warm = false;
    let mut heard: Option<Heard> = None;
    let is_over = Arc::new(AtomicBool::new(false));
    thread::scope(|scope| {
        let mut mover = None;
        let told = generator.paced(load, pace, MOVING, |apart| {
            let now = Instant::now();
            if !is_warm {
                if now >= started + WARM {
                    is_warm = true;
                    *apart = Apart::new(MOVING);
                }
                return Ok(true);
            }
            match &mut heard {
                None if now >= started + WARM + calm => {
                    heard = Some(Heard {
                        before: std::mem::replace(apart, Apart::new(MOVING)),
                        began: now,
                        took: Duration::ZERO,
                    });
                    let ends = is_over.clone();
                    mover = Some(scope.spawn(move || {
                        let moved = move_to(nodes, to);
                        ends.store(true, Ordering::Relaxed);
                        moved
                    }));
                    Ok(true)
                }
                None => Ok(true),
                Some(_) if !is_over.load(Ordering::Relaxed) => Ok(true),
                Some(heard) => {
                    heard.took = now - heard.began;
                    Ok(false)
                }
            }
        });
        if let Some(mover) = mover {
            let moved = mover.join().map_err(|_| anyhow!("the mover panicked"))?;
            moved.with_context(|| format!("slots are to move to {to}"))?;
        }
        let (tally, during) = told?;
        let Heard {
            before,
            began,
            took,
        } = heard.context("nothing was heard")?;
        let answered = (during.moving.len() + during.others.len()) as f64;
        let mut round = Figures::default();
        round.add("before_seconds", calm.as_secs_f64());
        round.add("seconds", took.as_secs_f64());
        round.add("ops_per_s", answered / began.elapsed().as_secs_f64());
        for (name, micros) in [
            ("before_moving", &before.moving),
            ("moving", &during.moving),
            ("before_others", &before.others),
            ("others", &during.others),
            ("before_longest_of_slot", &before.longest()),
            ("longest_of_slot", &during.longest()),
        ] {
            round.add(format!("{name}_p50_ms"), quantile_ms(micros, 0.5));
            round.add(format!("{name}_p99_ms"), quantile_ms(micros, 0.99));
        }
        let max = during.moving.max().max(during.others.max());
        round.add("max_ms", max as f64 / 1e3);
        round.add("slots_asked", during.longest().len() as f64);
        Ok((tally, took, round))
    })
}

/// Returns once every slot is served where it is to be.
pub fn move_to(nodes: &Nodes, group: &str) -> Result<()> {
    let client = nodes.client();
    client.change_slots(&ChangeSlots {
        verb: SlotsVerb::Move,
        groups: vec![group.to_owned()],
        slots: Some(format!("{}-{}", MOVING.start(), MOVING.end())),
        plan: false,
        version: None,
    })?;
    let deadline = Instant::now() + PATIENCE;
    while !client.slots(None)?.moving.is_empty() {
        go_on()?;
        if Instant::now() > deadline {
            return Err(anyhow!(
                "slots are on their way for {} s",
                PATIENCE.as_secs()
            ));
        }
        thread::sleep(POLL);
    }
    Ok(())
}

/// Nobody asks for anything. `keys`: how many are written.
pub fn at_rest(
    nodes: &Nodes,
    keys: u32,
    value_bytes: usize,
    times: u32,
    watch: &Watch,
) -> Result<AtRest> {
    let moving = (0..keys).filter(|key| MOVING.contains(&::kv::slot_of(&name_of(*key))));
    let mb = moving.count() as f64 * (value_bytes + KEY_BYTES) as f64 / 1e6;
    let pids = (1..=NODES).map(|node| nodes.pid(node));
    let pids = pids.collect::<Result<Vec<u32>>>()?;
    nodes.wait_whole(PATIENCE)?;
    let (mut all, mut seconds) = (Vec::new(), Vec::new());
    let (mut added, mut peak) = (0.0_f64, 0.0_f64);
    for round in 0..times {
        let to = &nodes.groups[1 - (round as usize % 2)];
        watch.says("the nodes put on disk, and merge, what was written");
        wait_at_rest(&pids)?;
        watch.says(format!(
            "{} MB at rest move to {to}, {} of {times}",
            mb.round(),
            round + 1
        ));
        let before = rss_mb(&pids)?;
        let began = Instant::now();
        let moved = thread::scope(|scope| {
            let mover = scope.spawn(|| move_to(nodes, to).map(|()| began.elapsed()));
            while !mover.is_finished() {
                let now = rss_mb(&pids)?;
                for (now, before) in now.iter().zip(&before) {
                    added = added.max(now - before);
                    peak = peak.max(*now);
                }
                thread::sleep(POLL);
            }
            mover.join().map_err(|_| anyhow!("the mover panicked"))?
        });
        let took = moved?.as_secs_f64();
        seconds.push(took);
        all.push(rounded(mb / took));
        watch.step(1);
    }
    Ok(AtRest {
        value_bytes,
        mb: rounded(mb),
        seconds: rounded(median(seconds.iter().copied())),
        mb_per_s: rounded(median(all.iter().copied())),
        all_mb_per_s: all,
        added_rss_mb: rounded(added),
        peak_rss_mb: rounded(peak),
    })
}

/// A node merges what was written before for as long as a minute: a move meanwhile is none at rest.
fn wait_at_rest(pids: &[u32]) -> Result<()> {
    let cpu = || pids.iter().map(|pid| Ok(cpu(*pid)?)).sum::<Result<_>>();
    let deadline = Instant::now() + PATIENCE;
    let mut before: Duration = cpu()?;
    loop {
        sleep_until(Instant::now() + AT_REST)?;
        let now = cpu()?;
        if (now - before).as_secs_f64() <= IDLE * AT_REST.as_secs_f64() {
            return Ok(());
        }
        if Instant::now() > deadline {
            let seconds = PATIENCE.as_secs();
            return Err(anyhow!(
                "the nodes were not at rest within {seconds} s, though nobody asked for anything"
            ));
        }
        before = now;
    }
}

fn rss_mb(pids: &[u32]) -> Result<Vec<f64>> {
    let each = pids.iter().map(|pid| Ok(rss_bytes(*pid)? as f64 / 1e6));
    each.collect()
}

/// The keys of the cluster, of which each slot may go elsewhere by itself.
pub fn generator(nodes: &Nodes, keys: u32, value_bytes: usize, watch: &Watch) -> Result<Generator> {
    let map = Map::of_slots(&nodes.doors, keys)?;
    let mut generator = Generator::new(map, value_bytes)?;
    generator.fill(|percent| watch.says(format!("writing keys: {percent} %")))?;
    Ok(generator)
}
