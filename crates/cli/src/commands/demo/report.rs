//! The findings of the demo, for people and for machines.

use std::fmt::Write;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use super::append::Appended;
use super::read_back::Found;
use super::source::Source;
use terminal::exit::{Failure, Kind};
use terminal::show;
use wire::quantity;

#[derive(Serialize)]
pub struct Report {
    /// Every node returned exactly what was sent.
    identical: bool,
    bytes: u64,
    sha256: String,
    acked_bytes: u64,
    /// Acknowledged, and returned by no node.
    lost_bytes: u64,
    nodes: Vec<NodeReport>,
    killed_node: u32,
    killed_at_acked_bytes: u64,
    in_flight_bytes: u64,
    /// From the kill to the first acknowledgement of the next leader, as the client saw it.
    failover_ms: f64,
    next_leader: Option<u32>,
    bytes_resent: u64,
    reconnects: u64,
    streams: usize,
    append_ms: f64,
    /// Millions of bytes a second, the failover included.
    append_mb_per_s: f64,
    /// The latencies of pieces from the client's call to the ack; none without a byte.
    ack_p50_ms: Option<f64>,
    ack_p99_ms: Option<f64>,
    ack_max_ms: Option<f64>,
    /// All disks at once.
    read_back_ms: f64,
    took_ms: f64,
    source: String,
    /// Notes on what did not go as it should for so few bytes.
    notes: Vec<String>,
}

#[derive(Default, Serialize)]
pub struct NodeReport {
    pub id: u32,
    /// Before it was stopped.
    role: String,
    killed: bool,
    /// Returned by its disk.
    bytes: u64,
    sha256: String,
    identical: bool,
    disk_bytes: u64,
    /// The number of sent bytes that its disk returned before the first that differs.
    right_bytes: u64,
    error: Option<String>,
}

impl NodeReport {
    pub fn new(id: u32, role: String, killed: bool) -> NodeReport {
        NodeReport {
            id,
            role,
            killed,
            ..NodeReport::default()
        }
    }

    pub fn take(&mut self, found: Found, sha256: &[u8; 32], acknowledged: u64) {
        self.right_bytes = found.first_difference.unwrap_or(found.bytes);
        self.identical =
            found.error.is_none() && found.sha256 == *sha256 && found.bytes == acknowledged;
        self.error = match found.error {
            Some(error) => Some(error),
            None if self.identical => None,
            None => Some(format!(
                "it returns {} bytes of {acknowledged}, of which the first {} are those sent",
                found.bytes, self.right_bytes
            )),
        };
        self.bytes = found.bytes;
        self.sha256 = hex(&found.sha256);
        self.disk_bytes = found.disk_bytes;
    }
}

impl Report {
    pub fn new(
        source: &Source,
        appended: Appended,
        streams: usize,
        nodes: Vec<NodeReport>,
        reading_back: Duration,
        took: Duration,
    ) -> Report {
        let killed = &appended.killed;
        let total = appended.sent;
        let mut notes = Vec::new();
        let quarters = killed.acknowledged.saturating_mul(4);
        let in_the_middle = quarters >= total && quarters <= total.saturating_mul(3);
        if killed.in_flight == 0 || !in_the_middle {
            notes.push(format!(
                "too few bytes to kill the leader in the middle of them: {} of {total} were \
                 acknowledged, and {} under way",
                killed.acknowledged, killed.in_flight
            ));
        }
        let returned = nodes.iter().map(|node| node.right_bytes).max();
        let latency = |quantile: f64| {
            let some = !appended.latency.is_empty();
            some.then(|| round(appended.latency.value_at_quantile(quantile) as f64 / 1e3))
        };
        let seconds = appended.took.as_secs_f64();
        Report {
            identical: total == appended.acknowledged && nodes.iter().all(|node| node.identical),
            bytes: total,
            sha256: hex(&appended.sha256),
            acked_bytes: appended.acknowledged,
            lost_bytes: appended.acknowledged.saturating_sub(returned.unwrap_or(0)),
            nodes,
            killed_node: killed.node,
            killed_at_acked_bytes: killed.acknowledged,
            in_flight_bytes: killed.in_flight,
            failover_ms: round(appended.failover.as_secs_f64() * 1e3),
            next_leader: appended.next_leader,
            bytes_resent: appended.statistics.bytes_resent,
            reconnects: appended.statistics.reconnects,
            streams,
            append_ms: round(seconds * 1e3),
            append_mb_per_s: round(total as f64 / 1e6 / seconds),
            ack_p50_ms: latency(0.5),
            ack_p99_ms: latency(0.99),
            ack_max_ms: latency(1.0),
            read_back_ms: round(reading_back.as_secs_f64() * 1e3),
            took_ms: round(took.as_secs_f64() * 1e3),
            source: source.describe(),
            notes,
        }
    }

