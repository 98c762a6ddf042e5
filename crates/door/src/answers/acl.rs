//! ACL: who may do what, as the table of tokens has it (docs/security.md). It is changed by `logberg token` alone.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use access::{Asked, Grant, Grants, Principal, decide};
use kv::check_words;
use letters::{KeptToken, Rights, Shown};
use ops::Time;
use resp::Value;

use super::{error, is, no_subcommand, number, text, wrong_count};
use crate::guard::asked;

/// The one user that there is while nobody is asked for a token.
const DEFAULT: &str = "default";
/// As many as Redis keeps, and refusals that are alike within so long are one.
const ENTRIES_MAX: usize = 128;
const ALIKE_WITHIN: Duration = Duration::from_secs(60);
/// Those that are told, where no number is said.
const TOLD: usize = 10;

/// The last refusals at this door. The journal has them, too.
#[derive(Default)]
pub struct AclLog {
    /// The newest first.
    entries: VecDeque<Entry>,
    next: i64,
}

struct Entry {
    id: i64,
    count: i64,
    /// `auth`, `command` or `key`.
    reason: &'static str,
    object: String,
    who: String,
    from: String,
    at: Time,
    created_ms: u64,
    updated_ms: u64,
}

impl AclLog {
    pub fn note(
        &mut self,
        (now, wall_ms): (Time, u64),
        reason: &'static str,
        object: &str,
        (who, from): (&str, &str),
    ) {
        let is_alike = |entry: &Entry| {
            (entry.reason, entry.object.as_str(), entry.who.as_str()) == (reason, object, who)
                && now < entry.at + ALIKE_WITHIN
        };
        let known = self.entries.iter().position(is_alike);
        let mut entry = known
            .and_then(|at| self.entries.remove(at))
            .unwrap_or_else(|| {
                self.next += 1;
                Entry {
                    id: self.next - 1,
                    count: 0,
                    reason,
                    object: object.to_owned(),
                    who: who.to_owned(),
                    from: String::new(),
                    at: now,
                    created_ms: wall_ms,
                    updated_ms: wall_ms,
                }
            });
        entry.count += 1;
        entry.at = now;
        entry.updated_ms = wall_ms;
        entry.from = from.to_owned();
        self.entries.push_front(entry);
        self.entries.truncate(ENTRIES_MAX);
    }

    fn told(&self, count: usize, wall_ms: u64) -> Value {
        let entries = self.entries.iter().take(count);
        Value::Array(entries.map(|entry| entry.value(wall_ms)).collect())
    }
}

impl Entry {
    fn value(&self, wall_ms: u64) -> Value {
        let ms = |ms: u64| Value::Integer(i64::try_from(ms).unwrap_or(i64::MAX));
        let age = wall_ms.saturating_sub(self.created_ms);
        map([
            ("count", Value::Integer(self.count)),
            ("reason", text(self.reason)),
            ("context", text("toplevel")),
            ("object", text(self.object.clone())),
            ("username", text(self.who.clone())),
            ("age-seconds", Value::Double(age as f64 / 1e3)),
            ("client-info", text(format!("addr={}", self.from))),
            ("entry-id", Value::Integer(self.id)),
            ("timestamp-created", ms(self.created_ms)),
            ("timestamp-last-updated", ms(self.updated_ms)),
        ])
    }
}

fn map<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let fields = fields.into_iter();
    Value::Map(fields.map(|(name, value)| (text(name), value)).collect())
}

/// What a question about rights is answered from.
pub struct Acl<'a> {
    /// `None`: nobody is asked for a token.
    pub rights: Option<&'a Rights>,
    pub shown: &'a Shown,
    pub log: &'a mut AclLog,
    pub wall_ms: u64,
}

