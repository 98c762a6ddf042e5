//! The node's word on who may do what, for the doors beside it: they judge what comes to them by the same table and the same tokens.
//!
//! ```text
//!   log 0 ─ applied ─▶ the node ─ tell ─▶ RightsBoard ◀─ version, now ─ doors, on threads of their own
//! ```
//!
//! ‡ Until the node has said something nobody is served who would have to be asked for a token: see `Asks::NotKnown`.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use access::{
    Asked, Bearer, Denied, Grants, Need, Principal, SecretHash, TicketText, Token, TokenName,
    decide,
};
use ops::{ClientCertificate, Time};
use tickets::{PublicKey, Ticket};

use crate::refusals::Refused;

/// Whether doors ask for tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Asks {
    /// The node has not read log 0 yet, or what it has read may be old.
    #[default]
    NotKnown,
    Nothing,
    Tokens,
}

/// A token, as far as doors need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptToken {
    /// Its owner shows a client's certificate of its name, and no secret.
    pub by_certificate: bool,
    /// Each with the time until which it is good, in milliseconds since the beginning of 1970.
    pub hashes: Vec<(SecretHash, Option<u64>)>,
    pub grants: Grants,
    pub expires_ms: Option<u64>,
}

/// Whoever signs tickets, as far as doors need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptIssuer {
    pub keys: Vec<PublicKey>,
    /// The most that its tickets may.
    pub grants: Grants,
}

/// ‡ Which of them it is, is not told.
const NOT_GOOD: &str = "this token is not known here, has expired or was revoked";

/// All that doors are told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    pub asks: Asks,
    /// The node has heard nothing of log 0 for a while: nothing is read here that asks nobody.
    pub is_cut_off: bool,
    /// Log 0's time: no token is younger by a wall clock that was set back.
    pub clock_ms: u64,
    pub tokens: BTreeMap<String, KeptToken>,
    pub issuers: BTreeMap<String, KeptIssuer>,
    /// The cluster's id, which tickets name.
    pub cluster: String,
}

/// The token or ticket that somebody showed, when it was good.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Shown {
    #[default]
    Nothing,
    Token(TokenName, SecretHash),
    /// A client's certificate of that name, which holds until then, in milliseconds since the beginning of 1970. Whether anything was
    /// granted to it is looked up each time: if not, it is as nothing.
    Certificate(TokenName, u64),
    /// A ticket. ‡ Its issuer, that one's grants and the time are looked at each time.
    Ticket(Arc<Ticket>),
}

/// Why somebody may not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum No {
    /// Ask again in a moment: the node does not know yet.
    NotKnown,
    /// A token that is good is needed.
    Unauthenticated,
    Forbidden(Denied),
}

impl Shown {
    pub fn principal(&self) -> Principal {
        match self {
            Shown::Nothing => Principal::Anonymous,
            Shown::Token(name, _) => Principal::Token(name.clone()),
            Shown::Certificate(name, _) => Principal::Certificate(name.clone()),
            Shown::Ticket(ticket) => ticket.principal(),
        }
    }

    /// The certificate that a handshake showed.
    pub fn by_handshake(client: Option<&ClientCertificate>) -> Shown {
        let shown = client.and_then(|client| {
            let name = TokenName::new(&client.name).ok()?;
            Some(Shown::Certificate(name, client.until_ms))
        });
        shown.unwrap_or_default()
    }
}

impl KeptToken {
    /// Whose these grants are.
    pub fn principal(&self, name: TokenName) -> Principal {
        match self.by_certificate {
            true => Principal::Certificate(name),
            false => Principal::Token(name),
        }
    }

    fn is_in_force(&self, now_ms: u64) -> bool {
        self.expires_ms.is_none_or(|expires| expires > now_ms)
    }
}

impl Rights {
    fn now_ms(&self, wall_ms: u64) -> u64 {
        wall_ms.max(self.clock_ms)
    }

    /// Whether it has not expired.
    pub fn is_in_force(&self, kept: &KeptToken, wall_ms: u64) -> bool {
        kept.is_in_force(self.now_ms(wall_ms))
    }

