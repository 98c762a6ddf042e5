//! Commands as such: a name, how many words there are, where the keys are.

use std::sync::LazyLock;

use resp::{Value, integer_of};

use crate::args::{Args, is};
use crate::fail::Fail;
use crate::rows::Db;
use crate::table::COMMANDS;

pub(crate) type Run = fn(&mut Db<'_>, &Args<'_>) -> Result<Value, Fail>;

/// A command, as COMMAND and COMMAND DOCS tell of it.
#[derive(Clone, Copy, Debug)]
pub struct CommandSpec {
    pub name: &'static str,
    /// How many words it has, its name included; if it is negative, at least as many.
    pub arity: i32,
    pub flags: &'static [&'static str],
    /// The place of its first key, or 0.
    pub first_key: i32,
    /// … of the last one; if it is negative, counted from the end.
    pub last_key: i32,
    pub step: i32,
    pub categories: &'static [&'static str],
    pub group: &'static str,
    pub since: &'static str,
    pub complexity: &'static str,
    pub summary: &'static str,
    /// It is executed on rows: the others are the connection's.
    pub(crate) run: Option<Run>,
}

impl CommandSpec {
    pub fn has(&self, flag: &str) -> bool {
        self.flags.contains(&flag)
    }

    /// It may write.
    pub fn writes(&self) -> bool {
        self.has("write")
    }

    /// It is executed on rows, by [`crate::execute`].
    pub fn is_on_rows(&self) -> bool {
        self.run.is_some()
    }

    /// Whether it may have so many words, its name included.
    pub fn takes(&self, words: usize) -> bool {
        let needed = usize::try_from(self.arity.unsigned_abs()).unwrap_or(usize::MAX);
        match self.arity {
            0.. => words == needed,
            _ => words >= needed,
        }
    }
}

/// The command of this name, however it is written.
///
/// ```
/// let spec = kv::lookup(b"geT").expect("a command");
/// assert_eq!((spec.name, spec.arity, spec.first_key), ("get", 2, 1));
/// ```
pub fn lookup(name: &[u8]) -> Option<&'static CommandSpec> {
    let wanted = number_of(name)?;
    let found = BY_NUMBER.binary_search_by_key(&wanted, |(number, _)| *number);
    BY_NUMBER.get(found.ok()?).map(|(_, spec)| *spec)
}

/// A name in small letters, as numbers that are in the order of names. Each request looks for its command several times, and numbers are compared at
/// once. `None`: no name is as long.
fn number_of(name: &[u8]) -> Option<(u128, u64)> {
    let mut lower = [0; 24];
    lower.get_mut(..name.len())?.copy_from_slice(name);
    lower.make_ascii_lowercase();
    let (first, last) = lower.split_first_chunk()?;
    Some((
        u128::from_be_bytes(*first),
        u64::from_be_bytes(last.try_into().ok()?),
    ))
}

static BY_NUMBER: LazyLock<Vec<((u128, u64), &CommandSpec)>> = LazyLock::new(|| {
    let numbered = COMMANDS
        .iter()
        .filter_map(|spec| Some((number_of(spec.name.as_bytes())?, spec)));
    numbered.collect()
});

/// All commands, by name.
pub fn commands() -> &'static [CommandSpec] {
    COMMANDS
}

/// Why nobody can say which words are keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoKeys {
    /// The command has none.
    None,
    /// Its words are wrong.
    Invalid,
}

/// The words of COMMAND GETKEYS.
impl std::fmt::Display for NoKeys {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            NoKeys::None => "ERR The command has no key arguments",
            NoKeys::Invalid => "ERR Invalid arguments specified for command",
        })
    }
}

/// Whether this is MEMORY USAGE.
fn of_usage(words: &[&[u8]]) -> bool {
    let word = words.get(1);
    word.is_some_and(|word| word.eq_ignore_ascii_case(b"usage"))
}

/// The words of a command that are keys; its name is the first word.
pub fn keys_of<'a>(spec: &CommandSpec, words: &[&'a [u8]]) -> Result<Vec<&'a [u8]>, NoKeys> {
    match spec.name {
        "sort" => return sorts_keys(words),
        "zunion" | "zinter" | "zdiff" | "zintercard" | "sintercard" | "lmpop" | "zmpop" => {
            return counted_keys(words, 1);
        }
        "zunionstore" | "zinterstore" | "zdiffstore" => {
            let mut keys = counted_keys(words, 2)?;
            keys.insert(0, words.get(1).ok_or(NoKeys::Invalid)?);
            return Ok(keys);
        }
        "object" => return words.get(2).map(|key| vec![*key]).ok_or(NoKeys::None),
        "memory" => {
            let key = words.get(2).filter(|_| of_usage(words));
            return key.map(|key| vec![*key]).ok_or(NoKeys::None);
        }
        "once" => return once_keys(words),
        _ => {}
    }
    if spec.first_key == 0 {
        return Err(NoKeys::None);
    }
    let count = i32::try_from(words.len()).map_err(|_| NoKeys::Invalid)?;
    let last = match spec.last_key {
        0.. => spec.last_key,
        behind => count + behind,
    };
    let mut keys = Vec::new();
    let mut at = spec.first_key;
    while at <= last {
        let key = usize::try_from(at).ok().and_then(|at| words.get(at));
        keys.push(*key.ok_or(NoKeys::Invalid)?);
        at += spec.step;
    }
    Ok(keys)
}

