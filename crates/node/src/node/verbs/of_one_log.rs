//! Verbs that one log alone answers: this node's checks of them, and the log that each goes to from then on.

use formats::LogId;
use ops::{BLOCK, Buffer};
use paxos::NodeId;
use replica::{Purpose, StreamList};
use wire::{LineError, Refusal};

use crate::directory::DIRECTORY;
use crate::greeting::Caller;
use crate::node::Node;

impl Node {
    /// `append NAME …`
    pub(super) fn append(&mut self, caller: &Caller) -> Result<(), Refusal> {
        let Caller { conn, request, .. } = caller;
        if self.log_named(request)? == DIRECTORY {
            return Err(Refusal::new(
                "bad-request",
                "log 0 is the cluster's directory and takes no appends",
            ));
        }
        let (log, env) = self.turn_to_log(*conn, request, Purpose::Writer)?;
        log.on_append_request(env, *conn, request, &caller.rest, caller.ended);
        Ok(())
    }

    /// `close NAME stream=… at=…`
    pub(super) fn close_stream(&mut self, caller: &Caller) -> Result<(), Refusal> {
        let Caller { conn, request, .. } = caller;
        request.check()?;
        if self.log_named(request)? == DIRECTORY {
            return Err(Refusal::new(
                "bad-request",
                "log 0 is the cluster's directory: its stream is its leader's own, and nobody else closes it",
            ));
        }
        let stream = request.stream("stream")?;
        let stream = stream.ok_or(LineError::Missing("stream"))?;
        let at = request.parsed::<u64>("at")?;
        let at = at.ok_or(LineError::Missing("at"))?;
        let (log, env) = self.turn_to_log(*conn, request, Purpose::Request)?;
        log.on_close_request(env, *conn, stream, at);
        Ok(())
    }

    /// `read NAME …`
    pub(super) fn read(&mut self, caller: &Caller) -> Result<(), Refusal> {
        let Caller { conn, request, .. } = caller;
        let (log, env) = self.turn_to_log(*conn, request, Purpose::Reader)?;
        if !caller.ended {
            // The connection receives, to hear of a reset while there is nothing to send.
            env.receive(*conn, Buffer::new(BLOCK), 0..BLOCK, false);
        }
        log.on_read_request(env, *conn, request);
        if caller.ended {
            log.on_reader_silent(env, *conn);
        }
        Ok(())
    }

    /// `streams NAME [after=STREAM] [limit=N]`
    pub(super) fn list_streams(&mut self, caller: &Caller) -> Result<(), Refusal> {
        let Caller { conn, request, .. } = caller;
        request.check()?;
        let stale = request.flag("stale")?;
        let list = StreamList::asked(request)?;
        let (log, env) = self.turn_to_log(*conn, request, Purpose::Reader)?;
        log.on_streams_request(env, *conn, stale, list);
        Ok(())
    }

    /// `trim NAME before=PLACE [plan=1]`
    pub(super) fn trim(&mut self, caller: &Caller) -> Result<(), Refusal> {
        let Caller { conn, request, .. } = caller;
        if self.log_named(request)? == DIRECTORY {
            return Err(Refusal::new(
                "bad-request",
                "log 0 is the cluster's directory: it is trimmed by itself",
            ));
        }
        self.note_of_a_log(caller);
        let (log, env) = self.turn_to_log(*conn, request, Purpose::Request)?;
        log.on_trim_request(env, *conn, request);
        Ok(())
    }

    /// `lead NAME [to=ID]`
    pub(super) fn lead(&mut self, caller: &Caller) -> Result<(), Refusal> {
        let Caller { conn, request, .. } = caller;
        self.note_of_a_log(caller);
        let (log, env) = self.turn_to_log(*conn, request, Purpose::Request)?;
        log.on_lead_request(env, *conn, request);
        Ok(())
    }

    /// The refusal that names the place of the log of this name, if it is anywhere.
    pub(super) fn not_hosted(&self, name: &str) -> Refusal {
        let own = self.env.own.identity.node;
        let id = self.cluster.directory.log_by_name(name);
        if let Some(id) = id.filter(|id| !self.cluster.directory.hosts(*id, own)) {
            return self.hosted_elsewhere(id, name);
        }
        // A directory without any log was not read or not written yet.
        if self.cluster.directory.last_log == DIRECTORY || id.is_some() {
            return Refusal::new(
                "not-leader",
                format!("{name} is being set up here; ask again in a moment"),
            );
        }
        unknown_log(name)
    }

    fn hosted_elsewhere(&self, id: LogId, name: &str) -> Refusal {
        let nodes = self.cluster.directory.nodes.keys();
        let hosts = nodes
            .copied()
            .filter(|node| self.cluster.directory.hosts(id, *node));
        let is_alive = |node: &NodeId| self.peers.is_alive(*node);
        // A host that does not lead names the leader.
        let host = hosts
            .clone()
            .find(is_alive)
            .or_else(|| hosts.clone().next());
        let refusal = Refusal::new(
            "not-leader",
            format!("{name} is not hosted here; ask one of its members"),
        );
        match host.and_then(|host| self.env.peers.addresses.get(&host)) {
            Some(address) => refusal.key("leader", address),
            None => refusal,
        }
    }
}

pub(super) fn unknown_log(name: &str) -> Refusal {
    Refusal::new(
        "unknown-log",
        format!("there is no log named {name}; `logberg log list` lists them"),
    )
}
