//! A node's view of its cluster.

use serde::{Deserialize, Serialize};

use super::health::Health;
use super::slots::SlotsUnderWay;

/// One node's view of its cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    #[serde(default)]
    pub cluster: String,
    /// Keys that any request to this node may have, such as `cluster`.
    #[serde(default)]
    pub understands: Vec<String>,
    /// The id of the node that answers.
    pub node: u64,
    #[serde(default)]
    pub version: String,
    /// The version in which the cluster's logs are written.
    #[serde(default)]
    pub cluster_version: u64,
    /// The version of the disk of the node that answers.
    #[serde(default)]
    pub disk_version: u64,
    #[serde(default)]
    pub address: String,
    /// The way in which the node writes, for example `O_DIRECT`.
    #[serde(default)]
    pub write_path: String,
    /// What the lab changed in the node that answers. Nothing that is shipped is changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub altered: Option<Altered>,
    #[serde(default)]
    pub uptime_ms: u64,
    /// Whether a disk is full: its own, or that of a live peer.
    #[serde(default)]
    pub disk_full: bool,
    #[serde(default)]
    pub nodes: Vec<NodeStatus>,
    #[serde(default)]
    pub logs: Vec<LogStatus>,
    /// Reasons why the cluster is not whole, each a sentence for people.
    #[serde(default)]
    pub waiting_for: Vec<String>,
    /// Slots of keys on their way to other groups.
    #[serde(default)]
    pub slots_under_way: Vec<SlotsUnderWay>,
    #[serde(default)]
    pub health: Health,
}

/// A node that the lab alters, for comparisons.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Altered {
    /// The way of what nodes say to each other: `tcp`, as ever, or `unix`.
    #[serde(default)]
    pub carry: String,
    /// Every timer takes so many times as long.
    #[serde(default)]
    pub time_scale: u32,
    /// When a leader does phase 1: `per-term`, as ever, or `per-batch`.
    #[serde(default)]
    pub phase_one: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeStatus {
    pub id: u64,
    #[serde(default)]
    pub address: String,
    #[serde(default)]
    pub alive: bool,
    #[serde(default)]
    pub last_heard_ms: Option<u64>,
    /// Versions, from the oldest to the newest: `1-2`.
    #[serde(default)]
    pub speaks: Option<String>,
    #[serde(default)]
    pub free_bytes: Option<u64>,
    /// The HOST:PORT at which it answers clients of keys, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv: Option<String>,
    /// The HOST:PORT at which it answers over HTTP, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<String>,
    /// Whether this is the node that answers.
    #[serde(default, rename = "self")]
    pub is_self: bool,
}

/// The state of a machine's log, in positions of the log's output.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateInfo {
    /// All of the output below is in the rows. Commands above may be executed already, and are in the log alone.
    pub applied: u64,
    /// A crash takes it back to here.
    pub durable: u64,
    /// It is exactly what the output below comes to: one that is being copied is not.
    pub whole: bool,
    /// All rows at one position, in short, once that was reckoned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<MarkInfo>,
    /// At the leader: the nodes whose marks of one position are not its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differs: Vec<u32>,
}

/// All rows of a state at one position of the log's output. Replicas that tell the same position tell the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MarkInfo {
    pub position: u64,
    pub rows: u64,
    /// 8 hex digits.
    pub crc32c: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LogStatus {
    pub id: u64,
    #[serde(default)]
    pub name: String,
    /// leader, follower, candidate or stopped.
    #[serde(default)]
    pub role: String,
    #[serde(default)]
    pub leader: Option<u64>,
    /// era.number.owner
    #[serde(default)]
    pub term: String,
    #[serde(default)]
    pub era: u64,
    #[serde(default)]
    pub weights: Vec<Weight>,
    /// The leader sends auxiliaries the log's bytes.
    #[serde(default)]
    pub engaged: bool,
    /// The number of full voters that are to hold what is acknowledged; 0 if a majority decides.
    #[serde(default)]
    pub min_copies: u32,
    /// At the leader: the number of full voters that are alive and hold all of the log.
    #[serde(default)]
    pub copies: Option<u64>,
    /// Bytes sent to followers with proposals since the node started.
    #[serde(default)]
    pub proposal_bytes_sent: u64,
    /// The space of the log's files on this node's disk: records, and trimmed files kept for the next ones.
    #[serde(default)]
    pub disk_bytes: u64,
    /// The first slot not known to be chosen.
    #[serde(default)]
    pub first_unchosen: u64,
    /// The first slot not proposed.
    #[serde(default)]
    pub proposed: u64,
    /// Bytes in all the outputs of the log that were not trimmed.
    #[serde(default)]
    pub output_bytes: u64,
    /// Bytes that were trimmed.
    #[serde(default)]
    pub trimmed_bytes: u64,
    /// Chosen bytes that this node does not hold yet, in its log or in its state.
    #[serde(default)]
    pub missing_bytes: u64,
    /// How the state of a machine's log stands there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<StateInfo>,
    #[serde(default)]
    pub streams: u64,
    /// The stream that is being written.
    #[serde(default)]
    pub writer: Option<String>,
    /// The reason why this replica takes no part any more.
    #[serde(default)]
    pub stopped: Option<String>,
    #[serde(default)]
    pub peers: Vec<PeerStatus>,
    /// The leader whose word `peers` and `copies` are, where somebody gathered them.
    #[serde(default)]
    pub peers_by: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Weight {
    pub node: u64,
    pub weight: u64,
    /// The node holds bytes only while others cannot.
    #[serde(default)]
    pub auxiliary: bool,
}

/// A leader's knowledge of another replica of a log.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PeerStatus {
    pub id: u64,
    /// These three are unknown until the replica has answered this leader.
    #[serde(default)]
    pub accepted_up_to: Option<u64>,
    #[serde(default)]
    pub lag_bytes: Option<u64>,
    #[serde(default)]
    pub missing_bytes: Option<u64>,
    #[serde(default)]
    pub level: bool,
}
