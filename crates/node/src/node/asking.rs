//! Judging an asker, and whether this node knows enough for it.
//!
//! ```text
//!   start ─▶ does log 0, as far as this disk has it, know of any token? ── no ─▶ nothing is asked for
//!                 └─ yes, or it is not known yet ─▶ ‡ a barrier of log 0 first: nobody is served by what may be old
//! ```

use std::collections::BTreeSet;
use std::time::Duration;

use access::{Asked, Bearer};
use letters::{Asks, KeptIssuer, KeptToken, Rights, RightsBoard};
use ops::ConnId;
use paxos::NodeId;
use paxos::mutation::{self, Mutation};
use replica::{Log, Purpose};
use wire::{Refusal, Verb};

use super::Node;
use super::verbs::Held;
use crate::directory::DIRECTORY;
use crate::directory::tokens::TokenEntry;
use crate::gate::{self, Pass, Who};
use crate::greeting::Caller;

/// A node's word on a request.
pub(in crate::node) enum Verdict {
    Go,
    /// Once a barrier of log 0 has passed it may say something else.
    Wait,
}

/// Every verb, as the one table of grants knows it. ‡ A verb without a line does not compile.
fn asked(caller: &Caller) -> Asked<'_> {
    let name = caller.request.words.first().map_or("", String::as_str);
    match caller.verb {
        Verb::Append => Asked::Append(name),
        Verb::Close => Asked::Close(name),
        Verb::Read => Asked::Read(name),
        Verb::Streams => Asked::Streams(name),
        Verb::Trim => Asked::Trim(name),
        Verb::Lead => Asked::Lead(name),
        Verb::Scrub => Asked::Scrub(name),
        Verb::Save => Asked::Save(name),
        Verb::Fill => Asked::Fill(name),
        Verb::Status => Asked::Status,
        Verb::Metrics => Asked::Metrics,
        Verb::Logs => Asked::Logs,
        Verb::CreateLog => Asked::CreateLog(name),
        Verb::DeleteLog => Asked::DeleteLog(name),
        Verb::ShowLog => Asked::ShowLog(name),
        Verb::Retain => Asked::Retain(name),
        Verb::Members => Asked::Members,
        Verb::ChangeMembers => Asked::ChangeMembers,
        Verb::Slots => Asked::Slots,
        Verb::ChangeSlots => Asked::ChangeSlots,
        Verb::Tokens => Asked::Tokens,
        Verb::PutToken => Asked::PutToken,
        Verb::RotateToken => Asked::RotateToken,
        Verb::RevokeToken => Asked::RevokeToken,
        Verb::Issuers => Asked::Issuers,
        Verb::PutIssuer => Asked::PutIssuer,
        Verb::RemoveIssuer => Asked::RemoveIssuer,
        Verb::SetAuth => Asked::SetAuth,
        Verb::WhoAmI => Asked::WhoAmI,
        Verb::Explain if caller.request.get("token").is_none() => Asked::WhoAmI,
        Verb::Explain => Asked::Explain,
        Verb::Audit => Asked::Audit,
        Verb::Join => Asked::Join,
        Verb::Peer => Asked::Peer,
    }
}

/// A node that has heard nothing of log 0's leader for so long takes no new `stale=1` reads.
pub(in crate::node) const CUT_OFF_AFTER: Duration = letters::RIGHTS_KNOWN_FOR;

fn cut_off() -> Refusal {
    let sentence = "this node has heard nothing of the leader of log 0 for a minute, and cannot know what was revoked since: reconnect it, or ask another node";
    Refusal::new("no-quorum", sentence)
}

/// A principal whose credential is not good. ‡ Its text is told nowhere.
fn not_good(shown: Option<&Bearer>) -> &'static str {
    match shown {
        Some(Bearer::Ticket(_)) => "a ticket that is not good",
        Some(Bearer::Token(_)) | None => "a token that is not good",
    }
}

impl Node {
    /// The time by which tokens expire, in milliseconds since the beginning of 1970.
    pub(in crate::node) fn now_ms(&self) -> u64 {
        let second = self.env.moments.calendar.second(self.env.now);
        let wall_ms = second.unwrap_or_default().saturating_mul(1000);
        self.cluster.directory.rights.now_ms(wall_ms)
    }

    /// ‡ Whether this node may say who may what by what it has read of log 0 since it started. Where that knows of no token
    /// nothing is asked for, and it need not ask anybody.
    pub(in crate::node) fn knows_rights(&self, verb: Verb) -> bool {
        let rights = &self.cluster.directory.rights;
        if mutation::is(Mutation::ServedByAnOldDirectory) {
            return true;
        }
        // A node without an id has nothing.
        if self.cluster.was_confirmed() || self.id().0 == 0 {
            return true;
        }
        let has_none = !rights.switch.on && rights.tokens.is_empty();
        let log = self.logs.get(&DIRECTORY);
        // One that follows log 0 no more goes by what it has read.
        let is_halted = self.cluster.directory.halted().is_some();
        let is_read = is_halted || log.is_some_and(Log::guest_is_current);
        let is_read = is_read && self.cluster.is_listed(&self.env);
        // Where it goes, and what is wrong, may be asked of one that has just joined.
        let asks_what_is_wrong = matches!(verb, Verb::Status | Verb::Metrics);
        has_none && (is_read || (asks_what_is_wrong && !self.is_replaying()))
    }

