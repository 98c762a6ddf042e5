//! Deadlines that have passed: of keys, and of values that were prepared and never named.

use crate::fail::Fail;
use crate::rows::prepared::{self, Standing};
use crate::rows::{Db, Row, keys};

/// Takes away keys whose deadline has passed, at most so many, and what was prepared too long ago. A row of a deadline without its key, or of one that was moved, goes alone.
pub(crate) fn take(db: &mut Db, count: usize) -> Result<Vec<Vec<u8>>, Fail> {
    let life = db.life()?;
    // ‡ The range is the same at any time: when its rows were fetched it is later, and another range would have to be fetched.
    let (from, to) = keys::timed(&life);
    let now = db.now();
    let rows = db.view.range(&from, &to, count)?.rows;
    let (prepared, rows): (Vec<Row>, Vec<Row>) = rows
        .into_iter()
        .partition(|(row, _)| keys::is_prepared(row));
    for (row, standing) in prepared {
        if Standing::decode(&standing)?.deadline <= now
            && let Some(ticket) = keys::ticket_of(&row)
        {
            prepared::drop_it(db, ticket)?;
        }
    }
    let due: Vec<_> = rows
        .iter()
        .filter_map(|(row, _)| keys::deadline_of(row))
        .take_while(|(deadline, _)| *deadline <= now)
        .collect();
    let names: Vec<&[u8]> = due.iter().map(|(_, key)| *key).collect();
    db.ask(&names)?;
    let mut taken = Vec::new();
    for (deadline, key) in due {
        db.view.delete(&keys::deadline(&life, deadline, key))?;
        // An expired key goes when it is opened.
        if db.open(key)?.is_none() {
            taken.push(key.to_vec());
        }
    }
    Ok(taken)
}