impl Acl<'_> {
    pub fn answer(self, words: &[&[u8]]) -> Value {
        let Some(subcommand) = words.get(1) else {
            return error("ERR wrong number of arguments for 'acl' command");
        };
        let name = String::from_utf8_lossy(subcommand).to_lowercase();
        match (name.as_str(), words.get(2..).unwrap_or_default()) {
            ("whoami", []) => text(self.whoami()),
            ("users", []) => Value::Array(self.names().into_iter().map(text).collect()),
            ("list", []) => self.list(),
            ("getuser", [name]) => self.user(name),
            ("cat", []) => categories(),
            ("cat", [category]) => of_category(category),
            ("dryrun", [name, command @ ..]) if !command.is_empty() => self.dry_run(name, command),
            ("log", []) => self.log.told(TOLD, self.wall_ms),
            ("log", [word]) if is(word, "reset") => {
                self.log.entries.clear();
                Value::OK
            }
            ("log", [count]) => match number(count) {
                Ok(count) => {
                    let count = usize::try_from(count).unwrap_or_default();
                    self.log.told(count, self.wall_ms)
                }
                Err(error) => error,
            },
            ("help", []) => help(),
            ("setuser" | "deluser" | "genpass" | "load" | "save", _) => changed_elsewhere(&name),
            ("whoami" | "users" | "list" | "getuser" | "cat" | "dryrun" | "log" | "help", _) => {
                wrong_count("acl", subcommand)
            }
            _ => no_subcommand("ACL", subcommand),
        }
    }

    fn whoami(&self) -> String {
        match (self.rights, self.shown) {
            (Some(_), Shown::Token(name, _)) => name.as_str().to_owned(),
            (Some(rights), Shown::Certificate(name, _))
                if rights.grants(self.shown, self.wall_ms).is_some() =>
            {
                name.as_str().to_owned()
            }
            (Some(_), Shown::Ticket(ticket)) => ticket.name(),
            _ => DEFAULT.to_owned(),
        }
    }

    fn names(&self) -> Vec<String> {
        match self.rights {
            Some(rights) => rights.tokens.keys().cloned().collect(),
            None => vec![DEFAULT.to_owned()],
        }
    }

    /// A line for each token: what `logberg token list` has.
    fn list(&self) -> Value {
        let Some(rights) = self.rights else {
            return Value::Array(vec![text("user default on nopass all on *")]);
        };
        let line = |(name, kept): (&String, &KeptToken)| {
            let grants: Vec<String> = kept.grants.iter().map(ToString::to_string).collect();
            let on = self.flag(rights, kept);
            text(format!("user {name} {on} {}", grants.join("; ")))
        };
        Value::Array(rights.tokens.iter().map(line).collect())
    }

    /// ‡ `off`: it has expired. No hash of a secret is told.
    fn flag(&self, rights: &Rights, kept: &KeptToken) -> &'static str {
        match rights.is_in_force(kept, self.wall_ms) {
            true => "on",
            false => "off",
        }
    }

    fn kept(&self, name: &[u8]) -> Option<(&Rights, &KeptToken)> {
        let rights = self.rights?;
        let kept = rights.tokens.get(std::str::from_utf8(name).ok()?)?;
        Some((rights, kept))
    }

    /// The ticket of that name, if it was shown here, and what it allows. ‡ Nobody else's is known.
    fn own_ticket(&self, name: &[u8]) -> Option<(Principal, Grants)> {
        let rights = self.rights?;
        let own = match self.shown {
            Shown::Ticket(ticket) if ticket.name().as_bytes() == name => ticket.principal(),
            _ => return None,
        };
        let grants = rights.grants(self.shown, self.wall_ms)?;
        Some((own, grants.into_owned()))
    }

    fn user(&self, name: &[u8]) -> Value {
        let all = || ("on", vec!["all on *".to_owned()], "~*".to_owned());
        let (flag, grants, keys) = match (self.rights, self.kept(name)) {
            (None, _) if name == DEFAULT.as_bytes() => all(),
            (_, Some((rights, kept))) => {
                let grants = kept.grants.iter().map(ToString::to_string).collect();
                let keys: Vec<String> = kept.grants.iter().filter_map(keys_of_grant).collect();
                (self.flag(rights, kept), grants, keys.join(" "))
            }
            (Some(_), None) => match self.own_ticket(name) {
                Some((_, grants)) => {
                    let keys: Vec<String> = grants.iter().filter_map(keys_of_grant).collect();
                    let grants = grants.iter().map(ToString::to_string).collect();
                    ("on", grants, keys.join(" "))
                }
                None => return Value::Null,
            },
            _ => return Value::Null,
        };
        let texts = |texts: Vec<String>| Value::Array(texts.into_iter().map(text).collect());
        map([
            ("flags", Value::Set(vec![text(flag)])),
            ("passwords", Value::Array(Vec::new())),
            ("commands", text(grants.join("; "))),
            ("keys", text(keys)),
            ("channels", text("")),
            ("selectors", Value::Array(Vec::new())),
            ("grants", texts(grants)),
        ])
    }

    /// Whether that one may, and why not: nothing is done.
    fn dry_run(&self, name: &[u8], command: &[&[u8]]) -> Value {
        let shown = String::from_utf8_lossy(name).chars().take(64).collect();
        let no_user = |shown: String| error(format!("ERR User '{shown}' not found"));
        let principal = match (self.rights, self.kept(name)) {
            (None, _) if name == DEFAULT.as_bytes() => None,
            (_, Some((rights, kept))) => Some((rights, kept)),
            (Some(_), None) if self.own_ticket(name).is_some() => None,
            _ => return no_user(shown),
        };
        let spec = match check_words(command) {
            Ok(spec) => spec,
            Err(why) => return error(why),
        };
        if let Some((principal, grants)) = self.own_ticket(name) {
            return tried(&principal, &grants, spec, command);
        }
        let Some((rights, kept)) = principal else {
            return Value::OK;
        };
        if !rights.is_in_force(kept, self.wall_ms) {
            return text(format!("`{shown}` has expired"));
        }
        let Ok(name) = access::TokenName::new(&shown) else {
            return no_user(shown);
        };
        let principal = kept.principal(name);
        tried(&principal, &kept.grants, spec, command)
    }
}

