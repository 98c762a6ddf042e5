//! A string whose bytes come ahead of the command that sets it: in pieces, below an id that no key names yet.
//!
//! ```text
//!  piece 0 ─▶ id, 64 KiB ─▶ piece 1 ─▶ id, 128 KiB ─▶ … ─▶ SET: the key has the id, and the row of what was prepared goes
//!                                                       └─▶ a minute after the last piece, unless that came: forgotten
//! ```

use crate::fail::{Fail, fail, words};
use crate::rows::meta::FORM;
use crate::rows::{Big, Db, Kind, keys};

/// A value of which nothing further comes for so long is forgotten.
const PREPARED_FOR_MS: u64 = 60_000;

/// A value that was prepared, as the command that names it knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// The number under which its pieces were sent. Nobody else has it.
    pub ticket: u64,
    /// The bytes of the whole value.
    pub bytes: u64,
}

/// The row of what was prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    pub id: u64,
    /// The bytes that are there.
    pub bytes: u64,
    /// The log's time at which it is forgotten.
    pub deadline: u64,
}

impl Standing {
    fn encode(self) -> Vec<u8> {
        let mut row = vec![FORM];
        for number in [self.id, self.bytes, self.deadline] {
            row.extend_from_slice(&number.to_be_bytes());
        }
        row
    }

    pub fn decode(row: &[u8]) -> Result<Standing, Fail> {
        let numbers = row.strip_prefix(&[FORM]).unwrap_or_default();
        let mut numbers = numbers.chunks_exact(8).map(|number| {
            let number = number.try_into().unwrap_or_default();
            u64::from_be_bytes(number)
        });
        match (numbers.next(), numbers.next(), numbers.next()) {
            (Some(id), Some(bytes), Some(deadline)) if numbers.next().is_none() => Ok(Standing {
                id,
                bytes,
                deadline,
            }),
            _ => fail("ERR the row of a prepared value has a form that this version does not know"),
        }
    }
}

/// Writes the next piece of a value. False: what came before it is gone, so it has to begin anew.
pub(crate) fn put_piece(db: &mut Db, ticket: u64, at: u64, piece: &[u8]) -> Result<bool, Fail> {
    let life = db.life()?;
    let row = keys::prepared(&life, ticket);
    let standing = match db.view.get(&row)? {
        Some(row) => Standing::decode(&row)?,
        None if at > 0 => return Ok(false),
        None => Standing {
            id: db.new_id()?,
            bytes: 0,
            deadline: 0,
        },
    };
    if standing.bytes != at {
        return Ok(false);
    }
    super::text::put_chunks(db, standing.id, at, piece)?;
    let standing = Standing {
        bytes: at + piece.len() as u64,
        deadline: db.now() + PREPARED_FOR_MS,
        ..standing
    };
    db.view.put(&row, &standing.encode())?;
    Ok(true)
}

/// The place of a prepared value, for the key that is to have it. ‡ Only all of it, and only once.
pub(crate) fn take(db: &mut Db, prepared: Prepared) -> Result<Big, Fail> {
    let life = db.life()?;
    let row = keys::prepared(&life, prepared.ticket);
    let standing = match db.view.get(&row)? {
        Some(row) => Standing::decode(&row)?,
        None => return fail(words::NOT_PREPARED),
    };
    if standing.bytes != prepared.bytes {
        return fail(words::NOT_PREPARED);
    }
    db.view.delete(&row)?;
    db.effects.has_named = true;
    Ok(Big {
        id: standing.id,
        count: standing.bytes,
        first: 0,
    })
}

/// Forgets a prepared value, if it is there.
pub(crate) fn drop_it(db: &mut Db, ticket: u64) -> Result<(), Fail> {
    let life = db.life()?;
    let row = keys::prepared(&life, ticket);
    let Some(standing) = db.view.get(&row)? else {
        return Ok(());
    };
    let id = Standing::decode(&standing)?.id;
    db.forget(Kind::String, id)?;
    Ok(db.view.delete(&row)?)
}
