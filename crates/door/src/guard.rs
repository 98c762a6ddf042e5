//! Tokens at this door: who a client is, and whether a command may be asked for.

use std::sync::Arc;
use std::time::Duration;

use access::{Asked, Bearer, Token, TokenName};
use kv::{CommandSpec, NoKeys, keys_of};
use letters::{No, Refusals, Rights, RightsBoard, Shown};
use ops::Time;
use resp::Value;

use crate::answers::acl::{Acl, AclLog};
use crate::answers::{error, is};

/// Redis' own words.
pub const WRONG: &str = "WRONGPASS invalid username-password pair or user is disabled.";
const NOAUTH: &str = "NOAUTH Authentication required.";
const NOAUTH_HELLO: &str = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time";
const NO_PASSWORD: &str =
    "ERR Client sent AUTH, but no password is set. Did you mean AUTH <username> <password>?";
const NOT_KNOWN: &str =
    "CLUSTERDOWN this node does not know yet whether tokens are asked for: try again";
/// Commands wait so long for a node that has just started to know it, and not for an error.
const HOLD: Duration = Duration::from_millis(1_800);
/// … and it is looked at as often meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The node's last word. Nothing is kept where nobody is asked for anything.
#[derive(Default)]
pub struct Guard {
    board: Option<Arc<RightsBoard>>,
    seen: Option<(u64, bool)>,
    rights: Option<Arc<Rights>>,
    /// The node has not known it since then.
    unknown_since: Option<Time>,
    /// Nobody waits for it any more.
    has_given_up: bool,
    looked_at: Time,
    refusals: Refusals,
    log: AclLog,
}

/// One that shows no token that is good. ‡ What it showed is told nowhere.
pub const NOT_GOOD: &str = "a token that is not good";

impl Guard {
    pub fn of(board: Option<Arc<RightsBoard>>) -> Guard {
        Guard {
            board,
            ..Guard::default()
        }
    }

    /// Looks at what the node tells, once a round. True if those that wait are to be looked at.
    pub fn look(&mut self, now: Time) -> bool {
        self.looked_at = now;
        for (who, more) in self.refusals.late(now) {
            tracing::warn!(target: "audit", who, door = "keys", more, "refused, and not told one by one");
        }
        let had_waiting = self.unknown_since.is_some();
        let gives_up = had_waiting && !self.has_given_up && !self.waits(now);
        self.has_given_up |= gives_up;
        let Some(board) = &self.board else {
            return false;
        };
        let version = board.version();
        let is_old = board.is_old(now);
        if self.seen == Some((version, is_old)) {
            return gives_up;
        }
        self.seen = Some((version, is_old));
        let rights = match is_old {
            true => Arc::default(),
            false => board.now(),
        };
        self.unknown_since = match rights.asks {
            letters::Asks::NotKnown => self.unknown_since.or(Some(now)),
            _ => None,
        };
        self.has_given_up &= self.unknown_since.is_some();
        let asks = rights.asks != letters::Asks::Nothing;
        self.rights = asks.then_some(rights);
        had_waiting
    }

    /// Whether a command waits: the node is about to know whether it asks for tokens.
    pub fn waits(&self, now: Time) -> bool {
        self.unknown_since.is_some_and(|since| now < since + HOLD)
    }

    /// ‡ A node that never knows it has clients that wait for nothing: they are not looked at again and again.
    pub fn deadline(&self) -> Option<Time> {
        let waits = self.unknown_since.filter(|_| !self.has_given_up);
        waits.map(|since| (self.looked_at + LOOK_EVERY).min(since + HOLD))
    }

    /// Whether clients are asked for a token, or it is not known yet.
    pub fn asks(&self) -> bool {
        self.rights.is_some()
    }

    /// `AUTH TOKEN`, `AUTH NAME SECRET`: what the client is from now on, or the answer that it is not.
    pub fn take(&self, words: &[&[u8]], wall_ms: u64) -> Result<Shown, Value> {
        let Some(rights) = &self.rights else {
            return Err(error(NO_PASSWORD));
        };
        if rights.asks == letters::Asks::NotKnown {
            return Err(error(NOT_KNOWN));
        }
        let bearer = bearer_of(words);
        let shown = bearer.and_then(|bearer| rights.take(&bearer, wall_ms).ok());
        shown.ok_or_else(|| error(WRONG))
    }

