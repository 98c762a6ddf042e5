//! A node's answer to `metrics`, as far as it is exposed.

use std::collections::BTreeMap;

use client::admin::State;
use serde::Deserialize;

#[derive(Clone, Debug, Deserialize)]
pub struct Figures {
    pub node: u32,
    pub version: String,
    pub uptime_us: u64,
    pub state: State,
    pub warnings: BTreeMap<String, u64>,
    pub connections: u64,
    pub connections_max: u64,
    pub disk_free_bytes: Option<u64>,
    pub disk_reserve_bytes: u64,
    pub bounds_us: Vec<u64>,
    pub write: Histogram,
    pub chosen: Histogram,
    pub counts: NodeCounts,
    pub refused: BTreeMap<String, RefusedCounts>,
    pub peers: Vec<Peer>,
    pub logs: Vec<Log>,
    /// Figures of the door for clients of keys.
    pub kv: Option<Kv>,
    /// Figures of the door for HTTP.
    pub http: Option<Http>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Http {
    pub clients: u64,
    pub connections: u64,
    pub connections_refused: u64,
    pub live_readers: u64,
    pub received_bytes: u64,
    pub sent_bytes: u64,
    pub methods: Vec<Method>,
    pub refused: BTreeMap<String, u64>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Method {
    pub method: String,
    pub requests: BTreeMap<String, u64>,
    pub duration: Histogram,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Kv {
    pub clients: u64,
    pub connections: u64,
    pub connections_refused: u64,
    pub clients_closed: u64,
    pub requests_refused: u64,
    pub slow_commands: u64,
    pub received_bytes: u64,
    pub sent_bytes: u64,
    pub unread_bytes: u64,
    pub unfinished_bytes: u64,
    pub expired_keys: u64,
    pub slots_coming: u64,
    pub slots_under_way_ms: u64,
    pub moved_bytes: u64,
    pub moved_slots: u64,
    pub families: Vec<Family>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Family {
    pub family: String,
    pub commands: BTreeMap<String, u64>,
    pub duration: Histogram,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct Histogram {
    pub counts: Vec<u64>,
    pub sum_us: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub struct NodeCounts {
    pub disk_full: u64,
    pub gaps: u64,
    pub peers_refused: u64,
}

/// Refusals at one of the node's doors.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct RefusedCounts {
    pub unauthenticated: u64,
    pub forbidden: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Peer {
    pub node: u32,
    pub alive: bool,
    pub last_heard_us: Option<u64>,
    pub accepted: Option<Histogram>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Log {
    pub name: String,
    pub role: String,
    pub first_unchosen: u64,
    pub proposed: u64,
    pub output_bytes: u64,
    pub trimmed_bytes: u64,
    pub missing_bytes: u64,
    pub disk_bytes: u64,
    pub queued_bytes: u64,
    pub ring_bytes: u64,
    pub streams: u64,
    pub lag_bytes: BTreeMap<u32, u64>,
    pub counts: LogCounts,
}

#[derive(Clone, Debug, Deserialize)]
pub struct LogCounts {
    pub candidacies: u64,
    pub elections_won: u64,
    pub deposed_by_later_term: u64,
    pub deposed_without_quorum: u64,
    pub stepped_down_when_asked: u64,
    pub held_by_quorum: u64,
    pub held_by_followers: u64,
    pub held_by_disk: u64,
    pub proposal_bytes_sent: u64,
    pub bytes_fetched: u64,
    pub streams_opened: u64,
    pub trims: u64,
    pub ranges_lost: u64,
    pub scrub_passes: u64,
    pub scrub_bytes: u64,
    pub scrub_damaged: u64,
    pub scrub_repaired: u64,
    pub scrub_differences: u64,
    pub disk_failures: u64,
    pub disk_stalls: u64,
}
