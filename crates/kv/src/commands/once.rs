//! Sessions: commands that are executed at most once, however often they are sent.
//!
//! ```text
//! ONCE.OPEN key                              → session       a number that the log draws
//! ONCE key session sequence command …        sequence above the last one: executed, and its reply kept in the same frame
//!                                            the last one again: that reply; nothing is executed
//!                                            a lower one: SUPERSEDED; an unknown session: NOSESSION
//! ```
//!
//! ‡ A session's number is drawn: its first half is an id of its slot, its second one is chance. A late copy of a command whose session went finds none of its
//! number, and is not executed again. Where a backup was restored or a cluster recovered without its latest words, ids may be given out again: chance keeps the
//! sessions of the lost time apart from those of the new one.

use resp::{Decoder, Value, encode};

use crate::args::{Args, integer};
use crate::commands::Done;
use crate::execute::check;
use crate::fail::{Fail, fail};
use crate::rows::{Db, Session, keys};
use crate::spec::{CommandSpec, NoKeys, keys_of};

/// The sessions of a slot: with one more, the one that was unused for longest goes.
pub const SESSIONS_MAX: u64 = 1_000;
/// A session goes after so long without use, in the log's time.
pub const UNUSED_MS: u64 = 24 * 60 * 60 * 1_000;
/// … which is noted so exactly: whoever used it within the second is among the last that go.
const NOTED_EACH_MS: u64 = 1_000;
/// The sessions that go when another one is opened, at most: so their number falls where many are old.
const GONE_MAX: usize = 2;
/// The bytes that a command of a session may read into its reply, for that is kept.
const REPLY_BYTES_MAX: usize = 1 << 20;

const NO_SESSION: &str = "NOSESSION this session is not known here: it was not used for a day, others were opened since, or its slot was flushed; nothing was done now, and whether it was before nobody can say: open another with ONCE.OPEN";
const SUPERSEDED: &str =
    "SUPERSEDED a later command of this session was done already, and its reply alone is kept";

/// ONCE.OPEN.
pub(crate) fn open(db: &mut Db, _: &Args) -> Done {
    let life = db.life()?;
    // ‡ The range is the same at any time: fetched once, it is enough.
    let (from, to) = keys::uses(&life);
    let oldest = db.view.range(&from, &to, GONE_MAX);
    let mut header = db.header(&life)?;
    for (row, _) in oldest?.rows.iter().take(GONE_MAX) {
        let Some((used, session)) = keys::use_of(row) else {
            continue;
        };
        if header.sessions >= SESSIONS_MAX || is_over(used, db.now()) {
            db.view.delete(row)?;
            db.view.delete(&keys::session(&life, session))?;
            header.sessions = header.sessions.saturating_sub(1);
        }
    }
    header.next_id += 1;
    header.sessions += 1;
    let session = (header.next_id & 0xffff_ffff) << 31 | db.view.random() >> 33;
    db.put_header(&life, header)?;
    let fresh = Session {
        sequence: 0,
        used: db.now(),
        reply: Vec::new(),
    };
    db.view
        .put(&keys::session(&life, session), &fresh.encode())?;
    db.view.put(&keys::used(&life, fresh.used, session), &[])?;
    Ok(Value::Integer(i64::try_from(session).unwrap_or(i64::MAX)))
}

/// ONCE.
pub(crate) fn once(db: &mut Db, args: &Args) -> Done {
    let inner = args.from(4);
    let spec = check(inner)?;
    let keys = match keys_of(spec, inner) {
        Ok(keys) if spec.is_on_rows() && !spec.name.starts_with("once") => keys,
        Err(NoKeys::Invalid) => return fail(NoKeys::Invalid.to_string()),
        _ => return fail("ERR ONCE takes a command on keys, which lie in the slot of its own key"),
    };
    let (session, sequence) = (integer(args.at(2))?, integer(args.at(3))?);
    let Some(sequence) = u64::try_from(sequence).ok().filter(|number| *number > 0) else {
        return fail("ERR the sequence of a session begins with 1");
    };
    let Ok(session) = u64::try_from(session) else {
        return fail(NO_SESSION);
    };

    let life = db.life()?;
    let row = db.view.get(&keys::session(&life, session));
    if row.is_err() {
        // The rows that the command reads first are fetched together with it.
        _ = db.ask(&keys);
    }
    let Some(known) = row?.map(|row| Session::decode(&row)).transpose()? else {
        return fail(NO_SESSION);
    };
    if is_over(known.used, db.now()) {
        return fail(NO_SESSION);
    }
    if sequence < known.sequence {
        return fail(SUPERSEDED);
    }
    if sequence == known.sequence {
        note_use(db, session, &known)?;
        return replied(&known.reply);
    }
    let reply = executed(db, spec, inner)?;
    // ‡ The sequence of a session never goes back.
    assert!(sequence > known.sequence);
    note(db, session, &known, sequence, &reply)?;
    Ok(reply)
}

/// Executes the command. An error is its reply, too, and is kept: who asks again hears it again.
fn executed(db: &mut Db, spec: &CommandSpec, words: &[&[u8]]) -> Done {
    let Some(run) = spec.run else {
        return fail("ERR this command is not executed on rows");
    };
    db.bound_reply(REPLY_BYTES_MAX);
    match run(db, &Args::new(words)) {
        Err(Fail::Error(words)) => Ok(Value::Error(words)),
        done => done,
    }
}

fn note(
    db: &mut Db,
    session: u64,
    known: &Session,
    sequence: u64,
    reply: &Value,
) -> Result<(), Fail> {
    let (life, used) = (db.life()?, noted_use(db, session, known.used)?);
    // As this client reads it: so the same client reads the same bytes again.
    let mut bytes = Vec::new();
    encode(reply, db.context.protocol, &mut bytes);
    let noted = Session {
        sequence,
        used,
        reply: bytes,
    };
    Ok(db
        .view
        .put(&keys::session(&life, session), &noted.encode())?)
}

/// Who sends a command again uses the session, too.
fn note_use(db: &mut Db, session: u64, known: &Session) -> Result<(), Fail> {
    let used = noted_use(db, session, known.used)?;
    if used == known.used {
        return Ok(());
    }
    let row = keys::session(&db.life()?, session);
    let noted = Session {
        used,
        ..known.clone()
    };
    Ok(db.view.put(&row, &noted.encode())?)
}

/// The last use that stands in the rows: now, unless that was noted just before.
fn noted_use(db: &mut Db, session: u64, used: u64) -> Result<u64, Fail> {
    let (life, now) = (db.life()?, db.now());
    if now < used + NOTED_EACH_MS {
        return Ok(used);
    }
    db.view.delete(&keys::used(&life, used, session))?;
    db.view.put(&keys::used(&life, now, session), &[])?;
    Ok(now)
}

fn replied(bytes: &[u8]) -> Done {
    let decoded = Decoder::new(usize::MAX).next(bytes);
    match decoded {
        Ok(Some((reply, _))) => Ok(reply),
        _ => fail("ERR the reply that this session kept cannot be read"),
    }
}

fn is_over(used_ms: u64, now_ms: u64) -> bool {
    now_ms >= used_ms + UNUSED_MS + NOTED_EACH_MS
}
