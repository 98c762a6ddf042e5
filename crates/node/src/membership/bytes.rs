//! The bytes that a change would lose, because only a node that goes may hold them.
//!
//! ```text
//!   who goes      who stays and is alive     the change
//!   alive         others can be filled       is made; its steps wait until they hold everything
//!   anyhow        one lacks nothing          is made
//!   silent        all lack something         is refused: nobody could ever fill them
//!   no vote       all lack something         is refused: of a learner no step waits
//! ```
//!
//! A node that lacks bytes of a log says so to the directory's leader, in every heartbeat. A node that is
//! alive and does not say so is believed to hold everything; of a silent one nothing is known, and it may be
//! the one that alone holds something. This knowledge only decides what an operator is told at once: no step
//! is made by it (`crate::cluster::moving` knows better, and waits).

use std::collections::BTreeSet;

use formats::LogId;
use paxos::NodeId;

use super::change::{View, listed, names};

impl View<'_> {
    /// The reason why a node that leaves, and has no weight any more, is kept.
    pub fn kept_for_bytes(&self, node: u32) -> Option<String> {
        let going = BTreeSet::from([node]);
        names(self.directory)
            .find_map(|(log, name)| self.bytes_risked(log.0, name, &going, &[node]))
    }

    /// The reason why this log's bytes may be lost when these nodes lose their last weight or leave.
    pub(super) fn bytes_risked(
        &self,
        log: u32,
        name: &str,
        going: &BTreeSet<u32>,
        leaving: &[u32],
    ) -> Option<String> {
        let lacks = |node: &&u32| self.lacks.get(&log).is_some_and(|l| l.contains(node));
        let hosts = |node: &u32| self.directory.hosts(LogId(log), NodeId(*node));
        let parts = going.iter().filter(|node| hosts(node) && !lacks(node));
        let parts: BTreeSet<&u32> = parts.collect();
        let members = &self.directory.members;
        let stays = |node: &&u32| !leaving.contains(node) && !members.leaving.contains(node);
        let present = self.directory.nodes.keys().map(|node| node.0);
        let present: Vec<u32> = present
            .filter(|n| hosts(n) && self.alive.contains(n))
            .collect();
        let fillable: Vec<&u32> = present.iter().filter(stays).collect();
        if parts.is_empty() || fillable.iter().any(|node| !lacks(node)) {
            return None;
        }
        let alive = parts.iter().filter(|node| self.alive.contains(node));
        let alive: BTreeSet<&u32> = alive.copied().collect();
        let configuration = self.configuration(log);
        let configuration = configuration.as_ref();
        let votes = |node: &u32| configuration.is_some_and(|c| c.contains(NodeId(*node)));
        if alive.iter().any(|node| votes(node)) && !fillable.is_empty() {
            return None; // The step that takes its last weight waits until they are filled.
        }
        let silent = parts.difference(&alive).copied();
        Some(if fillable.is_empty() {
            format!(
                "of the nodes that stay none is alive that could be filled with what node {} holds of {name}: start one",
                listed(parts.into_iter())
            )
        } else if alive.is_empty() {
            format!(
                "node {} is silent, and none of the others holds all bytes of {name} (node {} lacks some): start it, or another that holds them, and wait until `logberg members` shows that they are copied",
                listed(silent),
                listed(fillable.into_iter())
            )
        } else {
            format!(
                "only node {} holds all bytes of {name}, and without a vote it would go before others have them (node {} lacks some): wait until `logberg members` shows that they are copied",
                listed(alive.into_iter()),
                listed(fillable.into_iter())
            )
        })
    }
}
