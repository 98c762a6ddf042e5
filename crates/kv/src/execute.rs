//! One command: from its words and rows to its reply.

use resp::Value;

use crate::args::Args;
use crate::context::Context;
use crate::fail::{Fail, fail, words};
use crate::rows::prepared;
use crate::rows::{Db, Effects, Kept, Rows};
use crate::slot::{Life, slot_of};
use crate::spec::{CommandSpec, NoKeys, keys_of, lookup};

/// A command that was executed.
#[derive(Debug, PartialEq)]
pub struct Executed {
    pub reply: Value,
    /// It wrote rows: its reply stands once these are chosen.
    pub wrote: bool,
    /// The keys that it changed, in their order, for those who watch them or wait for them.
    pub changed: Vec<Vec<u8>>,
    /// ‡ It took a key for expired: its reply depends on the time that it was executed at.
    pub saw_expired: bool,
    /// The lives of slots that begin with it, in the place of the ones that it ended. Whoever keeps them writes them down in the same
    /// frame.
    pub flushed: Vec<Life>,
    /// The bytes that it read into its reply, as far as they are bounded.
    pub read_bytes: usize,
}

/// Executes a command: its name and what follows it.
///
/// Whether the slot of its keys is served here is the caller's to know; `context.lives` has it.
///
/// Errors: rows are missing, or refuse. Nothing of what the command wrote may stand then; it is executed anew, or never.
pub fn execute<R: Rows>(
    rows: &mut R,
    context: &Context<'_>,
    words: &[&[u8]],
) -> Result<Executed, R::Stop> {
    let mut kept = Kept::new(rows);
    let mut effects = Effects::default();
    let result = run(&mut kept, context, words, &mut effects);
    let reply = match result {
        Ok(reply) => reply,
        Err(Fail::Error(words)) => Value::Error(words),
        Err(Fail::Stopped) => Value::error("ERR the command stopped without a reason"),
    };
    if let Some(stop) = kept.stop {
        return Err(stop);
    }
    Ok(Executed {
        reply,
        wrote: kept.wrote,
        changed: effects.changed.into_iter().collect(),
        saw_expired: effects.saw_expired,
        flushed: effects.flushed,
        read_bytes: effects.read_bytes,
    })
}

fn run<R: Rows>(
    kept: &mut Kept<'_, R>,
    context: &Context<'_>,
    words: &[&[u8]],
    effects: &mut Effects,
) -> Result<Value, Fail> {
    let spec = check(words)?;
    let life = life_of(spec, context, words)?;
    let run = spec
        .run
        .ok_or(Fail::from("ERR this command is not executed on rows"))?;
    let mut db = Db::new(kept, context, life);
    db.writes = spec.writes();
    let mut result = run(&mut db, &Args::new(words));
    if let (Some(prepared), false) = (context.prepared, db.effects.has_named) {
        // The command has no use for it, and nobody else knows of it.
        result = prepared::drop_it(&mut db, prepared.ticket).and(result);
    }
    *effects = std::mem::take(&mut db.effects);
    result
}

/// The command that these words are, or Redis' words about why they are none.
pub fn check_words(words: &[&[u8]]) -> Result<&'static CommandSpec, String> {
    check(words).map_err(|fail| match fail {
        Fail::Error(words) => words.into_owned(),
        Fail::Stopped => String::new(),
    })
}

pub(crate) fn check(words: &[&[u8]]) -> Result<&'static CommandSpec, Fail> {
    let name = words.first().copied().unwrap_or_default();
    let Some(spec) = lookup(name) else {
        return fail(unknown(words));
    };
    match spec.takes(words.len()) {
        true => Ok(spec),
        false => fail(format!(
            "ERR wrong number of arguments for '{}' command",
            spec.name
        )),
    }
}

/// ‡ A stranger's words go into a line: they are cut, and what would end the line is replaced when it is written.
fn unknown(words: &[&[u8]]) -> String {
    let shown = |word: &[u8], bytes_max: usize| {
        let word = word.get(..bytes_max.min(word.len())).unwrap_or_default();
        String::from_utf8_lossy(word).into_owned()
    };
    let name = words.first().copied().unwrap_or_default();
    let mut arguments = String::new();
    for word in words.iter().skip(1) {
        if arguments.len() >= 128 {
            break;
        }
        let word = shown(word, 128 - arguments.len());
        arguments.push_str(&format!("'{word}' "));
    }
    format!(
        "ERR unknown command '{}', with args beginning with: {arguments}",
        shown(name, 128)
    )
}

/// The life of the slot in which all keys of the command lie.
fn life_of(
    spec: &CommandSpec,
    context: &Context<'_>,
    words: &[&[u8]],
) -> Result<Option<Life>, Fail> {
    let keys = match keys_of(spec, words) {
        Ok(keys) => keys,
        // It says itself what is wrong with it.
        Err(NoKeys::None | NoKeys::Invalid) => return Ok(None),
    };
    let mut slots = keys.iter().map(|key| slot_of(key));
    let Some(slot) = slots.next() else {
        return Ok(None);
    };
    if slots.any(|other| other != slot) {
        return fail(words::CROSS_SLOT);
    }
    match context.life_of(slot) {
        Some(life) => Ok(Some(life)),
        None => fail("CLUSTERDOWN Hash slot not served"),
    }
}
