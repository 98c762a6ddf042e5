//! `put-token`, `rotate-token`, `revoke-token`, `set-auth`: log 0 is asked for a change of who may do what.
//!
//! ‡ The secret of a token is drawn by whoever asks, and never told: what comes here is its hash.

use access::{Grant, Grants, SecretHash, TokenName};
use formats::{parse_hex, version};
use wire::ask::Ask;
use wire::told::{AuthTold, TokenTold};
use wire::{Refusal, Request};

use super::awaiting::{Answer, Commands, Want, perhaps_done};
use crate::directory::Command;
use crate::directory::tokens::{By, Kept, NotPut, Rights, TokenEntry, parse_grants};
use crate::greeting::Caller;
use crate::node::Node;

/// No token overlaps longer with the secret before it.
const OVERLAP_MS_MAX: u64 = 30 * 86_400_000;

struct Change {
    asked: Ask,
    by: By,
    from: String,
    /// The command, once it is proposed.
    proposed: Option<Command>,
}

impl Want for Change {
    fn answer(&mut self, node: &mut Node, commands: &mut Commands) -> Answer {
        node.answer_rights(self, commands)
    }

    fn when_done(&self, node: &Node) -> Option<Vec<u8>> {
        done(&node.cluster.directory.rights, self.proposed.as_ref()?)
    }

    fn on_late(&self, _: &Node, refusal: Refusal) -> Refusal {
        match self.proposed {
            Some(_) => perhaps_done("look with `logberg token list` and `logberg auth whoami`"),
            None => refusal,
        }
    }
}

/// The work to be done.
enum Worked {
    /// It is so.
    Done(Vec<u8>),
    Propose(Command),
}

impl Node {
    /// `put-token NAME sha256=HEX grants=… [expires=MS] [once=1] [replaces=ID]`
    pub(super) fn put_token(&mut self, caller: &Caller) -> Result<(), Refusal> {
        self.change_rights(caller)
    }

    /// `rotate-token NAME sha256=HEX overlap=MS`
    pub(super) fn rotate_token(&mut self, caller: &Caller) -> Result<(), Refusal> {
        self.change_rights(caller)
    }

    /// `revoke-token NAME [plan=1]`
    pub(super) fn revoke_token(&mut self, caller: &Caller) -> Result<(), Refusal> {
        self.change_rights(caller)
    }

    /// `set-auth on|off [plan=1]`
    pub(super) fn set_auth(&mut self, caller: &Caller) -> Result<(), Refusal> {
        self.change_rights(caller)
    }

    fn change_rights(&mut self, caller: &Caller) -> Result<(), Refusal> {
        let asked = Ask::read(&caller.request)?;
        let by = self.gate.who(caller.conn).by();
        let proposed = None;
        let change = Change {
            asked,
            by,
            from: caller.from.clone(),
            proposed,
        };
        self.await_directory(caller, change)
    }

    /// Answers once the directory has the change.
    fn answer_rights(&self, change: &mut Change, commands: &mut Commands) -> Answer {
        let rights = &self.cluster.directory.rights;
        if let Some(proposed) = &change.proposed {
            return match done(rights, proposed) {
                Some(line) => Answer::Line(line),
                None if !self.logs.can_direct() => Answer::Wait,
                None if !self.cluster.has_applied_its_own(&self.logs) => Answer::Wait,
                None => Answer::Line(overtaken("logberg token list").encode()),
            };
        }
        if !self.logs.can_direct() {
            return Answer::Wait;
        }
        if self.cluster.directory.versions.agreed < version::TOKENS {
            return Answer::Line(too_old().encode());
        }
        match self.work_out_rights(&change.asked, (&change.by, &change.from)) {
            Ok(Worked::Done(line)) => Answer::Line(line),
            Ok(Worked::Propose(command)) => {
                let what = match &command {
                    Command::PutToken { name, entry, .. } => {
                        let kind = if entry.by_certificate {
                            "certificate"
                        } else {
                            "token"
                        };
                        format!("{kind} {name}: {}", entry.grants)
                    }
                    Command::RevokeToken { name, .. } => format!("token {name} is revoked"),
                    Command::SetAuth { on: true, .. } => "tokens are asked for".to_owned(),
                    _ => "tokens are not asked for any more".to_owned(),
                };
                tracing::info!(target: "audit", by = %change.by, from = change.from, what, "a change");
                commands.push(command.clone());
                change.proposed = Some(command);
                Answer::Wait
            }
            Err(refusal) => Answer::Line(refusal.encode()),
        }
    }

