//! `tokens`, `whoami`, `explain`, `audit`: who there is, and who may do what.

use std::ops::Bound::{Excluded, Unbounded};

use access::{Grants, Need, Operation, Place, Principal, Resource, TokenName, decide};
use ops::ConnId;
use wire::Refusal;
use wire::told::{ChangeTold, Explained, TokenTold, WhoTold};

use super::awaiting::{Answer, Commands, Want};
use super::tokens::{TokenList, told};
use crate::directory::DIRECTORY_NAME;
use crate::gate::Who;
use crate::greeting::Caller;
use crate::node::Node;

impl Want for TokenList {
    fn answer(&mut self, node: &mut Node, _: &mut Commands) -> Answer {
        let tokens = &node.cluster.directory.rights.tokens;
        let now_ms = node.now_ms();
        if let Some(name) = &self.name {
            return match tokens.get(name) {
                Some(entry) => Answer::List(wire::ok(&[told(name, entry, now_ms)])),
                None => Answer::Line(unknown_token(name).encode()),
            };
        }
        let from = self.after.as_ref().map_or(Unbounded, Excluded);
        let some = tokens
            .range::<String, _>((from, Unbounded))
            .take(self.limit);
        let some = some.map(|(name, entry)| told(name, entry, now_ms));
        let some: Vec<TokenTold> = some.collect();
        Answer::List(wire::ok(&some))
    }
}

struct WhoAmI(ConnId);

impl Want for WhoAmI {
    fn answer(&mut self, node: &mut Node, _: &mut Commands) -> Answer {
        let rights = &node.cluster.directory.rights;
        let who = node.gate.who(self.0);
        let now_ms = node.now_ms();
        let entry = match &who {
            Who::Token(name, hash) => rights.still(name, hash, now_ms),
            Who::Certificate(name, until_ms) => rights.bound(name, *until_ms, now_ms),
            Who::Socket(_) | Who::Ticket(_) | Who::Anonymous => None,
        };
        let of_ticket = match &who {
            Who::Ticket(ticket) => Some((rights.of_ticket(ticket, now_ms), ticket.expires_ms)),
            _ => None,
        };
        let certificate = match &who {
            Who::Certificate(name, until_ms) => Some((name.as_str().to_owned(), *until_ms)),
            _ => None,
        };
        let principal = match (&who, entry) {
            (Who::Certificate(..), None) => Principal::Anonymous,
            (who, _) => who.principal(),
        };
        let texts = |grants: &Grants| grants.iter().map(ToString::to_string).collect();
        let by_ticket = of_ticket.as_ref().and_then(|(grants, _)| grants.as_ref());
        let grants = entry.map(|entry| &entry.grants).or(by_ticket).map(texts);
        let told = WhoTold {
            principal: named(&principal),
            certificate_until_ms: certificate.as_ref().map(|(_, until_ms)| *until_ms),
            certificate: certificate.map(|(name, _)| name),
            grants: grants.unwrap_or_default(),
            expires_ms: match &of_ticket {
                Some((_, expires_ms)) => Some(*expires_ms),
                None => entry.and_then(|entry| entry.expires_ms),
            },
            auth: rights.switch.on,
        };
        Answer::Line(wire::ok(&told).into_bytes())
    }
}

struct Explain {
    asker: ConnId,
    need: Need,
    token: Option<TokenName>,
}

impl Want for Explain {
    fn answer(&mut self, node: &mut Node, _: &mut Commands) -> Answer {
        let rights = &node.cluster.directory.rights;
        let mut of_ticket = None;
        let principal = match &self.token {
            Some(name) => match rights.tokens.get(name.as_str()) {
                Some(entry) if entry.by_certificate => Principal::Certificate(name.clone()),
                _ => Principal::Token(name.clone()),
            },
            None => match node.gate.who(self.asker) {
                // A certificate to which nothing is granted is nobody.
                Who::Certificate(name, until_ms)
                    if rights.bound(&name, until_ms, node.now_ms()).is_none() =>
                {
                    Principal::Anonymous
                }
                Who::Ticket(ticket) => {
                    of_ticket = rights.of_ticket(&ticket, node.now_ms());
                    ticket.principal()
                }
                who => who.principal(),
            },
        };
        let grants: Option<&Grants> = match &principal {
            Principal::Token(name) | Principal::Certificate(name) => {
                match rights.tokens.get(name.as_str()) {
                    Some(entry) if !entry.has_expired(node.now_ms()) => Some(&entry.grants),
                    Some(_) => {
                        let why = format!("token {name} has expired");
                        return explained(&principal, &self.need, false, why);
                    }
                    None => return Answer::Line(unknown_token(name.as_str()).encode()),
                }
            }
            Principal::Ticket(_) => of_ticket.as_ref(),
            Principal::Socket | Principal::Node(_) | Principal::Anonymous => None,
        };
        let decided = decide(&principal, grants, &self.need);
        match decided {
            Ok(()) => explained(&principal, &self.need, true, covering(grants, &self.need)),
            Err(_) if !rights.switch.on => {
                let why = "tokens are not asked for, so everybody may".to_owned();
                explained(&principal, &self.need, true, why)
            }
            Err(denied) => explained(&principal, &self.need, false, denied.to_string()),
        }
    }
}

