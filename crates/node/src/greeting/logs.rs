//! Requests about logs as a whole, and about logs that are not here.

use formats::LogId;
use ops::ConnId;
use paxos::NodeId;
use replica::Purpose;
use wire::{BadRetention, LineError, Refusal, Request, Retention, parse_stream};

use crate::directory::{DIRECTORY, DIRECTORY_NAME, check_log_name};
use crate::node::{CreateLog, DeleteLog, Node, Retain, ShowLog, Wants, unknown_log};

impl Node {
    /// `create-log NAME [members=ID,…] [auxiliary=ID,…] [retention=…]`
    pub(super) fn on_create_log(&mut self, conn: ConnId, request: &Request) -> Result<(), Refusal> {
        request.allow(1, &["members", "auxiliary", "retention"])?;
        let name = log_name(request)?;
        let retention = request.get("retention").unwrap_or("forever");
        let retention = parse_retention(retention)?;
        let hosts = node_ids(request, "members")?;
        let auxiliary = node_ids(request, "auxiliary")?;
        check_log_name(&name).map_err(|e| Refusal::new("bad-request", e))?;
        if name == DIRECTORY_NAME {
            return Err(Refusal::new(
                "exists",
                format!("a log named {name} exists already"),
            ));
        }
        let create = CreateLog {
            name,
            hosts,
            auxiliary,
            retention,
            ..CreateLog::default()
        };
        self.await_directory(conn, Wants::CreateLog(create))
    }

    /// `delete-log NAME [abandon=1]`
    pub(super) fn on_delete_log(&mut self, conn: ConnId, request: &Request) -> Result<(), Refusal> {
        request.allow(1, &["abandon"])?;
        let name = log_name(request)?;
        if name == DIRECTORY_NAME {
            return Err(Refusal::new(
                "bad-request",
                "log 0 is the cluster's directory and cannot be deleted",
            ));
        }
        let delete = DeleteLog {
            name,
            abandon: request.flag("abandon")?,
            id: None,
            proposed: false,
            since: None,
            freed: false,
        };
        self.await_directory(conn, Wants::DeleteLog(delete))
    }

    /// `show-log NAME`
    pub(super) fn on_show_log(&mut self, conn: ConnId, request: &Request) -> Result<(), Refusal> {
        request.allow(1, &[])?;
        let name = log_name(request)?;
        self.await_directory(conn, Wants::ShowLog(ShowLog { name }))
    }

    /// `retain NAME retention=…`
    pub(super) fn on_retain(&mut self, conn: ConnId, request: &Request) -> Result<(), Refusal> {
        request.allow(1, &["retention"])?;
        let retention = parse_retention(request.require("retention")?)?;
        if log_name(request)? == DIRECTORY_NAME {
            return Err(Refusal::new(
                "bad-request",
                "log 0 is the cluster's directory and keeps everything",
            ));
        }
        let retain = Retain {
            log: log_name(request)?,
            retention,
            proposed: false,
        };
        self.await_directory(conn, Wants::Retain(retain))
    }

    /// `close NAME stream=… at=…`
    pub(super) fn on_close(&mut self, conn: ConnId, request: &Request) -> Result<(), Refusal> {
        request.allow(1, &["stream", "at"])?;
        if self.log_named(request)? == DIRECTORY {
            return Err(Refusal::new(
                "bad-request",
                "log 0 is the cluster's directory: its stream is its leader's own, and nobody else closes it",
            ));
        }
        let stream = parse_stream(request.require("stream")?).ok_or_else(|| {
            Refusal::new(
                "bad-request",
                "a stream's name is owner.incarnation.counter",
            )
        })?;
        let at = request.parsed::<u64>("at")?;
        let at = at.ok_or(LineError::Missing("at"))?;
        let (log, env) = self.turn_to_log(conn, request, Purpose::Request)?;
        log.on_close_request(env, conn, stream, at);
        Ok(())
    }

    /// Where the log of this name is, if it is anywhere.
    pub(super) fn not_hosted(&self, name: &str) -> Refusal {
        let own = self.env.own.identity.node;
        let id = self.directory.log_by_name(name);
        if let Some(id) = id.filter(|id| !self.directory.hosts(*id, own)) {
            return self.hosted_elsewhere(id, name);
        }
        // A directory without any log is one that was not read or not written yet.
        if self.directory.last_log == DIRECTORY || id.is_some() {
            return Refusal::new(
                "not-leader",
                format!("{name} is being set up here; ask again in a moment"),
            );
        }
        unknown_log(name)
    }

    fn hosted_elsewhere(&self, id: LogId, name: &str) -> Refusal {
        let nodes = self.directory.nodes.keys();
        let hosts = nodes
            .copied()
            .filter(|node| self.directory.hosts(id, *node));
        let is_alive = |node: &NodeId| self.peers.peers.get(node).is_some_and(|p| p.alive);
        // If it does not lead, it names who does.
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

fn log_name(request: &Request) -> Result<String, Refusal> {
    let name = request.words.first();
    Ok(name.ok_or(LineError::Missing("the log's name"))?.clone())
}

fn parse_retention(text: &str) -> Result<Retention, Refusal> {
    text.parse()
        .map_err(|e: BadRetention| Refusal::new("bad-request", e.to_string()))
}

fn node_ids(request: &Request, key: &str) -> Result<Vec<u32>, Refusal> {
    let ids = request.get(key).into_iter().flat_map(|n| n.split(','));
    let ids: Result<Vec<u32>, _> = ids.map(str::parse).collect();
    ids.map_err(|_| {
        Refusal::new(
            "bad-request",
            format!("{key} is node ids with commas between them"),
        )
    })
}
