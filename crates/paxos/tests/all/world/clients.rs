//! Clients, and the deeds of leaders for them.

use super::*;

impl World {
    /// Clients: open streams, write bytes, read, and administrators who reconfigure.
    pub(super) fn client(&mut self) {
        self.next_client = self.now + 500 + self.rng.below(4_000);
        let at = self.rng.below(self.nodes.len() as u64) as usize;
        self.write_bound(at);
        if !self.clients {
            return;
        }
        let Some(engine) = &self.nodes[at].engine else {
            return;
        };
        if self.rng.one_in(4) {
            let id = self.next_read;
            self.next_read += 1;
            let told = self.chosen_told;
            self.nodes[at].reads.insert(id, told);
            self.input(at, Input::Read(ReadId(id)));
            return;
        }
        let Some(permit) = engine.permit().cloned() else {
            return;
        };
        if permit.content != PermitContent::Free {
            return;
        }
        let era = engine.state().era;
        let dice = self.rng.below(20);
        if self.nodes[at].writer.is_none() && self.nodes[at].opening.is_none() || dice == 0 {
            self.open(at);
        } else if dice == 1 && self.faults.reconfigure {
            let node = NodeId(1 + self.rng.below(self.nodes.len() as u64) as u32);
            let change = match self.rng.below(8) {
                0..=2 => Change::Increment(node),
                3 | 4 => Change::Decrement(node),
                5 => Change::Multiply(2),
                6 => Change::Divide(2),
                _ if self.rng.one_in(2) => Change::MarkAuxiliary(node),
                _ => Change::UnmarkAuxiliary(node),
            };
            let _ = self.propose(
                at,
                Action::Reconfigure {
                    from: era,
                    change,
                    by: paxos::By::Unsaid,
                },
            );
        } else if dice == 2 {
            let _ = self.propose(at, Action::GenerateNodeId);
        } else if dice == 3 {
            let before = Slot(self.rng.below(permit.next.0 + 10));
            let _ = self.propose(
                at,
                Action::Trim {
                    before,
                    by: paxos::By::Unsaid,
                },
            );
        } else if dice == 4
            && let Some((stream, written)) = self.nodes[at].writer
        {
            let at_position = StreamPosition(written);
            let action = Action::CloseStream {
                stream,
                at: at_position,
            };
            let _ = self.propose(at, action);
            self.nodes[at].writer = None;
        } else {
            self.write(at, 1 + self.rng.0 % 12);
        }
    }

    pub fn open(&mut self, at: usize) {
        let continues = self.nodes[at].engine.as_ref().and_then(|engine| {
            let last = engine.state().streams.last()?;
            Some((last.name, last.length))
        });
        let continues = continues.filter(|_| self.rng.one_in(2));
        self.open_stream(at, continues);
    }

    pub(super) fn open_stream(
        &mut self,
        at: usize,
        continues: Option<(StreamName, StreamPosition)>,
    ) {
        let node = &mut self.nodes[at];
        node.counter += 1;
        let stream = StreamName {
            owner: node.id,
            sequence: StreamSequence {
                incarnation: node.incarnation,
                counter: node.counter,
            },
        };
        node.writer = None;
        node.opening = Some(stream);
        let open = OpenStream {
            stream,
            label: String::from("test"),
            metadata: Vec::new(),
            continues,
        };
        let _ = self.propose(at, Action::OpenStream(open));
    }

    /// The node's client gives up to `count` bytes of its stream to disk and network.
    pub fn write(&mut self, at: usize, count: u64) {
        let node = &mut self.nodes[at];
        let (Some(engine), Some((stream, written))) = (&mut node.engine, node.writer) else {
            return;
        };
        if !engine.may_begin_batch(Time::from_micros(self.now)) {
            self.drain(at);
            return;
        }
        let Some(permit) = engine.permit().cloned() else {
            return;
        };
        let count = count.min(permit.limit.0 - permit.next.0);
        if permit.content != PermitContent::Free || count == 0 {
            return;
        }
        self.nodes[at].writer = Some((stream, written + count));
        self.give(at, &permit, stream, written, count);
    }

    pub(super) fn give(
        &mut self,
        at: usize,
        permit: &WritePermit,
        stream: StreamName,
        p: u64,
        count: u64,
    ) {
        let id = self.nodes[at].id;
        for position in p..p + count {
            self.nodes[at].bytes.insert((stream, position));
        }
        let slots = SlotRange::new(permit.next, Slot(permit.next.0 + count));
        let value = Value::Content {
            stream,
            offset: Offset(permit.next.0 - p),
        };
        let proposal = Proposal {
            term: permit.term,
            slots,
            value: value.clone(),
            digest: digest(stream, p, count),
            chosen_up_to: self.nodes[at].engine.as_ref().unwrap().first_unchosen(),
        };
        self.proposed(permit.term, slots, &value);
        self.replicate(id, proposal);
        self.input(
            at,
            Input::BytesWritten(BytesWritten {
                term: permit.term,
                first_slot: permit.next,
                count,
                stream,
                position: StreamPosition(p),
                digest: digest(stream, p, count),
            }),
        );
    }

    /// The mover of a leader with a bound permit: reads its own bytes or fetches a holder's.
    pub(super) fn write_bound(&mut self, at: usize) {
        let Some(permit) = self.nodes[at]
            .engine
            .as_ref()
            .and_then(|engine| engine.permit().cloned())
        else {
            return;
        };
        let PermitContent::Bound {
            stream,
            position,
            holders,
        } = &permit.content
        else {
            return;
        };
        let id = self.nodes[at].id;
        let room = permit.limit.0 - permit.next.0;
        let wanted = (1 + self.rng.below(30)).min(room);
        let has = |node: &SimNode, p: u64| node.bytes.contains(&(*stream, p));
        let mut count = 0;
        while count < wanted {
            let p = position.0 + count;
            let found = has(&self.nodes[at], p)
                || holders.iter().any(|holder| {
                    let from = &self.nodes[self.index(*holder)];
                    from.engine.is_some()
                        && self.reachable(*holder, id)
                        && self.reachable(id, *holder)
                        && has(from, p)
                });
            if !found {
                break;
            }
            count += 1;
        }
        if count > 0 && !(self.faults.no_fetch && self.rng.one_in(8)) {
            self.give(at, &permit.clone(), *stream, position.0, count);
        } else if room > 0 {
            let key = (permit.term, permit.next);
            let since = match self.nodes[at].bound_since {
                Some((term, slot, since)) if (term, slot) == key => since,
                _ => {
                    self.nodes[at].bound_since = Some((key.0, key.1, self.now));
                    self.now
                }
            };
            if self.now > since + 50_000 {
                let holders = holders.clone();
                self.nodes[at].bound_since = None;
                self.input(
                    at,
                    Input::BytesUnavailable {
                        term: permit.term,
                        holders,
                    },
                );
            }
        }
    }
}
