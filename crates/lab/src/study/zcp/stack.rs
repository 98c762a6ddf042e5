//! `zcp stack`: one waiting client, and a client that sends as fast as it goes, by each way between nodes.
//!
//! ```text
//!   all clusters live at once, on files in memory
//!   round   each: five proposals of 1 KB, the first of which does not count ── in drawn order
//!   round   each: pieces of 64 KiB for half a second ── in drawn order
//! ```

use std::time::{Duration, Instant, SystemTime};

use anyhow::Result;
use clap::{Args, ValueEnum};
use terminal::exit::Failure;
use testbed::environment::Machine;
use testbed::scratch::go_on;
use testbed::watch::Watch;

use crate::carriers::Transport;
use crate::study::common::{Common, finish, new_run};
use crate::study::ramp::clusters::Variant;
use crate::study::ramp::kinds::{Ink, Kind};
use crate::study::rounds::{Draw, Proposer, take_turns};
use crate::study::run::{Cell, Checked, Figure, Pair, Rate, Run};

pub const HELP: &str = "\
Three nodes of each kind live at once, with files in memory, so that no disk is in the way. In each round each of them agrees on
five proposals of 1 KB of a client that waits, and then takes pieces of 64 KiB as fast as they come. tcp has cubic, as the product
does where the system has bbr; tcp-bbr has bbr, which paces; tcp-64k and tcp-200k have sockets with buffers of that size, which else
the system adapts.

Example:
  logberg-lab zcp stack --quick --report stack.html
  logberg-lab zcp stack --ways tcp,tcp-bbr";

/// Measure ways between nodes, congestion controls, and sizes of sockets' buffers
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Stack {
    /// The ways that are set beside each other, tcp among them [default: all that this machine has, without count]
    #[arg(long, value_name = "WAY,…", value_delimiter = ',', value_enum)]
    ways: Vec<Transport>,
    #[command(flatten)]
    common: Common,
}

/// Rounds of a whole run, and of a quick one.
const ROUNDS: (u32, u32) = (60, 12);
const MACHINES: u32 = 3;
const WAITING: usize = 1_000;
const PIECE: usize = 64 << 10;
const SLICE: Duration = Duration::from_millis(500);
const BYTES_NEEDED: u64 = 64 << 20;
const AGAIN: &str = "tcp-again";

impl Stack {
    pub fn run(self, json: bool) -> Result<()> {
        let report = self.common.report.open()?;
        let ways = self.ways()?;
        let scratch = self.common.place.make(BYTES_NEEDED)?;
        let machine = Machine::look(scratch.path())?;
        let (began, since) = (SystemTime::now(), Instant::now());
        let mut named: Vec<(String, Kind)> = ways
            .iter()
            .map(|way| (way.name().to_owned(), Kind::plain(Ink::PageCache).by(*way)))
            .collect();
        named.push((AGAIN.to_owned(), Kind::plain(Ink::PageCache)));
        let rounds = self.common.rounds(ROUNDS);
        let watch = Watch::new(u64::from(rounds) * 2);
        let mut clusters = Vec::new();
        for (id, kind) in &named {
            go_on()?;
            watch.says(format!("starting {MACHINES} nodes: {id}"));
            clusters.push(Variant::start(*kind, scratch.path().join(id), MACHINES)?);
        }
        let mut draw = Draw::new(self.common.seed);
        let mut proposers: Vec<Box<dyn Proposer>> =
            clusters.iter_mut().filter_map(Variant::take).collect();
        watch.says("a client that waits");
        let turns = (rounds, WAITING);
        let (samples, whole) = take_turns(&mut proposers, turns, &mut draw, || watch.step(1))?;
        watch.says("as fast as it goes");
        let slices = slices(&mut proposers, rounds, &mut draw, &watch)?;
        drop((watch, proposers));
        let mut run = new_run(
            (&self.common, rounds),
            ("zcp stack", "bytes"),
            &machine,
            (began, since.elapsed()),
        );
        run.run.complete = whole && go_on().is_ok();
        run.variants = named.iter().map(|(id, kind)| kind.told(id)).collect();
        let ids: Vec<&str> = named.iter().map(|(id, _)| id.as_str()).collect();
        let tcp = ids.iter().position(|id| *id == "tcp").unwrap_or(0);
        let rates: Vec<Option<Rate>> = ids
            .iter()
            .zip(&slices)
            .map(|(id, slices)| Rate::of(id, PIECE as f64, slices))
            .collect();
        for (at, id) in ids.iter().enumerate() {
            run.cells.extend(Cell::of(id, WAITING as f64, &samples[at]));
            run.rates.extend(rates[at].clone());
            if at != tcp {
                let both = ((*id, &samples[at]), ("tcp", &samples[tcp]));
                run.pairs
                    .extend(Pair::of(both.0, both.1, WAITING as f64, true));
                if let (Some(a), Some(b)) = (&rates[at], &rates[tcp]) {
                    run.pairs.extend(Pair::of_rates(a, b, true));
                }
            }
        }
        finish(run, &self.common, (json, report), checks_of)
    }

    fn ways(&self) -> Result<Vec<Transport>> {
        let mut ways = self.ways.clone();
        if ways.is_empty() {
            ways = Transport::value_variants().to_vec();
            ways.retain(|way| *way != Transport::Count && way.is_possible());
        }
        let refused = match () {
            () if !ways.contains(&Transport::Tcp) => {
                "tcp is not among the ways, and the others are set beside it: say tcp, too"
            }
            () if !ways.iter().all(|way| way.is_possible()) => {
                "this machine has no bbr: load tcp_bbr, or leave tcp-bbr out"
            }
            () if ways
                .iter()
                .enumerate()
                .any(|(at, way)| ways[..at].contains(way)) =>
            {
                "a way is said twice: say it once"
            }
            () => return Ok(ways),
        };
        Err(Failure::usage(refused).into())
    }
}

/// The pieces a second of each, round by round.
fn slices(
    proposers: &mut [Box<dyn Proposer>],
    rounds: u32,
    draw: &mut Draw,
    watch: &Watch,
) -> Result<Vec<Vec<f64>>> {
    let mut found = vec![Vec::new(); proposers.len()];
    let mut order: Vec<usize> = (0..proposers.len()).collect();
    for _ in 0..rounds {
        if go_on().is_err() {
            break;
        }
        draw.shuffle(&mut order);
        for at in &order {
            found[*at].push(proposers[*at].flat_out(PIECE, SLICE)?);
        }
        watch.step(1);
    }
    Ok(found)
}

fn checks_of(run: &Run) -> Vec<Checked> {
    let waiting = |id| run.pair(id, "tcp", WAITING as f64);
    let flat_out = |id| run.pair_of(Figure::Rate, (id, "tcp"), PIECE as f64);
    let checks = [
        ("bbr/cubic, a client that waits", waiting("tcp-bbr")),
        ("bbr/cubic, flat out", flat_out("tcp-bbr")),
        ("buffers of 64 KiB, a client that waits", waiting("tcp-64k")),
        ("buffers of 64 KiB, flat out", flat_out("tcp-64k")),
        ("buffers of 200 KiB, flat out", flat_out("tcp-200k")),
        ("memory/tcp, flat out", flat_out("memory")),
        ("grpc-stream/tcp, flat out", flat_out("grpc-stream")),
    ];
    let checks = checks.into_iter();
    checks
        .filter_map(|(name, pair)| Checked::of_pair(name, pair?))
        .collect()
}
