//! Connections to and from peers, and the part of a log that each belongs to.

use std::ops::Range;

use formats::frame::FetchBytes;
use ops::{Buffer, ConnId, Received};
use paxos::NodeId;

use super::Log;
use crate::env::Env;
use crate::follow::Arrived;

impl Log {
    pub fn on_data_out_connected(&mut self, env: &mut Env, peer: NodeId, conn: ConnId, ok: bool) {
        self.followers.on_connected(&self.core, env, peer, conn, ok);
    }

    /// Takes the peer's answer to our first line; later, anything at all means the end.
    pub fn on_data_out_received(
        &mut self,
        env: &mut Env,
        peer: NodeId,
        conn: ConnId,
        buffer: Buffer,
        got: Range<usize>,
    ) {
        self.followers
            .on_received(&self.core, env, peer, conn, buffer, got);
    }

    pub fn on_data_out_sent(&mut self, env: &mut Env, peer: NodeId, conn: ConnId, ok: bool) {
        self.followers.on_sent(&self.core, env, peer, conn, ok);
    }

    pub fn on_fetch_request(&mut self, env: &mut Env, peer: NodeId, fetch: FetchBytes) {
        self.feeders.on_request(&mut self.core, env, peer, fetch);
        self.drain(env);
    }

    pub fn on_feed_connected(&mut self, env: &mut Env, peer: NodeId, conn: ConnId, ok: bool) {
        self.feeders.on_connected(&self.core, env, peer, conn, ok);
    }

    pub fn on_feed_received(
        &mut self,
        env: &mut Env,
        peer: NodeId,
        conn: ConnId,
        buffer: Buffer,
        got: Range<usize>,
    ) {
        self.feeders
            .on_received(&mut self.core, env, peer, conn, buffer, got);
        self.drain(env);
    }

    pub fn on_feed_sent(&mut self, env: &mut Env, peer: NodeId, conn: ConnId, ok: bool) {
        self.feeders.on_sent(&mut self.core, env, peer, conn, ok);
        self.drain(env);
    }

    pub fn add_source(&mut self, env: &mut Env, conn: ConnId, peer: NodeId, version: u8) {
        self.sources.add(&self.core, env, conn, peer, version);
    }

    pub fn on_source_received(
        &mut self,
        env: &mut Env,
        conn: ConnId,
        buffer: Buffer,
        result: std::io::Result<Received>,
    ) {
        match self
            .sources
            .on_received(&mut self.core, env, conn, buffer, result)
        {
            Some(Arrived::Proposal(peer, proposal, bytes)) => {
                self.on_proposal(env, peer, proposal, bytes);
            }
            Some(Arrived::Bytes(peer, header, buffer)) => {
                self.on_fetched(env, peer, &header, buffer);
            }
            None => return,
        }
        self.sources.pump(&self.core, env);
    }

    /// Ends replication: this node does not lead, and sends nothing more to anybody.
    pub fn end_replication(&mut self, env: &mut Env) {
        self.followers.end(&mut self.core, env);
    }

    /// Sends everything unchosen to this peer again: it, or its way to us, came back.
    pub fn resend_to(&mut self, peer: NodeId) {
        self.followers.resend_to(&self.core, peer);
        self.core.stands.tell_again(peer);
    }

    /// Closes the links of a log that rests: its next proposal makes new ones.
    pub fn close_idle_links(&mut self, env: &mut Env) {
        self.followers.close_idle(&self.core, env);
    }

    /// Closes the links to this peer: it is silent, so nobody may ever tell us that it is gone.
    pub fn break_links(&mut self, env: &mut Env, peer: NodeId) {
        if let Some(conn) = self.followers.link_to(peer) {
            self.followers.on_broken(&self.core, env, peer, conn);
        }
        if let Some(conn) = self.feeders.link_to(peer) {
            self.feeders.on_broken(env, peer, conn);
        }
        for conn in self.sources.of_peer(peer) {
            self.sources.close(&self.core, env, conn, None);
        }
    }

    /// As `break_links`, where a peer takes too long to answer. True if there was one.
    pub fn break_late_links(&mut self, env: &mut Env) -> bool {
        let (followers, feeders) = (self.followers.late(env), self.feeders.late(env));
        let any = !followers.is_empty() || !feeders.is_empty();
        for (peer, conn) in followers {
            self.followers.on_broken(&self.core, env, peer, conn);
        }
        for (peer, conn) in feeders {
            self.feeders.on_broken(env, peer, conn);
        }
        any
    }
}
