//! The machine's own limits in a fraction of a second each, to be measured between other things.

use std::time::Duration;

use anyhow::Result;

use super::figures::Figures;
use super::machine::{copied, durable_writes, over_loopback, small_writes_per_s};
use testbed::scratch::Scratch;

const SMALL: usize = 4 << 10;
const LARGE: usize = 1 << 20;

/// Measures new files that grow, one stream over loopback, and memory that no cache holds. A figure that the
/// machine refuses is missing.
pub fn measure(scratch: &Scratch, length: Duration) -> Result<Figures> {
    let mut figures = Figures::default();
    for (direct, path) in [(true, "direct"), (false, "fdatasync")] {
        if let Some(small) = durable_writes(scratch, SMALL, direct, length)? {
            figures.add(format!("{path}_4_kib_p50_ms"), small.p50_ms);
            figures.add(format!("{path}_4_kib_p99_ms"), small.p99_ms);
        }
        if let Some(large) = durable_writes(scratch, LARGE, direct, length)? {
            figures.add(format!("{path}_1_mib_mb_per_s"), large.mb_per_s);
        }
    }
    if let Some(loopback) = over_loopback("cubic", length)? {
        figures.add("loopback_mb_per_s", loopback.gb_per_s * 1000.0);
    }
    if let Some(writes) = small_writes_per_s("cubic", length)? {
        figures.add("loopback_1_byte_writes_per_s", writes);
    }
    figures.add("memory_copy_mb_per_s", copied(length) * 1000.0);
    Ok(figures)
}

/// The cluster's figures as shares of the machine's. One disk holds all copies.
pub fn shares(cluster: &Figures, limits: &Figures, copies: u32) -> Figures {
    let mut shares = Figures::default();
    let rate = cluster.get("mb_per_s").unwrap_or(0.0);
    for path in ["direct", "fdatasync"] {
        if let Some(limit) = limits.get(&format!("{path}_1_mib_mb_per_s")) {
            shares.add(
                format!("copies_of_{path}"),
                f64::from(copies) * rate / limit,
            );
        }
        let limit = limits.get(&format!("{path}_4_kib_p50_ms"));
        if let Some((limit, p50)) = limit.zip(cluster.get("p50_ms")) {
            shares.add(format!("p50_of_{path}_4_kib"), p50 / limit);
        }
    }
    for (name, limit) in [
        ("of_loopback", "loopback_mb_per_s"),
        ("of_memory_copy", "memory_copy_mb_per_s"),
    ] {
        if let Some(limit) = limits.get(limit) {
            shares.add(name, rate / limit);
        }
    }
    shares
}
