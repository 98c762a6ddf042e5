//! CLUSTER: who serves which slots, as this node knows it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use kv::{SLOTS, slot_of};
use resp::{Value, integer_of};

use super::{error, is, no_subcommand, text, wrong_count};
use crate::groups::{Leads, Place, Served};

/// The cluster, as far as something is said of it.
pub struct Cluster<'a> {
    pub id: [u8; 16],
    pub own: &'a Place,
    pub served: Vec<Served<'a>>,
    /// Each slot is some group's, and each group is led, or will be in a moment.
    pub is_complete: bool,
    /// The version of the map.
    pub epoch: u32,
    pub moves: Vec<Migration>,
}

/// Slots on their way: between groups, by name, and the nodes that lead these.
pub struct Migration {
    pub first: u16,
    pub last: u16,
    pub from: Option<(String, Option<u32>)>,
    pub to: (String, Option<u32>),
    pub since: u32,
    /// Copied so far, as far as this node knows.
    pub bytes: u64,
}

/// An answer, or a question that a group's machine answers.
pub enum Told {
    Value(Value),
    /// Slots are to move, or to stay.
    Migrate,
    Cancel,
    /// So many keys of a slot; `None`: how many there are.
    Keys {
        slot: u16,
        count: Option<u32>,
    },
}

/// 40 hex digits: the cluster's id, and the node's.
pub fn id_of(cluster: &[u8; 16], node: u32) -> String {
    let mut id = String::with_capacity(40);
    for byte in cluster {
        _ = write!(id, "{byte:02x}");
    }
    _ = write!(id, "{node:08x}");
    id
}

fn host_and_port(address: &str) -> (&str, i64) {
    let (host, port) = address.rsplit_once(':').unwrap_or((address, "0"));
    let host = host.trim_start_matches('[').trim_end_matches(']');
    (host, port.parse().unwrap_or(0))
}

type Ranges = Vec<(u16, u16)>;

