//! Parts of a node are lent the clock and the ops of this round, the logs, which of them are due, and the peers.
//!
//! A part owns its own state. It is handed this, or less, and no other part; and it knows no node.

use replica::Env;

use crate::logs::Logs;
use crate::logs::due::Due;
use crate::peers::Peers;

pub struct Lent<'a> {
    pub env: &'a mut Env,
    pub logs: &'a mut Logs,
    pub due: &'a mut Due,
    pub peers: &'a mut Peers,
}

/// The same loan, only to look at.
#[derive(Clone, Copy)]
pub struct Sight<'a> {
    pub env: &'a Env,
    pub logs: &'a Logs,
    pub peers: &'a Peers,
}

impl Lent<'_> {
    pub fn sight(&self) -> Sight<'_> {
        Sight {
            env: self.env,
            logs: self.logs,
            peers: self.peers,
        }
    }
}
