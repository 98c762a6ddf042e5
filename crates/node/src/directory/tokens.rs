//! The tokens of the cluster, whether they are asked for, and the last changes: a part of log 0.
//!
//! ```text
//!  put-token …  ─▶ Command, with who asked for it and the leader's time ─▶ chosen ─▶ applied on every node
//!                                                     ‡ within the grants of who asked, as they are *then*, or nothing
//! ```
//!
//! ‡ Whoever asked had his grants when the leader looked. They are looked at again when the command is applied: what was
//! revoked in between hands nothing out.

use std::collections::{BTreeMap, VecDeque};

use access::{Grant, Grants, Operation, Operations, SecretHash, Token, TokenName};
use formats::{LogId, hex, parse_hex};
use paxos::mutation::{self, Mutation};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::issuers::{ISSUERS_MAX, IssuerEntry, KEYS_MAX};
use super::{Command, Directory, worded};

/// So many tokens are kept.
pub const TOKENS_MAX: usize = 10_000;
/// The bytes of all grants together, as they are written: every node has them in memory.
pub const ALL_GRANTS_BYTES_MAX: usize = 16 << 20;
/// So many changes are kept.
pub const CHANGES_MAX: usize = 1_000;
/// The bytes of the text of one change …
pub const CHANGE_BYTES_MAX: usize = 400;
/// … and of the address from which it was asked for.
pub const FROM_BYTES_MAX: usize = 160;

/// A token as it is kept. Its secret is not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenEntry {
    /// One or two, the newest first; none of a certificate.
    pub hashes: Vec<Kept>,
    /// Its owner shows a client's certificate of its name, and no secret.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_certificate: bool,
    #[serde(serialize_with = "write_grants", deserialize_with = "read_grants")]
    pub grants: Grants,
    /// In milliseconds since the beginning of 1970; never, if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_ms: Option<u64>,
    /// It is for one node that joins, and for no other.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub once: bool,
    /// Who joins by it gets the name of that node, whose disk is lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<u32>,
    /// That node, once it has joined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined: Option<Joined>,
    pub by: By,
    pub at_ms: u64,
}

/// A node that joined with a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Joined {
    pub node: u32,
    /// Its disk, in hexadecimal. The same one is answered again.
    pub disk: String,
}

/// The hash of a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    #[serde(serialize_with = "write_hash", deserialize_with = "read_hash")]
    pub sha256: SecretHash,
    /// Until when it is good; as long as the token is, if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<u64>,
}

/// The asker of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// Somebody at the admin socket of this node.
    Socket(u32),
    Token(String),
    /// Somebody who showed a client's certificate of that name.
    Certificate(String),
    /// Somebody who showed a ticket: `ISSUER/SUBJECT`.
    Ticket(String),
    /// Somebody who showed nothing, while nothing was asked for.
    Anonymous,
}

impl std::fmt::Display for By {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            By::Socket(node) => write!(f, "socket of node {node}"),
            By::Token(name) => write!(f, "token {name}"),
            By::Certificate(name) => write!(f, "certificate {name}"),
            By::Ticket(name) => write!(f, "ticket {name}"),
            By::Anonymous => f.write_str("anonymous"),
        }
    }
}

/// A change that somebody asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    pub at_ms: u64,
    pub by: By,
    /// The address from which the asker came.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub from: String,
    pub what: String,
}

/// All that log 0 keeps of who may do what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    pub tokens: BTreeMap<String, TokenEntry>,
    /// Whoever signs tickets.
    pub issuers: BTreeMap<String, IssuerEntry>,
    pub switch: Switch,
}

/// The part of a snapshot beside the tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switch {
    /// Tokens are asked for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub on: bool,
    /// The latest time that a command brought, in milliseconds since the beginning of 1970.
    #[serde(default)]
    pub clock_ms: u64,
    /// Counts what happened to tokens and to `on`: who looks again sees whether there is anything new.
    #[serde(default)]
    pub version: u64,
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub changes: VecDeque<Change>,
}