    /// A token or ticket that is shown, if it is good now.
    ///
    /// Errors: why it is not, in a sentence.
    pub fn take(&self, shown: &Bearer, wall_ms: u64) -> Result<Shown, String> {
        match shown {
            Bearer::Token(token) => {
                let taken = self.take_token(token, wall_ms);
                taken.ok_or_else(|| NOT_GOOD.to_owned())
            }
            Bearer::Ticket(text) => self.take_ticket(text, wall_ms),
        }
    }

    fn take_ticket(&self, text: &TicketText, wall_ms: u64) -> Result<Shown, String> {
        let keys_of = |name: &str| Some(self.issuers.get(name)?.keys.as_slice());
        let ticket = tickets::check(text, &self.cluster, self.now_ms(wall_ms), keys_of);
        match ticket {
            Ok(ticket) => Ok(Shown::Ticket(Arc::new(ticket))),
            Err(error) => Err(error.to_string()),
        }
    }

    fn take_token(&self, token: &Token, wall_ms: u64) -> Option<Shown> {
        let now_ms = self.now_ms(wall_ms);
        let Some(kept) = self.tokens.get(token.name.as_str()) else {
            // ‡ A name that nobody has takes a comparison, too.
            let _ = SecretHash::of_bytes([0; 32]).is_of(&token.secret);
            return None;
        };
        // ‡ All are compared: which one fits takes no other time.
        let is_of = kept.hashes.iter().fold(false, |found, (hash, until)| {
            let is_good = until.is_none_or(|until| until > now_ms);
            (hash.is_of(&token.secret) & is_good) | found
        });
        let is_good = is_of && kept.is_in_force(now_ms);
        is_good.then(|| Shown::Token(token.name.clone(), token.secret.hash()))
    }

    /// The grants of what was shown, if it is good still.
    pub fn grants(&self, shown: &Shown, wall_ms: u64) -> Option<Cow<'_, Grants>> {
        let now_ms = self.now_ms(wall_ms);
        let (name, hash) = match shown {
            Shown::Nothing => return None,
            Shown::Token(name, hash) => (name, hash),
            Shown::Certificate(name, until_ms) => {
                let kept = self.tokens.get(name.as_str())?;
                let is_good = kept.by_certificate && now_ms < *until_ms;
                return (is_good && kept.is_in_force(now_ms))
                    .then_some(Cow::Borrowed(&kept.grants));
            }
            Shown::Ticket(ticket) => {
                let issuer = self.issuer_of(ticket, now_ms)?;
                return Some(Cow::Owned(ticket.within(&issuer.grants)));
            }
        };
        let kept = self.tokens.get(name.as_str())?;
        let is_good = |(known, until): &(SecretHash, Option<u64>)| {
            known == hash && until.is_none_or(|until| until > now_ms)
        };
        let is_good = kept.hashes.iter().any(is_good) && kept.is_in_force(now_ms);
        is_good.then_some(Cow::Borrowed(&kept.grants))
    }

    /// The issuer of a ticket that is good still.
    fn issuer_of(&self, ticket: &Ticket, now_ms: u64) -> Option<&KeptIssuer> {
        let issuer = self.issuers.get(ticket.issuer.as_str())?;
        ticket.is_good(&issuer.keys, now_ms).then_some(issuer)
    }

    /// Whether a ticket allows all of it. It says nothing of why not.
    fn ticket_allows(&self, shown: &Shown, needs: &[Need], wall_ms: u64) -> bool {
        let Shown::Ticket(ticket) = shown else {
            return false;
        };
        let issuer = self.issuer_of(ticket, self.now_ms(wall_ms));
        issuer.is_some_and(|issuer| {
            // ‡ The cut of both lists allows just what both allow, one by one.
            needs.iter().all(|need| {
                let allow = |grants: &Grants| grants.allow(need.operation, &need.place);
                allow(&ticket.said) && allow(&issuer.grants)
            })
        })
    }

    /// May that be asked by whoever showed this?
    pub fn judge(&self, shown: &Shown, asked: &Asked, wall_ms: u64) -> Result<(), No> {
        let needs = asked.needs();
        // A request that needs nothing is answered to anybody, also before it is known who is asked for what.
        if needs.is_empty() && !matches!(shown, Shown::Token(..) | Shown::Ticket(_)) {
            return Ok(());
        }
        match self.asks {
            Asks::Nothing => return Ok(()),
            Asks::NotKnown => return Err(No::NotKnown),
            Asks::Tokens => {}
        }
        if self.ticket_allows(shown, &needs, wall_ms) {
            return Ok(());
        }
        let grants = self.grants(shown, wall_ms);
        if grants.is_none() {
            return Err(No::Unauthenticated);
        }
        let principal = shown.principal();
        let denied = needs
            .iter()
            .find_map(|need| decide(&principal, grants.as_deref(), need).err());
        match denied {
            None => Ok(()),
            Some(denied) => Err(No::Forbidden(denied)),
        }
    }
}

