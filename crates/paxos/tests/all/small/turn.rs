//! One node's step, and everything that follows from it at that node.

use std::sync::Arc;

use paxos::*;

use super::node::{Deed, Node, Record};
use super::{Broken, Envelope, Small, Step, fingerprint, index};

/// The result of a step for a node in a state, whatever the others do.
pub struct Turn {
    pub node: Arc<(u64, Node)>,
    pub seen: Vec<Seen>,
    pub sent: Vec<Arc<Envelope>>,
    /// The key of all of it.
    pub key: u64,
}

/// In the order in which it happened.
#[derive(Debug)]
pub enum Seen {
    Sent(NodeId, Message),
    Proposed(Proposal),
    Durable(NodeId, Record),
}

struct Taking<'a> {
    world: &'a Small,
    node: Node,
    /// Its records become durable by steps of their own.
    may_die: bool,
    seen: Vec<Seen>,
    sent: Vec<(NodeId, Message)>,
}

/// `None` if nothing came of it.
pub fn take(
    world: &Small,
    node: &Node,
    step: &Step,
    may_die: bool,
) -> Result<Option<Turn>, Broken> {
    let mut taking = Taking {
        world,
        node: node.clone(),
        may_die,
        seen: Vec::new(),
        sent: Vec::new(),
    };
    let Some(deeds) = taking.begin(step)? else {
        return Ok(None);
    };
    taking.go_on(deeds)?;
    let Taking {
        node, seen, sent, ..
    } = taking;
    let from = node.id;
    let sent = sent.into_iter().map(|(to, message)| {
        Arc::new(Envelope {
            key: fingerprint::of(&(from, to, &message)),
            from,
            to,
            message,
        })
    });
    let print = node.fingerprint();
    Ok(Some(Turn {
        key: fingerprint::of(&(print, &seen)),
        node: Arc::new((print, node)),
        seen,
        sent: sent.collect(),
    }))
}

impl Taking<'_> {
    fn begin(&mut self, step: &Step) -> Result<Option<Vec<Deed>>, Broken> {
        let rule = self.world.rule;
        let ids = self.world.ids();
        Ok(match step {
            Step::Deliver(envelope) => {
                let input = Input::Message {
                    from: envelope.from,
                    message: envelope.message.clone(),
                };
                Some(self.node.input(input, rule))
            }
            Step::Stand(_) => self.node.stand(&ids, rule),
            Step::Sync(_) => Some(self.node.sync(rule)?),
            Step::Restart(_) => {
                // Its disk takes no time once it will restart no more.
                let restarts = self.node.starts;
                self.may_die &= restarts < self.world.restarts[index(self.node.id)];
                Some(self.node.restart(&ids, rule))
            }
            Step::Give(_) => self.give(),
            Step::Change(_) => {
                let from = match self.world.impatient {
                    true => Era(0),
                    false => Era(self.node.changed),
                };
                self.node.changed += 1;
                // This world does not look at holdings: all nodes say that they hold everything.
                let own = self.node.id;
                for id in ids.iter().filter(|id| **id != own) {
                    let message = Message::FollowerStatus {
                        promised: PromisedTerm::default(),
                        accepted_term: paxos::AcceptedTerm::default(),
                        accepted_up_to: Slot(0),
                        first_unchosen: self.node.engine.first_unchosen(),
                        missing_bytes: 0,
                    };
                    let from = *id;
                    self.node
                        .input(Input::Message { from, message }, self.world.rule);
                }
                let change = self.world.change.expect("only then it is a step");
                self.node.propose(
                    Action::Reconfigure {
                        from,
                        change,
                        by: paxos::By::Unsaid,
                    },
                    rule,
                )
            }
            Step::Tell(_) => self.node.engine.leader_status().map(|status| {
                let others = ids.iter().filter(|id| **id != self.node.id);
                let tell = |to: &NodeId| Deed::Sent(*to, status.clone());
                others.map(tell).collect()
            }),
        })
    }

    fn go_on(&mut self, mut deeds: Vec<Deed>) -> Result<(), Broken> {
        loop {
            for deed in deeds {
                match deed {
                    Deed::Sent(to, message) => self.send(to, message),
                    Deed::Proposed(proposal) => self.propose(proposal),
                    Deed::Durable(record) => self.seen.push(Seen::Durable(self.node.id, record)),
                }
            }
            // Values that an earlier leader left are proposed again as soon as they may be.
            let permit = self.node.engine.permit().cloned();
            if let Some(permit) = permit
                && let PermitContent::Bound {
                    stream, position, ..
                } = permit.content
                && permit.next < permit.limit
            {
                let count = permit.limit.0 - permit.next.0;
                deeds = self.write(stream, position.0, count).unwrap_or_default();
            } else if self.node.has_pending() && !self.may_die {
                deeds = self.node.sync(self.world.rule)?;
            } else {
                return Ok(());
            }
        }
    }

    /// A value that no other node, and no other life of this one, gives.
    fn give(&mut self) -> Option<Vec<Deed>> {
        self.node.given += 1;
        let stream = StreamName {
            owner: self.node.id,
            sequence: StreamSequence {
                incarnation: self.node.starts,
                counter: self.node.given,
            },
        };
        if self.world.bytes > 0 {
            return self.write(stream, 0, self.world.bytes);
        }
        let open = OpenStream {
            stream,
            label: String::new(),
            metadata: Vec::new(),
            continues: None,
        };
        self.node.propose(Action::OpenStream(open), self.world.rule)
    }

    /// The mover: bytes go to the network, and the engine hears of them.
    fn write(&mut self, stream: StreamName, position: u64, count: u64) -> Option<Vec<Deed>> {
        let proposal = self.node.write(stream, position, count)?;
        let written = BytesWritten {
            term: proposal.term,
            first_slot: proposal.slots.start,
            count,
            stream,
            position: StreamPosition(position),
            digest: proposal.digest,
        };
        self.propose(proposal);
        let input = Input::BytesWritten(written);
        Some(self.node.input(input, self.world.rule))
    }

    fn propose(&mut self, proposal: Proposal) {
        for to in self.world.ids() {
            if to != self.node.id && self.node.engine.wants_proposals(to) {
                self.send(to, Message::Propose(proposal.clone()));
            }
        }
        self.seen.push(Seen::Proposed(proposal));
    }

    fn send(&mut self, to: NodeId, message: Message) {
        let lost = match &message {
            Message::SeekVotes { .. }
            | Message::OfferVote { .. }
            | Message::Refuse { .. }
            | Message::OfferCatchUp { .. }
            | Message::FollowerStatus { .. }
            | Message::Confirm { .. }
            | Message::Confirmed { .. }
            | Message::AskBarrier { .. }
            | Message::Barrier { .. }
            | Message::Release { .. }
            | Message::Released { .. } => true,
            Message::LeaderStatus { chosen_up_to, .. } => *chosen_up_to == Slot(0),
            _ => false,
        };
        self.seen.push(Seen::Sent(self.node.id, message.clone()));
        if !lost && index(to) < self.world.weights.len() {
            self.sent.push((to, message));
        }
    }
}
