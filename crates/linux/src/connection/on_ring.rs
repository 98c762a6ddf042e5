//! The same connection on io_uring. The ring has at most one receive and one send of it; what is
//! queued meanwhile goes with the next one. A receive without a buffer is a watch first: it is received by a call
//! when there is something, into a buffer that the ring never has.
//!
//! The ring keeps a socket open while it has something of it, and the memory of an op. So a
//! connection that is closed cancels first, and ends when all has come back.

use std::io;

use ops::Completion;
use rustix::io::Errno;
use uring::{Finished, Request, Ring};

use super::flights::{Awaited, Incoming};
use super::phase::Phase;
use super::receives::Receiving;
use super::{After, Connection};
use crate::errors::closed_here;
use crate::lender::Lender;
use crate::tag::Tag;

impl Connection {
    /// As `take_turn`.
    pub fn take_turn_on(
        &mut self,
        ring: &mut Ring<Tag>,
        bytes_max: usize,
        lender: &Lender,
        scratch: &mut [u8],
        completions: &mut Vec<Completion>,
    ) -> After {
        match &self.phase {
            Phase::Resolving | Phase::Connecting { .. } => After::Wait,
            Phase::Open(_) => {
                self.begin_send(ring, bytes_max, completions);
                self.begin_receive(ring, bytes_max, lender, completions);
                After::Wait
            }
            Phase::Flushing(_) => {
                self.begin_send(ring, bytes_max, completions);
                match self.flights.is_empty() {
                    false => After::Wait,
                    true if self.sends.has_failed() => After::Gone,
                    true => After::Flushed,
                }
            }
            Phase::Lingering { .. } => self.discard(bytes_max, scratch),
            Phase::Ending if self.flights.is_empty() => After::Gone,
            Phase::Ending => After::Wait,
        }
    }

    /// Asks the ring to give back what it waits with: the receive, and, unless they are still to go
    /// out, the bytes it sends.
    pub fn cancel(&mut self, ring: &mut Ring<Tag>) {
        if let Some((id, _)) = &self.flights.receive {
            ring.cancel(*id);
        }
        if let (Some(id), Phase::Ending) = (&self.flights.send, &self.phase) {
            ring.cancel(*id);
        }
    }

    /// Whether it may be dropped at once; if not, it has to be cancelled and given turns.
    pub fn end(&mut self) -> bool {
        if self.flights.is_empty() {
            return true;
        }
        self.phase = Phase::Ending;
        false
    }

    /// Closed, and the receives given before are not answered yet.
    pub fn is_giving_back_receives(&self) -> bool {
        self.is_closing() && self.flights.receive.is_some()
    }

    /// Closed at once, and the sends given before are not answered yet.
    pub fn is_giving_back_sends(&self) -> bool {
        matches!(self.phase, Phase::Ending) && self.flights.send.is_some()
    }

    fn begin_send(
        &mut self,
        ring: &mut Ring<Tag>,
        bytes_max: usize,
        completions: &mut Vec<Completion>,
    ) {
        while self.flights.send.is_none() && self.has_bytes_to_send(completions) {
            let (slices, length) = self.sends.slices(bytes_max);
            let Some(socket) = self.phase.sending_socket() else {
                return;
            };
            if length == 0 {
                self.sends.on_sent(0);
                continue;
            }
            let request = Request::Send {
                socket: socket.clone(),
                slices,
            };
            self.flights.send = Some(ring.begin(Tag::Connection(self.id), request));
        }
    }

    fn begin_receive(
        &mut self,
        ring: &mut Ring<Tag>,
        bytes_max: usize,
        lender: &Lender,
        completions: &mut Vec<Completion>,
    ) {
        let mut left = bytes_max;
        while self.flights.receive.is_none() && self.has_range_to_fill(completions) {
            let first = self.receives.first();
            if first.is_none_or(|receiving| receiving.when_there.is_none()) {
                return self.begin_receive_into(ring, bytes_max);
            }
            if self.readiness.readable && left > 0 {
                left -= self.receive_once(left, lender, completions);
            } else if let Phase::Open(socket) = &self.phase {
                // It comes back at once if others only had to have their turn.
                let fd = socket.clone();
                let id = ring.begin(Tag::Connection(self.id), Request::Watch { fd });
                self.flights.receive = Some((id, Incoming::Watch));
            }
        }
    }

    fn begin_receive_into(&mut self, ring: &mut Ring<Tag>, bytes_max: usize) {
        let (Phase::Open(socket), Some(receiving)) = (&self.phase, self.receives.take_first())
        else {
            return;
        };
        let rest = receiving.rest();
        let request = Request::Receive {
            socket: socket.clone(),
            buffer: receiving.buffer,
            range: rest.start..rest.end.min(rest.start + bytes_max),
            whole: receiving.whole,
        };
        let landing = Awaited {
            range: receiving.range,
            count: receiving.count,
            whole: receiving.whole,
        };
        let id = ring.begin(Tag::Connection(self.id), request);
        self.flights.receive = Some((id, Incoming::Receive(landing)));
    }

    /// The ring gives back a receive or a send.
    pub fn on_finished(&mut self, finished: Finished<Tag>, completions: &mut Vec<Completion>) {
        match finished.request {
            Request::Send { .. } => {
                self.flights.send = None;
                match finished.result {
                    Ok(count) => {
                        self.moved |= count > 0;
                        self.sends.on_sent(count);
                    }
                    Err(error) => {
                        if let Some(errno) = failure(&error) {
                            self.sends.break_with(errno);
                        }
                    }
                }
            }
            Request::Receive { buffer, .. } => {
                let Some((_, Incoming::Receive(landing))) = self.flights.receive.take() else {
                    return;
                };
                self.receives.put_back(Receiving {
                    buffer,
                    range: landing.range,
                    count: landing.count,
                    whole: landing.whole,
                    when_there: None,
                });
                if self.is_closing() {
                    self.receives.fail(&closed_here, completions);
                    return;
                }
                match finished.result {
                    Ok(count) => self.on_received(count, completions),
                    Err(error) => {
                        if let Some(errno) = failure(&error) {
                            self.receives.break_with(errno);
                        }
                    }
                }
            }
            Request::Watch { .. } => {
                self.flights.receive = None;
                if self.is_closing() {
                    self.receives.fail(&closed_here, completions);
                    return;
                }
                match finished.result {
                    Ok(_) => self.readiness.readable = true,
                    Err(error) => {
                        if let Some(errno) = failure(&error) {
                            self.receives.break_with(errno);
                        }
                    }
                }
            }
            _ => {}
        }
    }
}

/// What is no failure is tried again.
fn failure(error: &io::Error) -> Option<Errno> {
    match Errno::from_io_error(error) {
        Some(Errno::INTR | Errno::AGAIN) => None,
        Some(errno) => Some(errno),
        None => Some(Errno::IO),
    }
}
