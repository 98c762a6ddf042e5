//! MEMORY USAGE: about how many bytes the rows of a key have. They lie on a disk.

use resp::Value;

use crate::args::{Args, keyword};
use crate::commands::Done;
use crate::fail::{fail, words};
use crate::rows::{Db, Kind, Place, members_of};

/// The members that are looked at: the others are taken for as long as these.
const SAMPLES: usize = 64;

pub(crate) fn memory(db: &mut Db, args: &Args) -> Done {
    match (keyword(args.at(1)).as_slice(), args.len()) {
        (b"USAGE", 3) => {}
        (b"USAGE", 5) if keyword(args.at(3)) == b"SAMPLES" => {}
        _ => return fail(words::SYNTAX),
    }
    let key = args.at(2);
    let Some(meta) = db.peek(key)? else {
        return Ok(Value::Null);
    };
    let of_rows = match &meta.place {
        Place::Rows(big) if meta.kind == Kind::String => big.count,
        Place::Rows(big) => {
            let (from, to) = members_of(&db.life()?, big.id);
            let rows = db.view.range(&from, &to, SAMPLES)?.rows;
            let bytes: usize = rows
                .iter()
                .map(|(row, value)| row.len() + value.len())
                .sum();
            let each = bytes.div_ceil(rows.len().max(1)) as u64;
            // A member of a sorted set has a second row, in the order of the scores.
            let rows = if meta.kind == Kind::Sorted { 2 } else { 1 };
            big.count.saturating_mul(each).saturating_mul(rows)
        }
        Place::Inline(_) => 0,
    };
    let own = key.len() + meta.encode().len();
    let bytes = of_rows.saturating_add(own as u64);
    Ok(Value::Integer(i64::try_from(bytes).unwrap_or(i64::MAX)))
}
