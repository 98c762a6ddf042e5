//! May this principal do that; and if not, why.

use std::fmt;

use crate::grant::Grants;
use crate::operation::Operation;
use crate::resource::Place;
use crate::token::TokenName;

/// The one who asks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Principal {
    /// A node of the cluster, by its proven disk.
    Node(u64),
    /// The socket in a node's data directory: whoever may open that can read the disk as well.
    Socket,
    Token(TokenName),
    /// Whoever showed a client's certificate of that name, to which something was granted.
    Certificate(TokenName),
    /// Whoever showed a ticket that an issuer signed: `ISSUER/SUBJECT`.
    Ticket(String),
    /// Somebody who showed nothing.
    Anonymous,
}

impl Principal {
    /// ‡ The two that need no grant, so that nobody can lock himself out.
    pub fn may_all(&self) -> bool {
        matches!(self, Principal::Node(_) | Principal::Socket)
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Principal::Node(id) => write!(f, "node {id}"),
            Principal::Socket => f.write_str("the admin socket"),
            Principal::Token(name) => write!(f, "token `{name}`"),
            Principal::Certificate(name) => write!(f, "certificate `{name}`"),
            Principal::Ticket(name) => write!(f, "ticket `{name}`"),
            Principal::Anonymous => f.write_str("who shows no token"),
        }
    }
}

/// An operation, and what it is to be done to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    pub operation: Operation,
    pub place: Place,
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.operation, self.place)
    }
}

/// A refusal, and its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    who: Principal,
    need: Need,
    /// The operations that the principal may do instead.
    reason: Reason,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Reason {
    /// A token would be needed.
    NoToken,
    /// No grant of anybody covers it.
    OfNodesAlone,
    /// The principal may do this elsewhere.
    Elsewhere(Vec<String>),
    /// The principal may do other things there.
    OtherThings(Vec<String>),
    /// The principal may do nothing of the kind, and nothing there.
    Nothing,
}

/// Decides. `grants`: those of the principal, where it has any.
///
/// Errors: no, with the reason.
pub fn decide(who: &Principal, grants: Option<&Grants>, need: &Need) -> Result<(), Denied> {
    if who.may_all() {
        return Ok(());
    }
    let refuse = |reason| {
        let (who, need) = (who.clone(), need.clone());
        Err(Denied { who, need, reason })
    };
    let grants = match who {
        Principal::Token(_) | Principal::Certificate(_) | Principal::Ticket(_) => grants,
        Principal::Anonymous | Principal::Node(_) | Principal::Socket => None,
    };
    let Some(grants) = grants else {
        return refuse(Reason::NoToken);
    };
    if grants.allow(need.operation, &need.place) {
        return Ok(());
    }
    if need.place == Place::Directory {
        return refuse(Reason::OfNodesAlone);
    }
    let there = grants.iter().filter(|grant| grant.touches(&need.place));
    let there: Vec<String> = there.map(|grant| grant.operations().to_string()).collect();
    if !there.is_empty() {
        return refuse(Reason::OtherThings(there));
    }
    let same = grants
        .iter()
        .filter(|grant| grant.operations().has(need.operation));
    let same: Vec<String> = same.map(|grant| grant.resource().to_string()).collect();
    refuse(match same.is_empty() {
        true => Reason::Nothing,
        false => Reason::Elsewhere(same),
    })
}

impl Denied {
    /// A credential is missing, and not only a grant.
    pub fn is_for_want_of_a_token(&self) -> bool {
        self.reason == Reason::NoToken
    }

    /// ‡ No grant touches the thing at all: it is answered as if it were not there, else its names could be guessed.
    pub fn hides_the_place(&self) -> bool {
        matches!(self.reason, Reason::Elsewhere(_) | Reason::Nothing)
    }
}

/// So many of a list are shown.
const SHOWN_MAX: usize = 4;

fn listed(words: &[String]) -> String {
    let shown = words.iter().take(SHOWN_MAX).map(String::as_str);
    let more = match words.len() > SHOWN_MAX {
        true => " and more",
        false => "",
    };
    format!("{}{more}", shown.collect::<Vec<_>>().join(", "))
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Denied { who, need, reason } = self;
        let place = &need.place;
        let (may, of) = need.operation.phrase();
        let (is_cluster, is_everything) = match place {
            Place::Of(resource) => (resource.is_cluster(), resource.is_everything()),
            Place::Directory => (false, false),
        };
        let whole = (is_cluster || is_everything)
            .then(|| need.operation.phrase_of_all(is_everything))
            .flatten();
        let deed = whole.map_or(format!("{may} {of}{place}"), str::to_owned);
        match reason {
            Reason::NoToken => write!(f, "to {deed} needs a token"),
            Reason::OfNodesAlone => write!(
                f,
                "log 0 is read by nodes and over the admin socket alone, and {who} may not"
            ),
            Reason::Elsewhere(places) if whole.is_none() => {
                write!(f, "{who} may {may} {of}{}, not {of}{place}", listed(places))
            }
            Reason::OtherThings(operations) => {
                write!(f, "{who} may not {deed}, only {}", listed(operations))
            }
            Reason::Elsewhere(_) | Reason::Nothing => write!(f, "{who} may not {deed}"),
        }
    }
}

impl std::error::Error for Denied {}
