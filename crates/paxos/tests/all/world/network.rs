//! The network: messages are lost, repeated, late and out of order.

use super::*;

impl World {
    pub fn reachable(&self, from: NodeId, to: NodeId) -> bool {
        !self.cut.contains(&(from, to))
    }

    pub fn transmit(&mut self, from: NodeId, to: NodeId, message: Message) {
        self.messages += 1;
        self.see_message(from, to, &message);
        if to.0 as usize > self.nodes.len() || !self.reachable(from, to) {
            return;
        }
        if self.rng.one_in(self.faults.drop_one_in) {
            return;
        }
        let copies = if self.rng.one_in(self.faults.twice_one_in) {
            2
        } else {
            1
        };
        for _ in 0..copies {
            let at = self.now + 50 + self.rng.below(self.faults.delay_max);
            let message = message.clone();
            self.net.push(Flight {
                at,
                from,
                to,
                message,
            });
        }
    }

    /// The messages of this node's heartbeat: its status, and its proposals to those who lack them.
    pub(super) fn heartbeat(&self, at: usize) -> Vec<(NodeId, Message)> {
        let mut out = Vec::new();
        let Some(engine) = &self.nodes[at].engine else {
            return out;
        };
        let others = (1..=self.nodes.len() as u32).map(NodeId);
        let others = others.filter(|to| *to != self.nodes[at].id);
        let Some(status) = engine.leader_status() else {
            let leader = engine.leader().map(|(leader, _)| leader);
            let to_leader = others.filter(|to| leader == Some(*to));
            out.extend(to_leader.map(|to| (to, engine.follower_status())));
            return out;
        };
        for to in others.filter(|to| !engine.is_level(*to)) {
            out.push((to, status.clone()));
            if !engine.wants_proposals(to) {
                continue;
            }
            let up_to = engine.peer_accepted_up_to(to).unwrap_or(Slot(0));
            for proposal in engine.proposals(engine.first_unchosen()) {
                if proposal.slots.end > up_to {
                    out.push((to, Message::Propose(proposal)));
                }
            }
        }
        out
    }

    pub(super) fn replicate(&mut self, from: NodeId, proposal: Proposal) {
        for to in (1..=self.nodes.len() as u32).map(NodeId) {
            let engine = self.nodes[self.index(from)].engine.as_ref();
            if to != from && engine.is_some_and(|engine| engine.wants_proposals(to)) {
                self.transmit(from, to, Message::Propose(proposal.clone()));
            }
        }
    }

    pub(super) fn deliver(&mut self, flight: Flight) {
        let at = self.index(flight.to);
        if self.nodes[at].engine.is_none() {
            return;
        }
        if let Message::Propose(proposal) = &flight.message
            && let Value::Content { stream, offset } = proposal.value
        {
            for slot in proposal.slots.start.0..proposal.slots.end.0 {
                self.nodes[at].bytes.insert((stream, slot - offset.0));
            }
        }
        self.input(
            at,
            Input::Message {
                from: flight.from,
                message: flight.message,
            },
        );
    }
}
