//! Requests are judged: every request of the pipe passes here before anything is done, and long connections
//! again when the directory says something new, or a token's time is over.
//!
//! ```text
//!   Caller ─▶ by the socket, by a token, by nothing ─▶ Who ─┐
//!          ─▶ its verb ─▶ Asked ─ needs ────────────────────┼─ judge ─▶ go on, or a refusal
//!                        what log 0 says of tokens ─────────┘            └─▶ counted, and told to the target `audit`
//! ```
//!
//! While tokens are not asked for, nothing here is done for a connection that shows none.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use access::{
    Asked, Bearer, Denied, Grants, Need, Place, Principal, Resource, SecretHash, TokenName, decide,
};
use letters::Refusals;
use ops::{ClientCertificate, ConnId};
use paxos::mutation::{self, Mutation};
use paxos::{NodeId, Time};
use tickets::Ticket;
use wire::Refusal;

use crate::directory::tokens::{By, Rights};

/// The asker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// Somebody who may read the disk of this node.
    Socket(NodeId),
    /// A token that was good when it was shown. Its hash, and not its secret.
    Token(TokenName, SecretHash),
    /// Whoever showed a client's certificate of that name, which holds until then. ‡ What is granted to it is looked up each time:
    /// if nothing is, this is nobody.
    Certificate(TokenName, u64),
    /// A ticket that was good when it was shown. ‡ Its issuer, that one's grants and the time are looked at each time.
    Ticket(Arc<Ticket>),
    Anonymous,
}

/// A connection whose asker is somebody, or is to be asked again.
#[derive(Clone, Debug)]
struct Session {
    who: Who,
    needs: Vec<Need>,
    /// It is answered with what its grants touch, if they are not enough.
    has_a_part: bool,
    hands_out: bool,
}

/// The permission for one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pass {
    pub who: Who,
    /// Only what these touch is shown.
    pub only: Option<Grants>,
}

/// Where no token is good, a code says it, and its sentence shows nothing of what was read.
const NOT_GOOD: &str = "this token is not known here, has expired or was revoked: ask whoever may make tokens for another one (logberg token create)";

const TICKET_IS_OVER: &str = "this ticket has expired, or its issuer has signed it with a key that is gone: ask the issuer for another one";

fn ticket_is_over() -> Refusal {
    Refusal::new("unauthenticated", TICKET_IS_OVER)
}

/// Long connections are judged again so often.
const AGAIN_EACH: Duration = Duration::from_secs(1);

#[derive(Default)]
pub struct Gate {
    sessions: BTreeMap<ConnId, Session>,
    /// [`crate::directory::tokens::Switch::version`] when all were judged last.
    judged: u64,
    judged_at: Time,
    refusals: Refusals,
}

impl Who {
    pub fn principal(&self) -> Principal {
        match self {
            Who::Socket(_) => Principal::Socket,
            Who::Token(name, _) => Principal::Token(name.clone()),
            Who::Certificate(name, _) => Principal::Certificate(name.clone()),
            Who::Ticket(ticket) => ticket.principal(),
            Who::Anonymous => Principal::Anonymous,
        }
    }

    pub fn by(&self) -> By {
        match self {
            Who::Socket(node) => By::Socket(node.0),
            Who::Token(name, _) => By::Token(name.as_str().to_owned()),
            Who::Certificate(name, _) => By::Certificate(name.as_str().to_owned()),
            Who::Ticket(ticket) => By::Ticket(ticket.name()),
            Who::Anonymous => By::Anonymous,
        }
    }
}

/// The one who came. ‡ Whoever may open the socket can read the disk: a token would take from him what he has. `socket`: the node at whose socket he came,
/// if he did; `cluster`: this one's id.
///
/// Errors: what he shows is not good, as far as this node knows.
pub fn who(
    rights: &Rights,
    (cluster, now_ms): (&str, u64),
    socket: Option<NodeId>,
    shown: Option<&Bearer>,
    certificate: Option<&ClientCertificate>,
) -> Result<Who, Refusal> {
    if let Some(node) = socket {
        return Ok(Who::Socket(node));
    }
    match shown {
        None => Ok(by_certificate(certificate).unwrap_or(Who::Anonymous)),
        Some(Bearer::Token(token)) => {
            rights.known(token, now_ms).ok_or_else(not_good)?;
            Ok(Who::Token(token.name.clone(), token.secret.hash()))
        }
        Some(Bearer::Ticket(text)) => {
            let ticket = rights.ticket(text, cluster, now_ms);
            let bad =
                |error: tickets::BadTicket| Refusal::new("unauthenticated", error.to_string());
            Ok(Who::Ticket(Arc::new(ticket.map_err(bad)?)))
        }
    }
}

fn by_certificate(certificate: Option<&ClientCertificate>) -> Option<Who> {
    let certificate = certificate?;
    let name = TokenName::new(&certificate.name).ok()?;
    Some(Who::Certificate(name, certificate.until_ms))
}

pub fn not_good() -> Refusal {
    Refusal::new("unauthenticated", NOT_GOOD)
}

/// May he do that? `on`: tokens are asked for.
pub fn judge(
    rights: &Rights,
    on: bool,
    now_ms: u64,
    who: &Who,
    asked: &Asked,
) -> Result<Pass, Refusal> {
    let session = Session::of(who.clone(), asked);
    session.judge(rights, on, now_ms)
}

impl Session {
    fn of(who: Who, asked: &Asked) -> Session {
        let mut needs = asked.needs();
        if mutation::is(Mutation::LogZeroCovered) {
            for need in needs.iter_mut().filter(|n| n.place == Place::Directory) {
                need.place = Place::Of(Resource::log("directory"));
            }
        }
        Session {
            who,
            needs,
            has_a_part: asked.has_a_part(),
            hands_out: asked.hands_out(),
        }
    }