/// A change that somebody asked for at a door, and that log 0 is to remember.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoorNote {
    pub who: Principal,
    /// The address from which the asker came.
    pub from: String,
    pub what: String,
}

/// The time for which a node goes by what it knows of rights, without a word of those that agree on them.
pub const RIGHTS_KNOWN_FOR: Duration = Duration::from_secs(60);

/// So many notes wait for the node; the oldest makes room.
const NOTES_MAX: usize = 256;

/// The place where a node tells and doors look.
#[derive(Debug, Default)]
pub struct RightsBoard {
    version: AtomicU64,
    asks_nothing: AtomicBool,
    /// The node's clock when it was here last, in microseconds; 0 before.
    renewed_us: AtomicU64,
    rights: Mutex<Arc<Rights>>,
    has_notes: AtomicBool,
    notes: Mutex<VecDeque<DoorNote>>,
    /// What the door for clients of keys refused, and the one over HTTP.
    pub refused_keys: Refused,
    pub refused_http: Refused,
}

impl RightsBoard {
    pub fn tell(&self, rights: Rights) {
        let mut told = self.rights.lock().unwrap_or_else(PoisonError::into_inner);
        let asks_nothing = rights.asks == Asks::Nothing;
        *told = Arc::new(rights);
        self.asks_nothing.store(asks_nothing, Ordering::Release);
        self.version.fetch_add(1, Ordering::Release);
    }

    /// The node was here, whether it tells something else or not.
    pub fn renew(&self, now: Time) {
        self.renewed_us.store(now.as_micros(), Ordering::Release);
    }

    /// ‡ Whether what the node told is too old to go by. A process that stood still goes on everywhere at once, and its doors may be asked before
    /// the node looks at the time.
    pub fn is_old(&self, now: Time) -> bool {
        let renewed_us = self.renewed_us.load(Ordering::Acquire);
        renewed_us > 0 && now >= Time::from_micros(renewed_us) + RIGHTS_KNOWN_FOR
    }