/// Why a change of tokens is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotPut {
    #[error("{0}")]
    BadGrant(String),
    #[error("a token has one secret, or two for a while")]
    Hashes,
    #[error(
        "a certificate has no secret, joins no node, and has no use that is the only one: leave --once and --replaces away"
    )]
    Certificate,
    #[error(
        "{0} names a certificate, and a token is none: revoke it first, or choose another name"
    )]
    OtherKind(String),
    #[error("there is no token {0}; `logberg token list` lists them")]
    Unknown(String),
    #[error("{by} may not hand out '{grant}': nobody gives what he lacks")]
    Exceeds { by: By, grant: String },
    #[error(
        "{by} may not {deed} {what}, which may do more: '{grant}'; ask with a token that may do as much, or at the socket in a node's directory"
    )]
    Above {
        by: By,
        deed: &'static str,
        what: String,
        grant: String,
    },
    #[error(
        "{0} may not say whether tokens are asked for: that takes a token with 'all on *', or the socket in a node's directory"
    )]
    NotAll(By),
    #[error("{0} may not change tokens any more")]
    Lost(By),
    #[error(
        "a token that is good once is one that may join, and nothing else: say --allow 'join on cluster' alone, or leave --once away"
    )]
    Once,
    #[error("a token that gives a node's name to another one is good once: say --once, too")]
    Replaces,
    #[error("there is no issuer {0}; `logberg issuer list` lists them")]
    UnknownIssuer(String),
    #[error("an issuer has 1 to {KEYS_MAX} keys, each once: say --key for each of them")]
    Keys,
    #[error(
        "an issuer's tickets administer nothing, and '{0}' would: let it name logs, streams, keys or the status of the cluster, and hand out a token for the rest"
    )]
    Administers(String),
    #[error("there are {ISSUERS_MAX} issuers, and no more are kept: remove some")]
    ManyIssuers,
    #[error("there are {TOKENS_MAX} tokens, and no more are kept: revoke some")]
    Many,
    #[error(
        "the grants of all tokens have more than {ALL_GRANTS_BYTES_MAX} bytes: revoke some, or let one grant cover several by * at its end"
    )]
    Large,
    #[error(
        "no token may do all, or none has not expired: make one first, over the socket in a node's directory: logberg token create root --allow 'all on *' --server unix:DIR/admin.sock"
    )]
    NoneMayAll,
}

impl NotPut {
    /// As it is said where nothing is handed out, and another's token is to be changed.
    pub(super) fn of_another(self, deed: &'static str, what: &str) -> NotPut {
        let what = what.to_owned();
        match self {
            NotPut::Exceeds { by, grant } => NotPut::Above {
                by,
                deed,
                what,
                grant,
            },
            other => other,
        }
    }
}

impl TokenEntry {
    pub fn has_expired(&self, now_ms: u64) -> bool {
        let is_over = self.expires_ms.is_some_and(|expires| expires <= now_ms);
        is_over && !mutation::is(Mutation::ExpiredGoesOn)
    }

    /// Whether one of the hashes is of this secret, and good still.
    fn is_of(&self, token: &Token, now_ms: u64) -> bool {
        // ‡ All are compared: which one fits takes no other time.
        self.hashes.iter().fold(false, |found, kept| {
            (kept.is_of(token) & kept.is_good(now_ms)) | found
        })
    }

    /// Whether this hash is kept, and good still.
    fn has(&self, hash: &SecretHash, now_ms: u64) -> bool {
        self.hashes
            .iter()
            .any(|kept| kept.has(hash) && kept.is_good(now_ms))
    }
}

impl Kept {
    fn is_good(&self, now_ms: u64) -> bool {
        self.until_ms.is_none_or(|until| until > now_ms)
            || mutation::is(Mutation::OverlapWithoutEnd)
    }

