//! Epoll's word about a socket, and whether it is to say more.

use crate::epoll::EventFlags;

pub(super) struct Readiness {
    /// As epoll last said, and no EAGAIN has contradicted.
    pub readable: bool,
    pub writable: bool,
    /// The other side sends no more, or the connection is broken: an incomplete receive no longer
    /// means that the socket is empty.
    hung_up: bool,
    /// Epoll reports no more that bytes came in: see `wants_deaf`.
    pub deaf: bool,
}

impl Readiness {
    pub fn new(ready: bool) -> Readiness {
        Readiness {
            readable: ready,
            writable: ready,
            hung_up: false,
            deaf: false,
        }
    }

    pub fn on_event(&mut self, flags: EventFlags) {
        let broken = flags.intersects(EventFlags::ERR | EventFlags::HUP);
        self.hung_up |= broken || flags.contains(EventFlags::RDHUP);
        self.readable |= broken || flags.intersects(EventFlags::IN | EventFlags::RDHUP);
        self.writable |= broken || flags.contains(EventFlags::OUT);
    }

    /// The socket gave something: all that was asked for, or what it had.
    pub fn on_received(&mut self, all: bool) {
        self.readable = all || self.hung_up;
    }

    /// Whether to hear no more of bytes that come in. Somebody who sends single bytes while
    /// nobody receives would wake us with each of them, to tell us again what we know. Who is deaf
    /// knows that the socket can be read and written; once one of the two may be over it has to
    /// hear again.
    pub fn wants_deaf(&self, useless: bool) -> bool {
        let certain = self.readable && self.writable;
        certain && (self.deaf || useless)
    }
}
