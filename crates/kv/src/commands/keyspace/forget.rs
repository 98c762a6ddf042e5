//! Keys that go: some, or all.

use resp::Value;

use crate::args::{Args, keyword};
use crate::commands::Done;
use crate::fail::{Fail, fail, words};
use crate::rows::{Db, Header};
use crate::slot::Life;

/// DEL and UNLINK. What a key holds is forgotten at once, however large it is: there is nothing to be left to the background.
pub(crate) fn del(db: &mut Db, args: &Args) -> Done {
    db.ask(args.from(1))?;
    let mut count = 0;
    for key in args.from(1) {
        if let Some(meta) = db.open(key)? {
            db.remove(key, &meta)?;
            count += 1;
        }
    }
    Ok(Value::Integer(count))
}

/// FLUSHALL and FLUSHDB: each slot that has keys begins another life.
pub(crate) fn flush(db: &mut Db, args: &Args) -> Done {
    match keyword(args.at(1)).as_slice() {
        b"" | b"SYNC" | b"ASYNC" if args.len() <= 2 => {}
        _ => return fail(words::SYNTAX),
    }
    let lives = db.context.lives;
    let headers = db.headers(lives)?;
    for (life, header) in lives.iter().zip(headers) {
        if header.keys > 0 {
            let next = end_life(db, life, header)?;
            db.effects.flushed.push(next);
        }
    }
    Ok(Value::OK)
}

/// Forgets all rows of a life. The next one goes on with its ids.
fn end_life(db: &mut Db, life: &Life, header: Header) -> Result<Life, Fail> {
    db.view.forget(&life.prefix())?;
    let next = life.next();
    let header = Header {
        keys: 0,
        sessions: 0,
        ..header
    };
    db.put_header(&next, header)?;
    Ok(next)
}