/// The place of the word that a command sets a string to, where its bytes may be sent ahead ([`crate::put_piece`]).
pub fn prepares(spec: &CommandSpec) -> Option<usize> {
    match spec.name {
        "set" | "setnx" | "getset" => Some(2),
        "setex" | "psetex" => Some(3),
        _ => None,
    }
}

/// Whether a command has a short reply, whatever it finds: a status, or a number.
pub fn has_brief_reply(spec: &CommandSpec, words: &[&[u8]]) -> bool {
    match spec.name {
        "set" => {
            let mut options = words.iter().skip(3);
            !options.any(|word| word.eq_ignore_ascii_case(b"get"))
        }
        "setex" | "psetex" | "setnx" | "mset" | "msetnx" | "append" | "setrange" | "hset"
        | "hmset" | "hsetnx" | "hdel" | "lpush" | "lpushx" | "rpush" | "rpushx" | "linsert"
        | "lset" | "lrem" | "sadd" | "srem" | "smove" | "zadd" | "zrem" | "del" | "unlink"
        | "exists" | "touch" | "watch" | "incr" | "incrby" | "decr" | "decrby" | "incrbyfloat"
        | "hincrby" | "hincrbyfloat" | "zincrby" | "expire" | "pexpire" | "expireat"
        | "pexpireat" | "expiretime" | "pexpiretime" | "ttl" | "pttl" | "persist" | "type"
        | "strlen" | "llen" | "hlen" | "hstrlen" | "hexists" | "scard" | "sismember" | "zcard"
        | "zcount" | "zlexcount" | "zscore" | "zremrangebyrank" | "zremrangebyscore"
        | "zremrangebylex" | "ltrim" => true,
        _ => false,
    }
}

/// The keys behind their number, which stands at this place.
fn counted_keys<'a>(words: &[&'a [u8]], at: usize) -> Result<Vec<&'a [u8]>, NoKeys> {
    let count = words.get(at).and_then(|word| integer_of(word));
    let count = count.and_then(|count| usize::try_from(count).ok());
    let count = count.filter(|count| *count > 0).ok_or(NoKeys::Invalid)?;
    let end = (at + 1).checked_add(count).ok_or(NoKeys::Invalid)?;
    Ok(words.get(at + 1..end).ok_or(NoKeys::Invalid)?.to_vec())
}

/// SORT's key, and the last one behind STORE.
fn sorts_keys<'a>(words: &[&'a [u8]]) -> Result<Vec<&'a [u8]>, NoKeys> {
    let mut keys = vec![*words.get(1).ok_or(NoKeys::Invalid)?];
    let mut at = 2;
    let mut stored = None;
    while let Some(word) = words.get(at) {
        at += match () {
            () if is(word, "limit") => 3,
            () if is(word, "get") || is(word, "by") => 2,
            () if is(word, "store") => {
                stored = words.get(at + 1);
                2
            }
            () => 1,
        };
    }
    keys.extend(stored);
    Ok(keys)
}

/// ONCE key session sequence command …: the key, and those of the command. Where the command is none, the key alone: who serves its slot says what is wrong.
fn once_keys<'a>(words: &[&'a [u8]]) -> Result<Vec<&'a [u8]>, NoKeys> {
    let mut keys = vec![*words.get(1).ok_or(NoKeys::Invalid)?];
    let inner = words.get(4..).ok_or(NoKeys::Invalid)?;
    let spec = inner.first().and_then(|name| lookup(name));
    // A ONCE within a ONCE is nothing.
    let spec = spec.filter(|spec| spec.name != "once");
    let more = spec.and_then(|spec| keys_of(spec, inner).ok());
    keys.extend(more.into_iter().flatten());
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_brief(words: &[&str]) -> bool {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let spec = lookup(words[0]).expect("it is a command");
        has_brief_reply(spec, &words)
    }

    #[test]
    fn what_gives_values_is_not_brief() {
        assert!(is_brief(&["SET", "get", "get", "NX"]) && is_brief(&["mset", "k", "v"]));
        assert!(!is_brief(&["SET", "k", "v", "NX", "Get"]));
        for command in [
            "get",
            "mget",
            "getset",
            "getdel",
            "getex",
            "getrange",
            "lpop",
            "rpop",
            "lrange",
            "hgetall",
            "hmget",
            "hvals",
            "spop",
            "smembers",
            "zrange",
            "zpopmin",
            "sort",
            "exec",
            "keys",
            "lpos",
            "lindex",
            "lmove",
            "smismember",
            "zmscore",
        ] {
            assert!(!is_brief(&[command, "k"]), "{command}");
        }
    }
}
