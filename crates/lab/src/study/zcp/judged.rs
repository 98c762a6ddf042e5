//! The paper's claims, by what the cells of a run came to.

use bench::figures::Figures;

use super::cells::Rate;
use super::report::{ALL_DELIVERED, Ours, Outcome, Who};
use crate::study::run::Checked;
use crate::study::statistics;

const MB: u64 = 1_000_000;
/// The part that counts as delivered there.
const THERE: f64 = 0.99;
const LARGEST: u64 = 1000;

/// The slowest write but one in a hundred of a disk on which absolute times are judged.
const DISK_P99_MS: f64 = 1.0;

/// `before`: the machine's limits, measured before the first cell.
pub fn checks_of(cells: &[Outcome], client: Who, before: Option<&Figures>) -> Vec<Checked> {
    let one = |name: &str, value: Option<f64>| Checked::of(name, (value?, value?, value?));
    let p50 = |rate| ours(cells, rate, LARGEST).map(|ours| ours.median_ms);
    let over = |a: Option<f64>, b: Option<f64>| Some(a? / b?);
    let batch = |rate| ours(cells, rate, LARGEST).and_then(|ours| ours.batch_bytes);
    let mut checks: Vec<Checked> = [
        (
            "cells that are not delivered as there",
            not_delivered(cells),
        ),
        (
            "cells that miss although their floor does not",
            misses_alone(cells),
        ),
        ("p50 at 5/50 MB/s", over(p50(5), p50(50))),
        ("p50 at 220/100 MB/s", over(p50(220), p50(100))),
        ("batch at 200/20 MB/s", over(batch(200), batch(20))),
        ("most system CPU of a role to 180 MB/s", most_system(cells)),
        ("median of user CPU of the leader", user_share(cells)),
    ]
    .into_iter()
    .filter_map(|(name, value)| one(name, value))
    .collect();
    checks.extend(beside_the_floor("p50/the floor's", cells, |of| {
        of.median_ms
    }));
    checks.extend(beside_the_floor("p99/the floor's", cells, |of| of.p99_ms));
    checks.extend(absolute(cells, before));
    if client == Who::Raw {
        let raw = most_writes(cells, |outcome| outcome.ours.as_ref());
        let library = most_writes(cells, |outcome| outcome.library.as_ref());
        checks.extend(one("most writes of a raw client, millions a second", raw));
        checks.extend(one("most writes, library/raw", over(library, raw)));
    }
    checks
}

/// The cell to its floor, the median of all cells that have one with an interval of it.
fn beside_the_floor(name: &str, cells: &[Outcome], of: fn(&Ours) -> f64) -> Option<Checked> {
    let pairs = cells
        .iter()
        .filter_map(|one| Some((of(one.ours.as_ref()?), of(one.floor.as_ref()?))));
    let found = statistics::ratio(&pairs.collect::<Vec<_>>())?;
    Checked::of(name, (found.ratio, found.low, found.high))
}

/// Bounds in milliseconds, which are judged where the disk is fast enough for them.
fn absolute(cells: &[Outcome], before: Option<&Figures>) -> Vec<Checked> {
    let disk = before.and_then(|limits| limits.get("fdatasync_4_kib_p99_ms"));
    let medians = beyond(cells, 170, |ours| ours.median_ms >= 2.0);
    let late = beyond(cells, 140, |ours| ours.p99_ms >= 10.0);
    let checks = [
        ("cells with a median of 2 ms or more", medians),
        ("cells with a 99th percentile of 10 ms or more", late),
    ];
    let judge = |(name, percent): (&str, Option<f64>)| {
        let percent = percent?;
        let checked = Checked::of(name, (percent, percent, percent))?;
        Some(match disk {
            Some(disk) if disk < DISK_P99_MS => checked.because(format!(
                "the disk took {disk} ms for 4 KiB, 99th percentile, right before"
            )),
            Some(disk) => checked.not_judged(format!(
                "the disk itself took {disk} ms for 4 KiB, 99th percentile, right before: {DISK_P99_MS} ms are needed"
            )),
            None => checked.not_judged("the disk was not measured before".to_owned()),
        })
    };
    checks.into_iter().filter_map(judge).collect()
}

/// Percent of the measured cells from 20 MB/s to this rate of which it is so. `None`: none was measured.
fn beyond(cells: &[Outcome], to_mb: u64, is_so: fn(&Ours) -> bool) -> Option<f64> {
    let of_those = cells.iter().filter(|outcome| {
        let rate = outcome.rate.unwrap_or(u64::MAX);
        outcome.published.is_some() && (20 * MB..=to_mb * MB).contains(&rate)
    });
    let ours: Vec<&Ours> = of_those.filter_map(|one| one.ours.as_ref()).collect();
    let such = ours.iter().filter(|ours| is_so(ours)).count();
    (!ours.is_empty()).then(|| 100.0 * such as f64 / ours.len() as f64)
}

/// The number of cells with a floor that miss their target, and whose floor does not.
fn misses_alone(cells: &[Outcome]) -> Option<f64> {
    let with_floor = cells.iter().filter(|one| one.floor.is_some());
    let alone = with_floor
        .clone()
        .filter(|one| one.floor_misses_too() == Some(false));
    (with_floor.count() > 0).then(|| alone.count() as f64)
}

fn ours(cells: &[Outcome], rate_mb: u64, write_bytes: u64) -> Option<&Ours> {
    let wanted = Rate::BytesPerSecond(rate_mb * MB);
    let mut cells = cells.iter();
    let found =
        cells.find(|outcome| outcome.cell().rate == wanted && outcome.write_bytes == write_bytes);
    found?.ours.as_ref()
}

/// The number of misses among the cells that were delivered there.
fn not_delivered(cells: &[Outcome]) -> Option<f64> {
    let there = cells.iter().filter(|outcome| {
        let published = outcome.published.as_ref();
        published.is_some_and(|published| published.delivered >= THERE)
    });
    let there: Vec<&Outcome> = there.collect();
    let misses = there.iter().filter(|outcome| {
        let delivered = outcome.ours.as_ref().and_then(|ours| ours.delivered);
        delivered.is_none_or(|delivered| delivered < ALL_DELIVERED)
    });
    (!there.is_empty()).then(|| misses.count() as f64)
}

/// Millions a second.
fn most_writes(cells: &[Outcome], of: fn(&Outcome) -> Option<&Ours>) -> Option<f64> {
    let each = cells.iter().filter_map(of);
    each.map(|ours| ours.writes_mhz).max_by(f64::total_cmp)
}

/// Percent of a core.
fn most_system(cells: &[Outcome]) -> Option<f64> {
    let slow = cells
        .iter()
        .filter(|outcome| outcome.rate.is_some_and(|rate| rate <= 180 * MB));
    let each = slow.filter_map(|outcome| {
        let ours = outcome.ours.as_ref()?;
        Some(ours.cpu("leader").1.max(ours.cpu("follower").1))
    });
    each.max_by(f64::total_cmp)
}

/// The part of user time in the leader's CPU, in the middle of all cells.
fn user_share(cells: &[Outcome]) -> Option<f64> {
    let shares = cells.iter().filter_map(|outcome| {
        let (user, system) = outcome.ours.as_ref()?.cpu("leader");
        (user + system > 0.0).then(|| 100.0 * user / (user + system))
    });
    statistics::median(&shares.collect::<Vec<_>>())
}
