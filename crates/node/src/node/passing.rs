//! Requests of this machine's own commands for the directory, passed on to the node that leads it.
//!
//! ```text
//!   admin.sock ─▶ put-token …  ─▶ this node does not lead log 0 ─▶ AskDirector: the line, as=socket ─▶ the leader judges it,
//!              ◀─────────────────────────────── TellDirector: the answer ◀───────────────────────────── and does it
//! ```
//!
//! ‡ The leader's port asks for a token that the operator at the socket may not have yet. And `as` is believed of a peer
//! whose disk proved itself, on its control connection, and of nobody else.

use std::collections::BTreeMap;
use std::time::Duration;

use formats::frame::{Frame, Piece};
use formats::version;
use ops::ConnId;
use paxos::{NodeId, Time};
use replica::Purpose;
use wire::{Answer, Refusal, Request, Verb};

use super::Node;
use super::asking::Verdict;
use super::noting::NOTE;
use crate::directory::DIRECTORY;
use crate::greeting::{Caller, still_joining};
use crate::peers::Peer;

/// How a peer says for whom it asks.
const AS: &str = "as";
/// Somebody at the admin socket of that peer.
const SOCKET: &str = "socket";
/// … and from where that one came.
const CAME: &str = "came";

/// So many may wait at a time.
const WAITING_MAX: usize = 64;
/// A leader that is alive answers sooner.
const WAIT: Duration = Duration::from_secs(6);
/// The longest line that is passed on.
const LINE_BYTES_MAX: usize = wire::LONG_LINE_BYTES_MAX;

/// Requests that were passed on, by their numbers.
#[derive(Default)]
pub(in crate::node) struct Passing {
    waiting: BTreeMap<u64, Waiting>,
    last: u64,
}

struct Waiting {
    conn: ConnId,
    to: NodeId,
    since: Time,
}

/// Whether the node that leads log 0 does it alone.
fn is_of_the_director(verb: Verb) -> bool {
    match verb {
        Verb::CreateLog
        | Verb::DeleteLog
        | Verb::Retain
        | Verb::ChangeMembers
        | Verb::ChangeSlots
        | Verb::PutToken
        | Verb::RotateToken
        | Verb::RevokeToken
        | Verb::PutIssuer
        | Verb::RemoveIssuer
        | Verb::SetAuth => true,
        Verb::Append
        | Verb::Close
        | Verb::Read
        | Verb::Streams
        | Verb::Trim
        | Verb::Lead
        | Verb::Scrub
        | Verb::Save
        | Verb::Fill
        | Verb::Status
        | Verb::Metrics
        | Verb::Logs
        | Verb::ShowLog
        | Verb::Members
        | Verb::Slots
        | Verb::Tokens
        | Verb::Issuers
        | Verb::WhoAmI
        | Verb::Explain
        | Verb::Audit
        | Verb::Join
        | Verb::Peer => false,
    }
}

impl Node {
    /// The peer to which this request is to be passed on.
    fn director_for(&self, caller: &Caller) -> Option<NodeId> {
        let log = self.logs.get(&DIRECTORY)?;
        if !caller.is_own || !is_of_the_director(caller.verb) || log.is_leading() {
            return None;
        }
        let leader = self.logs.director()?;
        let link = self.env.peers.links.get(&leader);
        link.is_some_and(|version| *version >= version::TOKENS)
            .then_some(leader)
    }

    /// Passes it on, if that is to be. Errors: there are too many.
    pub(super) fn pass_on(&mut self, caller: &Caller) -> Result<bool, Refusal> {
        let Some(to) = self.director_for(caller) else {
            return Ok(false);
        };
        if self.passing.waiting.len() >= WAITING_MAX {
            let sentence = "as many requests as may be wait for the leader of log 0: try again";
            return Err(Refusal::new("busy", sentence));
        }
        let line = caller.request.clone();
        let line = line.key(AS, SOCKET).key(CAME, &caller.from).encode();
        self.passing.last += 1;
        let request = self.passing.last;
        let piece = Piece {
            log: DIRECTORY,
            request,
            bytes: line,
        };
        self.env
            .conns
            .turn_to(caller.conn, Purpose::Request(DIRECTORY));
        let waiting = Waiting {
            conn: caller.conn,
            to,
            since: self.env.now,
        };
        self.passing.waiting.insert(request, waiting);
        self.env
            .out
            .outbox
            .push_back((to, Frame::AskDirector(piece)));
        Ok(true)
    }