    fn is_of(&self, token: &Token) -> bool {
        if mutation::is(Mutation::HashesComparedInPart) {
            return self.has(&token.secret.hash());
        }
        self.sha256.is_of(&token.secret)
    }

    fn has(&self, hash: &SecretHash) -> bool {
        match mutation::is(Mutation::HashesComparedInPart) {
            true => self.sha256.to_bytes()[0] == hash.to_bytes()[0],
            false => self.sha256 == *hash,
        }
    }
}

impl Rights {
    /// ‡ The time by which something expires: log 0's may stand still, and a wall clock may be set back.
    pub fn now_ms(&self, wall_ms: u64) -> u64 {
        match mutation::is(Mutation::ExpiryByTheWallAlone) {
            true => wall_ms,
            false => wall_ms.max(self.switch.clock_ms),
        }
    }

    /// The entry of a token that is shown, if it is good now.
    pub fn known(&self, token: &Token, now_ms: u64) -> Option<&TokenEntry> {
        let Some(entry) = self.tokens.get(token.name.as_str()) else {
            // ‡ A name that nobody has takes a comparison, too.
            let _ = SecretHash::of_bytes([0; 32]).is_of(&token.secret);
            return None;
        };
        let is_good = entry.is_of(token, now_ms) && !entry.has_expired(now_ms);
        is_good.then_some(entry)
    }

    /// The grants to a client's certificate of that name, if both are good now. `until_ms`: the certificate's end.
    pub fn bound(&self, name: &TokenName, until_ms: u64, now_ms: u64) -> Option<&TokenEntry> {
        let entry = self.tokens.get(name.as_str())?;
        let holds = now_ms < until_ms || mutation::is(Mutation::EndedCertificateGoesOn);
        (entry.by_certificate && holds && !entry.has_expired(now_ms)).then_some(entry)
    }

    /// The entry of a token that was shown before, by its hash, if it is good still.
    pub fn still(&self, name: &TokenName, hash: &SecretHash, now_ms: u64) -> Option<&TokenEntry> {
        let entry = self.tokens.get(name.as_str())?;
        (entry.has(hash, now_ms) && !entry.has_expired(now_ms)).then_some(entry)
    }

    /// The tokens that may do all, and have not expired.
    pub fn may_all(&self, now_ms: u64) -> impl Iterator<Item = &str> {
        let all = self.tokens.iter();
        let all = all.filter(move |(_, e)| e.grants.are_all() && !e.has_expired(now_ms));
        all.map(|(name, _)| name.as_str())
    }

    /// Whether this may be put there by whoever asks.
    pub fn check_put(&self, name: &str, entry: &TokenEntry) -> Result<(), NotPut> {
        match entry.by_certificate {
            true if !entry.hashes.is_empty() || entry.once => return Err(NotPut::Certificate),
            false if entry.hashes.is_empty() || entry.hashes.len() > 2 => {
                return Err(NotPut::Hashes);
            }
            true | false => {}
        }
        let may_join_alone =
            |grant: &Grant| grant.operations() == Operations::of(&[Operation::Join]);
        if entry.once && !entry.grants.iter().all(may_join_alone) {
            return Err(NotPut::Once);
        }
        if entry.replaces.is_some() && !entry.once {
            return Err(NotPut::Replaces);
        }
        let now = self.switch.clock_ms.max(entry.at_ms);
        let before = self.tokens.get(name);
        // ‡ Whoever gives another's token a new secret has its grants.
        if let Some(before) = before {
            // ‡ A name that is a certificate's by now has no secret that somebody gave to a token of that name.
            if before.by_certificate != entry.by_certificate {
                return Err(NotPut::OtherKind(name.to_owned()));
            }
            let within = self.check_within(&entry.by, &before.grants, now);
            within.map_err(|error| error.of_another("change", &format!("token {name}")))?;
        }
        self.check_within(&entry.by, &entry.grants, now)?;
        if before.is_none() && self.tokens.len() >= TOKENS_MAX {
            return Err(NotPut::Many);
        }
        let others = self.tokens.iter().filter(|(known, _)| *known != name);
        let bytes: usize = others.map(|(_, other)| grants_bytes(&other.grants)).sum();
        match bytes + grants_bytes(&entry.grants) > ALL_GRANTS_BYTES_MAX {
            true => Err(NotPut::Large),
            false => Ok(()),
        }
    }

