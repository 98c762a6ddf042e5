//! Keys under another name.

use resp::Value;

use crate::args::{Args, integer, keyword};
use crate::commands::Done;
use crate::fail::{Fail, fail, words};
use crate::rows::{Before, Db, Items, Kind, Members, Meta, Place, Sorted, Text};

pub(crate) fn rename(db: &mut Db, args: &Args) -> Done {
    moved(db, args, true)?;
    Ok(Value::OK)
}

pub(crate) fn renamenx(db: &mut Db, args: &Args) -> Done {
    Ok(Value::Integer(i64::from(moved(db, args, false)?)))
}

/// A value in rows keeps its id: only the name changes.
fn moved(db: &mut Db, args: &Args, is_over: bool) -> Result<bool, Fail> {
    let (from, to) = (args.at(1), args.at(2));
    let Some(meta) = db.open(from)? else {
        return fail(words::NO_KEY);
    };
    if from == to {
        return Ok(is_over);
    }
    if let Some(old) = db.open(to)? {
        if !is_over {
            return Ok(false);
        }
        db.remove(to, &old)?;
    }
    db.remove_row(from, meta.deadline)?;
    db.save(to, Before::default(), &meta)?;
    Ok(true)
}

pub(crate) fn copy(db: &mut Db, args: &Args) -> Done {
    let (from, to) = (args.at(1), args.at(2));
    let mut is_over = false;
    let mut rest = args.rest(3);
    while let Some(word) = rest.next() {
        match keyword(word).as_slice() {
            b"REPLACE" => is_over = true,
            b"DB" => match integer(rest.need()?)? {
                0 => {}
                _ => return fail("ERR Copying to another database is not allowed in cluster mode"),
            },
            _ => return fail(words::SYNTAX),
        }
    }
    if from == to {
        return fail(words::SAME_OBJECT);
    }
    let Some(meta) = db.open(from)? else {
        return Ok(Value::Integer(0));
    };
    if let Some(old) = db.open(to)? {
        if !is_over {
            return Ok(Value::Integer(0));
        }
        db.remove(to, &old)?;
    }
    copy_value(db, from, to, meta)?;
    Ok(Value::Integer(1))
}

fn copy_value(db: &mut Db, from: &[u8], to: &[u8], meta: Meta) -> Result<(), Fail> {
    if let Place::Inline(_) = meta.place {
        return db.save(to, Before::default(), &meta);
    }
    let deadline = meta.deadline;
    match meta.kind {
        Kind::String => {
            let bytes = Text::of(from, meta).bytes(db)?;
            return Text::replace(db, to, None, deadline, &bytes);
        }
        Kind::Hash | Kind::Set => {
            let kind = meta.kind;
            let mut copy = Members::of(to, kind, None);
            for (member, value) in Members::of(from, kind, Some(meta)).all(db)? {
                copy.put(db, &member, &value)?;
            }
            copy.close(db)?;
        }
        Kind::List => {
            let items = Items::of(from, Some(meta)).all(db)?;
            let mut copy = Items::of(to, None);
            copy.rewrite(db, items)?;
            copy.close(db)?;
        }
        Kind::Sorted => {
            let mut copy = Sorted::of(to, None);
            for (score, member) in Sorted::of(from, Some(meta)).all(db)? {
                copy.put(db, &member, score)?;
            }
            copy.close(db)?;
        }
    }
    if deadline.is_none() {
        return Ok(());
    }
    let Some(copied) = db.peek(to)? else {
        return Ok(());
    };
    db.save(to, Before::of(Some(&copied)), &Meta { deadline, ..copied })
}