    /// Somebody at a peer's socket asks.
    pub(super) fn on_ask_director(&mut self, peer: NodeId, piece: &Piece) {
        let conns = &mut self.env.conns;
        let conn = conns.open_passed(Purpose::Request(DIRECTORY), peer, piece.request);
        if let Err(refusal) = self.serve_passed(conn, peer, piece) {
            self.env.refuse(conn, refusal);
        }
    }

    fn serve_passed(&mut self, conn: ConnId, peer: NodeId, piece: &Piece) -> Result<(), Refusal> {
        let not_heard = || {
            let sentence = format!("node {peer} may not ask for others here");
            Refusal::new("forbidden", sentence)
        };
        let is_listed = self.cluster.directory.nodes.contains_key(&peer);
        let is_proven = self.peers.get(peer).is_some_and(Peer::is_proven);
        if !is_proven || !is_listed {
            return Err(not_heard());
        }
        if piece.bytes.len() > LINE_BYTES_MAX {
            return Err(Refusal::new("bad-request", "the line is too long"));
        }
        let mut request = Request::parse(&piece.bytes)?;
        if request.verb == NOTE {
            return self.note_for(conn, &request);
        }
        let verb = request.verb()?;
        let came = request.take(CAME).unwrap_or_default();
        let is_socket = request.take(AS).as_deref() == Some(SOCKET);
        if !is_socket || !is_of_the_director(verb) {
            return Err(not_heard());
        }
        let log = self.logs.get(&DIRECTORY).ok_or_else(still_joining)?;
        log.check_leading(&self.env)?;
        let caller = Caller {
            conn,
            verb,
            request,
            rest: Vec::new(),
            ended: false,
            from: came,
            is_own: true,
            node: None,
            client: None,
            shown: None,
        };
        // ‡ It is judged here, as what it is.
        match self.judge_of(&caller, true, peer)? {
            Verdict::Go => self.serve(&caller),
            Verdict::Wait => Err(still_joining()),
        }
    }

    /// The leader's answer.
    pub(super) fn on_tell_director(&mut self, peer: NodeId, piece: &Piece) {
        if self.noting.on_told(peer, piece) {
            return;
        }
        let waiting = self.passing.waiting.get(&piece.request);
        if waiting.is_none_or(|waiting| waiting.to != peer) {
            return;
        }
        let Some(Waiting { conn, .. }) = self.passing.waiting.remove(&piece.request) else {
            return;
        };
        match Answer::parse(&piece.bytes) {
            // ‡ The way to another node's port is none for whoever is here by the socket: he asks here again.
            Ok(Answer::Error(refusal)) if refusal.code == wire::Code::NotLeader => {
                self.env.refuse(conn, not_there());
            }
            Ok(_) => self.env.part(conn, &piece.bytes),
            Err(_) => self.env.refuse(conn, not_there()),
        }
    }

    pub(super) fn expire_passing(&mut self) {
        if self.passing.waiting.is_empty() {
            return;
        }
        let now = self.env.now;
        let is_late = |waiting: &Waiting| now >= waiting.since + WAIT;
        let late = self
            .passing
            .waiting
            .extract_if(.., |_, waiting| is_late(waiting));
        for (_, waiting) in late {
            let sentence = "the leader of log 0 has not answered, and may still do what was asked: look whether it is so, and ask again if not";
            let refusal = Refusal::new("no-quorum", sentence);
            self.env.refuse(waiting.conn, refusal);
        }
    }
}

fn not_there() -> Refusal {
    let sentence = "the leader of log 0 is another one than it was a moment ago: ask again";
    Refusal::new("not-leader", sentence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use formats::LogId;

    /// A number of a log that is none would be refused by who reads the frame.
    #[test]
    fn the_directory_is_log_0() {
        assert_eq!(DIRECTORY, LogId(0));
    }
}