    /// Counts an answer that refuses for want of a right, and tells it: a line for each asker and second. ‡ Of the command its name
    /// alone, for its words may be secrets.
    pub fn tell(
        &mut self,
        (now, wall_ms): (Time, u64),
        (who, from): (&str, &str),
        what: &str,
        value: &Value,
    ) {
        let (Some(board), Value::Error(why)) = (&self.board, value) else {
            return;
        };
        let (code, why) = why.split_once(' ').unwrap_or((why, ""));
        match code {
            "NOPERM" => board.refused_keys.forbidden.add(1),
            "NOAUTH" | "WRONGPASS" => board.refused_keys.unauthenticated.add(1),
            _ => return,
        }
        let reason = match code {
            "NOPERM" if why.contains("key/") => Some("key"),
            "NOPERM" => Some("command"),
            "WRONGPASS" => Some("auth"),
            // As with Redis, who shows nothing is not there.
            _ => None,
        };
        if let Some(reason) = reason {
            self.log.note((now, wall_ms), reason, what, (who, from));
        }
        if let Some(more) = self.refusals.note(now, who) {
            tracing::warn!(target: "audit", who, from, door = "keys", what, code, why, more, "refused");
        }
    }

    /// The answer to ACL.
    pub fn acl(&mut self, shown: &Shown, words: &[&[u8]], wall_ms: u64) -> Value {
        let acl = Acl {
            rights: self.rights.as_deref(),
            shown,
            log: &mut self.log,
            wall_ms,
        };
        acl.answer(words)
    }

    /// The answer to a command that its client may not ask for.
    pub fn refusal(
        &self,
        shown: &Shown,
        spec: &CommandSpec,
        words: &[&[u8]],
        wall_ms: u64,
    ) -> Option<Value> {
        let rights = self.rights.as_ref()?;
        let comes_before = ["auth", "hello", "quit", "reset"];
        if comes_before.contains(&spec.name) {
            let says_who = words.iter().any(|word| is(word, "auth"));
            let is_nobody = rights.grants(shown, wall_ms).is_none();
            let lacks = spec.name == "hello" && is_nobody && !says_who;
            return lacks.then(|| error(NOAUTH_HELLO));
        }
        // A certificate to which nothing is granted is nothing.
        let is_by_handshake = matches!(shown, Shown::Nothing | Shown::Certificate(..));
        let is_nobody = is_by_handshake && rights.grants(shown, wall_ms).is_none();
        if is_nobody && rights.asks == letters::Asks::Tokens {
            return Some(error(NOAUTH));
        }
        // Everybody may ask about himself.
        let is_own = spec.name == "acl" && is_about(words, shown);
        let mut all = match is_own {
            true => vec![Asked::WhoAmI].into_iter(),
            false => asked(spec, words).into_iter(),
        };
        let no = all.find_map(|asked| rights.judge(shown, &asked, wall_ms).err())?;
        Some(error(match no {
            No::NotKnown => NOT_KNOWN.to_owned(),
            No::Unauthenticated => NOAUTH.to_owned(),
            No::Forbidden(denied) => format!("NOPERM {denied}"),
        }))
    }
}

/// `ACL GETUSER NAME`, `ACL DRYRUN NAME …` about the token, certificate or ticket that was shown.
fn is_about(words: &[&[u8]], shown: &Shown) -> bool {
    let (Some(second), Some(name)) = (words.get(1), words.get(2)) else {
        return false;
    };
    let own = match shown {
        Shown::Token(own, _) | Shown::Certificate(own, _) => own.as_str().to_owned(),
        Shown::Ticket(ticket) => ticket.name(),
        Shown::Nothing => return false,
    };
    let is_question = is(second, "getuser") || is(second, "dryrun");
    is_question && *name == own.as_bytes()
}

/// Whether a command changes what is so for all clients: that is told with who asked for it.
pub fn is_change(spec: &CommandSpec, words: &[&[u8]]) -> bool {
    let second = words.get(1).copied().unwrap_or_default();
    let is_second = |names: &[&str]| names.iter().any(|name| is(second, name));
    match spec.name {
        "flushall" | "flushdb" => true,
        "config" => is_second(&["set", "resetstat", "rewrite"]),
        "cluster" => matches!(first_of(spec, words), Asked::ServerSettings),
        _ => false,
    }
}

/// A whole token or ticket, or a name and the token or its secret, or a name and a ticket, whose own name is in it. The name `default` is none.
fn bearer_of(words: &[&[u8]]) -> Option<Bearer> {
    let text = std::str::from_utf8(words.last()?).ok()?;
    match text.parse().ok() {
        Some(Bearer::Ticket(ticket)) if words.len() <= 2 => Some(Bearer::Ticket(ticket)),
        _ => token_of(words).map(Bearer::Token),
    }
}