    pub fn check_revoke(&self, name: &str, by: &By, at_ms: u64) -> Result<(), NotPut> {
        let entry = self.tokens.get(name);
        let entry = entry.ok_or_else(|| NotPut::Unknown(name.to_owned()))?;
        let within = self.check_within(by, &entry.grants, self.switch.clock_ms.max(at_ms));
        within.map_err(|error| error.of_another("revoke", &format!("token {name}")))
    }

    pub fn check_set(&self, on: bool, by: &By, at_ms: u64) -> Result<(), NotPut> {
        let now = self.switch.clock_ms.max(at_ms);
        let everything = Grants::parse(["all on *"]).expect("it is a grant");
        let within = self.check_within(by, &everything, now);
        within.map_err(|_| NotPut::NotAll(by.clone()))?;
        let has_one = self.may_all(now).next().is_some();
        match on && !has_one && !mutation::is(Mutation::AskedForThoughNoneMayAll) {
            true => Err(NotPut::NoneMayAll),
            false => Ok(()),
        }
    }

    /// ‡ Nobody hands out what he lacks, and nobody who has lost his own hands out anything.
    pub(super) fn check_within(&self, by: &By, grants: &Grants, now_ms: u64) -> Result<(), NotPut> {
        let (name, is_certificate) = match by {
            By::Socket(_) => return Ok(()),
            By::Anonymous if mutation::is(Mutation::HandedOutByNobody) => return Ok(()),
            By::Ticket(_) | By::Anonymous => return Err(NotPut::Lost(by.clone())),
            By::Token(name) => (name, false),
            By::Certificate(name) => (name, true),
        };
        let own = self.tokens.get(name);
        let own = own.filter(|own| own.by_certificate == is_certificate);
        let own = own.filter(|own| !own.has_expired(now_ms));
        let own = own.ok_or_else(|| NotPut::Lost(by.clone()))?;
        let tokens = access::Place::Of(access::Resource::cluster());
        if !own.grants.allow(access::Operation::Tokens, &tokens) {
            return Err(NotPut::Lost(by.clone()));
        }
        match own.grants.exceeded_by(grants) {
            Some(_) if mutation::is(Mutation::HandedOutWhatIsLacked) => Ok(()),
            Some(grant) => Err(NotPut::Exceeds {
                by: by.clone(),
                grant: grant.to_string(),
            }),
            None => Ok(()),
        }
    }

    pub(super) fn put(&mut self, name: &str, mut entry: TokenEntry, from: &str) {
        let is_within = self.check_put(name, &entry).is_ok();
        let is_right = is_within || mutation::is(Mutation::HandedOutWhenLost);
        let is_right = is_right && TokenName::new(name).is_ok();
        self.tick(entry.at_ms);
        if !is_right {
            return;
        }
        let verb = match self.tokens.get(name) {
            None if entry.by_certificate => "the certificate",
            Some(before) if before.hashes != entry.hashes => "the secret of token",
            Some(_) => "token",
            None => "the new token",
        };
        let what = format!("{verb} {name}: {}", entry.grants);
        self.note((&entry.by, from), entry.at_ms, &what);
        // ‡ Another secret of the same token lets in no other node.
        if let Some(before) = self.tokens.get(name) {
            entry.joined.clone_from(&before.joined);
        }
        self.tokens.insert(name.to_owned(), entry);
        self.switch.version += 1;
    }