/// Whether they allow that command.
fn tried(
    principal: &Principal,
    grants: &Grants,
    spec: &kv::CommandSpec,
    command: &[&[u8]],
) -> Value {
    let needs: Vec<_> = asked(spec, command).iter().flat_map(Asked::needs).collect();
    let denied = needs
        .iter()
        .find_map(|need| decide(principal, Some(grants), need).err());
    denied.map_or(Value::OK, |denied| text(denied.to_string()))
}

/// The keys of a grant, as Redis writes such patterns: `%R~app:*`, `%W~app:*`, `~*`.
fn keys_of_grant(grant: &Grant) -> Option<String> {
    let resource = grant.resource().to_string();
    let keys = match grant.resource().is_everything() {
        true => "*",
        false => resource.strip_prefix("key/")?,
    };
    let has = |operation| grant.operations().has(operation);
    let prefix = match (has(access::Operation::Read), has(access::Operation::Append)) {
        (true, true) => "",
        (true, false) => "%R",
        (false, true) => "%W",
        (false, false) => return None,
    };
    Some(format!("{prefix}~{keys}"))
}

fn categories() -> Value {
    let all = kv::commands().iter().flat_map(|spec| spec.categories);
    let all: BTreeSet<&str> = all.map(|name| name.trim_start_matches('@')).collect();
    Value::Array(all.into_iter().map(text).collect())
}

fn of_category(category: &[u8]) -> Value {
    let is_of = |name: &&&str| is(category, name.trim_start_matches('@'));
    let has = |spec: &&kv::CommandSpec| spec.categories.iter().any(|name| is_of(&name));
    let of_it: Vec<Value> = kv::commands()
        .iter()
        .filter(has)
        .map(|spec| text(spec.name))
        .collect();
    match of_it.is_empty() {
        true => {
            let shown: String = String::from_utf8_lossy(category).chars().take(64).collect();
            error(format!("ERR Unknown category '{shown}'"))
        }
        false => Value::Array(of_it),
    }
}

fn changed_elsewhere(subcommand: &str) -> Value {
    let command = match subcommand {
        "setuser" => "logberg token create NAME --allow 'read,append on key/PREFIX*'",
        "deluser" => "logberg token revoke NAME",
        "genpass" => "logberg token create NAME, which draws the secret,",
        _ => "logberg token",
    };
    error(format!(
        "ERR ACL {} is not here: tokens are of the cluster and kept by it; use {command} at a shell",
        subcommand.to_uppercase()
    ))
}

fn help() -> Value {
    let lines = [
        "ACL <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "CAT [<category>]",
        "    List all commands that belong to <category>, or all command categories",
        "    when no category is specified.",
        "DRYRUN <username> <command> [<arg> ...]",
        "    Tells whether the token <username> may execute the command, without executing it.",
        "GETUSER <username>",
        "    Get the grants of a token.",
        "LIST",
        "    Show all tokens and their grants.",
        "LOG [<count> | RESET]",
        "    Show the last refusals at this node.",
        "USERS",
        "    List the names of all tokens.",
        "WHOAMI",
        "    Return the name of the token that this connection has shown.",
        "HELP",
        "    Print this help.",
        "Tokens are changed by `logberg token` at a shell.",
    ];
    let line = |line: &'static str| Value::Simple(line.into());
    Value::Array(lines.into_iter().map(line).collect())
}
