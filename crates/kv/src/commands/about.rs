//! COMMAND: which commands there are. It looks at no row.
//!
//! A command's arguments, history, tips and specifications of keys, which Redis tells too, are left out: clients find keys by their places.

use resp::Value;

use crate::args::{Args, is, keyword};
use crate::commands::Done;
use crate::commands::scan::pattern;
use crate::fail::{Fail, fail, words};
use crate::glob::fits;
use crate::rows::Db;
use crate::spec::{CommandSpec, commands, keys_of, lookup};

/// Each name takes an entry of some hundred bytes in the reply, however short it is.
const NAMES_MAX: usize = 1_000;

const HELP: [&str; 18] = [
    "COMMAND <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "(no subcommand)",
    "    Return details about all Redis commands.",
    "COUNT",
    "    Return the total number of commands in this Redis server.",
    "LIST",
    "    Return a list of all commands in this Redis server.",
    "INFO [<command-name> ...]",
    "    Return details about multiple Redis commands.",
    "    If no command names are given, documentation details for all",
    "    commands are returned.",
    "DOCS [<command-name> ...]",
    "    Return documentation details about multiple Redis commands.",
    "    If no command names are given, documentation details for all",
    "    commands are returned.",
    "GETKEYS <full-command>",
    "    Return the keys from a full Redis command.",
    "HELP",
];

pub(crate) fn command(_: &mut Db, args: &Args) -> Done {
    if args.len() == 1 {
        return Ok(Value::Array(commands().iter().map(details).collect()));
    }
    let word = keyword(args.at(1));
    match (word.as_slice(), args.len()) {
        (b"COUNT", 2) => Ok(Value::count(commands().len())),
        (b"INFO" | b"DOCS", words) if words > 2 + NAMES_MAX => fail(format!(
            "ERR at most {NAMES_MAX} names are described at once: ask for them in parts, or with no name for all commands"
        )),
        (b"INFO", _) => Ok(infos(args.from(2))),
        (b"DOCS", _) => Ok(docs(args.from(2))),
        (b"LIST", _) => list(args),
        (b"GETKEYS", 4..) => keys(args.from(2)),
        (b"HELP", 2) => {
            let lines = HELP.iter().chain(&["    Prints this help."]);
            let lines = lines.map(|line| Value::Simple((*line).into()));
            Ok(Value::Array(lines.collect()))
        }
        (b"COUNT" | b"GETKEYS" | b"HELP", _) => {
            let name = String::from_utf8_lossy(&word).to_lowercase();
            fail(format!(
                "ERR wrong number of arguments for 'command|{name}' command"
            ))
        }
        _ => fail(unknown(args.at(1))),
    }
}

fn unknown(word: &[u8]) -> String {
    let word = word.get(..128.min(word.len())).unwrap_or_default();
    let word = String::from_utf8_lossy(word);
    format!("ERR unknown subcommand '{word}'. Try COMMAND HELP.")
}

fn texts(texts: &[&'static str]) -> Value {
    let text = |text: &&'static str| Value::Simple((*text).into());
    Value::Set(texts.iter().map(text).collect())
}

fn details(spec: &CommandSpec) -> Value {
    let number = |number: i32| Value::Integer(i64::from(number));
    let nothing = || Value::Set(Vec::new());
    Value::Array(vec![
        Value::bulk(spec.name),
        number(spec.arity),
        texts(spec.flags),
        number(spec.first_key),
        number(spec.last_key),
        number(spec.step),
        texts(spec.categories),
        nothing(),
        nothing(),
        nothing(),
    ])
}

fn infos(names: &[&[u8]]) -> Value {
    if names.is_empty() {
        return Value::Array(commands().iter().map(details).collect());
    }
    let info = |name: &&[u8]| lookup(name).map_or(Value::Null, details);
    Value::Array(names.iter().map(info).collect())
}

fn docs(names: &[&[u8]]) -> Value {
    let named = names.iter().filter_map(|name| lookup(name));
    let specs: Vec<&CommandSpec> = match names {
        [] => commands().iter().collect(),
        _ => named.collect(),
    };
    let doc = |spec: &CommandSpec| {
        let pairs = [
            ("summary", spec.summary),
            ("since", spec.since),
            ("group", spec.group),
            ("complexity", spec.complexity),
        ];
        let pair = |(name, text): (&str, &str)| (Value::bulk(name), Value::bulk(text));
        (Value::bulk(spec.name), Value::Map(pairs.map(pair).to_vec()))
    };
    Value::Map(specs.into_iter().map(doc).collect())
}

/// COMMAND LIST [FILTERBY ACLCAT category | PATTERN pattern | MODULE name]
fn list(args: &Args) -> Done {
    let (kind, what) = (args.at(3), args.at(4));
    let is_listed: Box<dyn Fn(&CommandSpec) -> bool> = match args.len() {
        2 => Box::new(|_| true),
        5 if !is(args.at(2), "filterby") => return fail(words::SYNTAX),
        5 if is(kind, "pattern") => {
            let what = pattern(what)?;
            Box::new(move |spec| fits(what, spec.name.as_bytes()))
        }
        5 if is(kind, "module") => Box::new(|_| false),
        5 if is(kind, "aclcat") => Box::new(|spec| {
            let mut names = spec.categories.iter();
            names.any(|name| is(what, name.trim_start_matches('@')))
        }),
        _ => return fail(words::SYNTAX),
    };
    let listed = commands().iter().filter(|spec| is_listed(spec));
    Ok(Value::bulks(listed.map(|spec| spec.name)))
}

fn keys(words: &[&[u8]]) -> Done {
    let name = words.first().copied().unwrap_or_default();
    let spec = lookup(name).ok_or(Fail::from("ERR Invalid command specified"))?;
    if !spec.takes(words.len()) {
        return fail("ERR Invalid number of arguments specified for command");
    }
    match keys_of(spec, words) {
        Ok(keys) => Ok(Value::bulks(keys)),
        Err(none) => fail(none.to_string()),
    }
}