    /// Whether what this disk has of log 0 is still being read.
    fn is_replaying(&self) -> bool {
        let log = self.logs.get(&DIRECTORY);
        let is_behind = log.is_some_and(|log| !log.is_stopped() && !log.guest_is_current());
        is_behind && self.cluster.directory.halted().is_none()
    }

    /// Whether this may be asked. `is_fresh`: a barrier of log 0 has passed since it was.
    pub(in crate::node) fn judge(
        &mut self,
        caller: &Caller,
        is_fresh: bool,
    ) -> Result<Verdict, Refusal> {
        self.judge_of(caller, is_fresh, self.id())
    }

    /// As `judge`, of somebody who came at that node, perhaps by its socket.
    pub(in crate::node) fn judge_of(
        &mut self,
        caller: &Caller,
        is_fresh: bool,
        at: NodeId,
    ) -> Result<Verdict, Refusal> {
        // Greetings prove themselves.
        if caller.verb == Verb::Peer {
            return Ok(Verdict::Go);
        }
        if let Err(verdict) = self.check_asks_for_others(caller, is_fresh) {
            return verdict;
        }
        let asked = asked(caller);
        let rights = &self.cluster.directory.rights;
        let now_ms = self.now_ms();
        if !is_fresh && !caller.is_own && !self.knows_rights(caller.verb) {
            return Ok(Verdict::Wait);
        }
        let socket = caller.is_own.then_some(at);
        let shown = caller.shown.as_ref();
        let cluster = self.env.own.identity.cluster.to_string();
        let here = (cluster.as_str(), now_ms);
        let who = match gate::who(rights, here, socket, shown, caller.client.as_ref()) {
            Ok(who) => who,
            // ‡ A node that lags would deny a token that somebody made, and was told so.
            Err(_) if !is_fresh && !mutation::is(Mutation::DeniedByAnOldWord) => {
                return Ok(Verdict::Wait);
            }
            Err(refusal) => {
                self.on_refused(not_good(shown), caller, &refusal);
                return Err(refusal);
            }
        };
        let is_stale = caller.request.get("stale") == Some("1");
        match gate::judge(rights, rights.switch.on, now_ms, &who, &asked) {
            // ‡ Such a read asks nobody: what was revoked meanwhile would read here for ever.
            Ok(_) if is_stale && !caller.is_own && self.is_cut_off() => Err(cut_off()),
            Ok(_) => {
                self.gate.enter(caller.conn, &who, &asked);
                Ok(Verdict::Go)
            }
            // ‡ As of a token: this node may not have heard yet of what was granted to it, or to its issuer.
            Err(_) if !is_fresh && matches!(who, Who::Certificate(..) | Who::Ticket(_)) => {
                Ok(Verdict::Wait)
            }
            Err(refusal) => {
                let who = who.principal().to_string();
                self.on_refused(&who, caller, &refusal);
                Err(refusal)
            }
        }
    }

    /// ‡ Whose certificate a door was shown is believed of a node whose name is bound: one that was removed still has its own.
    fn check_asks_for_others(
        &mut self,
        caller: &Caller,
        is_fresh: bool,
    ) -> Result<(), Result<Verdict, Refusal>> {
        let (Some(node), Some(client)) = (&caller.node, &caller.client) else {
            return Ok(());
        };
        let directory = &self.cluster.directory;
        if directory.node_of_certificate(node).is_some() {
            return Ok(());
        }
        if !is_fresh {
            return Err(Ok(Verdict::Wait));
        }
        let sentence = format!(
            "{node} is the name of no node here, and may not ask for certificate {}: `logberg members bind` binds names",
            client.name
        );
        let refusal = Refusal::new("unauthenticated", sentence);
        let who = format!("certificate {node}");
        self.on_refused(&who, caller, &refusal);
        Err(Err(refusal))
    }

    pub(in crate::node) fn on_refused(&mut self, who: &str, caller: &Caller, refusal: &Refusal) {
        match refusal.code {
            wire::Code::Forbidden => self.counts.forbidden += 1,
            _ => self.counts.unauthenticated += 1,
        }
        let name = caller.request.words.first().map_or("", String::as_str);
        let what = format!("{} {}", caller.verb, name.escape_default());
        let now = self.env.now;
        self.gate.tell(now, who, &caller.from, &what, refusal);
    }

    /// The permission of this connection.
    pub(in crate::node) fn pass_of(&self, conn: ConnId) -> Pass {
        let rights = &self.cluster.directory.rights;
        let pass = self.gate.judge_again(conn, rights, self.now_ms());
        // One that may nothing by now is ended this round; until then it is shown nothing.
        pass.unwrap_or(Pass {
            who: Who::Anonymous,
            only: Some(gate::no_grants()),
        })
    }

