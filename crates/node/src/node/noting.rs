//! Changes that somebody asked for: told to the tracing target `audit`, and remembered in log 0.
//!
//! ```text
//!   a command of log 0       ─▶ told ─▶ `Note` in the same batch
//!   lead, trim of another log ─▶ told ─▶ waits here ─▶ this node leads log 0 ─▶ `Note`
//!                                          └─ AskDirector: note … ─▶ the leader's `Note` ─ applied ─▶ TellDirector: ok
//! ```
//!
//! A leader of a log is not the leader of log 0. Its note goes there until somebody says that it is kept, so that one may stand twice, and
//! is let go after a while: nothing that a client does waits for it.

use std::collections::VecDeque;
use std::time::Duration;

use access::Principal;
use formats::frame::{Frame, Piece};
use formats::version::TOKENS;
use letters::DoorNote;
use ops::ConnId;
use paxos::{NodeId, Time};
use replica::{Log, Purpose};
use wire::{Refusal, Request, Verb};

use super::Node;
use super::verbs::{Answer, Commands, Want};
use crate::directory::tokens::By;
use crate::directory::{Command, DIRECTORY};
use crate::greeting::{Caller, still_joining};

/// How a line of a peer begins that brings a note. No line of a client does.
pub(super) const NOTE: &str = "note";

/// So many wait at a time; the oldest makes room.
const WAITING_MAX: usize = 256;
/// The leader of log 0 is asked again after so long …
const AGAIN_AFTER: Duration = Duration::from_secs(2);
/// … and for so long.
const LET_GO_AFTER: Duration = Duration::from_secs(120);

/// The numbers of notes are apart from those of requests that are passed on.
const NUMBERS_FROM: u64 = 1 << 63;

/// A change, and who asked for it from where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::node) struct Noted {
    pub by: By,
    pub from: String,
    pub what: String,
}

/// Notes on their way to whoever leads log 0.
#[derive(Default)]
pub(in crate::node) struct Noting {
    waiting: VecDeque<Waiting>,
    last: u64,
}

struct Waiting {
    number: u64,
    noted: Noted,
    at_ms: u64,
    since: Time,
    /// When which peer was asked last.
    asked: Option<(NodeId, Time)>,
    /// This node leads log 0, and has proposed it.
    is_proposed: bool,
}

impl Noting {
    /// Takes the answer to a note, if it is one.
    pub(super) fn on_told(&mut self, peer: NodeId, piece: &Piece) -> bool {
        if piece.request < NUMBERS_FROM {
            return false;
        }
        let is_kept = matches!(wire::Answer::parse(&piece.bytes), Ok(answer) if !is_error(&answer));
        let is_it = |one: &Waiting| {
            let asked = one.asked.map(|(asked, _)| asked);
            one.number == piece.request && asked == Some(peer)
        };
        self.waiting.retain(|one| !(is_kept && is_it(one)));
        true
    }
}

fn is_error(answer: &wire::Answer) -> bool {
    matches!(answer, wire::Answer::Error(_))
}

impl Waiting {
    fn command(&self) -> Command {
        self.noted.clone().command(self.at_ms)
    }

    fn is_due(&self, leader: NodeId, now: Time) -> bool {
        let asked = self.asked.filter(|(asked, _)| *asked == leader);
        asked.is_none_or(|(_, at)| now >= at + AGAIN_AFTER)
    }
}

impl Noted {
    fn command(self, at_ms: u64) -> Command {
        let Noted { by, from, what } = self;
        Command::Note {
            by,
            from,
            at_ms,
            what,
        }
    }

    /// The line that brings it to the leader of log 0.
    fn line(&self, at_ms: u64) -> Vec<u8> {
        let by = serde_json::to_string(&self.by).unwrap_or_default();
        let line = Request::new(NOTE).key("by", by).key("at", at_ms);
        let line = line.key("from", &self.from).key("what", &self.what);
        line.encode()
    }

    /// ‡ What a peer says is bounded here, too: log 0 keeps only the beginning of it.
    fn read(line: &Request) -> Result<(Noted, u64), Refusal> {
        let by = serde_json::from_str(line.require("by")?);
        let by = by.map_err(|_| Refusal::new("bad-request", "by says who asked, in JSON"))?;
        let noted = Noted {
            by,
            from: line.require("from")?.to_owned(),
            what: line.require("what")?.to_owned(),
        };
        Ok((noted, line.parsed("at")?.unwrap_or_default()))
    }
}

/// The note of a peer: answered once log 0 has it.
struct Keep {
    command: Command,
    is_proposed: bool,
}

impl Want for Keep {
    fn answer(&mut self, node: &mut Node, commands: &mut Commands) -> Answer {
        if !node.logs.can_direct() {
            return Answer::Wait;
        }
        if !std::mem::replace(&mut self.is_proposed, true) {
            commands.push(self.command.clone());
            return Answer::Wait;
        }
        match node.cluster.has_applied_its_own(&node.logs) {
            true => Answer::Line(b"ok {}\n".to_vec()),
            false => Answer::Wait,
        }
    }
}

/// A change of a log that is none of log 0's, in words.
fn said(caller: &Caller) -> Option<String> {
    let request = &caller.request;
    let name = request.words.first()?;
    let is_plan = request.flag("plan").unwrap_or(false);
    let to = |key| request.get(key).map(str::escape_default);
    match caller.verb {
        Verb::Lead => Some(match to("to") {
            Some(to) => format!("node {to} is asked to lead log {name}"),
            None => format!("another node is asked to lead log {name}"),
        }),
        Verb::Trim if !is_plan => {
            let before = to("before")?;
            Some(format!(
                "log {name} is asked to forget what is before {before}"
            ))
        }
        _ => None,
    }
}

