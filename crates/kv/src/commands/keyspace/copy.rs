//! Keys under another name.

use resp::Value;

use crate::args::{Args, integer, keyword};
use crate::commands::Done;
use crate::fail::{Fail, fail, words};
use crate::rows::{Before, Db, Entry, Items, Kind, Member, Members, Meta, Place, Sorted, Text};

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
    let old = db.open(to)?;
    if old.is_some() && !is_over {
        return Ok(Value::Integer(0));
    }
    let copied = Copied::of(db, from, meta)?;
    if let Some(old) = old {
        db.remove(to, &old)?;
    }
    copied.put(db, to)?;
    Ok(Value::Integer(1))
}

/// All that a key holds, read before anything is written.
enum Copied {
    Inline(Meta),
    String(Vec<u8>, Option<u64>),
    Members(Kind, Vec<Member>, Option<u64>),
    Items(Vec<Vec<u8>>, Option<u64>),
    Sorted(Vec<Entry>, Option<u64>),
}

impl Copied {
    fn of(db: &mut Db, key: &[u8], meta: Meta) -> Result<Copied, Fail> {
        let (kind, deadline) = (meta.kind, meta.deadline);
        if let Place::Inline(_) = meta.place {
            return Ok(Copied::Inline(meta));
        }
        let meta = Some(meta);
        Ok(match kind {
            Kind::String => {
                let bytes = meta.map(|meta| Text::of(key, meta).bytes(db)).transpose()?;
                Copied::String(bytes.unwrap_or_default(), deadline)
            }
            Kind::Hash | Kind::Set => {
                Copied::Members(kind, Members::of(key, kind, meta).all(db)?, deadline)
            }
            Kind::List => Copied::Items(Items::of(key, meta).all(db)?, deadline),
            Kind::Sorted => Copied::Sorted(Sorted::of(key, meta).all(db)?, deadline),
        })
    }

    /// Under another name, where nothing is.
    fn put(self, db: &mut Db, key: &[u8]) -> Result<(), Fail> {
        match self {
            Copied::Inline(meta) => db.save(key, Before::default(), &meta),
            Copied::String(bytes, deadline) => Text::replace(db, key, None, deadline, &bytes),
            Copied::Members(kind, members, deadline) => {
                let mut copy = Members::of(key, kind, None);
                copy.deadline = deadline;
                for (member, value) in members {
                    copy.put(db, &member, &value)?;
                }
                copy.close(db)
            }
            Copied::Items(items, deadline) => {
                let mut copy = Items::of(key, None);
                copy.deadline = deadline;
                copy.rewrite(db, items)?;
                copy.close(db)
            }
            Copied::Sorted(entries, deadline) => {
                let mut copy = Sorted::of(key, None);
                copy.deadline = deadline;
                for (score, member) in entries {
                    copy.put(db, &member, score)?;
                }
                copy.close(db)
            }
        }
    }
}