    /// Whether a node with that disk may join by this token, which is good once.
    pub(super) fn lets_in(&self, name: &str, disk: &str) -> bool {
        let is_of_another = |joined: &Joined| joined.disk != disk;
        let entry = self.tokens.get(name);
        entry.is_some_and(|entry| {
            let is_used = entry.joined.as_ref().is_some_and(is_of_another);
            let is_used = is_used && !mutation::is(Mutation::OnceLetsInTwo);
            !is_used && !entry.has_expired(self.switch.clock_ms)
        })
    }

    /// A node has joined by this token.
    pub(super) fn has_let_in(&mut self, name: &str, node: u32, disk: &str) {
        if let Some(entry) = self.tokens.get_mut(name) {
            let disk = disk.to_owned();
            entry.joined = Some(Joined { node, disk });
        }
    }

    pub(super) fn revoke(&mut self, name: &str, (by, from): (&By, &str), at_ms: u64) {
        let is_right = self.check_revoke(name, by, at_ms).is_ok();
        self.tick(at_ms);
        if is_right {
            self.tokens.remove(name);
            self.note((by, from), at_ms, &format!("token {name} is revoked"));
            self.switch.version += 1;
        }
    }

    pub(super) fn set(&mut self, on: bool, (by, from): (&By, &str), at_ms: u64) {
        let is_right = self.check_set(on, by, at_ms).is_ok();
        self.tick(at_ms);
        if is_right && self.switch.on != on {
            self.switch.on = on;
            let what = match on {
                true => "tokens are asked for",
                false => "tokens are not asked for any more",
            };
            self.note((by, from), at_ms, what);
            self.switch.version += 1;
        }
    }

    /// Keeps a change in mind that is no token's.
    pub(super) fn note(&mut self, (by, from): (&By, &str), at_ms: u64, what: &str) {
        self.switch.changes.push_back(Change {
            at_ms,
            by: by.clone(),
            from: cut(from, FROM_BYTES_MAX),
            what: cut(what, CHANGE_BYTES_MAX),
        });
        while self.switch.changes.len() > CHANGES_MAX {
            self.switch.changes.pop_front();
        }
    }

    pub(super) fn tick(&mut self, at_ms: u64) {
        self.switch.clock_ms = self.switch.clock_ms.max(at_ms);
    }
}

/// The beginning of a text, of so many bytes or a few less.
fn cut(text: &str, bytes_max: usize) -> String {
    text[..text.floor_char_boundary(bytes_max)].to_owned()
}

fn grants_bytes(grants: &Grants) -> usize {
    grants.iter().map(|grant| grant.to_string().len()).sum()
}

/// Grants from their texts.
pub fn parse_grants(texts: &[String]) -> Result<Grants, NotPut> {
    let texts = texts.iter().map(String::as_str);
    Grants::parse(texts).map_err(|error| NotPut::BadGrant(error.to_string()))
}

pub(super) fn write_grants<S: Serializer>(grants: &Grants, to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(grants.iter().map(ToString::to_string))
}

pub(super) fn read_grants<'a, D: Deserializer<'a>>(from: D) -> Result<Grants, D::Error> {
    let texts = Vec::<String>::deserialize(from)?;
    parse_grants(&texts).map_err(serde::de::Error::custom)
}

fn write_hash<S: Serializer>(hash: &SecretHash, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&hex(&hash.to_bytes()))
}

fn read_hash<'a, D: Deserializer<'a>>(from: D) -> Result<SecretHash, D::Error> {
    let text = String::deserialize(from)?;
    let bytes = parse_hex(&text).map(SecretHash::of_bytes);
    bytes.ok_or_else(|| serde::de::Error::custom("a hash is 64 hexadecimal digits"))
}