impl Cluster<'_> {
    /// The nodes that lead groups, and this one, with their slots.
    fn nodes(&self) -> BTreeMap<Place, Ranges> {
        let mut nodes: BTreeMap<Place, Ranges> = BTreeMap::new();
        nodes.insert(self.own.clone(), Vec::new());
        for served in &self.served {
            if let Some(place) = self.place(&served.leads) {
                nodes.entry(place.clone()).or_default().push(served.range);
            }
        }
        nodes
    }

    fn place<'a>(&'a self, leads: &'a Leads) -> Option<&'a Place> {
        match leads {
            Leads::Here => Some(self.own),
            Leads::There(place) => Some(place),
            Leads::Nobody => None,
        }
    }

    pub fn answer(&self, words: &[&[u8]]) -> Told {
        let Some(subcommand) = words.get(1) else {
            return Told::Value(wrong_count("cluster", b""));
        };
        let exactly = |count: usize| words.len() == count;
        Told::Value(match () {
            () if is(subcommand, "slots") && exactly(2) => self.slots(),
            () if is(subcommand, "shards") && exactly(2) => self.shards(),
            () if is(subcommand, "nodes") && exactly(2) => self.lines(),
            () if is(subcommand, "info") && exactly(2) => self.info(),
            () if is(subcommand, "myid") && exactly(2) => text(id_of(&self.id, self.own.node)),
            () if is(subcommand, "keyslot") && exactly(3) => Value::Integer(i64::from(slot_of(
                words.get(2).copied().unwrap_or_default(),
            ))),
            () if is(subcommand, "countkeysinslot") && exactly(3) => match slot(words.get(2)) {
                Ok(slot) => return Told::Keys { slot, count: None },
                Err(error) => error,
            },
            () if is(subcommand, "getkeysinslot") && exactly(4) => {
                let count = words.get(3).and_then(|word| integer_of(word));
                let count = count.and_then(|count| u32::try_from(count).ok());
                match (slot(words.get(2)), count) {
                    (Ok(slot), Some(count)) => {
                        let count = Some(count);
                        return Told::Keys { slot, count };
                    }
                    (Err(error), _) => error,
                    (_, None) => error("ERR Invalid number of keys"),
                }
            }
            () if is(subcommand, "migrateslots") && words.len() > 2 => return Told::Migrate,
            () if is(subcommand, "cancelslotmigrations") && exactly(2) => return Told::Cancel,
            () if is(subcommand, "getslotmigrations") && exactly(2) => self.migrations(),
            () if is(subcommand, "replicas") || is(subcommand, "slaves") => {
                Value::Array(Vec::new())
            }
            () if is(subcommand, "links") => Value::Array(Vec::new()),
            () if is(subcommand, "count-failure-reports") => Value::Integer(0),
            () if is(subcommand, "reset") || is(subcommand, "saveconfig") => Value::OK,
            () if CHANGES.iter().any(|name| is(subcommand, name)) => error(
                "ERR slots are not moved by this command here: CLUSTER MIGRATESLOTS moves them, and `logberg kv` says how they are spread",
            ),
            () if KNOWN.iter().any(|name| is(subcommand, name)) => {
                wrong_count("cluster", subcommand)
            }
            () => no_subcommand("CLUSTER", subcommand),
        })
    }

    fn slots(&self) -> Value {
        let served = self.served.iter();
        Value::Array(
            served
                .filter_map(|served| {
                    let place = self.place(&served.leads)?;
                    let (host, port) = host_and_port(&place.address);
                    let node = Value::Array(vec![
                        text(host),
                        Value::Integer(port),
                        text(id_of(&self.id, place.node)),
                        Value::Array(Vec::new()),
                    ]);
                    let (first, last) = served.range;
                    Some(Value::Array(vec![
                        Value::Integer(i64::from(first)),
                        Value::Integer(i64::from(last)),
                        node,
                    ]))
                })
                .collect(),
        )
    }

    /// What is on its way, in Valkey's shape. The copy's beginning and clock are each node's own: what nobody here knows is not said.
    fn migrations(&self) -> Value {
        let one = |migration: &Migration| {
            let Migration {
                first,
                last,
                from,
                to,
                since,
                bytes,
            } = migration;
            let node = |node: Option<u32>| match node {
                Some(node) => text(id_of(&self.id, node)),
                None => text(""),
            };
            let is_import = to.1 == Some(self.own.node);
            let operation = if is_import { "IMPORT" } else { "EXPORT" };
            let source = from.as_ref().and_then(|(_, node)| *node);
            let from = from.as_ref().map_or("nobody", |(name, _)| name);
            Value::Map(vec![
                (text("name"), text(format!("{since}-{first}-{last}"))),
                (text("operation"), text(operation)),
                (text("slot_ranges"), text(format!("{first}-{last}"))),
                (text("target_node"), node(to.1)),
                (text("source_node"), node(source)),
                (text("state"), text("running")),
                (
                    text("message"),
                    text(format!("from {from} to {}, {bytes} bytes copied", to.0)),
                ),
            ])
        };
        Value::Array(self.moves.iter().map(one).collect())
    }

    fn shards(&self) -> Value {
        let shard = |(place, ranges): (Place, Ranges)| {
            let slots = ranges
                .iter()
                .flat_map(|(first, last)| [*first, *last])
                .map(|slot| Value::Integer(i64::from(slot)));
            let (host, port) = host_and_port(&place.address);
            let node = Value::Map(vec![
                (text("id"), text(id_of(&self.id, place.node))),
                (text("port"), Value::Integer(port)),
                (text("ip"), text(host)),
                (text("endpoint"), text(host)),
                (text("role"), text("master")),
                (text("replication-offset"), Value::Integer(0)),
                (text("health"), text("online")),
            ]);
            Value::Map(vec![
                (text("slots"), Value::Array(slots.collect())),
                (text("nodes"), Value::Array(vec![node])),
            ])
        };
        Value::Array(self.nodes().into_iter().map(shard).collect())
    }

    fn lines(&self) -> Value {
        let mut lines = String::new();
        for (place, ranges) in self.nodes() {
            let (_, port) = host_and_port(&place.address);
            let flags = match place == *self.own {
                true => "myself,master",
                false => "master",
            };
            let id = id_of(&self.id, place.node);
            _ = write!(
                lines,
                "{id} {}@{} {flags} - 0 0 {} connected",
                place.address,
                port + 10_000,
                self.epoch.max(1)
            );
            for (first, last) in ranges {
                _ = match first == last {
                    true => write!(lines, " {first}"),
                    false => write!(lines, " {first}-{last}"),
                };
            }
            lines.push('\n');
        }
        Value::Verbatim(*b"txt", lines.into_bytes())
    }

    fn info(&self) -> Value {
        let served = self.served.iter();
        let led = served.filter(|served| served.leads != Leads::Nobody);
        let slots: u32 = led
            .map(|served| u32::from(served.range.1 - served.range.0) + 1)
            .sum();
        let is_ok = self.is_complete && slots == u32::from(SLOTS);
        let nodes = self.nodes();
        let size = nodes.values().filter(|ranges| !ranges.is_empty()).count();
        let lines = format!(
            "cluster_enabled:1\r\ncluster_state:{}\r\ncluster_slots_assigned:{slots}\r\ncluster_slots_ok:{slots}\r\ncluster_slots_pfail:0\r\ncluster_slots_fail:0\r\ncluster_known_nodes:{}\r\ncluster_size:{size}\r\ncluster_current_epoch:{epoch}\r\ncluster_my_epoch:{epoch}\r\n",
            if is_ok { "ok" } else { "fail" },
            nodes.len(),
            epoch = self.epoch,
        );
        Value::Verbatim(*b"txt", lines.into_bytes())
    }
}

const CHANGES: [&str; 10] = [
    "addslots",
    "addslotsrange",
    "delslots",
    "delslotsrange",
    "setslot",
    "meet",
    "forget",
    "failover",
    "replicate",
    "flushslots",
];
const KNOWN: [&str; 11] = [
    "migrateslots",
    "getslotmigrations",
    "cancelslotmigrations",
    "slots",
    "shards",
    "nodes",
    "info",
    "myid",
    "keyslot",
    "countkeysinslot",
    "getkeysinslot",
];

fn slot(word: Option<&&[u8]>) -> Result<u16, Value> {
    let slot = word.and_then(|word| integer_of(word));
    let slot = slot.and_then(|slot| u16::try_from(slot).ok());
    slot.filter(|slot| *slot < SLOTS)
        .ok_or_else(|| error("ERR Invalid or out of range slot"))
}
