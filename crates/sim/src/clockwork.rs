//! Time, chance, and the queue of what will happen.
//!
//! Everything that happens in a world is an event at a moment, and events of one moment happen in
//! the order in which they were made. Nothing else orders anything, so a seed is the whole story.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use ops::{Completion, Lane, Letter, MachineId, Time, Token, Work};

use crate::HostId;
use crate::household::Life;
use crate::net::{ConnectionId, Side};
use crate::random::Random;
use crate::trace::Trace;
use crate::world::World;

pub(crate) enum Event {
    /// The process looks at its mailbox.
    Wake {
        host: HostId,
    },
    /// The process's deadline. Stale when the host has set another.
    Timer {
        host: HostId,
        at: Time,
    },
    /// A disk op is over. Stale when the process died meanwhile.
    DiskDone {
        host: HostId,
        number: u64,
    },
    /// The opener's first segment reaches the other host.
    Syn {
        connection: ConnectionId,
    },
    /// The answer to it reaches the opener.
    SynAnswer {
        connection: ConnectionId,
        accepted: bool,
    },
    /// The oldest segment in flight from `from` arrives. Stale when sent again (`sending`).
    Arrive {
        connection: ConnectionId,
        from: Side,
        sending: u32,
    },
    /// A reset reaches `to`.
    Reset {
        connection: ConnectionId,
        to: Side,
    },
    /// The kernel at `from` gives up on unacknowledged bytes. Stale when some progress was made.
    GiveUp {
        connection: ConnectionId,
        from: Side,
        since: Time,
    },
    /// Whether an end that was closed is still being flushed, or lingers.
    LookAtClosing {
        connection: ConnectionId,
        side: Side,
        given: u64,
    },
    /// A letter arrives. Stale when its reader died meanwhile.
    Letter {
        life: Life,
        from: MachineId,
        letter: Letter,
    },
    /// Work is done. Stale when the process died meanwhile.
    Work {
        life: Life,
        token: Token,
        lane: Lane,
        work: Work,
    },
    /// And its process is told of it.
    Ran {
        life: Life,
        token: Token,
        result: Result<Letter, String>,
    },
    Nemesis,
    Action(Box<dyn FnOnce(&mut World)>),
}

struct Scheduled {
    at: Time,
    sequence: u64,
    event: Event,
}

/// The completions that a process has been told and has not looked at yet.
#[derive(Default)]
struct Mailbox {
    /// There is a process that will look.
    open: bool,
    waiting: VecDeque<Completion>,
    wake: bool,
}

pub(crate) struct Clockwork {
    pub now: Time,
    pub random: Random,
    pub trace: Trace,
    queue: BinaryHeap<Scheduled>,
    sequence: u64,
    mailboxes: Vec<Mailbox>,
    /// The time after its first completion at which a process wakes, in µs: later ones join the round.
    pub wake_us_max: u64,
}

impl Clockwork {
    pub fn new(seed: u64) -> Clockwork {
        Clockwork {
            now: Time::ZERO,
            random: Random::new(seed),
            trace: Trace::new(),
            queue: BinaryHeap::new(),
            sequence: 0,
            mailboxes: Vec::new(),
            wake_us_max: 20,
        }
    }

    pub fn schedule(&mut self, at: Time, event: Event) {
        self.sequence += 1;
        self.queue.push(Scheduled {
            at: at.max(self.now),
            sequence: self.sequence,
            event,
        });
    }

    pub fn after(&mut self, delay: Duration, event: Event) {
        self.schedule(self.now + delay, event);
    }

    pub fn next_at(&self) -> Option<Time> {
        self.queue.peek().map(|next| next.at)
    }

    /// Moves the time to the next event.
    pub fn next(&mut self) -> Option<Event> {
        let next = self.queue.pop()?;
        assert!(next.at >= self.now, "time does not go back");
        self.now = next.at;
        self.trace.number(next.at.as_micros());
        self.trace.number(next.sequence);
        Some(next.event)
    }

    pub fn add_mailbox(&mut self) {
        self.mailboxes.push(Mailbox::default());
    }

    pub fn open_mailbox(&mut self, host: HostId) {
        self.mailboxes[host.index()].open = true;
    }

    /// The process is gone: nobody hears what its ops came to.
    pub fn close_mailbox(&mut self, host: HostId) {
        let mailbox = &mut self.mailboxes[host.index()];
        mailbox.open = false;
        mailbox.waiting.clear();
    }

    pub fn deliver(&mut self, host: HostId, completion: Completion) {
        let mailbox = &mut self.mailboxes[host.index()];
        if !mailbox.open {
            return;
        }
        mailbox.waiting.push_back(completion);
        self.wake_soon(host);
    }

    pub fn wake_soon(&mut self, host: HostId) {
        let mailbox = &mut self.mailboxes[host.index()];
        if !mailbox.wake {
            mailbox.wake = true;
            let delay_us = self.random.below(self.wake_us_max + 1);
            self.after(Duration::from_micros(delay_us), Event::Wake { host });
        }
    }

    pub fn wake_at(&mut self, host: HostId, at: Time) {
        self.mailboxes[host.index()].wake = true;
        self.schedule(at, Event::Wake { host });
    }

    /// The completions that the process hears in this round: mostly all, sometimes fewer.
    pub fn round(&mut self, host: HostId) -> VecDeque<Completion> {
        let mailbox = &mut self.mailboxes[host.index()];
        mailbox.wake = false;
        let mut round = std::mem::take(&mut mailbox.waiting);
        if round.len() > 1 && self.random.below(4) == 0 {
            let kept = 1 + self.random.below(round.len() as u64 - 1) as usize;
            self.mailboxes[host.index()].waiting = round.split_off(kept);
            self.wake_soon(host);
        }
        round
    }
}

impl Ord for Scheduled {
    /// The earliest is the greatest, because the heap gives the greatest first.
    fn cmp(&self, other: &Scheduled) -> Ordering {
        (other.at, other.sequence).cmp(&(self.at, self.sequence))
    }
}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Scheduled) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Scheduled) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Scheduled {}