fn token_of(words: &[&[u8]]) -> Option<Token> {
    let text = |word: &[u8]| std::str::from_utf8(word).ok().map(str::to_owned);
    match words {
        [token] => text(token)?.parse().ok(),
        [name, secret] => {
            let (name, secret) = (text(name)?, text(secret)?);
            let whole: Option<Token> = secret.parse().ok();
            match whole {
                Some(token) if name == "default" || token.name.as_str() == name => Some(token),
                Some(_) => None,
                None => Some(Token {
                    name: TokenName::new(&name).ok()?,
                    secret: access::Secret::parse(&secret).ok()?,
                }),
            }
        }
        _ => None,
    }
}

/// A command, as the one table of grants knows it. ‡ What is not named here needs what settings for all need: the default is no.
pub fn asked<'a>(spec: &CommandSpec, words: &[&'a [u8]]) -> Vec<Asked<'a>> {
    let mut all = vec![first_of(spec, words)];
    // ‡ What brings the contents of one key into another, or into its answer, is a read as well.
    if let Some(Asked::WriteKeys(keys)) = all.first()
        && !WRITES_ALONE.contains(&spec.name)
    {
        let keys = keys.clone();
        all.push(Asked::ReadKeys(keys));
    }
    // Its patterns may name any key.
    let has_patterns = |word: &&[u8]| is(word, "by") || is(word, "get");
    if matches!(spec.name, "sort" | "once") && words.iter().any(has_patterns) {
        all.push(Asked::CountKeys);
    }
    all
}

/// Commands that write, and whose answers and other keys get nothing of what stood there but counts.
const WRITES_ALONE: [&str; 39] = [
    "append",
    "del",
    "unlink",
    "expire",
    "expireat",
    "pexpire",
    "pexpireat",
    "persist",
    "hdel",
    "hset",
    "hmset",
    "hsetnx",
    "incr",
    "incrby",
    "incrbyfloat",
    "decr",
    "decrby",
    "linsert",
    "lpush",
    "lpushx",
    "lrem",
    "lset",
    "ltrim",
    "mset",
    "msetnx",
    "psetex",
    "rpush",
    "rpushx",
    "sadd",
    "setex",
    "setnx",
    "setrange",
    "srem",
    "zadd",
    "zrem",
    "zremrangebylex",
    "zremrangebyrank",
    "zremrangebyscore",
    "hincrby",
];

fn first_of<'a>(spec: &CommandSpec, words: &[&'a [u8]]) -> Asked<'a> {
    let second = words.get(1).copied().unwrap_or_default();
    let is_second = |names: &[&str]| names.iter().any(|name| is(second, name));
    match spec.name {
        "ping" | "echo" | "select" | "multi" | "exec" | "discard" | "unwatch" | "readonly"
        | "readwrite" | "asking" | "command" | "time" | "lolwut" | "auth" | "hello" | "quit"
        | "reset" => Asked::Connection,
        // Changes are refused to everybody, with what helps.
        "acl"
            if is_second(&[
                "whoami", "cat", "help", "setuser", "deluser", "genpass", "load", "save",
            ]) =>
        {
            Asked::Connection
        }
        "acl" => Asked::Explain,
        "client" if is_second(&["list"]) => Asked::ServerStatus,
        "client" if is_second(&["kill", "pause", "unpause", "no-evict"]) => Asked::ServerSettings,
        "client" => Asked::Connection,
        // Every client of a cluster asks where the slots are.
        "cluster"
            if is_second(&[
                "slots", "shards", "nodes", "info", "myid", "keyslot", "help",
            ]) =>
        {
            Asked::Connection
        }
        "cluster" if is_second(&["getkeysinslot"]) => Asked::ScanKeys(b""),
        "cluster" if is_second(&["countkeysinslot"]) => Asked::CountKeys,
        "scan" | "keys" => Asked::ScanKeys(prefix(spec.name, words)),
        "dbsize" | "randomkey" => Asked::CountKeys,
        "flushall" | "flushdb" => Asked::FlushKeys,
        "info" | "latency" => Asked::ServerStatus,
        "config" if is_second(&["get"]) => Asked::ServerStatus,
        "object" if is_second(&["help"]) => Asked::Connection,
        "memory" if !is_second(&["usage"]) => Asked::ServerStatus,
        _ => match keys_of(spec, words) {
            Ok(keys) if spec.writes() && !keys.is_empty() => Asked::WriteKeys(keys),
            Ok(keys) if !keys.is_empty() => Asked::ReadKeys(keys),
            // Whose words are wrong is told so by whoever executes it, and nothing of any key.
            Err(NoKeys::Invalid) if spec.is_on_rows() => Asked::CountKeys,
            _ => Asked::ServerSettings,
        },
    }
}

