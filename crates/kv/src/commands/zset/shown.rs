//! Members and scores in a reply.

use resp::Value;

use crate::rows::{Db, Entry};

/// Members, and their scores if they are wanted: in RESP 3 each pair is an array of its own.
pub(super) fn entries(db: &Db, entries: Vec<Entry>, has_scores: bool) -> Value {
    match has_scores && db.context.is_new() {
        true => pairs(entries),
        false => flat(entries, has_scores),
    }
}

pub(super) fn flat(entries: Vec<Entry>, has_scores: bool) -> Value {
    let mut values = Vec::new();
    for (score, member) in entries {
        values.push(Value::Bulk(member));
        if has_scores {
            values.push(Value::Double(score));
        }
    }
    Value::Array(values)
}

pub(super) fn pairs(entries: Vec<Entry>) -> Value {
    let pair = |(score, member)| Value::Array(vec![Value::Bulk(member), Value::Double(score)]);
    Value::Array(entries.into_iter().map(pair).collect())
}
