//! The published figures of Zero-copy Paxos: 92 cells of target rate by size of writes.
//!
//! Source: D. C. Turner, "Zero-copy Paxos", 15 September 2017, and the logs that its author published with his code, from which `zcp.csv` is
//! drawn: it says what tables 1 to 5 say, and what the paper has as pictures alone, CPU of each role and latency from the 10th percentile
//! to the longest. Two i3.large machines of AWS in one placement group, a third node left disconnected as an auxiliary, the client
//! beside the leader; each run 15 s of warm-up and 45 s measured. Latency there is of selected round trips, one after the other; ours is
//! of all writes (of small ones one in each 1024 bytes), from when each was due.

/// The rates of the rows, in MB/s.
pub const RATES_MB: [u64; 16] = [
    5, 10, 20, 50, 100, 120, 130, 140, 150, 160, 170, 180, 190, 200, 210, 220,
];
/// The sizes of the columns, in bytes.
pub const WRITE_BYTES: [u64; 8] = [1, 14, 20, 50, 100, 200, 500, 1000];

const CELLS: &str = include_str!("../published/zcp.csv");

/// The parts of all round trips that were no slower, and the columns that say it.
pub const QUANTILES: [(f64, &str); 9] = [
    (0.1, "p10_ms"),
    (0.25, "p25_ms"),
    (0.5, "p50_ms"),
    (0.75, "p75_ms"),
    (0.9, "p90_ms"),
    (0.95, "p95_ms"),
    (0.99, "p99_ms"),
    (0.995, "p99_5_ms"),
    (0.999, "p99_9_ms"),
];

/// Percent of a core, of user and of system.
pub type Percent = (f64, f64);

/// One cell.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Published {
    pub delivered: f64,
    pub writes_mhz: f64,
    pub batch_bytes: f64,
    /// The number of samples of latency.
    pub round_trips: f64,
    /// The latencies of [`QUANTILES`].
    pub latency_ms: [f64; QUANTILES.len()],
    pub max_ms: f64,
    pub client_cpu: Percent,
    pub leader_cpu: Percent,
    pub follower_cpu: Percent,
}

impl Published {
    /// One of [`QUANTILES`].
    pub fn quantile(&self, part: f64) -> Option<f64> {
        let at = QUANTILES.iter().position(|(known, _)| *known == part)?;
        Some(self.latency_ms[at])
    }

    /// Latencies, and the part of all that is slower.
    pub fn slower_than(&self) -> Vec<(f64, f64)> {
        let parts = QUANTILES.iter().map(|(part, _)| 1.0 - part);
        let mut points: Vec<(f64, f64)> = self.latency_ms.into_iter().zip(parts).collect();
        points.push((self.max_ms, 1.0 / self.round_trips.max(1.0)));
        points
    }
}

/// Returns `None` for what was not measured there.
pub fn at(rate_mb: u64, write_bytes: u64) -> Option<Published> {
    let mut lines = CELLS.lines();
    let headings: Vec<&str> = lines.next()?.split(',').collect();
    let of = |line: &str| -> Option<Vec<f64>> {
        line.split(',').map(|field| field.parse().ok()).collect()
    };
    let wanted = [rate_mb as f64, write_bytes as f64];
    let row = lines.filter_map(of).find(|row| row[..2] == wanted)?;
    let named = |name: &str| {
        let at = headings.iter().position(|heading| *heading == name)?;
        row.get(at).copied()
    };
    let cpu = |role: &str| {
        Some((
            named(&format!("{role}_user_pct"))?,
            named(&format!("{role}_system_pct"))?,
        ))
    };
    let mut latency_ms = [0.0; QUANTILES.len()];
    for (value, (_, name)) in latency_ms.iter_mut().zip(QUANTILES) {
        *value = named(name)?;
    }
    Some(Published {
        delivered: named("delivered")?,
        writes_mhz: named("writes_mhz")?,
        batch_bytes: named("ack_bytes")?,
        round_trips: named("round_trips")?,
        latency_ms,
        max_ms: named("max_ms")?,
        client_cpu: cpu("client")?,
        leader_cpu: cpu("leader")?,
        follower_cpu: cpu("follower")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_agree_with_each_other() {
        let mut cells = 0;
        for rate in RATES_MB {
            for bytes in WRITE_BYTES {
                let Some(cell) = at(rate, bytes) else {
                    continue;
                };
                cells += 1;
                // Table 2 follows from table 1.
                let mhz = cell.delivered * rate as f64 / bytes as f64;
                let close = (mhz - cell.writes_mhz).abs() < 0.012 * mhz + 0.0011;
                assert!(
                    close,
                    "{rate} MB/s, {bytes} B: {mhz} is not {}",
                    cell.writes_mhz
                );
                assert!(cell.latency_ms.is_sorted(), "{rate} MB/s, {bytes} B");
                assert!(cell.latency_ms[8] <= cell.max_ms, "{rate} MB/s, {bytes} B");
            }
        }
        assert_eq!(cells, 92);
        assert_eq!(
            CELLS.lines().count(),
            93,
            "each is of a rate and a size that are known"
        );
        assert_eq!(at(50, 1), None);
        assert_eq!(at(7, 1000), None);
    }

    /// As the paper's tables have them.
    #[test]
    fn some_cells_are_those_of_the_printed_tables() {
        let cell = at(5, 1).expect("measured there");
        assert_eq!((cell.delivered, cell.batch_bytes), (0.242, 283.0));
        assert_eq!(
            (cell.quantile(0.5), cell.quantile(0.99)),
            (Some(0.695), Some(0.819))
        );
        assert_eq!(cell.quantile(0.3), None);
    }
}