    fn work_out_rights(&self, asked: &Ask, (by, from): (&By, &str)) -> Result<Worked, Refusal> {
        let rights = &self.cluster.directory.rights;
        let at_ms = self.now_ms();
        let (by, from) = (by.clone(), from.to_owned());
        match asked {
            Ask::PutToken {
                name,
                sha256,
                grants,
                expires_ms,
                once,
                replaces,
            } => {
                check_name(name)?;
                let sha256 = sha256.as_deref().map(hash).transpose()?;
                let hashes = sha256.map(|sha256| Kept {
                    sha256,
                    until_ms: None,
                });
                let entry = TokenEntry {
                    by_certificate: hashes.is_none(),
                    hashes: hashes.into_iter().collect(),
                    grants: typed(grants)?,
                    expires_ms: *expires_ms,
                    once: *once,
                    replaces: *replaces,
                    joined: None,
                    by,
                    at_ms,
                };
                if entry.has_expired(at_ms) {
                    let sentence = "the token would have expired already: say a later time";
                    return Err(Refusal::new("bad-request", sentence));
                }
                if let Some(known) = rights.tokens.get(name) {
                    // The same question again, whose answer was lost.
                    let is_same = (&known.hashes, &known.grants, known.expires_ms)
                        == (&entry.hashes, &entry.grants, entry.expires_ms);
                    let is_same = is_same && known.by_certificate == entry.by_certificate;
                    let is_same =
                        is_same && (known.once, known.replaces) == (entry.once, entry.replaces);
                    let sentence = format!(
                        "there is a token {name}: choose another name, or revoke that one first (logberg token revoke {name})"
                    );
                    return match is_same {
                        true => Ok(Worked::Done(told_line(name, known, at_ms))),
                        false => Err(Refusal::new("exists", sentence)),
                    };
                }
                rights.check_put(name, &entry).map_err(refuse)?;
                Ok(Worked::Propose(Command::PutToken {
                    name: name.clone(),
                    entry,
                    from,
                }))
            }
            Ask::RotateToken {
                name,
                sha256,
                overlap_ms,
            } => {
                let sha256 = hash(sha256)?;
                if *overlap_ms > OVERLAP_MS_MAX {
                    let sentence = "two secrets are good for 30 days at most: say less";
                    return Err(Refusal::new("bad-request", sentence));
                }
                let known = rights.tokens.get(name);
                let known = known.ok_or_else(|| refuse(NotPut::Unknown(name.clone())))?;
                if known.by_certificate {
                    let sentence = format!(
                        "certificate {name} has no secret: a renewed certificate keeps its name (logberg certs client {name} --again)"
                    );
                    return Err(Refusal::new("bad-request", sentence));
                }
                let newest = known.hashes.first().map(|kept| kept.sha256);
                if newest == Some(sha256) {
                    return Ok(Worked::Done(told_line(name, known, at_ms)));
                }
                let mut hashes = vec![Kept {
                    sha256,
                    until_ms: None,
                }];
                let until_ms = at_ms.saturating_add(*overlap_ms);
                hashes.extend(newest.filter(|_| *overlap_ms > 0).map(|sha256| Kept {
                    sha256,
                    until_ms: Some(until_ms),
                }));
                let entry = TokenEntry {
                    hashes,
                    by,
                    at_ms,
                    ..known.clone()
                };
                rights.check_put(name, &entry).map_err(refuse)?;
                Ok(Worked::Propose(Command::PutToken {
                    name: name.clone(),
                    entry,
                    from,
                }))
            }
            Ask::RevokeToken { name, plan } => {
                let entry = rights.tokens.get(name);
                let entry = entry.ok_or_else(|| refuse(NotPut::Unknown(name.clone())))?;
                rights.check_revoke(name, &by, at_ms).map_err(refuse)?;
                match plan {
                    true => Ok(Worked::Done(told_line(name, entry, at_ms))),
                    false => Ok(Worked::Propose(Command::RevokeToken {
                        name: name.clone(),
                        by,
                        from,
                        at_ms,
                    })),
                }
            }
            Ask::SetAuth { on, plan } => {
                rights.check_set(*on, &by, at_ms).map_err(refuse)?;
                match *plan || rights.switch.on == *on {
                    true => Ok(Worked::Done(auth_line(rights, *on, *plan, at_ms))),
                    false => Ok(Worked::Propose(Command::SetAuth {
                        on: *on,
                        by,
                        from,
                        at_ms,
                    })),
                }
            }
            _ => Err(Refusal::new("bad-request", "this changes no token")),
        }
    }
}

