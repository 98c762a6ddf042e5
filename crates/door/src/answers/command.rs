//! COMMAND: which commands there are.

use kv::{CommandSpec, NoKeys, commands, fits, keys_of, lookup};
use resp::Value;

use super::{error, is, no_subcommand, text};

pub fn answer(words: &[&[u8]]) -> Value {
    let Some(subcommand) = words.get(1) else {
        return Value::Array(commands().iter().map(entry).collect());
    };
    let named = words.get(2..).unwrap_or_default();
    match () {
        () if is(subcommand, "count") => Value::count(commands().len()),
        () if is(subcommand, "info") && named.is_empty() => {
            Value::Array(commands().iter().map(entry).collect())
        }
        () if is(subcommand, "info") => {
            let entries = named
                .iter()
                .map(|name| lookup(name).map_or(Value::NullArray, entry));
            Value::Array(entries.collect())
        }
        () if is(subcommand, "docs") && named.is_empty() => {
            Value::Map(commands().iter().map(docs).collect())
        }
        () if is(subcommand, "docs") => {
            let known = named.iter().filter_map(|name| lookup(name));
            Value::Map(known.map(docs).collect())
        }
        () if is(subcommand, "list") => list(named),
        () if is(subcommand, "getkeys") => match named.first().map(|name| lookup(name)) {
            None => error("ERR wrong number of arguments for 'command|getkeys' command"),
            Some(None) => error("ERR Invalid command specified"),
            Some(Some(spec)) if !spec.takes(named.len()) => {
                error("ERR Invalid number of arguments specified for command")
            }
            Some(Some(spec)) => match keys_of(spec, named) {
                Ok(keys) => Value::bulks(keys.iter().map(|key| key.to_vec())),
                Err(why @ (NoKeys::None | NoKeys::Invalid)) => error(why.to_string()),
            },
        },
        () => no_subcommand("COMMAND", subcommand),
    }
}

fn list(words: &[&[u8]]) -> Value {
    let names = commands().iter();
    let is_wanted = |spec: &&CommandSpec| match words {
        [by, how, what] if is(by, "filterby") && is(how, "pattern") => {
            fits(what, spec.name.as_bytes())
        }
        [by, how, what] if is(by, "filterby") && is(how, "aclcat") => {
            let category = [b"@", *what].concat();
            spec.categories.iter().any(|known| is(&category, known))
        }
        _ => words.is_empty(),
    };
    Value::Array(
        names
            .filter(is_wanted)
            .map(|spec| text(spec.name))
            .collect(),
    )
}

fn simple(words: &'static [&'static str]) -> Value {
    Value::Set(
        words
            .iter()
            .map(|word| Value::Simple((*word).into()))
            .collect(),
    )
}

fn entry(spec: &CommandSpec) -> Value {
    let place = |place: i32| Value::Integer(i64::from(place));
    Value::Array(vec![
        text(spec.name),
        place(spec.arity),
        simple(spec.flags),
        place(spec.first_key),
        place(spec.last_key),
        place(spec.step),
        simple(spec.categories),
        Value::Array(Vec::new()),
        Value::Array(Vec::new()),
        Value::Array(Vec::new()),
    ])
}

fn docs(spec: &CommandSpec) -> (Value, Value) {
    let fields = [
        ("summary", spec.summary),
        ("since", spec.since),
        ("group", spec.group),
        ("complexity", spec.complexity),
    ];
    let fields = fields.map(|(name, value)| (text(name), text(value)));
    (text(spec.name), Value::Map(fields.to_vec()))
}
