//! Whether keys are there, and what they are.

use resp::Value;

use crate::args::Args;
use crate::commands::Done;
use crate::rows::Db;

/// EXISTS and TOUCH. A key that is named twice counts twice.
pub(crate) fn exists(db: &mut Db, args: &Args) -> Done {
    db.ask(args.from(1))?;
    let mut count = 0;
    for key in args.from(1) {
        count += i64::from(db.peek(key)?.is_some());
    }
    Ok(Value::Integer(count))
}

pub(crate) fn type_of(db: &mut Db, args: &Args) -> Done {
    let meta = db.peek(args.at(1))?;
    let name = meta.map_or("none", |meta| meta.kind.name());
    Ok(Value::Simple(name.into()))
}