/// The answer, if that command has taken effect.
fn done(rights: &Rights, proposed: &Command) -> Option<Vec<u8>> {
    match proposed {
        Command::PutToken { name, entry, .. } => {
            let known = rights.tokens.get(name)?;
            (known == entry).then(|| told_line(name, known, entry.at_ms))
        }
        Command::RevokeToken { name, at_ms, .. } => {
            let known = rights.tokens.get(name);
            // Another one of that name may have been made since.
            let is_gone = known.is_none_or(|known| known.at_ms > *at_ms);
            let told = serde_json::json!({ "name": name });
            is_gone.then(|| wire::ok(&told).into_bytes())
        }
        Command::SetAuth { on, at_ms, .. } => {
            (rights.switch.on == *on).then(|| auth_line(rights, *on, false, *at_ms))
        }
        _ => None,
    }
}

pub(super) fn told(name: &str, entry: &TokenEntry, now_ms: u64) -> TokenTold {
    TokenTold {
        name: name.to_owned(),
        by_certificate: entry.by_certificate,
        grants: entry.grants.iter().map(ToString::to_string).collect(),
        expires_ms: entry.expires_ms,
        has_expired: entry.has_expired(now_ms),
        overlap_until_ms: entry.hashes.get(1).and_then(|kept| kept.until_ms),
        once: entry.once,
        replaces: entry.replaces,
        joined: entry.joined.as_ref().map(|joined| joined.node),
        by: entry.by.to_string(),
        changed_ms: entry.at_ms,
    }
}

fn told_line(name: &str, entry: &TokenEntry, now_ms: u64) -> Vec<u8> {
    wire::ok(&told(name, entry, now_ms)).into_bytes()
}

fn auth_line(rights: &Rights, on: bool, plan: bool, now_ms: u64) -> Vec<u8> {
    let may_all = rights.may_all(now_ms).take(NAMED_MAX);
    let may_all = may_all.map(str::to_owned).collect();
    wire::ok(&AuthTold { on, plan, may_all }).into_bytes()
}

/// So many tokens that may do all are named.
const NAMED_MAX: usize = 100;

/// Grants as somebody has just typed them. ‡ What log 0 has is read as it is: a form that is refused by now may stand there.
pub(super) fn typed(grants: &[String]) -> Result<Grants, Refusal> {
    let grants = parse_grants(grants).map_err(refuse)?;
    let formed = grants.iter().try_for_each(Grant::check_form);
    formed.map_err(|error| Refusal::new("bad-request", error.to_string()))?;
    Ok(grants)
}

pub(super) fn check_name(name: &str) -> Result<(), Refusal> {
    let checked = TokenName::new(name);
    let refuse = |error: access::BadToken| Refusal::new("bad-request", error.to_string());
    checked.map(|_| ()).map_err(refuse)
}

fn hash(text: &str) -> Result<SecretHash, Refusal> {
    let hash = parse_hex(text).map(SecretHash::of_bytes);
    let sentence = "sha256 is the hash of a token's secret: 64 hex digits";
    hash.ok_or_else(|| Refusal::new("bad-request", sentence))
}

pub(super) fn refuse(error: NotPut) -> Refusal {
    let code = match &error {
        NotPut::BadGrant(_)
        | NotPut::Hashes
        | NotPut::Certificate
        | NotPut::Once
        | NotPut::Keys
        | NotPut::Administers(_)
        | NotPut::Replaces => "bad-request",
        NotPut::Unknown(_) => "unknown-token",
        NotPut::UnknownIssuer(_) => "unknown-issuer",
        NotPut::Exceeds { .. } | NotPut::Above { .. } | NotPut::NotAll(_) | NotPut::Lost(_) => {
            "forbidden"
        }
        NotPut::OtherKind(_) => "exists",
        NotPut::Many | NotPut::ManyIssuers | NotPut::Large | NotPut::NoneMayAll => "refused",
    };
    Refusal::new(code, error.to_string())
}

pub(super) fn overtaken(look: &str) -> Refusal {
    let sentence = format!(
        "it was not done, since another change of rights came before it: look with `{look}`, and ask again"
    );
    Refusal::new("refused", sentence)
}

pub(super) fn too_old() -> Refusal {
    let version = version::TOKENS;
    let sentence = format!(
        "tokens need version {version}, and this cluster has not agreed on it yet: start the newer program on every node, \
         and wait until `logberg status` shows version {version}"
    );
    Refusal::new("refused", sentence)
}

/// `[after=NAME] [limit=N]`, or `name=NAME`.
pub(super) struct TokenList {
    pub name: Option<String>,
    pub after: Option<String>,
    pub limit: usize,
}

impl TokenList {
    pub fn asked(request: &Request) -> Result<TokenList, Refusal> {
        let limit = replica::limit(request)?;
        Ok(TokenList {
            name: request.get("name").map(str::to_owned),
            after: request.get("after").map(str::to_owned),
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
        })
    }
}
