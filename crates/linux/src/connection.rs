//! One connection: what it still has to receive and to send, and how far it got.

use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use ops::{Buffer, Completion, ConnId, Slice, Time};
use rustix::io::Errno;
use rustix::net::sockopt;

use crate::epoll::{Epoll, EventFlags, Source};
use crate::errors::closed_here;
use crate::handed::{FarEnd, Seal};
use crate::landing;
use crate::lender::Lender;

mod flights;
mod lingering;
mod on_ring;
mod phase;
mod readiness;
mod receives;
mod sealed;
mod sends;

pub(crate) use phase::Phase;

use flights::Flights;
use readiness::Readiness;
use receives::Receives;
use sealed::receive_into;
use sends::Sends;

pub(crate) struct Connection {
    pub id: ConnId,
    pub phase: Phase,
    readiness: Readiness,
    receives: Receives,
    sends: Sends,
    /// Stands in the network's list of connections that may be able to move bytes.
    pub has_turn: bool,
    /// Bytes moved since the last look at a closing connection.
    moved: bool,
    /// What the ring has of it, if there is one.
    flights: Flights,
    /// The connection behind a pair of sockets.
    pub far: Option<Arc<dyn FarEnd>>,
    /// The bytes on the socket are sealed.
    seal: Option<Box<dyn Seal>>,
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
            readiness: Readiness::new(open),
            receives: Receives::new(id),
            sends: Sends::new(id),
            has_turn: false,
            moved: false,
            flights: Flights::default(),
            far: None,
            seal: None,
        }
    }

    pub fn on_event(&mut self, flags: EventFlags) {
        self.readiness.on_event(flags);
    }

    /// Whether epoll is to tell this connection no more of bytes that come in.
    pub fn wants_deaf(&self, came_in_again: bool) -> bool {
        let useless = came_in_again && self.receives.is_empty();
        self.readiness.wants_deaf(useless)
    }

    pub fn is_deaf(&self) -> bool {
        self.readiness.deaf
    }

    pub fn set_deaf(&mut self, deaf: bool) {
        self.readiness.deaf = deaf;
    }

    pub fn is_readable(&self) -> bool {
        self.readiness.readable
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
            self.readiness.readable = true;
            self.readiness.writable = true;
        }
    }

    /// A connection that was dialled elsewhere.
    pub fn open_with(
        &mut self,
        socket: OwnedFd,
        far: Option<Arc<dyn FarEnd>>,
        seal: Option<Box<dyn Seal>>,
    ) {
        self.phase = Phase::Open(Arc::new(socket));
        self.far = far;
        self.seal = seal;
        self.readiness.readable = true;
        self.readiness.writable = true;
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
        self.receives.push(buffer, range, whole);
    }

    pub fn push_receive_when_there(&mut self, bytes_max: usize) {
        self.receives.push_when_there(bytes_max);
    }

    pub fn push_send(&mut self, slices: Vec<Slice>) {
        self.sends.push(slices);
    }

    pub fn push_shutdown(&mut self) {
        self.sends.push_shutdown();
    }

    /// Closed by the node, with sends still to go out.
    pub fn flush(&mut self, completions: &mut Vec<Completion>) {
        // In their order: behind the one that the ring has.
        if !self.flights.has_receive() {
            self.receives.fail(&closed_here, completions);
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
                self.readiness.readable = true;
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
                node: None,
            });
        }
        self.receives.fail(error, completions);
        self.sends.fail(error, completions);
    }

    /// Moves what can be moved now, at most `bytes_max` in each direction.
    pub fn take_turn(
        &mut self,
        bytes_max: usize,
        lender: &Lender,
        scratch: &mut [u8],
        completions: &mut Vec<Completion>,
    ) -> After {
        match &self.phase {
            Phase::Resolving | Phase::Connecting { .. } => After::Wait,
            Phase::Ending => After::Gone,
            Phase::Open(_) => {
                let send_more = self.send(bytes_max, completions);
                let receive_more = self.receive(bytes_max, lender, completions);
                match send_more || receive_more {
                    true => After::Again,
                    false => After::Wait,
                }
            }
            Phase::Flushing(_) => match self.send(bytes_max, completions) {
                true => After::Again,
                false if self.sends.has_failed() => After::Gone,
                false if self.sends.is_empty() && self.is_flushed() => After::Flushed,
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
            if !self.flush_sealed() {
                return false;
            }
            if !self.has_bytes_to_send(completions) {
                // The last word, if it was said now.
                self.flush_sealed();
                return false;
            }
            let Some(socket) = self.phase.sending_socket() else {
                return false;
            };
            if !self.readiness.writable {
                return false;
            }
            if left == 0 {
                return true;
            }
            let (length, sent) = match &mut self.seal {
                Some(seal) => self.sends.seal_next(seal.as_mut(), left),
                None => self.sends.send_next(socket, left),
            };
            match sent {
                Ok(count) => {
                    left -= count;
                    self.moved = true;
                    self.readiness.writable = count == length;
                    self.sends.on_sent(count);
                }
                Err(Errno::AGAIN) => self.readiness.writable = false,
                Err(Errno::INTR) => {}
                Err(errno) => self.sends.break_with(errno),
            }
        }
    }

    fn has_bytes_to_send(&mut self, completions: &mut Vec<Completion>) -> bool {
        self.sends
            .has_bytes(self.phase.sending_socket(), &mut self.seal, completions)
    }

    /// Receives for the ops queued.
    ///
    /// Shape:  socket -> buffer, the one copy of a payload.
    /// Units:  at most `bytes_max` bytes; true when that, and not the socket, was the limit.
    /// Errors: fail all queued and later receives of the connection. An end of stream after a failed
    ///         send is a reset: the kernel told the send, and tells the receive nothing.
    /// Source: recv(2); epoll(7) on partial reads of stream sockets.
    fn receive(
        &mut self,
        bytes_max: usize,
        lender: &Lender,
        completions: &mut Vec<Completion>,
    ) -> bool {
        let mut left = bytes_max;
        loop {
            if !self.has_range_to_fill(completions) || !self.readiness.readable {
                return false;
            }
            if left == 0 {
                return true;
            }
            left -= self.receive_once(left, lender, completions);
        }
    }

    /// Receives for the first op, in one call, at most `bytes_max`; returns how many bytes came. A buffer that
    /// is lent for the call and gets none goes back with it.
    fn receive_once(
        &mut self,
        bytes_max: usize,
        lender: &Lender,
        completions: &mut Vec<Completion>,
    ) -> usize {
        let (Phase::Open(socket), Some(receiving)) = (&self.phase, self.receives.first()) else {
            self.readiness.readable = false;
            return 0;
        };
        let wanted = receiving.room().min(bytes_max);
        let (received, all) = if receiving.when_there.is_some() {
            let mut buffer = lender.lend(wanted);
            let into = buffer.part_mut(0..wanted);
            let (received, all) = receive_into(socket, &mut self.seal, into);
            if let Ok(count @ 1..) = received {
                receiving.lend(buffer, count);
            }
            (received, all)
        } else {
            let start = receiving.rest().start;
            let range = start..start + wanted;
            match landing::receiving_region(&mut receiving.buffer) {
                // By way of a pipe, whose places may be filled before its bytes are: the socket may have
                // more then.
                Some(region) => (region.receive(socket, range), 1),
                None => {
                    let into = receiving.buffer.part_mut(range);
                    receive_into(socket, &mut self.seal, into)
                }
            }
        };
        match received {
            Ok(count) => {
                self.readiness.on_received(count >= all);
                self.on_received(count, completions);
                return count;
            }
            Err(Errno::AGAIN) => self.readiness.readable = false,
            Err(Errno::INTR) => {}
            Err(errno) => self.receives.break_with(errno),
        }
        0
    }

    fn has_range_to_fill(&mut self, completions: &mut Vec<Completion>) -> bool {
        self.receives
            .has_range_to_fill(self.phase.is_open(), completions)
    }

    /// The first receive has so many bytes more; none is the end of the stream.
    fn on_received(&mut self, count: usize, completions: &mut Vec<Completion>) {
        // A reset right behind the end takes nothing from it: who sent all and goes away unread has ended.
        let broke = |far: &Arc<dyn FarEnd>| far.is_broken();
        if count == 0
            && (self.sends.has_failed()
                || self.receives.has_ended() && self.is_broken()
                || self.far.as_ref().is_some_and(broke))
        {
            self.receives.break_with(Errno::CONNRESET);
            return;
        }
        self.moved |= count > 0;
        self.receives.on_received(count, completions);
    }

    /// A connection that breaks after the other side's end goes on to end when it is received from.
    fn is_broken(&self) -> bool {
        let Phase::Open(socket) = &self.phase else {
            return false;
        };
        !matches!(sockopt::socket_error(socket), Ok(Ok(())))
    }
}
