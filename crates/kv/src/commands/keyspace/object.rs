//! How a key is kept. Rows are not what Redis has: the answers are those of a Redis that holds the same value.

use resp::{Value, integer_of};

use crate::args::{Args, keyword};
use crate::commands::Done;
use crate::fail::{Fail, fail};
use crate::rows::{Db, Kind, Members, Meta, Place, Sorted, Text};

const HELP: [&str; 15] = [
    "OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "ENCODING <key>",
    "    Return the kind of internal representation used in order to store the value",
    "    associated with a <key>.",
    "FREQ <key>",
    "    Return the access frequency index of the <key>. The returned integer is",
    "    proportional to the logarithm of the recent access frequency of the key.",
    "IDLETIME <key>",
    "    Return the idle time of the <key>, that is the approximated number of",
    "    seconds elapsed since the last access to the key.",
    "REFCOUNT <key>",
    "    Return the number of references of the value associated with the specified",
    "    <key>.",
    "HELP",
    "    Prints this help.",
];

pub(crate) fn object(db: &mut Db, args: &Args) -> Done {
    let word = keyword(args.at(1));
    match (word.as_slice(), args.len()) {
        (b"HELP", 2) => {
            let lines = HELP.iter().map(|line| Value::Simple((*line).into()));
            return Ok(Value::Array(lines.collect()));
        }
        (b"ENCODING" | b"FREQ" | b"IDLETIME" | b"REFCOUNT", 3) => {}
        (b"ENCODING" | b"FREQ" | b"IDLETIME" | b"REFCOUNT", _) => {
            let name = String::from_utf8_lossy(&word).to_lowercase();
            return fail(format!(
                "ERR wrong number of arguments for 'object|{name}' command"
            ));
        }
        _ => return fail(unknown(args.at(1))),
    }
    let Some(meta) = db.peek(args.at(2))? else {
        return Ok(Value::Null);
    };
    match word.as_slice() {
        b"ENCODING" => Ok(Value::bulk(encoding(db, args.at(2), meta)?)),
        b"REFCOUNT" => Ok(Value::Integer(1)),
        b"IDLETIME" => Ok(Value::Integer(0)),
        _ => fail(
            "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.",
        ),
    }
}

fn unknown(word: &[u8]) -> String {
    let word = String::from_utf8_lossy(word.get(..128.min(word.len())).unwrap_or_default());
    format!("ERR unknown subcommand '{word}'. Try OBJECT HELP.")
}

fn encoding(db: &mut Db, key: &[u8], meta: Meta) -> Result<&'static str, Fail> {
    let is_inline = matches!(meta.place, Place::Inline(_));
    let kind = meta.kind;
    Ok(match kind {
        Kind::String if !is_inline => "raw",
        Kind::String => {
            let bytes = Text::of(key, meta).bytes(db)?;
            match bytes.len() {
                _ if integer_of(&bytes).is_some() => "int",
                ..=44 => "embstr",
                _ => "raw",
            }
        }
        Kind::List => "quicklist",
        Kind::Hash | Kind::Set if !is_inline => "hashtable",
        Kind::Hash => {
            let members = Members::of(key, kind, Some(meta)).all(db)?;
            match members
                .iter()
                .all(|(field, value)| field.len().max(value.len()) <= 64)
            {
                true => "listpack",
                false => "hashtable",
            }
        }
        Kind::Set => {
            let members = Members::of(key, kind, Some(meta)).all(db)?;
            match members
                .iter()
                .all(|(member, _)| integer_of(member).is_some())
            {
                true => "intset",
                false => "hashtable",
            }
        }
        Kind::Sorted if !is_inline => "skiplist",
        Kind::Sorted => {
            let entries = Sorted::of(key, Some(meta)).all(db)?;
            match entries.iter().all(|(_, member)| member.len() <= 64) {
                true => "listpack",
                false => "skiplist",
            }
        }
    })
}