impl Node {
    /// Tells of a change, and returns the command by which log 0 remembers it: where it knows of tokens at all, or somebody
    /// said who he is.
    pub(super) fn told(&self, noted: Noted) -> Option<Command> {
        let Noted { by, from, what } = &noted;
        tracing::info!(target: "audit", %by, from, what, "a change");
        self.remembered(noted)
    }

    fn remembered(&self, noted: Noted) -> Option<Command> {
        let by = &noted.by;
        let directory = &self.cluster.directory;
        let is_kept = *by != By::Anonymous || !directory.rights.tokens.is_empty();
        (is_kept && directory.versions.agreed >= TOKENS).then(|| noted.command(self.now_ms()))
    }

    /// Tells of a change of a log that this node leads, and sees to it that log 0 remembers it.
    pub(super) fn note_of_a_log(&mut self, caller: &Caller) {
        let name = caller.request.words.first();
        let id = name.and_then(|name| self.log_here(name));
        // Another node is asked then, which tells of it.
        let leads = id.is_some_and(|id| self.logs.get(&id).is_some_and(Log::is_leading));
        let Some(what) = said(caller).filter(|_| leads) else {
            return;
        };
        let noted = Noted {
            by: self.gate.who(caller.conn).by(),
            from: caller.from.clone(),
            what,
        };
        if self.told(noted.clone()).is_some() {
            self.bring(noted);
        }
    }

    /// Sees to it that log 0 remembers a change that somebody asked for at a door of this process, which has told of it.
    pub(super) fn note_of_a_door(&mut self, note: DoorNote) {
        let by = match note.who {
            Principal::Token(name) => By::Token(name.as_str().to_owned()),
            Principal::Certificate(name) => By::Certificate(name.as_str().to_owned()),
            Principal::Ticket(name) => By::Ticket(name),
            Principal::Socket | Principal::Node(_) => By::Socket(self.id().0),
            Principal::Anonymous => By::Anonymous,
        };
        let noted = Noted {
            by,
            from: note.from,
            what: note.what,
        };
        if self.remembered(noted.clone()).is_some() {
            self.bring(noted);
        }
    }

    fn bring(&mut self, noted: Noted) {
        let at_ms = self.now_ms();
        let noting = &mut self.noting;
        if noting.waiting.len() >= WAITING_MAX {
            noting.waiting.pop_front();
        }
        noting.last += 1;
        noting.waiting.push_back(Waiting {
            number: NUMBERS_FROM + noting.last,
            noted,
            at_ms,
            since: self.env.now,
            asked: None,
            is_proposed: false,
        });
        self.pass_notes();
    }

    /// Brings the notes that wait to whoever leads log 0.
    pub(super) fn pass_notes(&mut self) {
        if self.noting.waiting.is_empty() {
            return;
        }
        let now = self.env.now;
        let waiting = &mut self.noting.waiting;
        waiting.retain(|one| now < one.since + LET_GO_AFTER);
        if !self.logs.can_direct() {
            waiting.iter_mut().for_each(|one| one.is_proposed = false);
            return self.ask_to_note();
        }
        // ‡ Applied means kept; what was proposed is looked at once all of this node's is.
        if self.cluster.has_applied_its_own(&self.logs) {
            waiting.retain(|one| !one.is_proposed);
        }
        let new = waiting.iter_mut().filter(|one| !one.is_proposed);
        let commands: Vec<Command> = new
            .map(|one| {
                one.is_proposed = true;
                one.command()
            })
            .collect();
        let (cluster, mut lent) = self.lend();
        cluster.propose_commands(&mut lent, &commands);
    }

    fn ask_to_note(&mut self) {
        let now = self.env.now;
        let leader = self.logs.director();
        let link = |leader: &NodeId| self.env.peers.links.get(leader).copied();
        let Some(leader) = leader.filter(|leader| link(leader).is_some_and(|link| link >= TOKENS))
        else {
            return;
        };
        for one in &mut self.noting.waiting {
            if !one.is_due(leader, now) {
                continue;
            }
            one.asked = Some((leader, now));
            let piece = Piece {
                log: DIRECTORY,
                request: one.number,
                bytes: one.noted.line(one.at_ms),
            };
            let frame = Frame::AskDirector(piece);
            self.env.out.outbox.push_back((leader, frame));
        }
    }

    /// A peer, which has proved itself, says what was asked of it.
    pub(super) fn note_for(&mut self, conn: ConnId, line: &Request) -> Result<(), Refusal> {
        let (noted, at_ms) = Noted::read(line)?;
        let log = self.logs.get(&DIRECTORY).ok_or_else(still_joining)?;
        log.check_leading(&self.env)?;
        self.env.conns.turn_to(conn, Purpose::Request(DIRECTORY));
        // ‡ A peer's clock that is wrong by years would end tokens.
        let at_ms = at_ms.min(self.now_ms());
        let keep = Keep {
            command: noted.command(at_ms),
            is_proposed: false,
        };
        self.await_from(conn, String::new(), keep)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_travels_as_a_line_and_no_client_has_that_word() {
        let noted = Noted {
            by: By::Token("ci".to_owned()),
            from: "/a b/admin.sock (user 7)".to_owned(),
            what: "node 2 is asked to lead log ä=1".to_owned(),
        };
        let line = Request::parse(&noted.line(77)).expect("a line");
        assert_eq!(line.verb, NOTE);
        assert!(line.verb().is_err(), "a client's verb");
        assert_eq!(Noted::read(&line), Ok((noted, 77)));
        let bare = Request::new(NOTE).key("by", "me");
        assert!(Noted::read(&bare).is_err());
    }
}
