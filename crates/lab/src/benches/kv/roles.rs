//! The cost of a command by role: one group, so that one node leads and two follow, and the load apart.

use anyhow::{Context, Result};
use serde::Serialize;

use super::generator::{Generator, Length};
use super::load::Load;
use super::nodes::Nodes;
use bench::figures::Figures;
use testbed::watch::Watch;

#[derive(Debug, Serialize)]
pub struct OfRoles {
    #[serde(flatten)]
    pub load: Load,
    /// Medians of the turns.
    #[serde(flatten)]
    pub figures: Figures,
    pub errors: u64,
    pub wrong: u64,
}

pub fn measure(
    nodes: &Nodes,
    generator: &mut Generator,
    loads: &[Load],
    times: u32,
    length: Length,
    watch: &Watch,
) -> Result<Vec<OfRoles>> {
    let watched = nodes.watched()?;
    let mut all = Vec::new();
    for load in loads {
        let (mut turns, mut errors, mut wrong) = (Vec::new(), 0, 0);
        for _ in 0..times {
            watch.says(format!("one group: {}", load.sentence()));
            let turn = generator.turn(*load, length, &watched);
            let turn = turn.with_context(|| format!("one group: {}", load.sentence()))?;
            errors += turn.failed;
            wrong += turn.wrong;
            turns.push(turn.figures);
            watch.step(1);
        }
        all.push(OfRoles {
            load: *load,
            figures: Figures::median(&turns.iter().collect::<Vec<_>>()),
            errors,
            wrong,
        });
    }
    Ok(all)
}