    pub fn text(&self) -> String {
        let headings = [
            "NODE",
            "ROLE",
            "ON ITS DISK",
            "READ BACK",
            "SHA-256",
            "IDENTICAL",
        ];
        let mut table = show::table(&headings);
        table.add_row([
            "sent".into(),
            "".into(),
            "".into(),
            show::number(quantity::shown(self.bytes)),
            short(&self.sha256).into(),
            "".into(),
        ]);
        for node in &self.nodes {
            let killed = if node.killed { ", was killed" } else { "" };
            table.add_row([
                node.id.to_string().into(),
                format!("{}{killed}", node.role).into(),
                show::number(quantity::shown(node.disk_bytes)),
                show::number(quantity::shown(node.bytes)),
                short(&node.sha256).into(),
                if node.identical { "yes" } else { "NO" }.into(),
            ]);
        }
        let mut text = format!("\n{}\n\n", show::lines(&table));
        let mut line = |name: &str, value: String| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name:<13}{value}");
        };
        line("lost", format!("{} bytes", self.lost_bytes));
        let next = self
            .next_leader
            .map_or(String::new(), |id| format!(", node {id}"));
        line(
            "failover",
            format!(
                "{:.0} ms from the kill to the first acknowledgement of the next leader{next}",
                self.failover_ms
            ),
        );
        line(
            "sent again",
            format!(
                "{} by the client, in {} streams",
                quantity::shown(self.bytes_resent),
                self.streams
            ),
        );
        line(
            "throughput",
            format!(
                "{:.0} MB/s to three disks, the failover included ({:.1} s)",
                self.append_mb_per_s,
                self.append_ms / 1e3
            ),
        );
        if let (Some(median), Some(high), Some(max)) =
            (self.ack_p50_ms, self.ack_p99_ms, self.ack_max_ms)
        {
            line(
                "latency",
                format!(
                    "{median:.1} ms to the acknowledgement; {high:.1} ms at the 99th of 100, {max:.0} ms at most"
                ),
            );
        }
        line("in all", format!("{:.1} s", self.took_ms / 1e3));
        for note in &self.notes {
            line("note", note.clone());
        }
        text.trim_end().to_owned()
    }

    /// The exit code's reason.
    pub fn verdict(&self) -> Result<()> {
        if self.identical {
            return Ok(());
        }
        let mut sentences: Vec<String> = self
            .nodes
            .iter()
            .filter_map(|node| Some(format!("node {}: {}", node.id, node.error.as_ref()?)))
            .collect();
        if self.acked_bytes != self.bytes {
            let (acknowledged, sent) = (self.acked_bytes, self.bytes);
            sentences.push(format!("{acknowledged} of {sent} bytes were acknowledged"));
        }
        let sentence = format!("not what was sent: {}", sentences.join("; "));
        Err(Failure::new(Kind::Corrupt, sentence).into())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn short(hex: &str) -> String {
    format!("{}…", &hex[..hex.len().min(16)])
}

/// To three digits after the point.
fn round(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
