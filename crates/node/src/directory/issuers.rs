//! Issuers: whoever signs tickets for users of its own, by public keys that log 0 keeps. A part of [`Rights`].
//!
//! ‡ An issuer that is put there lies within the grants of who asked, when it is applied, as of tokens. And an issuer administers nothing: whoever
//! shows a ticket is somebody whom nobody here knows, and neither changes who may do what nor lets nodes in.

use access::{Grants, TicketText};
use paxos::mutation::{self, Mutation};
use serde::{Deserialize, Serialize};
use tickets::{BadTicket, PublicKey, Ticket, check};

use super::tokens::{By, NotPut, Rights, read_grants, write_grants};

/// So many issuers are kept, …
pub const ISSUERS_MAX: usize = 64;
/// … each with so many keys: the one that it signs with, those that it signed with before, and those of other machines.
pub const KEYS_MAX: usize = 4;

/// An issuer as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssuerEntry {
    /// One at least.
    pub keys: Vec<PublicKey>,
    /// The most that its tickets may.
    #[serde(serialize_with = "write_grants", deserialize_with = "read_grants")]
    pub grants: Grants,
    pub by: By,
    pub at_ms: u64,
}

impl IssuerEntry {
    /// Whether it says the same, whoever put it there.
    pub fn is_alike(&self, other: &IssuerEntry) -> bool {
        (&self.keys, &self.grants) == (&other.keys, &other.grants)
    }
}

impl Rights {
    /// A ticket that is shown, if it is good now.
    ///
    /// Errors: why it is not.
    pub fn ticket(
        &self,
        text: &TicketText,
        cluster: &str,
        now_ms: u64,
    ) -> Result<Ticket, BadTicket> {
        check(text, cluster, now_ms, |name| {
            self.issuers.get(name).map(|entry| entry.keys.as_slice())
        })
    }

    /// The grants of a ticket that was good when it was shown, as they are now. `None`: it is not good any more.
    pub fn of_ticket(&self, ticket: &Ticket, now_ms: u64) -> Option<Grants> {
        let entry = self.issuers.get(ticket.issuer.as_str())?;
        let now_ms = match mutation::is(Mutation::ExpiredTicketGoesOn) {
            true => ticket.issued_ms,
            false => now_ms,
        };
        if !ticket.is_good(&entry.keys, now_ms) {
            return None;
        }
        match mutation::is(Mutation::TicketNotCut) {
            true => Some(ticket.said.clone()),
            false => Some(ticket.within(&entry.grants)),
        }
    }

    /// Whether this may be put there by whoever asks.
    pub fn check_put_issuer(&self, name: &str, entry: &IssuerEntry) -> Result<(), NotPut> {
        let has_twice = (1..entry.keys.len()).any(|at| entry.keys[..at].contains(&entry.keys[at]));
        if entry.keys.is_empty() || entry.keys.len() > KEYS_MAX || has_twice {
            return Err(NotPut::Keys);
        }
        if let Some(grant) = entry.grants.administers() {
            return Err(NotPut::Administers(grant.to_string()));
        }
        let now = self.switch.clock_ms.max(entry.at_ms);
        let before = self.issuers.get(name);
        // ‡ Whoever gives another's issuer a new key has its grants.
        if let Some(before) = before {
            let within = self.check_within(&entry.by, &before.grants, now);
            within.map_err(|error| error.of_another("change", &format!("issuer {name}")))?;
        }
        self.check_within(&entry.by, &entry.grants, now)?;
        match before.is_none() && self.issuers.len() >= ISSUERS_MAX {
            true => Err(NotPut::ManyIssuers),
            false => Ok(()),
        }
    }

    pub fn check_remove_issuer(&self, name: &str, by: &By, at_ms: u64) -> Result<(), NotPut> {
        let entry = self.issuers.get(name);
        let entry = entry.ok_or_else(|| NotPut::UnknownIssuer(name.to_owned()))?;
        let within = self.check_within(by, &entry.grants, self.switch.clock_ms.max(at_ms));
        within.map_err(|error| error.of_another("remove", &format!("issuer {name}")))
    }

    pub(super) fn put_issuer(&mut self, name: &str, entry: IssuerEntry, from: &str) {
        let is_within = self.check_put_issuer(name, &entry).is_ok();
        let is_right = is_within || mutation::is(Mutation::HandedOutWhenLost);
        let is_right = is_right && access::TokenName::new(name).is_ok();
        self.tick(entry.at_ms);
        if !is_right {
            return;
        }
        let verb = match self.issuers.get(name) {
            None => "the new issuer",
            Some(before) if before.keys != entry.keys => "the keys of issuer",
            Some(_) => "issuer",
        };
        let what = format!("{verb} {name}: {}", entry.grants);
        self.note((&entry.by, from), entry.at_ms, &what);
        self.issuers.insert(name.to_owned(), entry);
        self.switch.version += 1;
    }

