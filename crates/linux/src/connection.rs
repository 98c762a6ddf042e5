//! One connection: what it still has to receive and to send, and how far it got.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use ops::{Buffer, Completion, ConnId, Received, Slice, Time};
use rustix::io::Errno;
use rustix::net::{RecvFlags, Shutdown, recv, shutdown, sockopt};

use crate::epoll::{Epoll, EventFlags, Source};
use crate::errors::closed_here;
use crate::landing;

mod on_ring;
mod sending;

use sending::{Sending, send_next};

pub(crate) struct Connection {
    pub id: ConnId,
    pub phase: Phase,
    /// What epoll last said and no EAGAIN has contradicted.
    readable: bool,
    writable: bool,
    /// The other side sends no more, or the connection is broken: an incomplete receive no longer
    /// means that the socket is empty.
    hung_up: bool,
    /// Epoll reports no more that bytes came in: see `wants_deaf`.
    pub deaf: bool,
    receives: VecDeque<Receiving>,
    sends: VecDeque<Sending>,
    /// The kernel reports an error once; we report it for all later ops of the direction.
    receive_failure: Option<Errno>,
    /// The other side's end of stream was told.
    has_ended: bool,
    send_failure: Option<Errno>,
    /// Our end of the stream is said; later sends fail, and that is no failure of the connection.
    shut: bool,
    /// Stands in the network's list of connections that may be able to move bytes.
    pub has_turn: bool,
    /// Bytes moved since the last look at a closing connection.
    moved: bool,
    /// What the ring has of it, if there is one.
    flights: on_ring::Flights,
}

pub(crate) enum Phase {
    /// Its name is being looked up.
    Resolving,
    Connecting {
        socket: Arc<OwnedFd>,
        /// Addresses of the same name that were not tried yet.
        others: VecDeque<SocketAddr>,
    },
    Open(Arc<OwnedFd>),
    /// Closed by the node with `flush`: the sends given before still go out.
    Flushing(Arc<OwnedFd>),
    /// All is sent and our end is shut. What the other side still sends is read and thrown away:
    /// closing with unread bytes resets the connection, and a reset overtakes what we sent last.
    Lingering {
        socket: Arc<OwnedFd>,
        until: Time,
    },
    /// Over, but the ring still has something of it (`on_ring`).
    Ending,
}

struct Receiving {
    buffer: Buffer,
    range: Range<usize>,
    count: usize,
    whole: bool,
}

impl Receiving {
    fn rest(&self) -> Range<usize> {
        self.range.start + self.count..self.range.end
    }
}

/// What a connection says after its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// Epoll will say when there is more to do.
    Wait,
    /// It could do more, but others come first.
    Again,
    /// All is sent and the connection was to be closed.
    Flushed,
    Gone,
}

impl Connection {
    pub fn new(id: ConnId, phase: Phase) -> Connection {
        // A fresh connection can be written, and often the first line has come with it; while
        // connecting neither is true.
        let open = matches!(phase, Phase::Open(_));
        Connection {
            id,
            phase,
            readable: open,
            writable: open,
            hung_up: false,
            deaf: false,
            receives: VecDeque::new(),
            sends: VecDeque::new(),
            receive_failure: None,
            has_ended: false,
            send_failure: None,
            shut: false,
            has_turn: false,
            moved: false,
            flights: on_ring::Flights::default(),
        }
    }

    pub fn on_event(&mut self, flags: EventFlags) {
        let broken = flags.intersects(EventFlags::ERR | EventFlags::HUP);
        self.hung_up |= broken || flags.contains(EventFlags::RDHUP);
        self.readable |= broken || flags.intersects(EventFlags::IN | EventFlags::RDHUP);
        self.writable |= broken || flags.contains(EventFlags::OUT);
    }

    /// Whether to hear of bytes that come in, from here on. Somebody who sends single bytes while
    /// nobody receives would wake us with each of them, to tell us again what we know. Who is deaf
    /// knows that the socket can be read and written; once one of the two may be over it has to
    /// hear again.
    pub fn wants_deaf(&self, came_in_again: bool) -> bool {
        let certain = self.readable && self.writable;
        certain && (self.deaf || came_in_again && self.receives.is_empty())
    }

