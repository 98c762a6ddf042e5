//! The rows of one slot, and commands on them, one after the other.

use std::collections::BTreeMap;

use kv::{Context, Life, Page, Rows, execute, take_expired};
use resp::{Decoder, Protocol, Value, encode};

use crate::patrons::Words;

pub type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Nothing is away.
#[derive(Debug)]
pub enum Never {}

/// Rows, and what a command does to them.
struct View<'a> {
    rows: &'a mut Map,
    time_ms: u64,
}

impl Rows for View<'_> {
    type Stop = Never;

    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Never> {
        Ok(self.rows.get(key).cloned())
    }

    fn range(&mut self, from: &[u8], to: &[u8], rows_max: usize) -> Result<Page, Never> {
        let mut page = Page {
            rows: Vec::new(),
            is_last: true,
        };
        if from >= to {
            return Ok(page);
        }
        for (key, value) in self.rows.range(from.to_vec()..to.to_vec()) {
            if page.rows.len() >= rows_max {
                page.is_last = false;
                break;
            }
            page.rows.push((key.clone(), value.clone()));
        }
        Ok(page)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Never> {
        self.rows.insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), Never> {
        self.rows.remove(key);
        Ok(())
    }

    fn forget(&mut self, prefix: &[u8]) -> Result<(), Never> {
        self.rows.retain(|key, _| !key.starts_with(prefix));
        Ok(())
    }

    fn time_ms(&self) -> u64 {
        self.time_ms
    }

    fn random(&mut self) -> u64 {
        panic!("nothing is drawn here")
    }
}

/// What commands came to.
pub struct Came {
    pub reply: Value,
    pub wrote: bool,
    /// It wrote nothing, and took a key for expired.
    pub notes_time: bool,
    /// The rows, if it wrote any.
    pub rows: Option<Map>,
}

fn life(slot: u16) -> Life {
    Life {
        slot,
        epoch: 1,
        round: 0,
    }
}

/// A reply as a client of that protocol reads it.
fn as_read(value: &Value, protocol: Protocol) -> Value {
    let mut bytes = Vec::new();
    encode(value, protocol, &mut bytes);
    let read = Decoder::new(64 << 20).next(&bytes);
    read.expect("a reply").expect("all of it").0
}

/// One command on these rows, or a transaction.
pub fn run(
    rows: &Map,
    slot: u16,
    time_ms: u64,
    protocol: Protocol,
    commands: &[Words],
    is_transaction: bool,
) -> Came {
    let mut own = rows.clone();
    let lives = [life(slot)];
    let context = Context::new(protocol, &lives);
    let (mut wrote, mut notes_time, mut replies) = (false, false, Vec::new());
    for words in commands {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let mut view = View {
            rows: &mut own,
            time_ms,
        };
        let executed = match execute(&mut view, &context, &words) {
            Ok(executed) => executed,
            Err(never) => match never {},
        };
        wrote |= executed.wrote;
        notes_time |= executed.saw_expired && !executed.wrote;
        replies.push(executed.reply);
    }
    let reply = match is_transaction {
        true => Value::Array(replies),
        false => replies.pop().unwrap_or(Value::Null),
    };
    Came {
        reply: as_read(&reply, protocol),
        wrote,
        notes_time,
        rows: wrote.then_some(own),
    }
}

/// The rows without the keys whose deadline has passed.
pub fn work_off(rows: &Map, slot: u16, time_ms: u64) -> Map {
    let mut own = rows.clone();
    let mut view = View {
        rows: &mut own,
        time_ms,
    };
    let taken = take_expired(&mut view, life(slot), 100);
    assert!(taken.is_ok(), "rows of a slot can be read");
    own
}