    pub(super) fn remove_issuer(&mut self, name: &str, (by, from): (&By, &str), at_ms: u64) {
        let is_right = self.check_remove_issuer(name, by, at_ms).is_ok();
        self.tick(at_ms);
        if is_right {
            self.issuers.remove(name);
            self.note((by, from), at_ms, &format!("issuer {name} is removed"));
            self.switch.version += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::tokens::{Kept, TokenEntry};
    use access::SecretHash;
    use tickets::SigningKey;

    const HERE: &str = "127.0.0.1:7";

    fn key(draw: u8) -> PublicKey {
        let key = SigningKey::of_seed(&[draw; 32]).expect("a key");
        key.public()
    }

    fn issuer(grants: &str, by: By, at_ms: u64) -> IssuerEntry {
        IssuerEntry {
            keys: vec![key(1)],
            grants: Grants::parse(grants.split(';')).expect("grants"),
            by,
            at_ms,
        }
    }

    fn token(grants: &str) -> TokenEntry {
        TokenEntry {
            hashes: vec![Kept {
                sha256: SecretHash::of_bytes([7; 32]),
                until_ms: None,
            }],
            by_certificate: false,
            grants: Grants::parse(grants.split(';')).expect("grants"),
            expires_ms: None,
            once: false,
            replaces: None,
            joined: None,
            by: By::Socket(1),
            at_ms: 1,
        }
    }

    fn of(name: &str) -> By {
        By::Token(name.to_owned())
    }

    #[test]
    fn an_issuer_lies_within_its_makers_grants_when_it_is_applied_and_administers_nothing() {
        let mut rights = Rights::default();
        rights.put("root", token("all on *"), HERE);
        rights.put("lead", token("tokens on cluster;read on log/a*"), HERE);
        rights.put_issuer("a", issuer("read on log/ab", of("lead"), 3), HERE);
        rights.put_issuer("b", issuer("read on log/*", of("lead"), 4), HERE);
        rights.put_issuer("c", issuer("read on log/ab", By::Anonymous, 5), HERE);
        let ticket = By::Ticket("a/alice".to_owned());
        rights.put_issuer("d", issuer("read on log/ab", ticket, 5), HERE);
        for grants in [
            "all on *",
            "tokens on cluster",
            "join on cluster",
            "members on *",
        ] {
            rights.put_issuer("e", issuer(grants, of("root"), 6), HERE);
        }
        let names: Vec<&String> = rights.issuers.keys().collect();
        assert_eq!(names, ["a"]);
        rights.put_issuer("big", issuer("read on *", of("root"), 7), HERE);
        // Another's key is its grants.
        let other = IssuerEntry {
            keys: vec![key(2)],
            ..issuer("read on log/ab", of("lead"), 8)
        };
        rights.put_issuer("big", other, HERE);
        rights.remove_issuer("big", (&of("lead"), HERE), 9);
        assert_eq!(rights.issuers["big"].keys, [key(1)]);
        rights.revoke("lead", (&of("root"), HERE), 10);
        rights.remove_issuer("a", (&of("lead"), HERE), 11);
        assert!(rights.issuers.contains_key("a"), "lead is revoked");
        rights.remove_issuer("a", (&of("root"), HERE), 12);
        assert!(!rights.issuers.contains_key("a"));
        let last = rights.switch.changes.back().expect("a change");
        assert_eq!(last.what, "issuer a is removed");
    }

    #[test]
    fn there_are_only_so_many_issuers_and_keys() {
        let mut rights = Rights::default();
        for number in 0..ISSUERS_MAX + 2 {
            let entry = issuer("read on log/a", By::Socket(1), 1);
            rights.put_issuer(&format!("i{number}"), entry, HERE);
        }
        assert_eq!(rights.issuers.len(), ISSUERS_MAX);
        let with = |keys: Vec<PublicKey>| IssuerEntry {
            keys,
            ..issuer("read on log/a", By::Socket(1), 2)
        };
        let checked = |keys| rights.check_put_issuer("i0", &with(keys));
        assert_eq!(checked((1..=4).map(key).collect()), Ok(()));
        assert_eq!(checked((1..=5).map(key).collect()), Err(NotPut::Keys));
        assert_eq!(checked(Vec::new()), Err(NotPut::Keys));
        assert_eq!(checked(vec![key(1), key(1)]), Err(NotPut::Keys));
    }
}
