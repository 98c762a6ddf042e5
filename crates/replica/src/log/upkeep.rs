//! The upkeep of a log, which keeps it whole and small: catching up, scrubbing, retention.

use std::ops::Range;
use std::time::Duration;

use formats::frame::{AskDigest, BytesHeader, TellDigest};
use ops::Buffer;
use paxos::{By, NodeId, StreamName};
use wire::Retention;

use super::Log;
use crate::env::Env;
use crate::scrub::Progress;

impl Log {
    /// Bytes of the output that this replica holds nowhere, neither in its log nor in its state.
    pub fn missing_bytes(&self) -> u64 {
        self.catch_up.missing_bytes() + self.state_lacks()
    }

    /// Whether others may be needed to fill this replica. (An auxiliary is not to be filled.)
    pub fn lacks_bytes(&self) -> bool {
        let lacks_state = self.state_lacks() > 0 && !self.core.engine.is_auxiliary();
        lacks_state || self.catch_up.lacks_bytes(&self.core)
    }

    /// Bytes that are chosen and not trimmed, and that no member holds.
    pub fn lost_bytes(&self) -> Vec<(StreamName, Range<u64>)> {
        self.catch_up.lost_bytes(&self.core)
    }

    /// Takes bytes we asked for, checked against their digest.
    pub(super) fn on_fetched(
        &mut self,
        env: &mut Env,
        peer: NodeId,
        header: &BytesHeader,
        buffer: Buffer,
    ) {
        self.catch_up
            .on_fetched(&mut self.core, env, peer, header, buffer);
        self.drain(env);
    }

    pub fn on_bytes_not_here(&mut self, env: &mut Env, peer: NodeId, request: u64) {
        self.catch_up
            .on_bytes_not_here(&self.core, env, peer, request);
    }

    /// Begins a pass over all that is chosen by now, at so many bytes a second.
    pub fn begin_pass(&mut self, env: &Env, rate: u64, asked: bool) {
        self.scrub.begin(&self.core, env, rate, asked);
    }

    /// Whether a pass is to begin by itself.
    pub fn is_scrub_due(&mut self, env: &Env) -> bool {
        self.scrub.is_due(&self.core, env)
    }

    /// Goes on with the pass. Bytes read since must be paid for first.
    pub fn scrub_on(&mut self, env: &mut Env) -> Progress {
        let progress = self.scrub.go_on(&mut self.core, &self.catch_up, env);
        self.drain(env);
        progress
    }

    /// The time for which nobody scrubs on this node, for the bytes read of this log.
    pub fn take_scrub_debt(&mut self) -> Duration {
        self.scrub.take_debt()
    }

    /// Takes the question of a leader's pass.
    pub fn on_ask_digest(&mut self, env: &mut Env, peer: NodeId, ask: &AskDigest) {
        self.scrub
            .on_ask_digest(&mut self.core, &self.catch_up, env, peer, ask);
        self.drain(env);
    }

    pub fn on_tell_digest(&mut self, env: &mut Env, peer: NodeId, told: &TellDigest) {
        self.scrub
            .on_tell_digest(&mut self.core, &self.catch_up, env, peer, told);
    }

    pub fn scrub_line(&self, env: &Env) -> String {
        self.scrub.line(&self.core, env)
    }

    /// Places at which replicas were last seen to differ.
    pub fn scrub_differences(&self) -> u64 {
        self.scrub.differences()
    }

    /// A sentence for the viewer of the node, while replicas differ.
    pub fn scrub_warning(&self) -> Option<String> {
        self.scrub.warning(&self.core)
    }

    /// Proposes, on the leader, to trim bytes that are too many or too old; every node remembers what was
    /// chosen when. True if it did.
    pub fn keep_to(&mut self, env: &mut Env, retention: Retention, by: By) -> bool {
        let proposed = self.keeping.keep_to(&mut self.core, env, retention, by);
        if proposed {
            self.drain(env);
        }
        proposed
    }
}