    pub fn is_readable(&self) -> bool {
        self.readable
    }

    pub fn socket(&self) -> Option<&OwnedFd> {
        match &self.phase {
            Phase::Open(socket) | Phase::Flushing(socket) | Phase::Lingering { socket, .. } => {
                Some(socket)
            }
            Phase::Resolving | Phase::Connecting { .. } | Phase::Ending => None,
        }
    }

    /// The socket of a connection attempt became the connection.
    pub fn open(&mut self) {
        let phase = std::mem::replace(&mut self.phase, Phase::Resolving);
        if let Phase::Connecting { socket, .. } = phase {
            self.phase = Phase::Open(socket);
            self.readable = true;
            self.writable = true;
        }
    }

    pub fn is_connecting(&self) -> bool {
        matches!(self.phase, Phase::Resolving | Phase::Connecting { .. })
    }

    pub fn is_closing(&self) -> bool {
        matches!(
            self.phase,
            Phase::Flushing(_) | Phase::Lingering { .. } | Phase::Ending
        )
    }

    /// Whether bytes moved since the last call.
    pub fn take_moved(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }

    pub fn push_receive(&mut self, buffer: Buffer, range: Range<usize>, whole: bool) {
        self.receives.push_back(Receiving {
            buffer,
            range,
            count: 0,
            whole,
        });
    }

    pub fn push_send(&mut self, slices: Vec<Slice>) {
        self.sends.push_back(Sending::Bytes {
            slices,
            first: 0,
            offset: 0,
        });
    }

    pub fn push_shutdown(&mut self) {
        self.sends.push_back(Sending::Shutdown);
    }

    /// Closed by the node, with sends still to go out.
    pub fn flush(&mut self, completions: &mut Vec<Completion>) {
        // In their order: behind the one that the ring has.
        if !self.flights.has_receive() {
            self.fail_receives(&closed_here, completions);
        }
        self.push_shutdown();
        self.moved = true;
        let phase = std::mem::replace(&mut self.phase, Phase::Resolving);
        if let Phase::Open(socket) = phase {
            self.phase = Phase::Flushing(socket);
        }
    }

    /// Epoll has to watch it from here on if it was `on_ring`.
    pub fn linger(&mut self, until: Time, epoll: &Epoll, on_ring: bool) -> io::Result<()> {
        if let Phase::Flushing(socket) = &self.phase {
            if on_ring {
                epoll.add(Source::Connection(self.id), socket)?;
                self.readable = true;
            }
            let socket = socket.clone();
            self.phase = Phase::Lingering { socket, until };
        }
        Ok(())
    }

    /// Completes everything outstanding with an error.
    pub fn fail(&mut self, error: &dyn Fn() -> io::Error, completions: &mut Vec<Completion>) {
        if self.is_connecting() {
            completions.push(Completion::Connected {
                conn: self.id,
                result: Err(error()),
            });
        }
        self.fail_receives(error, completions);
        self.fail_sends(error, completions);
    }

    /// Moves what can be moved now, at most `bytes_max` in each direction.
    pub fn take_turn(
        &mut self,
        bytes_max: usize,
        scratch: &mut [u8],
        completions: &mut Vec<Completion>,
    ) -> After {
        match &self.phase {
            Phase::Resolving | Phase::Connecting { .. } => After::Wait,
            Phase::Ending => After::Gone,
            Phase::Open(_) => {
                let send_more = self.send(bytes_max, completions);
                let receive_more = self.receive(bytes_max, completions);
                match send_more || receive_more {
                    true => After::Again,
                    false => After::Wait,
                }
            }
            Phase::Flushing(_) => match self.send(bytes_max, completions) {
                true => After::Again,
                false if self.send_failure.is_some() => After::Gone,
                false if self.sends.is_empty() => After::Flushed,
                false => After::Wait,
            },
            Phase::Lingering { .. } => self.discard(bytes_max, scratch),
        }
    }

