//! Whether each node has heard what the directory chose.
//!
//! ```text
//!   a change, chosen ─▶ each node is asked who we are ─▶ it answers once it knows all that was chosen by then
//!                                                     └─ no answer in time: it goes on by what it knew
//! ```

use std::sync::Arc;
use std::thread;
use std::time::Instant;

use wire::told::NodeStatus;

use super::AdminError;
use crate::Client;
use crate::answer::Code;
use crate::cluster::Cluster;
use crate::request::Request;

/// A node, and whether it knows what was chosen before it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// Its id.
    pub node: u64,
    /// Its address.
    pub address: String,
    /// Why it is not known that it has heard, in words; none, if it has.
    pub why_not: Option<String>,
}

impl Client {
    /// The nodes of the cluster, by a server that knows all that the directory has chosen.
    pub fn nodes(&self) -> Result<Vec<NodeStatus>, AdminError> {
        Ok(self.fresh_status()?.nodes)
    }

    /// Waits until each of these nodes knows all that the directory had chosen when this was called, or until the time of this
    /// client is over. They are asked all at once.
    pub fn wait_heard(&self, nodes: &[NodeStatus]) -> Vec<Heard> {
        let deadline = self.deadline();
        let asked = nodes.iter().map(|node| {
            let only = Arc::new(self.cluster.only(&node.address));
            let asked = thread::Builder::new().spawn(move || why_not(&only, deadline));
            (node, asked)
        });
        // All are asked before the first is waited for.
        let asked: Vec<_> = asked.collect();
        let heard = asked.into_iter().map(|(node, asked)| {
            let said = match asked.map(thread::JoinHandle::join) {
                Ok(Ok(said)) => said,
                Ok(Err(_)) => Some("the thread that asked it panicked".to_owned()),
                Err(error) => Some(error.to_string()),
            };
            Heard {
                node: node.id,
                address: node.address.clone(),
                why_not: said,
            }
        });
        heard.collect()
    }
}

fn why_not(only: &Arc<Cluster>, deadline: Instant) -> Option<String> {
    let asked = match only.ask(&Request::WhoAmI, deadline) {
        Ok(asked) => asked,
        Err(AdminError::Unreachable(unreachable)) => {
            let said = unreachable.tried.into_iter().next();
            return Some(said.map_or("nobody is there".to_owned(), |(_, said)| said.to_string()));
        }
        Err(error) => return Some(error.to_string()),
    };
    match asked.answer {
        Ok(_) => None,
        // It refuses a token only once it knows all, and this may be the one that was revoked.
        Err(refusal) if refusal.code == Code::Unauthenticated => None,
        Err(refusal) => Some(refusal.to_string()),
    }
}
