//! This replica's knowledge of each other one.

use alloc::vec::Vec;

use crate::runs::Runs;
use crate::{NodeId, Slot, SlotRange, Term};

#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub node: NodeId,
    /// The node's failure detector hears its heartbeats.
    pub alive: bool,
    /// The greatest first unchosen slot it told of.
    pub first_unchosen: Slot,
    /// The slots accepted in this leader's term, digest checked; at or above the first unchosen slot.
    pub accepted: Runs<()>,
    /// The end of the slots accepted without a hole, in this leader's term.
    pub accepted_up_to: Option<Slot>,
    /// Its last status, if that told of this leader's term.
    pub status: Option<PeerStatus>,
    pub missing_bytes: Option<u64>,
    /// The slot below which it said that all is chosen and that it durably holds all bytes.
    pub held_below: Slot,
    /// It is not known to hold, in its state, what was trimmed.
    pub is_state_short: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerStatus {
    pub promised: Term,
    pub first_unchosen: Slot,
}

/// The peers, ordered by node. Every sender gets an entry, member or not: an acceptance is kept until the era
/// of its slots is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Peers {
    peers: Vec<Peer>,
}

impl Peers {
    pub(crate) fn get(&self, node: NodeId) -> Option<&Peer> {
        self.peers.iter().find(|peer| peer.node == node)
    }

    pub(crate) fn entry(&mut self, node: NodeId) -> &mut Peer {
        // They are few: a handful of comparisons that the processor foresees.
        let at = match self.peers.iter().position(|peer| peer.node == node) {
            Some(at) => at,
            None => self.add(node),
        };
        &mut self.peers[at]
    }

    #[cold]
    fn add(&mut self, node: NodeId) -> usize {
        let at = self.peers.partition_point(|peer| peer.node < node);
        let peer = Peer {
            node,
            alive: false,
            first_unchosen: Slot(0),
            accepted: Runs::new(),
            accepted_up_to: None,
            status: None,
            missing_bytes: None,
            held_below: Slot(0),
            is_state_short: false,
        };
        self.peers.insert(at, peer);
        at
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Peer> {
        self.peers.iter()
    }

    pub(crate) fn is_alive(&self, node: NodeId) -> bool {
        self.get(node).is_some_and(|peer| peer.alive)
    }

    pub(crate) fn any_alive(&self) -> bool {
        self.peers.iter().any(|peer| peer.alive)
    }

    /// Forgets acceptances when a new term of this leader begins: earlier ones are another term's, and bytes
    /// held before may since have been lost, which was told to the leader of that time.
    pub(crate) fn forget_acceptances(&mut self) {
        for peer in &mut self.peers {
            peer.accepted.clear();
            peer.accepted_up_to = None;
            peer.status = None;
            peer.held_below = Slot(0);
        }
    }

    /// Forgets statuses when a new term goes on where the one before stood: all are level again once they say
    /// so in it.
    pub(crate) fn forget_statuses(&mut self) {
        for peer in &mut self.peers {
            peer.status = None;
        }
    }
}

impl Peer {
    /// Forgets what the peer told: it may have restarted, and know and hold less.
    pub(crate) fn on_alive_again(&mut self) {
        self.status = None;
        self.held_below = Slot(0);
    }

    pub(crate) fn on_accepted(&mut self, slots: SlotRange, first_unchosen: Slot) {
        self.accepted.assign(slots, ());
        self.accepted.remove_below(first_unchosen);
        self.extend(slots);
    }

    /// Extends `accepted_up_to` by a batch that begins at or below it.
    pub(crate) fn extend(&mut self, slots: SlotRange) {
        if let Some(up_to) = &mut self.accepted_up_to
            && slots.start <= *up_to
        {
            *up_to = slots.end.max(*up_to);
        }
    }
}