    /// Sends what is queued, several ops in one call.
    ///
    /// Shape:  slices -> socket.
    /// Units:  at most `bytes_max` bytes; true when that, and not the socket, was the limit.
    /// Errors: fail all queued and later sends of the connection; MSG_NOSIGNAL, so no SIGPIPE.
    /// Source: sendmsg(2); epoll(7) on partial writes of stream sockets.
    fn send(&mut self, bytes_max: usize, completions: &mut Vec<Completion>) -> bool {
        let mut left = bytes_max;
        loop {
            if !self.has_bytes_to_send(completions) {
                return false;
            }
            let (Phase::Open(socket) | Phase::Flushing(socket)) = &self.phase else {
                return false;
            };
            if !self.writable {
                return false;
            }
            if left == 0 {
                return true;
            }
            let (length, sent) = send_next(socket, &self.sends, left);
            match sent {
                Ok(count) => {
                    left -= count;
                    self.moved = true;
                    self.writable = count == length;
                    self.on_sent(count);
                }
                Err(Errno::AGAIN) => self.writable = false,
                Err(Errno::INTR) => {}
                Err(errno) => self.send_failure = Some(errno),
            }
        }
    }

    /// Settles what needs no bytes moved, at the front of the sends; whether there are bytes then.
    fn has_bytes_to_send(&mut self, completions: &mut Vec<Completion>) -> bool {
        loop {
            if let Some(errno) = self.send_failure {
                self.fail_sends(&|| errno.into(), completions);
                return false;
            }
            let (Phase::Open(socket) | Phase::Flushing(socket)) = &self.phase else {
                return false;
            };
            match self.sends.front() {
                None => return false,
                Some(Sending::Shutdown) => {
                    // Fails only on a connection that is gone, and then nobody waits for our end.
                    let _ = shutdown(socket, Shutdown::Write);
                    self.shut = true;
                    self.sends.pop_front();
                }
                Some(Sending::Bytes { .. }) if self.shut => {
                    self.fail_sends(&|| Errno::PIPE.into(), completions);
                    return false;
                }
                Some(Sending::Bytes { slices, first, .. }) if *first == slices.len() => {
                    self.sends.pop_front();
                    completions.push(Completion::Sent {
                        conn: self.id,
                        result: Ok(()),
                    });
                }
                Some(Sending::Bytes { .. }) => return true,
            }
        }
    }

    /// Moves the mark over `count` bytes, and over empty slices behind them.
    fn on_sent(&mut self, mut count: usize) {
        for sending in &mut self.sends {
            let Sending::Bytes {
                slices,
                first,
                offset,
            } = sending
            else {
                break;
            };
            while let Some(slice) = slices.get(*first) {
                let step = count.min(slice.len() - *offset);
                count -= step;
                *offset += step;
                if *offset < slice.len() {
                    return;
                }
                *first += 1;
                *offset = 0;
            }
        }
    }

    /// Receives for the ops queued.
    ///
    /// Shape:  socket -> buffer, the one copy of a payload.
    /// Units:  at most `bytes_max` bytes; true when that, and not the socket, was the limit.
    /// Errors: fail all queued and later receives of the connection. An end of stream after a failed
    ///         send is a reset: the kernel told the send, and tells the receive nothing.
    /// Source: recv(2); epoll(7) on partial reads of stream sockets.
    fn receive(&mut self, bytes_max: usize, completions: &mut Vec<Completion>) -> bool {
        let mut left = bytes_max;
        loop {
            if !self.has_range_to_fill(completions) {
                return false;
            }
            let (Phase::Open(socket), Some(receiving)) = (&self.phase, self.receives.front_mut())
            else {
                return false;
            };
            if !self.readable {
                return false;
            }
            if left == 0 {
                return true;
            }
            let rest = receiving.rest();
            let wanted = rest.len().min(left);
            let range = rest.start..rest.start + wanted;
            // By way of a pipe, whose places may be filled before its bytes are: the socket may have
            // more then.
            let (received, all) = match landing::receiving_region(&mut receiving.buffer) {
                Some(region) => (region.receive(socket, range), 1),
                None => {
                    let into = receiving.buffer.part_mut(range);
                    let received = recv(socket, into, RecvFlags::DONTWAIT);
                    (received.map(|(_, count)| count), wanted)
                }
            };
            match received {
                Ok(count) => {
                    left -= count;
                    self.readable = count >= all || self.hung_up;
                    self.on_received(count, completions);
                }
                Err(Errno::AGAIN) => self.readable = false,
                Err(Errno::INTR) => {}
                Err(errno) => self.receive_failure = Some(errno),
            }
        }
    }