impl Directory {
    /// A client's command in words, for the changes that are kept; none for those that say themselves who asked.
    pub fn said(&self, command: &Command) -> Option<String> {
        let name = |id: u32| {
            let entry = self.logs.get(&LogId(id));
            entry.map_or(format!("log {id}"), |entry| entry.name.clone())
        };
        Some(match command {
            Command::CreateLog { name, kind, .. } => format!("log {name} of kind {kind} is made"),
            Command::SealLog { id } => format!("log {} is to end", name(*id)),
            Command::DeleteLog { id } => format!("the name of log {} is freed", name(*id)),
            Command::SetRetention { log, retention } => format!("log {log} keeps {retention}"),
            Command::SetMinCopies { log, min_copies } => {
                format!("log {log} wants {min_copies} copies")
            }
            Command::ChangeMembers(change) => worded::members(change, name),
            Command::AddNode {
                id,
                address,
                certificate,
                replaces,
                ..
            } => {
                let named = certificate
                    .iter()
                    .map(|name| format!(", by its certificate {name}"));
                let replaced = replaces
                    .iter()
                    .map(|old| format!(", in the place of node {old}"));
                let more: String = named.chain(replaced).collect();
                format!("node {id} is at {address}{more}")
            }
            Command::NameNodes { names } => {
                let names = names.iter();
                let names: Vec<String> = names
                    .map(|(node, name)| format!("node {node} is {name}"))
                    .collect();
                format!("the certificates: {}", names.join(", "))
            }
            Command::SetZone { node, zone } => format!("node {node} is in zone {zone:?}"),
            Command::ChangeSlots { change, .. } => worded::slots(change, name),
            Command::DropSlots { .. } => "all groups of keys end".to_owned(),
            Command::SetVoters { voters } => format!("{voters} nodes vote"),
            Command::SetNewest { .. }
            | Command::PrepareVersion { .. }
            | Command::AgreeOnVersion { .. }
            | Command::DescribeNode { .. }
            | Command::RemoveNode { .. }
            | Command::ServeSlots { .. }
            | Command::PutToken { .. }
            | Command::RevokeToken { .. }
            | Command::PutIssuer { .. }
            | Command::RemoveIssuer { .. }
            | Command::SetAuth { .. }
            | Command::Note { .. }
            | Command::GoOnAlone { .. } => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: &str = "127.0.0.1:7";

    fn entry(grants: &str, by: By, at_ms: u64) -> TokenEntry {
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
            by,
            at_ms,
        }
    }

    fn of(name: &str) -> By {
        By::Token(name.to_owned())
    }

    /// ‡ The leader looked before, and something was chosen in between.
    #[test]
    fn what_an_asker_lacks_when_it_is_applied_is_not_handed_out() {
        let mut rights = Rights::default();
        rights.put("root", entry("all on *", By::Socket(1), 1), HERE);
        rights.put(
            "lead",
            entry("tokens on cluster;read on log/a*", of("root"), 2),
            HERE,
        );
        rights.put("a", entry("read on log/ab", of("lead"), 3), HERE);
        rights.put("b", entry("read on log/*", of("lead"), 4), HERE);
        rights.put("c", entry("read on log/ab", of("nobody"), 5), HERE);
        rights.put("d", entry("read on log/ab", By::Anonymous, 6), HERE);
        let names: Vec<&String> = rights.tokens.keys().collect();
        assert_eq!(names, ["a", "lead", "root"]);
        // Another's secret is his grants.
        rights.put("root", entry("read on log/ab", of("lead"), 7), HERE);
        rights.revoke("root", (&of("lead"), HERE), 8);
        assert!(rights.tokens["root"].grants.are_all());
        rights.revoke("lead", (&of("root"), HERE), 9);
        rights.put("e", entry("read on log/ab", of("lead"), 10), HERE);
        assert!(
            !rights.tokens.contains_key("e"),
            "it was revoked in between"
        );
        assert_eq!(rights.switch.clock_ms, 10, "time goes on all the same");
    }

    /// ‡ One list of names: else a token of a certificate's name would change what that may.
    #[test]
    fn a_certificate_and_a_token_are_not_taken_for_one_another() {
        let mut rights = Rights::default();
        let bound = |grants, by, at_ms| TokenEntry {
            hashes: Vec::new(),
            by_certificate: true,
            ..entry(grants, by, at_ms)
        };
        rights.put("root", bound("all on *", By::Socket(1), 1), HERE);
        rights.put("root", entry("all on *", By::Socket(1), 2), HERE);
        assert!(
            rights.tokens["root"].by_certificate,
            "no secret was put there"
        );
        rights.put("a", entry("read on log/a", of("root"), 3), HERE);
        assert!(rights.tokens.len() == 1, "a token root has no grants");
        let by = By::Certificate("root".to_owned());
        rights.put("a", entry("tokens on cluster", by.clone(), 4), HERE);
        rights.put("a", bound("tokens on cluster", by, 5), HERE);
        assert!(!rights.tokens["a"].by_certificate);
        let secret = TokenEntry {
            by_certificate: true,
            ..entry("read on log/a", By::Socket(1), 6)
        };
        rights.put("b", secret, HERE);
        assert!(
            !rights.tokens.contains_key("b"),
            "a certificate has no secret"
        );
        let name = TokenName::new("root").expect("a name");
        assert!(rights.bound(&name, 50, 49).is_some());
        assert!(rights.bound(&name, 50, 50).is_none(), "it has ended");
        let token = TokenName::new("a").expect("a name");
        assert!(rights.bound(&token, 50, 49).is_none());
    }

    #[test]
    fn nobody_enables_what_locks_everybody_out_and_only_who_may_all_disables() {
        let mut rights = Rights::default();
        rights.set(true, (&By::Socket(1), HERE), 1);
        assert!(!rights.switch.on, "no token may all");
        let short = TokenEntry {
            expires_ms: Some(5),
            ..entry("all on *", By::Socket(1), 2)
        };
        rights.put("short", short, HERE);
        rights.set(true, (&By::Socket(1), HERE), 5);
        assert!(!rights.switch.on, "it has expired by then");
        rights.put("root", entry("all on *", By::Socket(1), 6), HERE);
        rights.put(
            "lead",
            entry("members on *;tokens on cluster", By::Socket(1), 7),
            HERE,
        );
        rights.set(true, (&of("root"), HERE), 8);
        assert!(rights.switch.on);
        rights.set(false, (&of("lead"), HERE), 9);
        rights.set(false, (&By::Anonymous, HERE), 9);
        assert!(rights.switch.on);
        rights.set(false, (&of("root"), HERE), 10);
        assert!(!rights.switch.on);
    }

    #[test]
    fn the_later_of_two_clocks_ends_a_token() {
        let mut rights = Rights::default();
        let token = Token {
            name: TokenName::new("ci").expect("a name"),
            secret: access::Secret::new([1; 32]),
        };
        let entry = TokenEntry {
            hashes: vec![Kept {
                sha256: token.secret.hash(),
                until_ms: None,
            }],
            expires_ms: Some(100),
            ..entry("read on log/a", By::Socket(1), 1)
        };
        rights.put("ci", entry, HERE);
        assert!(rights.known(&token, rights.now_ms(99)).is_some());
        assert!(rights.known(&token, rights.now_ms(100)).is_none());
        rights.tick(100);
        let set_back = rights.now_ms(3);
        assert!(rights.known(&token, set_back).is_none());
    }

    #[test]
    fn there_are_only_so_many_changes_and_each_is_short() {
        let mut rights = Rights::default();
        for number in 0..CHANGES_MAX as u64 + 5 {
            let long = "ä".repeat(CHANGE_BYTES_MAX);
            rights.note((&By::Anonymous, &long), number, &long);
        }
        let changes = &rights.switch.changes;
        assert_eq!(changes.len(), CHANGES_MAX);
        assert_eq!(changes[0].at_ms, 5);
        assert!(
            changes
                .iter()
                .all(|change| change.what.len() <= CHANGE_BYTES_MAX
                    && change.from.len() <= FROM_BYTES_MAX)
        );
    }
}
