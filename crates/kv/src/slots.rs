//! Slots as a whole: counted, listed, worked off, beside commands.

use crate::commands::scan;
use crate::context::Context;
use crate::fail::Fail;
use crate::rows::{Db, Kept, Rows, due, keys, prepared};
use crate::slot::Life;

/// The slot cannot be read: rows are missing, or are of a form that this version does not know.
#[derive(Debug)]
pub enum Halt<S> {
    Stop(S),
    Unknown(String),
}

/// How many keys a slot has, those included that are expired and not worked off yet.
///
/// Errors: the slot cannot be read.
pub fn count_keys<R: Rows>(rows: &mut R, life: Life) -> Result<u64, Halt<R::Stop>> {
    with(rows, life, |db| Ok(db.header(&life)?.keys))
}

/// Some keys of a slot.
///
/// Errors: the slot cannot be read.
pub fn some_keys<R: Rows>(
    rows: &mut R,
    life: Life,
    count: usize,
) -> Result<Vec<Vec<u8>>, Halt<R::Stop>> {
    with(rows, life, |db| scan::keys_in_slot(db, count))
}

/// The rows that a command on this key reads first: its own, and, if the command writes, the one that counts the slot's keys.
pub fn first_rows(life: Life, key: &[u8], writes: bool) -> Vec<Vec<u8>> {
    let mut rows = vec![keys::meta(&life, key)];
    if writes {
        rows.push(keys::header(&life));
    }
    rows
}

/// An id that the slot never had, and never will have again: of a session, for example.
///
/// Errors: the slot cannot be read.
pub fn new_id<R: Rows>(rows: &mut R, life: Life) -> Result<u64, Halt<R::Stop>> {
    with(rows, life, |db| db.new_id())
}

/// Writes the next piece of a value that a command is to set, from this place on: a whole number of 4 KiB, but for the last piece. Nobody sees it
/// until a command names it ([`Context::prepared`]); what nobody names is forgotten a minute after its last piece. False: what came before it is gone, so
/// its sender begins anew with another ticket.
///
/// Errors: the slot cannot be read.
pub fn put_piece<R: Rows>(
    rows: &mut R,
    life: Life,
    ticket: u64,
    at: u64,
    piece: &[u8],
) -> Result<bool, Halt<R::Stop>> {
    with(rows, life, |db| prepared::put_piece(db, ticket, at, piece))
}

/// Takes away keys whose deadline has passed, at most so many; returns them.
///
/// Errors: the slot cannot be read.
pub fn take_expired<R: Rows>(
    rows: &mut R,
    life: Life,
    count: usize,
) -> Result<Vec<Vec<u8>>, Halt<R::Stop>> {
    with(rows, life, |db| due::take(db, count))
}

fn with<R: Rows, T>(
    rows: &mut R,
    life: Life,
    act: impl FnOnce(&mut Db<'_>) -> Result<T, Fail>,
) -> Result<T, Halt<R::Stop>> {
    let mut kept = Kept::new(rows);
    let lives = [life];
    let context = Context::new(resp::Protocol::Resp2, &lives);
    let result = act(&mut Db::new(&mut kept, &context, Some(life)));
    if let Some(stop) = kept.stop {
        return Err(Halt::Stop(stop));
    }
    result.map_err(|fail| match fail {
        Fail::Error(words) => Halt::Unknown(words.into_owned()),
        Fail::Stopped => Halt::Unknown("stopped without a reason".to_owned()),
    })
}