fn explained(who: &Principal, need: &Need, allowed: bool, why: String) -> Answer {
    let told = Explained {
        principal: named(who),
        operation: need.operation.to_string(),
        resource: need.place.to_string(),
        allowed,
        why,
    };
    Answer::Line(wire::ok(&told).into_bytes())
}

/// The grant by which it is allowed.
fn covering(grants: Option<&Grants>, need: &Need) -> String {
    let grants = grants.into_iter().flat_map(Grants::iter);
    let mut covering = grants.filter(|grant| grant.allows(need.operation, &need.place));
    match covering.next() {
        Some(grant) => format!("by '{grant}'"),
        None => "it needs no grant".to_owned(),
    }
}

fn named(who: &Principal) -> String {
    match who {
        Principal::Token(name) => format!("token {name}"),
        Principal::Certificate(name) => format!("certificate {name}"),
        Principal::Ticket(name) => format!("ticket {name}"),
        Principal::Socket => "socket".to_owned(),
        Principal::Node(id) => format!("node {id}"),
        Principal::Anonymous => "anonymous".to_owned(),
    }
}

struct Changes {
    limit: usize,
}

impl Want for Changes {
    fn answer(&mut self, node: &mut Node, _: &mut Commands) -> Answer {
        let changes = &node.cluster.directory.rights.switch.changes;
        let some = changes
            .iter()
            .skip(changes.len().saturating_sub(self.limit));
        let some = some.map(|change| ChangeTold {
            at_ms: change.at_ms,
            by: change.by.to_string(),
            from: change.from.clone(),
            what: change.what.clone(),
        });
        let some: Vec<ChangeTold> = some.collect();
        Answer::List(wire::ok(&some))
    }
}

impl Node {
    /// `tokens [name=NAME] [after=NAME] [limit=N]`
    pub(super) fn list_tokens(&mut self, caller: &Caller) -> Result<(), Refusal> {
        caller.request.check()?;
        let list = TokenList::asked(&caller.request)?;
        self.tell_fresh(caller, list)
    }

    /// `whoami`
    pub(super) fn tell_who(&mut self, caller: &Caller) -> Result<(), Refusal> {
        caller.request.check()?;
        self.tell_fresh(caller, WhoAmI(caller.conn))
    }

    /// `explain OPERATION RESOURCE [token=NAME]`
    pub(super) fn explain(&mut self, caller: &Caller) -> Result<(), Refusal> {
        let request = &caller.request;
        request.check()?;
        let bad = |sentence: String| Refusal::new("bad-request", sentence);
        let [operation, resource] = request.words.as_slice() else {
            let sentence =
                "explain is followed by an operation and a resource, such as `append log/main`";
            return Err(bad(sentence.to_owned()));
        };
        let known = Operation::ALL
            .iter()
            .find(|known| known.as_str() == operation);
        let operation = *known.ok_or_else(|| {
            let all: Vec<&str> = Operation::ALL.iter().map(|known| known.as_str()).collect();
            bad(format!(
                "{operation:?} is no operation: there are {}",
                all.join(", ")
            ))
        })?;
        let resource = Resource::parse(resource).map_err(|error| bad(error.to_string()))?;
        resource
            .check_form()
            .map_err(|error| bad(error.to_string()))?;
        let place = match resource == Resource::log(DIRECTORY_NAME) {
            true => Place::Directory,
            false => Place::Of(resource),
        };
        let token = request.get("token").map(TokenName::new).transpose();
        let explain = Explain {
            asker: caller.conn,
            need: Need { operation, place },
            token: token.map_err(|error| bad(error.to_string()))?,
        };
        self.tell_fresh(caller, explain)
    }

    /// `audit [limit=N]`
    pub(super) fn tell_changes(&mut self, caller: &Caller) -> Result<(), Refusal> {
        caller.request.check()?;
        let limit = replica::limit(&caller.request)?;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        self.tell_fresh(caller, Changes { limit })
    }
}

fn unknown_token(name: &str) -> Refusal {
    let sentence = format!("there is no token {name}; `logberg token list` lists them");
    Refusal::new("unknown-token", sentence)
}