    /// Settles what needs no bytes moved, at the front of the receives; whether one waits for bytes.
    fn has_range_to_fill(&mut self, completions: &mut Vec<Completion>) -> bool {
        loop {
            if let Some(errno) = self.receive_failure {
                self.fail_receives(&|| errno.into(), completions);
                return false;
            }
            match (&self.phase, self.receives.front()) {
                (Phase::Open(_), Some(receiving)) if receiving.rest().is_empty() => {
                    self.complete_receive(false, completions);
                }
                (Phase::Open(_), Some(_)) => return true,
                _ => return false,
            }
        }
    }

    /// The first receive has so many bytes more; none is the end of the stream.
    fn on_received(&mut self, count: usize, completions: &mut Vec<Completion>) {
        // A reset right behind the end takes nothing from it: who sent all and goes away unread has ended.
        if count == 0 && (self.send_failure.is_some() || self.has_ended && self.is_broken()) {
            self.receive_failure = Some(Errno::CONNRESET);
            return;
        }
        let Some(receiving) = self.receives.front_mut() else {
            return;
        };
        self.moved |= count > 0;
        self.has_ended |= count == 0;
        receiving.count += count;
        if count == 0 || !receiving.whole || receiving.rest().is_empty() {
            self.complete_receive(count == 0, completions);
        }
    }

    /// A connection that breaks after the other side's end goes on to end when it is received from.
    fn is_broken(&self) -> bool {
        let Phase::Open(socket) = &self.phase else {
            return false;
        };
        !matches!(sockopt::socket_error(socket), Ok(Ok(())))
    }

    fn discard(&mut self, bytes_max: usize, scratch: &mut [u8]) -> After {
        let Phase::Lingering { socket, .. } = &self.phase else {
            return After::Gone;
        };
        let mut left = bytes_max;
        while self.readable {
            if left == 0 {
                return After::Again;
            }
            match recv(socket, &mut *scratch, RecvFlags::DONTWAIT) {
                Ok((_, 0)) => return After::Gone,
                Ok((_, count)) => {
                    left = left.saturating_sub(count);
                    self.readable = count == scratch.len() || self.hung_up;
                }
                Err(Errno::AGAIN) => self.readable = false,
                Err(Errno::INTR) => {}
                Err(_) => return After::Gone,
            }
        }
        After::Wait
    }

    fn complete_receive(&mut self, end: bool, completions: &mut Vec<Completion>) {
        if let Some(done) = self.receives.pop_front() {
            completions.push(Completion::Received {
                conn: self.id,
                buffer: done.buffer,
                range: done.range,
                result: Ok(Received {
                    count: done.count,
                    end,
                }),
            });
        }
    }

    fn fail_receives(&mut self, error: &dyn Fn() -> io::Error, completions: &mut Vec<Completion>) {
        for receiving in self.receives.drain(..) {
            completions.push(Completion::Received {
                conn: self.id,
                buffer: receiving.buffer,
                range: receiving.range,
                result: Err(error()),
            });
        }
    }

    fn fail_sends(&mut self, error: &dyn Fn() -> io::Error, completions: &mut Vec<Completion>) {
        for sending in self.sends.drain(..) {
            if let Sending::Bytes { .. } = sending {
                completions.push(Completion::Sent {
                    conn: self.id,
                    result: Err(error()),
                });
            }
        }
    }
}
