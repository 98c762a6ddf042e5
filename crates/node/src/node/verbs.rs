//! The verbs, which a connection's first line begins with: one module for each, or for a few that are alike, with the
//! checks of the request and its answer.
//!
//! ```text
//!   Caller ─▶ is there room, is this node still one? ─┬─▶ of one log: that log's business from here on
//!                                                     ├─▶ of this node: answered
//!                                                     ├─▶ of the directory: waits until that is known (awaiting)
//!                                                     └─▶ of nodes: join, peer
//! ```
//!
//! To add a verb: declare it in `wire::verb`, give it a module here and its line in `serve`, and describe it in
//! docs/wire.md.

use formats::LogId;
use ops::ConnId;
use replica::{Env, Log, Purpose};
use wire::{LineError, Refusal, Request, Verb};

use super::Node;
use super::asking::Verdict;
use super::moving::REMOVED;
use crate::cluster::confirming::check_directory;
use crate::greeting::{Caller, refuse, too_many_connections};

mod awaiting;
mod change_members;
mod create_log;
mod delete_log;
mod held;
mod issuers;
mod join;
mod logs;
mod members;
mod metrics;
mod of_one_log;
mod peer;
mod retain;
mod rows;
mod scrub;
mod show_log;
mod slots;
mod status;
mod tokens;
mod who;

pub(in crate::node) use awaiting::{Answer, Awaiting, Commands, Want};
pub(in crate::node) use held::Held;

const NO_CERTIFICATE: &str = "nodes are let in by TLS with a certificate of a node alone: start that node with --tls and --tls-dir";

impl Node {
    pub(super) fn on_caller(&mut self, caller: Caller) {
        let Caller { conn, from, .. } = &caller;
        let (conn, from) = (*conn, from.clone());
        let done = self.admits(&caller).and_then(|()| self.take(caller));
        if let Err(refusal) = done {
            refuse(&mut self.env, conn, &from, refusal);
        }
    }

    /// Judges the request, and serves it now or once the directory is known.
    pub(super) fn take(&mut self, caller: Caller) -> Result<(), Refusal> {
        let waits = match self.judge(&caller, false)? {
            // It may be known in a moment, without anybody's word.
            Verdict::Wait if !self.knows_rights(caller.verb) => true,
            Verdict::Wait => {
                check_directory(&self.logs, &self.env)?;
                true
            }
            Verdict::Go => self.is_to_wait(&caller)?,
        };
        if waits {
            self.hold(caller);
            return Ok(());
        }
        match self.pass_on(&caller)? {
            true => Ok(()),
            false => self.serve(&caller),
        }
    }

    /// Whether this node serves anybody that verb now.
    fn admits(&self, caller: &Caller) -> Result<(), Refusal> {
        // The last connections are for peers, which would take this node for dead, and for clients that ask
        // what is the matter.
        let limit = self.env.limits.connections_max;
        let is_crowded = self.env.conns.count() > limit - limit / 8;
        let asks_what_is_wrong = matches!(caller.verb, Verb::Status | Verb::Metrics);
        if is_crowded && !caller.verb.is_of_nodes() && !asks_what_is_wrong {
            return Err(too_many_connections());
        }
        // ‡ A node's name is believed of a certificate alone.
        let is_unproven = self.config.nodes_show_certificates && caller.node.is_none();
        if caller.verb.is_of_nodes() && is_unproven {
            return Err(Refusal::new("tls-required", NO_CERTIFICATE));
        }
        if self.is_gone() && caller.verb != Verb::Peer && !asks_what_is_wrong {
            let refusal = Refusal::new("shutting-down", REMOVED);
            return Err(match caller.verb {
                Verb::Join => self.naming_others(refusal),
                _ => refusal,
            });
        }
        Ok(())
    }

    pub(super) fn serve(&mut self, caller: &Caller) -> Result<(), Refusal> {
        match caller.verb {
            Verb::Append => self.append(caller),
            Verb::Close => self.close_stream(caller),
            Verb::Read => self.read(caller),
            Verb::Streams => self.list_streams(caller),
            Verb::Trim => self.trim(caller),
            Verb::Lead => self.lead(caller),
            Verb::Scrub => self.scrub_log(caller),
            Verb::Save => self.save_rows(caller),
            Verb::Fill => self.fill_rows(caller),
            Verb::Status => self.tell_status(caller),
            Verb::Metrics => self.tell_metrics(caller),
            Verb::Logs => self.list_logs(caller),
            Verb::CreateLog => self.create_named_log(caller),
            Verb::DeleteLog => self.delete_named_log(caller),
            Verb::ShowLog => self.show_log(caller),
            Verb::Retain => self.retain(caller),
            Verb::Members => self.list_members(caller),
            Verb::ChangeMembers => self.change_members(caller),
            Verb::Slots => self.tell_slots_map(caller),
            Verb::ChangeSlots => self.change_slots(caller),
            Verb::Tokens => self.list_tokens(caller),
            Verb::PutToken => self.put_token(caller),
            Verb::RotateToken => self.rotate_token(caller),
            Verb::RevokeToken => self.revoke_token(caller),
            Verb::Issuers => self.list_issuers(caller),
            Verb::PutIssuer | Verb::RemoveIssuer => self.change_issuers(caller),
            Verb::SetAuth => self.set_auth(caller),
            Verb::WhoAmI => self.tell_who(caller),
            Verb::Explain => self.explain(caller),
            Verb::Audit => self.tell_changes(caller),
            Verb::Join => self.join_cluster(caller),
            Verb::Peer => self.greet_peer(caller),
        }
    }

    /// Turns the connection over to the log that is named.
    fn turn_to_log(
        &mut self,
        conn: ConnId,
        request: &Request,
        purpose: fn(LogId) -> Purpose,
    ) -> Result<(&mut Log, &mut Env), Refusal> {
        let id = self.log_named(request)?;
        self.env.conns.turn_to(conn, purpose(id));
        self.due.touch(id);
        let log = self.logs.get_mut(&id).expect("it was found by its name");
        Ok((log, &mut self.env))
    }

    fn log_named(&self, request: &Request) -> Result<LogId, Refusal> {
        let name = log_name(request)?;
        self.log_here(name).ok_or_else(|| self.not_hosted(name))
    }
}

fn log_name(request: &Request) -> Result<&str, Refusal> {
    let name = request.words.first();
    Ok(name.ok_or(LineError::Missing("the log's name"))?)
}
