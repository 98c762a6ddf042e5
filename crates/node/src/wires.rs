//! The process around a node knows of the connections that come to it what its node does not.
//!
//! The process tells it while the node runs; the node looks when it judges what is wrong, four times a second at most. It tells the
//! process then which names are other nodes'.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The process' word, shared with the node. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Wires(Arc<Mutex<Told>>);

/// The last word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// The name in the certificate that this node shows; none without TLS.
    pub certificate: Option<String>,
    /// The names that log 0 binds to the ids of other nodes, and those ids, by the node's word.
    pub others: BTreeMap<String, u32>,
    /// Until when that holds, in seconds since the beginning of 1970.
    pub holds_until_s: Option<u64>,
    /// When somebody came in plain text last though TLS is spoken, in seconds since the beginning of 1970.
    pub plain_at_s: Option<u64>,
    /// Plain text is refused.
    pub is_tls_required: bool,
    /// An address at which other machines reach this node or a door of it, if there is one.
    pub open_at: Option<String>,
    /// An operator said that what comes in plain text was encrypted on the way.
    pub is_plain_private: bool,
}

impl Wires {
    /// Changes the last word.
    pub fn tell(&self, change: impl FnOnce(&mut Told)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// The last word.
    pub fn told(&self) -> Told {
        let told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.clone()
    }
}
