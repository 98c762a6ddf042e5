//! The sizes that batches come to by themselves: whatever arrived on a connection while the batch before was written.

use std::time::Duration;

use anyhow::Result;
use bench::batches;
use bench::bed::Bed;
use bench::load::{Content, Plan};
use bench::measure::Load as Writers;
use testbed::scratch::Scratch;

use super::work::directory_of;
use crate::study::run::{Group, Measure, Run};

pub const TITLE: &str = "Sizes of batches, by bytes";
const MACHINES: u32 = 3;
const WINDOW_BYTES: usize = 16 << 20;
const WARM_UP: Duration = Duration::from_millis(500);
const PARTS: [(&str, f64); 6] = [
    ("p10", 0.1),
    ("p25", 0.25),
    ("p50", 0.5),
    ("p75", 0.75),
    ("p90", 0.9),
    ("p99", 0.99),
];

/// Connections that send small writes, at a rate of all of them together.
#[derive(Clone, Copy)]
pub struct Load {
    pub connections: u32,
    pub rate: u64,
    pub write_bytes: u64,
}

/// The time of one rate.
pub fn length(is_quick: bool) -> Duration {
    match is_quick {
        true => Duration::from_secs(2),
        false => Duration::from_secs(10),
    }
}

pub fn bytes_needed(rate: u64, length: Duration) -> u64 {
    // Small batches are padded to whole blocks.
    const PADDING: u64 = 50_000_000;
    let seconds = (length + WARM_UP).as_secs_f64() + 2.0;
    ((rate + PADDING) as f64 * seconds) as u64 * u64::from(MACHINES)
}

pub fn group() -> Group {
    Group {
        title: TITLE.to_owned(),
        x: "MB/s".to_owned(),
        unit: "bytes".to_owned(),
        measures: Vec::new(),
    }
}

/// A fresh cluster, a load, and what its leader's records say.
pub fn measure(group: &mut Group, load: Load, length: Duration, scratch: &Scratch) -> Result<()> {
    let directory = scratch.path().join("cluster");
    let measured = sizes_under(load, length, &directory);
    scratch.retire(&directory)?;
    let mut sizes = measured?;
    sizes.sort_unstable();
    let variant = variant(load.connections);
    let all: u64 = sizes.iter().sum();
    let mut note = |name: &str, value: f64| {
        group.measures.push(Measure {
            variant: variant.clone(),
            x: load.rate as f64 / 1e6,
            name: name.to_owned(),
            value,
            low: value,
            high: value,
        });
    };
    for (name, part) in PARTS {
        if let Some(size) = by_bytes(&sizes, part) {
            note(name, size as f64);
        }
    }
    if !sizes.is_empty() {
        note("mean", (all as f64 / sizes.len() as f64).round());
    }
    Ok(())
}

fn sizes_under(load: Load, length: Duration, directory: &std::path::Path) -> Result<Vec<u64>> {
    let bed = Bed::start(directory, MACHINES, 0)?;
    let logs: Vec<String> = (1..=load.connections).map(|n| format!("of-{n}")).collect();
    bed.create(&logs)?;
    let plan = Plan {
        write_bytes: load.write_bytes as usize,
        rate: Some((load.rate / u64::from(load.connections)).max(1)),
        buffer_bytes: WINDOW_BYTES,
        content: Content::Repeated,
    };
    let watched = bed.watched(&logs)?;
    Writers::start(&bed.client, &logs, &plan)?.measure(WARM_UP, length, &watched)?;
    let mut sizes = Vec::new();
    for log in &logs {
        sizes.extend(batches::sizes(&directory_of(&bed, log)?)?);
    }
    Ok(sizes)
}

fn variant(connections: u32) -> String {
    match connections {
        1 => "1 connection".to_owned(),
        count => format!("{count} connections"),
    }
}

/// The size that batches with this part of all bytes do not exceed. `sizes` is sorted.
fn by_bytes(sizes: &[u64], part: f64) -> Option<u64> {
    let wanted = sizes.iter().sum::<u64>() as f64 * part;
    let mut below = 0;
    let reached = |size: &&u64| {
        below += **size;
        below as f64 >= wanted
    };
    sizes.iter().find(reached).or(sizes.last()).copied()
}

/// A quantile by the rate, the slowest first.
pub fn at_all_rates(run: &Run, connections: u32, name: &str) -> Vec<(f64, f64)> {
    let groups = run.groups.iter().filter(|group| group.title == TITLE);
    let all = groups.flat_map(|group| &group.measures);
    let of = all.filter(|one| one.variant == variant(connections) && one.name == name);
    let mut found: Vec<(f64, f64)> = of.map(|one| (one.x, one.value)).collect();
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_by_bytes_is_of_the_bytes_and_not_of_the_batches() {
        // A hundred batches of a byte, and one of 900: nine tenths of the bytes are in the last.
        let mut sizes = vec![1; 100];
        sizes.push(900);
        assert_eq!(by_bytes(&sizes, 0.1), Some(1));
        assert_eq!(by_bytes(&sizes, 0.11), Some(900));
        assert_eq!(by_bytes(&sizes, 0.99), Some(900));
        assert_eq!(by_bytes(&[], 0.5), None);
    }
}