    /// Tells the doors of this process who may do what, where that is news.
    pub(in crate::node) fn tell_doors(&mut self) {
        let notes = self.config.hosts.rights().map(RightsBoard::take_notes);
        for note in notes.unwrap_or_default() {
            self.note_of_a_door(note);
        }
        let Some(board) = self.config.hosts.rights() else {
            return;
        };
        board.renew(self.env.now);
        let rights = &self.cluster.directory.rights;
        // ‡ A door serves bytes: it waits as long as any read does.
        let asks = match (self.knows_rights(Verb::Read), rights.switch.on) {
            (false, _) => Asks::NotKnown,
            (true, true) => Asks::Tokens,
            (true, false) => Asks::Nothing,
        };
        let is_cut_off = self.is_cut_off();
        let news = Some((asks, rights.switch.version, is_cut_off));
        if self.doors_told == news {
            return;
        }
        self.doors_told = news;
        let kept = |entry: &TokenEntry| KeptToken {
            by_certificate: entry.by_certificate,
            hashes: entry
                .hashes
                .iter()
                .map(|kept| (kept.sha256, kept.until_ms))
                .collect(),
            grants: entry.grants.clone(),
            expires_ms: entry.expires_ms,
        };
        let tokens = rights.tokens.iter();
        let issuers = rights.issuers.iter().map(|(name, entry)| {
            let (keys, grants) = (entry.keys.clone(), entry.grants.clone());
            (name.clone(), KeptIssuer { keys, grants })
        });
        board.tell(Rights {
            asks,
            is_cut_off,
            cluster: self.env.own.identity.cluster.to_string(),
            clock_ms: rights.switch.clock_ms,
            issuers: issuers.collect(),
            tokens: tokens
                .map(|(name, entry)| (name.clone(), kept(entry)))
                .collect(),
        });
    }

    /// Whether tokens are asked for, and this node has heard nothing for a while of those that agree on what they may.
    pub(in crate::node) fn is_cut_off(&self) -> bool {
        if !self.cluster.directory.rights.switch.on || mutation::is(Mutation::CutOffServesStale) {
            return false;
        }
        let now = self.env.now;
        // ‡ A pause of this process is forgiven to others, and not to what it knows.
        let is_heard = |node| {
            let peer = self.peers.get(node);
            let spoke_at = peer.and_then(|peer| peer.pulse.spoke_at());
            spoke_at.is_some_and(|at| now < at + CUT_OFF_AFTER)
        };
        match (self.logs.director(), self.logs.directory()) {
            (Some(leader), _) if leader != self.id() => !is_heard(leader),
            // ‡ Who leads log 0, and who looks for its leader, hears of what is agreed by a quorum of its voters, whoever else is there.
            (_, Some(log)) => {
                let own = self.id();
                let configuration = &log.engine().state().configuration;
                !configuration.is_quorum(|node| node == own || is_heard(node))
            }
            (_, None) => {
                let mut nodes = self.cluster.directory.nodes.keys();
                !nodes.any(|node| *node != self.id() && is_heard(*node))
            }
        }
    }

    /// Judges all connections of clients again, if there is a reason to: who may no more is ended.
    pub(in crate::node) fn judge_again(&mut self) {
        self.tell_doors();
        if !self
            .gate
            .is_due(&self.cluster.directory.rights, self.env.now)
            || mutation::is(Mutation::RevokedGoesOn)
        {
            return;
        }
        let rights = self.cluster.directory.rights.clone();
        let now_ms = self.now_ms();
        // ‡ Who is held was not judged yet: that is done when he is released.
        let held: BTreeSet<ConnId> = self.callers.held.iter().map(Held::conn).collect();
        let clients = self.env.conns.of_clients().into_iter();
        for (conn, purpose) in clients.filter(|(conn, _)| !held.contains(conn)) {
            let Err(refusal) = self.gate.judge_again(conn, &rights, now_ms) else {
                continue;
            };
            // Whoever revokes his own token is told that it is done.
            if let Some(line) = self.done_for(conn) {
                self.env.part(conn, &line);
                continue;
            }
            match refusal.code {
                wire::Code::Forbidden => self.counts.forbidden += 1,
                _ => self.counts.unauthenticated += 1,
            }
            let who = self.gate.who(conn).principal().to_string();
            let now = self.env.now;
            self.gate
                .tell(now, &who, "", "a connection goes on", &refusal);
            let env = &mut self.env;
            match purpose {
                Purpose::Writer(log) | Purpose::Reader(log) => {
                    if let Some(log) = self.logs.get_mut(&log) {
                        log.end_client(env, conn, &refusal);
                    }
                    self.due.touch(log);
                }
                Purpose::Rows(_) => self.hosted.end_client(conn, &refusal, env),
                // In the middle of an answer a line would be taken for its end.
                Purpose::Answer => env.reset(conn),
                _ => env.refuse(conn, refusal),
            }
        }
        let conns = &self.env.conns;
        self.gate.forget(|conn| conns.is_open(conn));
        self.gate.on_judged(&rights, self.env.now);
    }
}
