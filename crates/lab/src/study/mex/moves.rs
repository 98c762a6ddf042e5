//! Slots with many bytes move to another group, also while the node that gives them dies.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use clap::Args;

use super::volumes::{PATIENCE, Study, Volume, pids, read, volume_bytes};
use crate::benches::kv::moved;
use crate::benches::kv::nodes::Nodes;
use crate::study::common::finish;

pub const MOVE: &str = "\
A quarter of all slots, with so many bytes of values, moves to a group that another node leads; then back. With --kill the node that
leads the group that gives is killed when half of the time is over, and started again when all slots are where they are to be: the
transfer goes on from another replica. After each move every value that a client reads is held to what was written.

Example:
  logberg-lab mex move --quick --kill --report move.html";

/// Move slots with many bytes to another group, also while its node dies
#[derive(Debug, Args)]
pub struct Move {
    /// Bytes of the values that move [default: 100MB, or 20MB with --quick]
    #[arg(long, value_name = "BYTES", value_parser = volume_bytes)]
    bytes: Option<u64>,
    /// Kill the leader of the group that gives, in the middle of a move
    #[arg(long)]
    kill: bool,
    #[command(flatten)]
    volume: Volume,
}

/// Rounds of a whole run, and of a quick one.
const ROUNDS: (u32, u32) = (6, 6);
impl Move {
    pub fn run(self, json: bool) -> Result<()> {
        let common = &self.volume.common;
        let report = common.report.open()?;
        let rounds = if self.kill { 2 } else { common.rounds(ROUNDS) };
        let bytes = (self.bytes, 100_000_000, 20_000_000);
        let mut study = self
            .volume
            .begin(bytes, 4 + u64::from(rounds), u64::from(rounds) + 1)?;
        let kills = self.kill;
        study.each_size(|study, nodes, size| {
            let keys = moved::keys_at_rest(study.bytes, size as usize);
            study.watch.says(format!("writing values of {size} B"));
            let mut generator = moved::generator(nodes, keys, size as usize, &study.watch)?;
            nodes.wait_whole(PATIENCE)?;
            let mut last = Duration::ZERO;
            for round in 0..=rounds {
                // The first one shows how long it takes, and counts where nobody is killed.
                let (from, to) = match round % 2 {
                    0 => (0, 1),
                    _ => (1, 0),
                };
                study.watch.says(format!(
                    "values of {size} B move, {} of {}",
                    round + 1,
                    rounds + 1
                ));
                let dies = (kills && round > 0).then_some((from, last / 2));
                let took = one_move(study, nodes, &nodes.groups[to], dies)?;
                let variant = match dies {
                    Some(_) => "its leader dies",
                    None => "at rest",
                };
                study.note(variant, size, took);
                if dies.is_none() {
                    last = took;
                }
                read(&mut generator)?;
                study.watch.step(1);
            }
            Ok(())
        })?;
        let items = match study.bytes {
            100_000_000 => vec!["shard transfer of 100 MB, local"],
            500_000_000 => vec!["shard transfer of 500 MB, local"],
            _ => Vec::new(),
        };
        let run = study.run("mex move", rounds + 1, &items);
        finish(run, common, (json, report), |_| {
            let ratio = study.small_to_large("move, small/large values", "at rest");
            // A node that comes back takes memory for itself.
            let memory = study.memory().filter(|_| !kills);
            ratio.into_iter().chain(memory).collect()
        })
    }
}

/// Returns how long it took until every slot was served there. `dies`: the group whose leader dies, and when.
fn one_move(
    study: &mut Study<'_>,
    nodes: &Nodes,
    to: &str,
    dies: Option<(usize, Duration)>,
) -> Result<Duration> {
    let began = Instant::now();
    let Some((from, after)) = dies else {
        let pids = pids(nodes)?;
        study.watched(&pids, || moved::move_to(nodes, to))?;
        return Ok(began.elapsed());
    };
    let leader = nodes.leader(&nodes.groups[from]);
    let leader = leader.context("the group that gives has no leader")?;
    let took = thread::scope(|scope| {
        let moves = scope.spawn(|| moved::move_to(nodes, to).map(|()| began.elapsed()));
        thread::sleep(after);
        nodes.cluster.kill(leader)?;
        moves.join().map_err(|_| anyhow!("the mover panicked"))?
    })?;
    nodes.cluster.restart(leader)?;
    nodes.wait_whole(PATIENCE)?;
    Ok(took)
}
