//! A world that moves by hand: somebody says which message arrives, which disk writes, whose timer
//! has come, and sees what each of them does. `tests/all/stories` does.

use super::*;

/// One thing that a reader of a story is told.
#[derive(Clone, Debug)]
pub enum Seen {
    /// `finishing` is what the engine's promise leaves open at that moment.
    Did {
        node: NodeId,
        output: Output,
        finishing: Option<Finishing>,
        /// A message that waits for its record.
        waits: bool,
    },
    Sent {
        from: NodeId,
        to: NodeId,
        message: Message,
        lost: bool,
    },
    Received {
        from: NodeId,
        to: NodeId,
        message: Message,
        down: bool,
    },
    Durable {
        node: NodeId,
        up_to: RecordNumber,
    },
    Failed(String),
}

impl World {
    pub(super) fn see_output(&mut self, at: usize, output: &Output) {
        let node = &self.nodes[at];
        let Some(seen) = &mut self.seen else {
            return;
        };
        seen.push(Seen::Did {
            node: node.id,
            output: output.clone(),
            finishing: node.engine.as_ref().and_then(Engine::finishing),
            waits: matches!(output, Output::Send { after, .. } if *after > node.durable_up_to),
        });
    }

    pub(super) fn see_message(&mut self, from: NodeId, to: NodeId, message: &Message) {
        let lost = !self.reachable(from, to);
        if let Some(seen) = &mut self.seen {
            seen.push(Seen::Sent {
                from,
                to,
                message: message.clone(),
                lost,
            });
        }
    }

    fn see(&mut self, what: Seen) {
        if let Some(seen) = &mut self.seen {
            seen.push(what);
        }
    }

    /// The engine's next deadline comes, and nobody else's.
    pub fn fire_timer(&mut self, at: usize) -> Result<(), String> {
        let due = self.nodes[at].engine.as_ref().and_then(Engine::deadline);
        let due = due.ok_or("this node waits for no moment")?;
        self.now = self.now.max(due.as_micros());
        self.input(at, Input::Timer);
        Ok(())
    }

    /// Time passes, and all timers that come due meanwhile fire in order.
    pub fn pass(&mut self, micros: u64) -> Result<(), String> {
        let end = self.now + micros;
        loop {
            let deadline = |at: usize| self.nodes[at].engine.as_ref().and_then(Engine::deadline);
            let dues = (0..self.nodes.len()).filter_map(|at| Some((deadline(at)?.as_micros(), at)));
            match dues.min().filter(|(due, _)| *due <= end) {
                Some((_, at)) => self.fire_timer(at)?,
                None => break,
            }
        }
        self.now = end;
        Ok(())
    }

    /// All that this disk was given is durable, or only the first of it.
    pub fn write_to_disk(&mut self, at: usize, count: Option<u64>) {
        let waiting = self.nodes[at].pending.len() as u64;
        let count = count.unwrap_or(waiting).min(waiting);
        if count == 0 {
            return;
        }
        let node = self.nodes[at].id;
        let up_to = self.nodes[at].pending[count as usize - 1].0;
        self.see(Seen::Durable { node, up_to });
        self.sync_so_many(at, count);
    }

    /// The messages under way that `which` names arrive, in the order in which they were sent.
    pub fn deliver_those(&mut self, which: impl Fn(&Flight) -> bool) -> usize {
        let (arrive, stay) = std::mem::take(&mut self.net).into_iter().partition(which);
        self.net = stay;
        let arrive: Vec<Flight> = arrive;
        let count = arrive.len();
        for flight in arrive {
            let down = self.nodes[self.index(flight.to)].engine.is_none();
            self.see(Seen::Received {
                from: flight.from,
                to: flight.to,
                message: flight.message.clone(),
                down,
            });
            self.deliver(flight);
        }
        count
    }

    /// Loses the messages under way that `which` names.
    pub fn lose_those(&mut self, which: impl Fn(&Flight) -> bool) {
        let (lost, stay) = std::mem::take(&mut self.net).into_iter().partition(which);
        self.net = stay;
        let lost: Vec<Flight> = lost;
        for flight in lost {
            self.see(Seen::Sent {
                from: flight.from,
                to: flight.to,
                message: flight.message,
                lost: true,
            });
        }
    }

    /// The process dies, and what its disk had not written is gone.
    pub fn kill(&mut self, at: usize) {
        self.nodes[at].pending.clear();
        self.crash(at);
    }

    pub fn hear(&mut self, at: usize, peer: NodeId) {
        if self.nodes[at].engine.is_some() && self.nodes[at].alive.insert(peer) {
            self.input(at, Input::PeerAlive(peer));
        }
    }

    pub fn miss(&mut self, at: usize, peer: NodeId) {
        if self.nodes[at].alive.remove(&peer) {
            self.input(at, Input::PeerSilent(peer));
        }
    }

    pub fn beat_of(&mut self, at: usize) {
        let id = self.nodes[at].id;
        for (to, message) in self.heartbeat(at) {
            self.transmit(id, to, message);
        }
    }

    pub fn act(&mut self, at: usize, action: Action) {
        if let Err(why) = self.propose(at, action) {
            self.see(Seen::Failed(format!("not proposed: {why:?}")));
        }
    }

    /// A stream of this node's client, which goes on where the last one ends if it is to.
    pub fn open_by_hand(&mut self, at: usize, continues: bool) {
        let last = self.nodes[at].engine.as_ref().and_then(|engine| {
            let last = engine.state().streams.last()?;
            Some((last.name, last.length))
        });
        self.open_stream(at, last.filter(|_| continues));
    }

    /// Proposes again what an earlier term left here, and a bound permit names.
    pub fn write_what_is_bound(&mut self, at: usize) -> Result<(), String> {
        let permit = self.nodes[at].engine.as_ref().and_then(Engine::permit);
        let permit = permit.cloned().ok_or("it may fill no slots")?;
        let PermitContent::Bound {
            stream, position, ..
        } = &permit.content
        else {
            return Err(format!("its permit is not bound: {permit:?}"));
        };
        let room = permit.limit.0 - permit.next.0;
        self.give(at, &permit, *stream, position.0, room);
        Ok(())
    }

    pub fn read_by_hand(&mut self, at: usize) {
        let id = self.next_read + 1;
        self.next_read = id;
        let told = self.chosen_told;
        self.nodes[at].reads.insert(id, told);
        self.input(at, Input::Read(ReadId(id)));
    }

    pub fn bytes_on_disk(&self, at: usize) -> usize {
        self.nodes[at].bytes_durable.len()
    }

    pub fn records_to_write(&self, at: usize) -> usize {
        self.nodes[at].pending.len()
    }
}
