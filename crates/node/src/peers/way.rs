//! Our connection to a peer: the place that was dialled, the frames that wait for it, and the answers from there.

use formats::Frame;
use formats::proof::Challenge;
use ops::{ConnId, Slice};
use paxos::Time;
use replica::{Env, Link};

use super::outbound::Outbound;

pub struct Way {
    pub(super) link: Link,
    /// The place that was dialled last, and how often since it answered.
    pub(super) dialled: String,
    pub(super) attempts: u32,
    outbound: Outbound,
    sending: bool,
    /// The time when the link came up, or was last found to work.
    pub(super) up_at: Time,
    /// Whether a state may come to it in parts, by its last greeting.
    takes_parts: bool,
    /// Whether the last answer from its address said that this node was removed from the cluster.
    pub(super) calls_us_removed: bool,
    /// The reason why it takes no connection of ours, as it said last.
    pub(super) refuses_us: Option<String>,
    /// The challenge to be signed by this node, for it.
    challenges_us: Option<Challenge>,
}

impl Way {
    pub fn new() -> Way {
        Way {
            link: Link::Down {
                retry_at: Time::ZERO,
            },
            dialled: String::new(),
            attempts: 0,
            outbound: Outbound::default(),
            sending: false,
            up_at: Time::ZERO,
            takes_parts: false,
            calls_us_removed: false,
            refuses_us: None,
            challenges_us: None,
        }
    }

    /// Our connection, if there is one.
    pub fn conn(&self) -> Option<ConnId> {
        self.link.conn()
    }

    pub fn calls_us_removed(&self) -> bool {
        self.calls_us_removed
    }

    pub fn refuses_us(&self) -> Option<&str> {
        self.refuses_us.as_deref()
    }

    pub fn challenges_us(&self) -> Option<Challenge> {
        self.challenges_us
    }

    pub fn on_greeted(&mut self, takes_parts: bool) {
        self.takes_parts = takes_parts;
    }

    pub(super) fn on_up(&mut self, now: Time, challenge: Option<Challenge>) {
        self.challenges_us = challenge;
        self.up_at = now;
        self.refuses_us = None;
        self.calls_us_removed = false;
        self.attempts = 0;
        self.clear();
    }

    pub(super) fn clear(&mut self) {
        self.sending = false;
        self.outbound.clear();
    }

    pub(super) fn send(&mut self, env: &mut Env, frame: &Frame) {
        let Link::Up(_, version) = self.link else {
            return;
        };
        if frame.since() > version {
            return; // It would end the connection.
        }
        let part_bytes = self.takes_parts.then_some(env.limits.part_bytes);
        self.outbound.push(version, frame, part_bytes);
        self.flush(env);
    }

    pub(super) fn on_sent(&mut self, env: &mut Env) {
        if self.link.is_up() {
            self.sending = false;
            self.flush(env);
        }
    }

    fn flush(&mut self, env: &mut Env) {
        if let Link::Up(conn, version) = self.link
            && !self.sending
            && let Some(bytes) = self.outbound.next(version, env.limits.part_bytes)
        {
            self.sending = true;
            env.send(conn, vec![Slice::copied_from(&bytes)]);
        }
    }
}
