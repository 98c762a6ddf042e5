//! The members of each log, and the outcome of a change of them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The members, as the directory's leader says; of each log, as its leader says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Members {
    /// The node that answered.
    pub node: u64,
    /// Counts changes.
    pub version: u64,
    /// The version in which the cluster's logs are written.
    #[serde(default)]
    pub cluster_version: u64,
    pub nodes: Vec<Node>,
    pub logs: Vec<Log>,
    /// Ids that never come back.
    #[serde(default)]
    pub removed: Vec<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Node {
    pub id: u64,
    #[serde(default)]
    pub address: String,
    #[serde(default)]
    pub zone: Option<String>,
    /// full or auxiliary.
    #[serde(default)]
    pub kind: String,
    #[serde(default)]
    pub alive: bool,
    /// Since the answering node last heard of it, if it did since its own start; none for itself.
    #[serde(default)]
    pub last_heard_ms: Option<u64>,
    /// The node is removed once it has weight nowhere.
    #[serde(default)]
    pub leaving: bool,
    /// The newest version that it speaks.
    #[serde(default)]
    pub newest_version: u64,
    /// The name in its certificate, by which alone it is believed; empty if none is bound.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub certificate: String,
    /// It lost its disk, and that node has its certificate by now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced_by: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Log {
    pub id: u64,
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub leader: Option<u64>,
    /// Whether the speaker leads the log, and knows who holds how much.
    #[serde(default)]
    pub leads: bool,
    #[serde(default)]
    pub era: u64,
    #[serde(default)]
    pub output_bytes: u64,
    #[serde(default)]
    pub members: Vec<Member>,
    /// The steps that are left to do, each a sentence.
    #[serde(default)]
    pub steps: Vec<String>,
    /// The reason why the change is not done yet.
    #[serde(default)]
    pub waits_for: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Member {
    pub node: u64,
    pub weight: u64,
    #[serde(default)]
    pub wanted: u64,
    /// leader, voter, auxiliary, learner or unknown.
    #[serde(default)]
    pub role: String,
    /// The part of `output_bytes` that it holds, where that is known: of a silent node it is not.
    #[serde(default)]
    pub held_bytes: Option<u64>,
}

/// The outcome of a change, done or planned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    pub version: u64,
    pub logs: Vec<PlannedLog>,
    /// Nodes that are removed for ever once they have weight nowhere.
    #[serde(default)]
    pub leaves: Vec<u64>,
    #[serde(default)]
    pub risks: Vec<String>,
    /// How little redundancy the logs would have.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The names of nodes' certificates, as they are to be bound.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<NodeName>,
    /// The whole request is wanted already. Steps may be left to do.
    #[serde(default)]
    pub nothing: bool,
}

/// The name in a node's certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeName {
    pub node: u64,
    /// None: it shows no certificate now, and none is bound.
    #[serde(default)]
    pub certificate: Option<String>,
    /// It is bound already.
    #[serde(default)]
    pub bound: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedLog {
    pub id: u64,
    pub name: String,
    /// ⟨node, weight⟩
    #[serde(with = "weights")]
    pub from: BTreeMap<u64, u64>,
    #[serde(with = "weights")]
    pub to: BTreeMap<u64, u64>,
    pub steps: Vec<String>,
}

/// Weights as they stand in every list of them: `[{"node":1, "weight":2}]`.
pub mod weights {
    use std::collections::BTreeMap;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Weight {
        node: u64,
        weight: u64,
    }

    /// Nodes of version 0.1.0 told an object of weights by their nodes.
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Told {
        List(Vec<Weight>),
        ByNode(BTreeMap<String, u64>),
    }

    pub fn serialize<S: Serializer, N: Copy + Into<u64>>(
        weights: &BTreeMap<N, N>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(weights.iter().map(|(node, weight)| Weight {
            node: (*node).into(),
            weight: (*weight).into(),
        }))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<u64, u64>, D::Error> {
        Ok(match Told::deserialize(from)? {
            Told::List(list) => list.into_iter().map(|one| (one.node, one.weight)).collect(),
            Told::ByNode(weights) => {
                let parsed = weights
                    .into_iter()
                    .map(|(node, weight)| Ok((node.parse()?, weight)));
                parsed
                    .collect::<Result<_, std::num::ParseIntError>>()
                    .map_err(D::Error::custom)?
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::PlannedLog;

    #[test]
    fn weights_are_a_list_and_an_object_of_them_is_understood() {
        let by_node = r#"{"id":1,"name":"main","from":{"1":1},"to":{"1":1,"2":3},"steps":[]}"#;
        let planned: PlannedLog = serde_json::from_str(by_node).unwrap();
        let told = serde_json::to_string(&planned).unwrap();
        assert!(
            told.contains(r#""to":[{"node":1,"weight":1},{"node":2,"weight":3}]"#),
            "{told}"
        );
        assert_eq!(serde_json::from_str::<PlannedLog>(&told).unwrap(), planned);
    }
}
