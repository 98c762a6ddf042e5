//! The figures, as a table and in JSON.

use super::fanout::Fanout;
use anyhow::Result;
use serde::Serialize;
use terminal::show;
use testbed::environment::Machine;

#[derive(Debug, Serialize)]
pub struct Report {
    pub bench: &'static str,
    pub value_bytes: u64,
    pub seconds: f64,
    pub times: u32,
    pub cells: Vec<Cell>,
    pub read_bytes: u64,
    pub fanouts: Vec<Fanout>,
    pub whole_reads: Vec<WholeRead>,
    /// Answered and not there.
    pub lost_appends: u64,
    /// There, beyond all that were answered and all of which nobody knows.
    pub doubled_appends: u64,
    /// Behind the appends, before anybody reads.
    pub peaks_of_appends: Vec<Peak>,
    pub peaks: Vec<Peak>,
    pub restart: Restart,
    pub machine: Machine,
}

/// Medians of all turns; of ratios, of those of the pairs.
#[derive(Debug, Serialize)]
pub struct Cell {
    pub clients: u32,
    pub streams: u32,
    pub per_s: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
    /// Counted over all nodes together.
    pub cpu_us_per_append: f64,
    pub failed: u64,
    pub why: Option<String>,
    pub raw_append_p50_ms: Option<f64>,
    pub raw_append_p50_ratio: Option<f64>,
    pub reference: Option<OfReference>,
}

#[derive(Debug, Serialize)]
pub struct OfReference {
    pub per_s: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub our_rate_ratio: f64,
}

#[derive(Debug, Serialize)]
pub struct WholeRead {
    pub place: &'static str,
    pub answers: u64,
    pub seconds: f64,
    pub mb_per_s: f64,
}

#[derive(Debug, Serialize)]
pub struct Peak {
    pub is_leader: bool,
    pub rss_mb: f64,
}

/// All nodes were killed, and started together.
#[derive(Debug, Default, Serialize)]
pub struct Restart {
    /// That there were.
    pub streams: u64,
    /// From there on until each answers for a stream, with all that was answered before.
    pub answers_after_ms: Vec<f64>,
    /// As much memory they have by then.
    pub rss_mb: Vec<f64>,
}

fn shown_peaks(peaks: &[Peak]) -> String {
    let shown = peaks.iter().map(|peak| {
        let role = if peak.is_leader { "leader" } else { "follower" };
        format!("{role} {} MB", peak.rss_mb)
    });
    shown.collect::<Vec<_>>().join(", ")
}

fn listed(values: &[f64]) -> String {
    let shown = values.iter().map(f64::to_string);
    shown.collect::<Vec<_>>().join(", ")
}

impl Report {
    pub fn print(&self) -> Result<()> {
        let headings = [
            "clients",
            "streams",
            "per s",
            "p50 ms",
            "p99 ms",
            "max ms",
            "nodes' CPU µs",
            "failed",
            "× raw p50",
            "reference per s",
            "our rate ×",
        ];
        let rows = self.cells.iter().map(Cell::row).collect();
        show::print(show::rows(&headings, rows))?;
        for fanout in &self.fanouts {
            let Fanout {
                readers,
                messages,
                messages_per_s,
                kib_per_reader,
                p50_ms,
                p99_ms,
                max_ms,
                at_leader_p50_ms,
                at_followers_p50_ms,
                append_p50_ms,
                missing,
                ended,
                wrong,
                cpu_us_per_event,
                ..
            } = fanout;
            show::print(format!(
                "{messages} messages, {messages_per_s} a second, to {readers} readers of events: p50 {p50_ms} ms ({at_leader_p50_ms} at the leader, {at_followers_p50_ms} at the others), p99 {p99_ms} ms, max {max_ms} ms (an append {append_p50_ms} ms), nodes' CPU {cpu_us_per_event} µs each, memory {kib_per_reader} KiB each; missing {missing}, wrong {wrong}, connections ended {ended}"
            ))?;
        }
        for read in &self.whole_reads {
            let WholeRead {
                place,
                answers,
                mb_per_s,
                ..
            } = read;
            show::print(format!(
                "read whole at its {place}: {mb_per_s} MB/s, in {answers} answers"
            ))?;
        }
        for cell in &self.cells {
            if let Some(why) = &cell.why {
                show::print(format!("failed with {} clients: {why}", cell.clients))?;
            }
        }
        let Restart {
            streams,
            answers_after_ms,
            rss_mb,
        } = &self.restart;
        show::print(format!(
            "killed and started with {streams} streams: each answers after {} ms, and has {} MB",
            listed(answers_after_ms),
            listed(rss_mb)
        ))?;
        show::print(format!(
            "peak memory: {}, of appends alone: {}; appends lost: {}, doubled: {}",
            shown_peaks(&self.peaks),
            shown_peaks(&self.peaks_of_appends),
            self.lost_appends,
            self.doubled_appends
        ))
    }
}

impl Cell {
    fn row(&self) -> Vec<String> {
        let shown = |value: Option<f64>| value.map_or("-".to_owned(), |value| value.to_string());
        let reference = self.reference.as_ref();
        vec![
            self.clients.to_string(),
            self.streams.to_string(),
            self.per_s.to_string(),
            self.p50_ms.to_string(),
            self.p99_ms.to_string(),
            self.max_ms.to_string(),
            self.cpu_us_per_append.to_string(),
            self.failed.to_string(),
            shown(self.raw_append_p50_ratio),
            shown(reference.map(|reference| reference.per_s)),
            shown(reference.map(|reference| reference.our_rate_ratio)),
        ]
    }
}
