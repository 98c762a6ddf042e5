//! `issuers`, `put-issuer`, `remove-issuer`: whoever signs tickets for users of its own.

use formats::version;
use tickets::PublicKey;
use wire::ask::Ask;
use wire::told::IssuerTold;
use wire::{Refusal, Request};

use super::awaiting::{Answer, Commands, Want, perhaps_done};
use super::tokens::{check_name, overtaken, refuse, too_old, typed};
use crate::directory::Command;
use crate::directory::issuers::IssuerEntry;
use crate::directory::tokens::{By, NotPut, Rights};
use crate::greeting::Caller;
use crate::node::Node;

struct IssuerList {
    name: Option<String>,
}

impl Want for IssuerList {
    fn answer(&mut self, node: &mut Node, _: &mut Commands) -> Answer {
        let issuers = &node.cluster.directory.rights.issuers;
        let Some(name) = &self.name else {
            let all = issuers.iter().map(|(name, entry)| told(name, entry));
            return Answer::List(wire::ok(&all.collect::<Vec<_>>()));
        };
        match issuers.get(name) {
            Some(entry) => Answer::List(wire::ok(&[told(name, entry)])),
            None => Answer::Line(refuse(NotPut::UnknownIssuer(name.clone())).encode()),
        }
    }
}

struct Change {
    asked: Ask,
    by: By,
    from: String,
    /// The command, once it is proposed.
    proposed: Option<Command>,
}

impl Want for Change {
    fn answer(&mut self, node: &mut Node, commands: &mut Commands) -> Answer {
        let rights = &node.cluster.directory.rights;
        if let Some(proposed) = &self.proposed {
            return match done(rights, proposed) {
                Some(line) => Answer::Line(line),
                None if !node.logs.can_direct() => Answer::Wait,
                None if !node.cluster.has_applied_its_own(&node.logs) => Answer::Wait,
                None => Answer::Line(overtaken("logberg issuer list").encode()),
            };
        }
        if !node.logs.can_direct() {
            return Answer::Wait;
        }
        if node.cluster.directory.versions.agreed < version::TOKENS {
            return Answer::Line(too_old().encode());
        }
        match work_out(rights, &self.asked, (&self.by, &self.from), node.now_ms()) {
            Ok(Worked::Done(line)) => Answer::Line(line),
            Ok(Worked::Propose(command)) => {
                let what = match &command {
                    Command::PutIssuer { name, entry, .. } => {
                        format!("issuer {name}: {}", entry.grants)
                    }
                    Command::RemoveIssuer { name, .. } => format!("issuer {name} is removed"),
                    _ => String::new(),
                };
                tracing::info!(target: "audit", by = %self.by, from = self.from, what, "a change");
                commands.push(command.clone());
                self.proposed = Some(command);
                Answer::Wait
            }
            Err(refusal) => Answer::Line(refusal.encode()),
        }
    }

    fn when_done(&self, node: &Node) -> Option<Vec<u8>> {
        done(&node.cluster.directory.rights, self.proposed.as_ref()?)
    }

    fn on_late(&self, _: &Node, refusal: Refusal) -> Refusal {
        match self.proposed {
            Some(_) => perhaps_done("look with `logberg issuer list`"),
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

fn work_out(
    rights: &Rights,
    asked: &Ask,
    (by, from): (&By, &str),
    at_ms: u64,
) -> Result<Worked, Refusal> {
    let (by, from) = (by.clone(), from.to_owned());
    match asked {
        Ask::PutIssuer {
            name,
            keys,
            grants,
            replace,
        } => {
            check_name(name)?;
            let bad = |error: tickets::BadKey| Refusal::new("bad-request", error.to_string());
            let keys = keys.iter().map(|key| key.parse().map_err(bad));
            let entry = IssuerEntry {
                keys: keys.collect::<Result<Vec<PublicKey>, Refusal>>()?,
                grants: typed(grants)?,
                by,
                at_ms,
            };
            if let Some(known) = rights.issuers.get(name) {
                // The same question again, whose answer was lost.
                if known.is_alike(&entry) {
                    return Ok(Worked::Done(told_line(name, known)));
                }
                if !replace {
                    let sentence = format!(
                        "there is an issuer {name}: choose another name, or say --replace to change its keys and grants to these"
                    );
                    return Err(Refusal::new("exists", sentence));
                }
            }
            rights.check_put_issuer(name, &entry).map_err(refuse)?;
            Ok(Worked::Propose(Command::PutIssuer {
                name: name.clone(),
                entry,
                from,
            }))
        }
        Ask::RemoveIssuer { name, plan } => {
            let entry = rights.issuers.get(name);
            let entry = entry.ok_or_else(|| refuse(NotPut::UnknownIssuer(name.clone())))?;
            let checked = rights.check_remove_issuer(name, &by, at_ms);
            checked.map_err(refuse)?;
            match plan {
                true => Ok(Worked::Done(told_line(name, entry))),
                false => Ok(Worked::Propose(Command::RemoveIssuer {
                    name: name.clone(),
                    by,
                    from,
                    at_ms,
                })),
            }
        }
        _ => Err(Refusal::new("bad-request", "this changes no issuer")),
    }
}

/// The answer, if that command has taken effect.
fn done(rights: &Rights, proposed: &Command) -> Option<Vec<u8>> {
    match proposed {
        Command::PutIssuer { name, entry, .. } => {
            let known = rights.issuers.get(name)?;
            (known == entry).then(|| told_line(name, known))
        }
        Command::RemoveIssuer { name, at_ms, .. } => {
            let known = rights.issuers.get(name);
            // Another one of that name may have been made since.
            let is_gone = known.is_none_or(|known| known.at_ms > *at_ms);
            let told = serde_json::json!({ "name": name });
            is_gone.then(|| wire::ok(&told).into_bytes())
        }
        _ => None,
    }
}

fn told(name: &str, entry: &IssuerEntry) -> IssuerTold {
    IssuerTold {
        name: name.to_owned(),
        keys: entry.keys.iter().map(ToString::to_string).collect(),
        grants: entry.grants.iter().map(ToString::to_string).collect(),
        by: entry.by.to_string(),
        changed_ms: entry.at_ms,
    }
}

fn told_line(name: &str, entry: &IssuerEntry) -> Vec<u8> {
    wire::ok(&told(name, entry)).into_bytes()
}

impl Node {
    /// `issuers [name=NAME]`
    pub(super) fn list_issuers(&mut self, caller: &Caller) -> Result<(), Refusal> {
        let request: &Request = &caller.request;
        request.check()?;
        let name = request.get("name").map(str::to_owned);
        self.tell_fresh(caller, IssuerList { name })
    }

    /// `put-issuer NAME keys=… grants=… [replace=1]`, `remove-issuer NAME [plan=1]`
    pub(super) fn change_issuers(&mut self, caller: &Caller) -> Result<(), Refusal> {
        let change = Change {
            asked: Ask::read(&caller.request)?,
            by: self.gate.who(caller.conn).by(),
            from: caller.from.clone(),
            proposed: None,
        };
        self.await_directory(caller, change)
    }
}
