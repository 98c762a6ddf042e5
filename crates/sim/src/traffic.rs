//! The traffic of bytes: segments with latency, buffers that fill, paths that are cut and heal.

use std::time::Duration;

use ops::{Completion, Received, Time};

use crate::clockwork::{Clockwork, Event};
use crate::net::{ConnectionId, Network, Side, State, received};
use crate::{HostId, landing};

impl Network {
    /// Moves what can move at the sender: ops to its kernel buffer, the buffer to the wire.
    pub(crate) fn pump(&mut self, clock: &mut Clockwork, id: ConnectionId, side: Side) {
        let Some(connection) = &mut self.connections[id as usize] else {
            return;
        };
        let end = &connection.ends[usize::from(side)];
        let (state, host, conn) = (end.state, end.host, end.conn);
        let named = self.conns[host.index()].get(&conn) == Some(&(id, side));
        let stream = &mut connection.streams[usize::from(side)];
        if stream.is_dead() || matches!(state, State::Opening | State::Failed(_)) {
            return;
        }
        stream.give(self.model.send_buffer_bytes);
        while stream.finish_send() {
            if named {
                let result = Ok(());
                clock.deliver(host, Completion::Sent { conn, result });
            }
        }
        if let Some(refused) = stream.take_refused() {
            for _ in 0..if named { refused } else { 0 } {
                let result = Err(std::io::ErrorKind::BrokenPipe.into());
                clock.deliver(host, Completion::Sent { conn, result });
            }
            if state == State::Flushing {
                return self.linger(clock, id, side);
            }
        }
        let (mut unsent, last) = stream.begin_sending();
        while !unsent.is_empty() {
            let mut count = self.model.segment_bytes_max.min(unsent.end - unsent.start);
            if count > 1 && !self.model.whole && clock.random.below(8) == 0 {
                count = 1 + clock.random.below(count);
            }
            self.put_in_flight(clock, id, side, count, false);
            unsent.start += count;
        }
        if last {
            self.put_in_flight(clock, id, side, 0, true);
        }
    }

    pub(crate) fn put_in_flight(
        &mut self,
        clock: &mut Clockwork,
        id: ConnectionId,
        side: Side,
        count: u64,
        last: bool,
    ) {
        let connection = self.connections[id as usize].as_mut();
        let connection = connection.expect("who sends has a connection");
        let line_free_at = &mut self.line_free_at[connection.ends[usize::from(side)].host.index()];
        let takes_us = self.model.segment_us + count / self.model.bytes_per_us;
        let leaves = clock.now.max(*line_free_at) + Duration::from_micros(takes_us);
        *line_free_at = leaves;
        let stream = &mut connection.streams[usize::from(side)];
        let latency_us = clock.random.within(&self.model.latency_us);
        let at = leaves + Duration::from_micros(latency_us);
        let (at, sending) = stream.depart(at, count, last);
        let arrive = Event::Arrive {
            connection: id,
            from: side,
            sending,
        };
        clock.schedule(at, arrive);
    }

    pub(crate) fn on_arrive(
        &mut self,
        clock: &mut Clockwork,
        id: ConnectionId,
        from: Side,
        sending: u32,
    ) {
        let Some(connection) = &self.connections[id as usize] else {
            return;
        };
        let (s, r) = (usize::from(from), usize::from(1 - from));
        if !connection.streams[s].is_sending(sending) {
            return;
        }
        let hosts = [s, r].map(|end| connection.ends[end].host);
        if self.is_blocked(hosts[0], hosts[1]) {
            if let Some(connection) = &mut self.connections[id as usize] {
                connection.streams[s].set_stuck(true);
            }
            return self.stall(clock, id, from);
        }
        if clock.random.chance(self.model.losses) {
            self.losses += 1;
            return self.send_again(clock, id, from);
        }
        if clock.random.chance(self.model.resets) {
            self.resets += 1;
            return self.reset_both(clock, id);
        }
        let Some(connection) = &mut self.connections[id as usize] else {
            return;
        };
        if !connection.streams[s].arrive() {
            return;
        }
        if connection.ends[r].state == State::Opening && !self.accept(clock, id) {
            return self.send_reset(clock, id, 1 - from);
        }
        let Some(connection) = &mut self.connections[id as usize] else {
            return;
        };
        match connection.ends[r].state {
            State::Open => self.serve(clock, id, 1 - from),
            State::Opening | State::Flushing => {}
            State::Lingering => {
                let stream = &mut connection.streams[s];
                stream.discard_unread();
                if stream.has_ended() {
                    connection.ends[r].state = State::Gone;
                }
            }
            State::Gone | State::Failed(_) => {
                let stream = &mut connection.streams[s];
                let refused = stream.unread() > 0;
                stream.discard_unread();
                if refused {
                    self.send_reset(clock, id, 1 - from);
                }
            }
        }
        self.feed_back(clock, id, from);
        self.remove_if_over(id);
    }