/// The keys that a pattern may name all begin so.
fn prefix<'a>(name: &str, words: &[&'a [u8]]) -> &'a [u8] {
    let pattern = match name {
        "keys" => words.get(1).copied(),
        _ => {
            let at = words.iter().position(|word| is(word, "match"));
            at.and_then(|at| words.get(at + 1).copied())
        }
    };
    let pattern = pattern.unwrap_or_default();
    let special = |byte: &u8| matches!(byte, b'*' | b'?' | b'[' | b'\\');
    let end = pattern.iter().position(special).unwrap_or(pattern.len());
    &pattern[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(line: &str) -> String {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let spec = kv::lookup(words[0]).expect("a command");
        let all = asked(spec, &words);
        let needs = all.iter().flat_map(Asked::needs);
        needs
            .map(|need| need.to_string())
            .collect::<Vec<_>>()
            .join("; ")
    }

    #[test]
    fn commands_wait_for_a_node_that_does_not_know_and_not_for_ever() {
        let board = Arc::new(RightsBoard::default());
        let mut guard = Guard::of(Some(board.clone()));
        let at = |ms: u64| Time::ZERO + Duration::from_millis(ms);
        guard.look(at(0));
        assert!(guard.asks() && guard.waits(at(0)) && guard.deadline().is_some());
        assert!(!guard.look(at(100)), "nothing is new");
        assert!(guard.look(at(1_800)) && !guard.waits(at(1_800)));
        assert!(!guard.look(at(1_900)), "those that waited were told once");
        assert_eq!(guard.deadline(), None);
        board.tell(Rights {
            asks: letters::Asks::Nothing,
            ..Rights::default()
        });
        assert!(guard.look(at(2_000)) && !guard.asks());
        assert!(!guard.look(at(2_100)));
    }

    #[test]
    fn commands_need_what_they_do_to_their_keys() {
        for (line, expected) in [
            ("get a", "read on key/a"),
            ("mget a b", "read on key/a; read on key/b"),
            ("mset a 1 b 2", "append on key/a; append on key/b"),
            ("del a", "append on key/a"),
            ("getdel a", "append on key/a; read on key/a"),
            (
                "copy a b",
                "append on key/a; append on key/b; read on key/a; read on key/b",
            ),
            ("scan 0 match app:*", "read on key/app:*"),
            ("scan 0", "read on key/*"),
            ("keys a?b", "read on key/a*"),
            ("dbsize", "read on key/*"),
            ("flushall", "delete on key/*"),
            ("info", "status on cluster"),
            ("config set a b", "members on cluster"),
            ("config get a", "status on cluster"),
            ("cluster slots", ""),
            ("ping", ""),
            ("client setname a", ""),
            ("client list", "status on cluster"),
            ("slowlog get", "members on cluster"),
            ("acl whoami", ""),
            ("acl setuser a", ""),
            ("acl list", "tokens on cluster"),
            ("acl getuser a", "tokens on cluster"),
            ("acl log", "tokens on cluster"),
        ] {
            assert_eq!(needs(line), expected, "{line}");
        }
    }

    /// ‡ Nothing is free that was forgotten: a command without keys that is not named needs what settings need.
    #[test]
    fn every_command_needs_something_or_is_named() {
        let free = [
            "ping",
            "echo",
            "select",
            "multi",
            "exec",
            "discard",
            "unwatch",
            "readonly",
            "readwrite",
            "asking",
            "command",
            "time",
            "lolwut",
            "auth",
            "hello",
            "quit",
            "reset",
            "client",
        ];
        for spec in kv::commands() {
            let words: Vec<&[u8]> = vec![spec.name.as_bytes(), b"1", b"1", b"1", b"1", b"1", b"1"];
            let needs = asked(spec, &words)
                .iter()
                .map(|asked| asked.needs().len())
                .sum::<usize>();
            assert_eq!(needs == 0, free.contains(&spec.name), "{}", spec.name);
        }
    }

    #[test]
    fn a_token_comes_whole_or_as_a_name_and_its_secret() {
        let secret = "A".repeat(43);
        let whole = format!("lgb_ci_{secret}");
        let of = |words: &[&str]| {
            let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            token_of(&words).map(|token| token.name.as_str().to_owned())
        };
        for words in [
            &[whole.as_str()][..],
            &["ci", &secret],
            &["ci", &whole],
            &["default", &whole],
        ] {
            assert_eq!(of(words).as_deref(), Some("ci"), "{}", words.len());
        }
        assert_eq!(of(&["web", &whole]), None);
        assert_eq!(of(&["default", &secret]).as_deref(), Some("default"));
        assert_eq!(of(&["ci", "short"]), None);
    }
}
