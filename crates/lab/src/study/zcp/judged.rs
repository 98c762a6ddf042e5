//! The paper's claims, by what the cells of a run came to.

use super::cells::Rate;
use super::{Ours, Outcome, Who};
use crate::study::run::Checked;

const MB: u64 = 1_000_000;
/// Delivered, there and here.
const THERE: f64 = 0.99;
const HERE: f64 = 0.98;
const LARGEST: u64 = 1000;

pub fn checks_of(cells: &[Outcome], client: Who) -> Vec<Checked> {
    let one = |name: &str, value: Option<f64>| Checked::of(name, (value?, value?, value?));
    let p50 = |rate| ours(cells, rate, LARGEST).map(|ours| ours.median_ms);
    let over = |a: Option<f64>, b: Option<f64>| Some(a? / b?);
    let batch = |rate| ours(cells, rate, LARGEST).and_then(|ours| ours.batch_bytes);
    [
        (
            "cells that are not delivered as there",
            not_delivered(cells),
        ),
        ("p50 at 5/50 MB/s", over(p50(5), p50(50))),
        ("p50 at 220/100 MB/s", over(p50(220), p50(100))),
        ("batch at 200/20 MB/s", over(batch(200), batch(20))),
        ("most system CPU of a role to 180 MB/s", most_system(cells)),
        ("median of user CPU of the leader", user_share(cells)),
        (
            "most writes of a raw client, millions a second",
            most_writes(cells).filter(|_| client == Who::Raw),
        ),
    ]
    .into_iter()
    .filter_map(|(name, value)| one(name, value))
    .collect()
}

fn ours(cells: &[Outcome], rate_mb: u64, write_bytes: u64) -> Option<&Ours> {
    let wanted = Rate::BytesPerSecond(rate_mb * MB);
    let mut cells = cells.iter();
    let found =
        cells.find(|outcome| outcome.cell.rate == wanted && outcome.write_bytes == write_bytes);
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
        delivered.is_none_or(|delivered| delivered < HERE)
    });
    (!there.is_empty()).then(|| misses.count() as f64)
}

/// Millions a second.
fn most_writes(cells: &[Outcome]) -> Option<f64> {
    let each = cells.iter().filter_map(|outcome| outcome.ours.as_ref());
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
    crate::study::statistics::median(&shares.collect::<Vec<_>>())
}
