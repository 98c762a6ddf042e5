//! Membership of logs, and its changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::Client;
use crate::admin::Part;
use crate::asked::{AdminError, Json};
use crate::request::Request;

pub use wire::change::{Action, Change};
pub use wire::told::{Log, Member, Members, Node, Planned, PlannedLog};

impl Client {
    /// Nodes, weights, and what is under way. Each log's leader is asked, if it can be found.
    pub fn members(&self) -> Result<Members, AdminError> {
        self.members_part(Part::default())
    }

    /// As [`Client::members`], of the logs with an id above `after`, the first of these, or both.
    pub fn members_part(&self, part: Part<u64>) -> Result<Members, AdminError> {
        let request = Request::Members {
            local: false,
            after: part.after,
            limit: part.limit,
        };
        let mut members: Members = self.cluster.ask(&request, self.deadline())?.json()?;
        let mut asked: BTreeMap<u64, Option<Members>> = BTreeMap::new();
        let Members { nodes, logs, .. } = &mut members;
        for log in logs.iter_mut().filter(|log| !log.leads) {
            // A node that does not host a log does not know its leader.
            let able = |node: &&Node| node.alive && log.leader.is_none_or(|id| id == node.id);
            let mut said = nodes.iter().filter(able).filter_map(|node| {
                let said = asked.entry(node.id);
                let said = said.or_insert_with(|| self.members_of(&node.address, part).ok());
                let mut logs = said.iter().flat_map(|said| &said.logs);
                logs.find(|said| said.leads && said.id == log.id).cloned()
            });
            if let Some(better) = said.next() {
                *log = better;
            }
        }
        Ok(members)
    }

    /// As one server sees them; no other is asked.
    fn members_of(&self, server: &str, part: Part<u64>) -> Result<Members, AdminError> {
        let only = self.cluster.only(server);
        let request = Request::Members {
            local: true,
            after: part.after,
            limit: part.limit,
        };
        Arc::new(only).ask(&request, self.deadline())?.json()
    }

    /// Makes a change wanted, after which the cluster goes there by itself, step by step; or plans it. A
    /// repeated request is no second change.
    ///
    /// Errors: [`AdminError::Refused`] with the reason.
    pub fn change_members(&self, change: &Change) -> Result<Planned, AdminError> {
        let request = Request::ChangeMembers(change.clone());
        self.cluster.ask(&request, self.deadline())?.json()
    }
}