    /// Leaves a note for the node.
    pub fn note(&self, note: DoorNote) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.len() >= NOTES_MAX {
            notes.pop_front();
        }
        notes.push_back(note);
        self.has_notes.store(true, Ordering::Release);
    }

    /// Takes all notes that doors have left.
    pub fn take_notes(&self) -> Vec<DoorNote> {
        if !self.has_notes.swap(false, Ordering::Acquire) {
            return Vec::new();
        }
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.drain(..).collect()
    }

    /// Another number once something else was told.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Whether nobody is asked for a token: then nothing else need be looked at.
    pub fn asks_nothing(&self) -> bool {
        self.asks_nothing.load(Ordering::Acquire)
    }

    pub fn now(&self) -> Arc<Rights> {
        let told = self.rights.lock().unwrap_or_else(PoisonError::into_inner);
        told.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use access::Secret;

    #[test]
    fn what_was_told_is_old_once_the_node_was_not_here_for_a_minute() {
        let board = RightsBoard::default();
        let at = |seconds: u64| Time::from_micros(seconds * 1_000_000);
        assert!(!board.is_old(at(1_000)), "nothing was told yet");
        board.renew(at(1_000));
        assert!(!board.is_old(at(999)) && !board.is_old(at(1_059)));
        assert!(board.is_old(at(1_060)));
        board.renew(at(1_060));
        assert!(!board.is_old(at(1_061)));
    }

    fn token(draw: u8) -> Token {
        Token {
            name: TokenName::new("ci").expect("a name"),
            secret: Secret::new([draw; 32]),
        }
    }

    fn rights() -> Rights {
        let kept = KeptToken {
            by_certificate: false,
            hashes: vec![
                (token(1).secret.hash(), None),
                (token(2).secret.hash(), Some(50)),
            ],
            grants: Grants::parse(["read on key/a*"]).expect("grants"),
            expires_ms: Some(100),
        };
        Rights {
            asks: Asks::Tokens,
            clock_ms: 10,
            tokens: BTreeMap::from([("ci".to_owned(), kept)]),
            ..Rights::default()
        }
    }

    #[test]
    fn a_door_judges_by_what_was_shown_and_by_the_time() {
        let rights = rights();
        let read = Asked::ReadKeys(vec![b"ab"]);
        let write = Asked::WriteKeys(vec![b"ab"]);
        let shown = rights.take_token(&token(1), 20).expect("it is good");
        assert_eq!(rights.judge(&shown, &read, 20), Ok(()));
        assert!(matches!(
            rights.judge(&shown, &write, 20),
            Err(No::Forbidden(_))
        ));
        assert_eq!(rights.judge(&shown, &read, 100), Err(No::Unauthenticated));
        assert_eq!(rights.take_token(&token(3), 20), None);
        let old = rights.take_token(&token(2), 20).expect("it overlaps");
        assert_eq!(rights.judge(&old, &read, 50), Err(No::Unauthenticated));
        let nothing = Shown::Nothing;
        assert_eq!(rights.judge(&nothing, &read, 20), Err(No::Unauthenticated));
        assert_eq!(rights.judge(&nothing, &Asked::Health, 20), Ok(()));
        // A wall clock that was set back is none.
        let late = Rights {
            clock_ms: 100,
            ..rights
        };
        assert_eq!(late.judge(&shown, &read, 0), Err(No::Unauthenticated));
    }

    #[test]
    fn a_certificate_is_somebody_once_it_is_bound_and_until_either_ends() {
        let alice = |until_ms| {
            let name = "alice".to_owned();
            Shown::by_handshake(Some(&ClientCertificate { name, until_ms }))
        };
        let read = Asked::ReadKeys(vec![b"ab"]);
        let mut rights = rights();
        let unbound = rights.judge(&alice(80), &read, 20);
        assert_eq!(unbound, Err(No::Unauthenticated));
        assert_eq!(rights.judge(&alice(80), &Asked::Health, 20), Ok(()));
        let bound = KeptToken {
            by_certificate: true,
            hashes: Vec::new(),
            ..rights.tokens["ci"].clone()
        };
        rights.tokens.insert("alice".to_owned(), bound);
        assert_eq!(rights.judge(&alice(80), &read, 20), Ok(()));
        let write = rights.judge(&alice(80), &Asked::WriteKeys(vec![b"ab"]), 20);
        let Err(No::Forbidden(denied)) = write else {
            panic!("{write:?}");
        };
        assert!(denied.to_string().contains("certificate `alice`"));
        // The certificate ends, or what was bound to it does.
        assert_eq!(
            rights.judge(&alice(80), &read, 80),
            Err(No::Unauthenticated)
        );
        assert_eq!(
            rights.judge(&alice(800), &read, 100),
            Err(No::Unauthenticated)
        );
        // ‡ A token of that name is no certificate's, and no secret opens what is a certificate's.
        let ci = ClientCertificate {
            name: "ci".to_owned(),
            until_ms: 80,
        };
        let ci = Shown::by_handshake(Some(&ci));
        assert_eq!(rights.judge(&ci, &read, 20), Err(No::Unauthenticated));
        let mut token = token(1);
        token.name = TokenName::new("alice").expect("a name");
        assert_eq!(rights.take_token(&token, 20), None);
        let hash = Shown::Token(token.name, token.secret.hash());
        assert_eq!(rights.judge(&hash, &read, 20), Err(No::Unauthenticated));
    }

    #[test]
    fn nobody_is_served_before_the_node_has_said_something() {
        let board = RightsBoard::default();
        let read = Asked::ReadKeys(vec![b"a"]);
        let judged = board.now().judge(&Shown::Nothing, &read, 1);
        assert_eq!(judged, Err(No::NotKnown));
        let before = board.version();
        let (asks, rights) = (Asks::Nothing, rights());
        board.tell(Rights { asks, ..rights });
        assert_ne!(board.version(), before);
        assert_eq!(board.now().judge(&Shown::Nothing, &read, 1), Ok(()));
    }
}