    fn judge(&self, rights: &Rights, on: bool, now_ms: u64) -> Result<Pass, Refusal> {
        let pass = |only| {
            let who = self.who.clone();
            Ok(Pass { who, only })
        };
        let hands_out = self.hands_out && !mutation::is(Mutation::HandedOutByNobody);
        if !on && !hands_out {
            return pass(None);
        }
        let grants = match &self.who {
            Who::Token(name, hash) => {
                let entry = rights.still(name, hash, now_ms);
                Some(Cow::Borrowed(&entry.ok_or_else(not_good)?.grants))
            }
            Who::Certificate(name, until_ms) => {
                let entry = rights.bound(name, *until_ms, now_ms);
                entry.map(|entry| Cow::Borrowed(&entry.grants))
            }
            Who::Ticket(ticket) => {
                let grants = rights.of_ticket(ticket, now_ms);
                Some(Cow::Owned(grants.ok_or_else(ticket_is_over)?))
            }
            Who::Socket(_) | Who::Anonymous => None,
        };
        let grants = grants.as_deref();
        let principal = match (&self.who, grants) {
            (Who::Certificate(..), None) => Principal::Anonymous,
            (who, _) => who.principal(),
        };
        let denied = self
            .needs
            .iter()
            .find_map(|need| decide(&principal, grants, need).err());
        match (denied, grants) {
            (None, _) => pass(None),
            (Some(_), Some(grants)) if self.has_a_part => pass(Some(grants.clone())),
            (Some(denied), _) => Err(refusal(&denied, &self.who, now_ms)),
        }
    }
}

fn refusal(denied: &Denied, who: &Who, now_ms: u64) -> Refusal {
    if let (true, Who::Certificate(name, until_ms)) = (denied.is_for_want_of_a_token(), who) {
        let why = match now_ms < *until_ms {
            true => format!(
                "nothing is granted to certificate {name} here: logberg token bind-certificate {name} --allow …"
            ),
            false => format!("certificate {name} has expired: connect with a new one"),
        };
        return Refusal::new("unauthenticated", format!("{denied}; {why}"));
    }
    match denied.is_for_want_of_a_token() {
        true => Refusal::new(
            "unauthenticated",
            format!(
                "{denied}: say LOGBERG_TOKEN or --token-file, or ask at the socket in a node's directory"
            ),
        ),
        false => Refusal::new("forbidden", denied.to_string()),
    }
}

impl Gate {
    /// Remembers a connection, so that it can be judged again.
    pub fn enter(&mut self, conn: ConnId, who: &Who, asked: &Asked) {
        let session = Session::of(who.clone(), asked);
        // An asker that shows nothing is known by not being here; but for one who waits for what is told to everybody.
        if *who != Who::Anonymous || session.needs.is_empty() {
            self.sessions.insert(conn, session);
        }
    }

    pub fn who(&self, conn: ConnId) -> Who {
        let session = self.sessions.get(&conn);
        session.map_or(Who::Anonymous, |session| session.who.clone())
    }

    /// Forgets connections that are gone.
    pub fn forget(&mut self, is_open: impl Fn(ConnId) -> bool) {
        self.sessions.retain(|conn, _| is_open(*conn));
    }

    /// Whether all are to be judged again: log 0 says something new, or a second has passed in which one may have expired.
    pub fn is_due(&self, rights: &Rights, now: Time) -> bool {
        let again = !self.sessions.is_empty();
        self.judged != rights.switch.version || (again && now >= self.judged_at + AGAIN_EACH)
    }

    pub fn on_judged(&mut self, rights: &Rights, now: Time) {
        self.judged = rights.switch.version;
        self.judged_at = now;
    }

    /// Judges a connection again.
    pub fn judge_again(&self, conn: ConnId, rights: &Rights, now_ms: u64) -> Result<Pass, Refusal> {
        match self.sessions.get(&conn) {
            Some(session) => session.judge(rights, rights.switch.on, now_ms),
            None if rights.switch.on => Err(Refusal::new(
                "unauthenticated",
                "tokens are asked for now: say LOGBERG_TOKEN or --token-file",
            )),
            None => Ok(Pass {
                who: Who::Anonymous,
                only: None,
            }),
        }
    }

    /// Tells of a refusal: a line for each principal and second, and the count of those between.
    pub fn tell(&mut self, now: Time, who: &str, from: &str, what: &str, why: &Refusal) {
        if let Some(more) = self.refusals.note(now, who) {
            say(who, from, what, why, more);
        }
    }

    /// Tells of those that were counted and not told.
    pub fn tell_late(&mut self, now: Time) {
        for (who, more) in self.refusals.late(now) {
            tracing::warn!(target: "audit", who, more, "refused, and not told one by one");
        }
    }
}

fn say(who: &str, from: &str, what: &str, why: &Refusal, more: u64) {
    tracing::warn!(
        target: "audit", who, from, what, code = %why.code, why = why.sentence, more, "refused"
    );
}

/// Grants that touch nothing there is: no name of a log is empty.
pub fn no_grants() -> Grants {
    Grants::parse(["read on log/%20"]).expect("it is a grant")
}

impl Pass {
    /// Whether the log of this name is shown.
    pub fn shows_log(&self, name: &str) -> bool {
        let place = access::Place::Of(access::Resource::log(name));
        let only = self.only.as_ref();
        only.is_none_or(|grants| grants.iter().any(|grant| grant.touches(&place)))
    }
}
