//! Readiness of sockets, edge-triggered: each is registered once, and what epoll reports is kept
//! with the connection until the kernel says EAGAIN.

use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use ops::{ConnId, Time};
pub(crate) use rustix::event::epoll::EventFlags;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};

use crate::clock;

const EVENTS_PER_WAIT: usize = 256;

/// epoll counts milliseconds: what is due sooner than some of them is waited for by a call that counts nanoseconds.
const SHORT_US: Range<u64> = 1..4_000;

/// Tokens with this bit are the kernel's own; the others are connections.
const OWN: u64 = 1 << 63;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Connection(ConnId),
    Listener(usize),
    Inbox,
    Signals,
}

#[derive(Clone, Copy)]
pub(crate) struct Event {
    pub source: Source,
    pub flags: EventFlags,
}

pub(crate) struct Epoll {
    epoll: Arc<OwnedFd>,
    events: Vec<Event>,
}

impl Epoll {
    pub fn new() -> io::Result<Epoll> {
        Ok(Epoll {
            epoll: Arc::new(epoll::create(epoll::CreateFlags::CLOEXEC)?),
            events: Vec::with_capacity(EVENTS_PER_WAIT),
        })
    }

    /// For the life of `fd`: closing it is what removes it.
    pub fn add(&self, source: Source, fd: impl AsFd) -> io::Result<()> {
        let data = epoll::EventData::new_u64(source.token());
        epoll::add(&self.epoll, fd, data, source.interest())?;
        Ok(())
    }

    /// Reports no more bytes that come in on a connection, or reports them again, beginning with
    /// those that are there already.
    pub fn set_deaf(&self, conn: ConnId, fd: impl AsFd, deaf: bool) -> io::Result<()> {
        let source = Source::Connection(conn);
        let interest = match deaf {
            true => EventFlags::RDHUP | EventFlags::ET,
            false => source.interest(),
        };
        epoll::modify(
            &self.epoll,
            fd,
            epoll::EventData::new_u64(source.token()),
            interest,
        )?;
        Ok(())
    }

    /// `fd` is watched by somebody else from here on.
    pub fn remove(&self, fd: impl AsFd) {
        // Fails only for what is not watched.
        let _ = epoll::delete(&self.epoll, fd);
    }

    /// Can be read when there are events.
    pub fn fd(&self) -> Arc<OwnedFd> {
        self.epoll.clone()
    }

    /// Waits for an event until `deadline`, or without end; an interrupted wait reports none.
    pub fn wait(&mut self, deadline: Option<Time>) -> io::Result<()> {
        let mut left_us = deadline.map(|deadline| (deadline - clock::now()).as_micros() as u64);
        if let Some(left) = left_us.as_mut().filter(|left| SHORT_US.contains(left)) {
            self.wait_shortly(*left)?;
            *left = 0;
        }
        // Rounded up: who wakes before the deadline only has to wait again.
        let millis = left_us.map(|left| left.div_ceil(1_000).min(3_600_000));
        let timeout = millis.map(|millis| Timespec {
            tv_sec: (millis / 1_000) as i64,
            tv_nsec: (millis % 1_000 * 1_000_000) as i64,
        });
        let mut raw = [const { MaybeUninit::uninit() }; EVENTS_PER_WAIT];
        let reported = match epoll::wait(&self.epoll, &mut raw, timeout.as_ref()) {
            Ok((reported, _)) => reported,
            Err(rustix::io::Errno::INTR) => &mut [],
            Err(error) => return Err(error.into()),
        };
        self.events.clear();
        self.events.extend(reported.iter().map(|event| Event {
            source: Source::from_token(event.data.u64()),
            flags: event.flags,
        }));
        Ok(())
    }

    /// Waits until there is an event, or for so many microseconds.
    fn wait_shortly(&self, micros: u64) -> io::Result<()> {
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: (micros * 1_000) as i64,
        };
        let mut fds = [PollFd::new(&*self.epoll, PollFlags::IN)];
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// What the last wait reported.
    pub fn events(&self) -> &[Event] {
        &self.events
    }
}

impl Source {
    fn interest(self) -> EventFlags {
        let kinds = match self {
            Source::Connection(_) => EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP,
            Source::Listener(_) | Source::Inbox | Source::Signals => EventFlags::IN,
        };
        kinds | EventFlags::ET
    }

    fn token(self) -> u64 {
        match self {
            Source::Connection(conn) => {
                assert!(conn.0 & OWN == 0, "connection ids have 63 bits");
                conn.0
            }
            Source::Inbox => OWN,
            Source::Signals => OWN | 1,
            Source::Listener(index) => OWN | (2 + index as u64),
        }
    }

    fn from_token(token: u64) -> Source {
        match token {
            token if token & OWN == 0 => Source::Connection(ConnId(token)),
            OWN => Source::Inbox,
            token => match token & !OWN {
                1 => Source::Signals,
                index => Source::Listener(index as usize - 2),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_survive_the_way_through_the_kernel() {
        for source in [
            Source::Connection(ConnId(0)),
            Source::Connection(ConnId(u64::MAX >> 1)),
            Source::Listener(0),
            Source::Listener(7),
            Source::Inbox,
            Source::Signals,
        ] {
            assert_eq!(Source::from_token(source.token()), source);
        }
    }
}