    /// Moves what arrived at `side` into its receive ops.
    pub(crate) fn serve(&mut self, clock: &mut Clockwork, id: ConnectionId, side: Side) {
        let Some(connection) = &mut self.connections[id as usize] else {
            return;
        };
        let end = &mut connection.ends[usize::from(side)];
        let incoming = &mut connection.streams[usize::from(1 - side)];
        let failed = match end.state {
            State::Open => None,
            State::Failed(kind) => Some(kind),
            State::Opening | State::Flushing | State::Lingering | State::Gone => return,
        };
        let taken_before = incoming.taken();
        while let Some(receive) = end.receives.front_mut() {
            let room = receive.room();
            let mut count = room.min(incoming.unread() as usize);
            if !receive.whole && count > 1 && !self.model.whole && clock.random.below(4) == 0 {
                count = 1 + clock.random.below(count as u64) as usize;
            }
            receive.lend_for(count);
            let at = receive.range.start + receive.filled;
            landing::fill(&mut receive.buffer, at..at + count, |into| {
                incoming.take(into);
            });
            receive.filled += count;

            let is_full = count == room;
            let count = receive.filled;
            let ended = incoming.has_ended() && failed.is_none();
            let result = if is_full {
                Ok(Received { count, end: false })
            } else if count > 0 && !receive.whole {
                // A kernel may tell of the end together with the last bytes, or after them.
                let end = ended && clock.random.coin();
                Ok(Received { count, end })
            } else if let Some(kind) = failed {
                Err(kind.into())
            } else if ended {
                Ok(Received { count, end: true })
            } else {
                break;
            };
            let receive = end.receives.pop_front().expect("it was at the front");
            clock.deliver(end.host, received(end.conn, receive, result));
        }
        if incoming.taken() > taken_before {
            self.feed_back(clock, id, 1 - side);
        }
    }

    /// The sender at `side` learns what arrived and how much room there is, if it can.
    pub(crate) fn feed_back(&mut self, clock: &mut Clockwork, id: ConnectionId, side: Side) {
        let blocked = self.is_blocked_between(id, 1 - side);
        let Some(connection) = &mut self.connections[id as usize] else {
            return;
        };
        let stream = &mut connection.streams[usize::from(side)];
        if blocked {
            if !stream.is_acknowledged() {
                self.stall(clock, id, side);
            }
            return;
        }
        stream.acknowledge(self.model.receive_buffer_bytes);
        self.pump(clock, id, side);
    }

    fn stall(&mut self, clock: &mut Clockwork, id: ConnectionId, side: Side) {
        let Some(connection) = &mut self.connections[id as usize] else {
            return;
        };
        if !connection.streams[usize::from(side)].stall(clock.now) {
            return;
        }
        let give_up = Event::GiveUp {
            connection: id,
            from: side,
            since: clock.now,
        };
        clock.after(Duration::from_micros(self.model.give_up_us), give_up);
    }

    pub(crate) fn on_give_up(
        &mut self,
        clock: &mut Clockwork,
        id: ConnectionId,
        side: Side,
        since: Time,
    ) {
        let Some(connection) = &self.connections[id as usize] else {
            return;
        };
        if connection.streams[usize::from(side)].is_stalled_since(since) {
            self.fail_end(clock, id, side, std::io::ErrorKind::TimedOut);
        }
    }

    /// All that is in flight comes later, as after a loss.
    fn send_again(&mut self, clock: &mut Clockwork, id: ConnectionId, side: Side) {
        let Some(connection) = &mut self.connections[id as usize] else {
            return;
        };
        let stream = &mut connection.streams[usize::from(side)];
        let wait_us = clock.random.within(&self.model.retransmit_us);
        let at = clock.now + Duration::from_micros(wait_us);
        let (at, sending, segments) = stream.send_again(at);
        for _ in 0..segments {
            let arrive = Event::Arrive {
                connection: id,
                from: side,
                sending,
            };
            clock.schedule(at, arrive);
        }
    }

    /// Something between the two resets the connection.
    pub(crate) fn reset_both(&mut self, clock: &mut Clockwork, id: ConnectionId) {
        for side in [0, 1] {
            let Some(connection) = &mut self.connections[id as usize] else {
                return;
            };
            if side == 1 && connection.ends[1].state == State::Opening {
                // Never accepted: nobody to tell.
                connection.ends[usize::from(side)].state = State::Gone;
                connection.streams[usize::from(side)].die();
                continue;
            }
            self.fail_end(clock, id, side, std::io::ErrorKind::ConnectionReset);
        }
        self.remove_if_over(id);
    }

    pub(crate) fn cut(&mut self, from: HostId, to: HostId) {
        self.cuts.insert((from, to));
    }

    pub(crate) fn mend(&mut self, clock: &mut Clockwork, from: HostId, to: HostId) {
        if self.cuts.remove(&(from, to)) {
            self.resume(clock);
        }
    }

    pub(crate) fn machine_is_back(&mut self, clock: &mut Clockwork, host: HostId) {
        if self.vanished.remove(&host) {
            self.resume(clock);
        }
    }

    /// A path may be free again: what waited for it is sent again.
    fn resume(&mut self, clock: &mut Clockwork) {
        for id in 0..self.connections.len() as ConnectionId {
            for side in [0, 1] {
                let Some(connection) = &self.connections[id as usize] else {
                    continue;
                };
                let stream = &connection.streams[usize::from(side)];
                if stream.is_stuck() && !self.is_blocked_between(id, side) {
                    if let Some(connection) = &mut self.connections[id as usize] {
                        connection.streams[usize::from(side)].set_stuck(false);
                    }
                    self.send_again(clock, id, side);
                }
                self.feed_back(clock, id, side);
            }
        }
    }

    /// From the end at `side` to the other.
    fn is_blocked_between(&self, id: ConnectionId, side: Side) -> bool {
        match &self.connections[id as usize] {
            Some(connection) => {
                let host = |side: Side| connection.ends[usize::from(side)].host;
                self.is_blocked(host(side), host(1 - side))
            }
            None => false,
        }
    }
}
