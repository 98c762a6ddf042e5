//! COMMAND, and commands without a key at a node that leads no group: they are executed on no keys.

use std::convert::Infallible;

use kv::{Context, Page, Rows};
use resp::{Protocol, Value};

/// Rows of which there are none.
struct Nothing;

impl Rows for Nothing {
    type Stop = Infallible;

    fn get(&mut self, _: &[u8]) -> Result<Option<Vec<u8>>, Infallible> {
        Ok(None)
    }

    fn range(&mut self, _: &[u8], _: &[u8], _: usize) -> Result<Page, Infallible> {
        Ok(Page {
            rows: Vec::new(),
            is_last: true,
        })
    }

    fn put(&mut self, _: &[u8], _: &[u8]) -> Result<(), Infallible> {
        Ok(())
    }

    fn delete(&mut self, _: &[u8]) -> Result<(), Infallible> {
        Ok(())
    }

    fn forget(&mut self, _: &[u8]) -> Result<(), Infallible> {
        Ok(())
    }

    fn time_ms(&self) -> u64 {
        0
    }

    fn random(&mut self) -> u64 {
        0
    }
}

/// The reply of a group that has no slots.
pub(super) fn reply(words: &[&[u8]]) -> Value {
    let context = Context::new(Protocol::Resp2, &[]);
    let Ok(executed) = kv::execute(&mut Nothing, &context, words);
    executed.reply
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_without_a_key_is_answered_as_by_a_group_without_slots() {
        let error = |words: &[&[u8]]| matches!(reply(words), Value::Error(_));
        assert_eq!(reply(&[b"DBSIZE"]), Value::Integer(0));
        assert_eq!(reply(&[b"KEYS", b"*"]), Value::Array(Vec::new()));
        assert_eq!(reply(&[b"RANDOMKEY"]), Value::Null);
        assert_eq!(reply(&[b"FLUSHALL"]), Value::OK);
        let empty = vec![Value::bulk("0"), Value::Array(Vec::new())];
        assert_eq!(reply(&[b"SCAN", b"0"]), Value::Array(empty));
        assert!(matches!(reply(&[b"COMMAND"]), Value::Array(all) if all.len() > 100));
        let many: Vec<&[u8]> = [&b"COMMAND"[..], b"DOCS"]
            .into_iter()
            .chain([&b"GET"[..]; 1_001])
            .collect();
        assert!(error(&many));
        assert!(!error(&many[..1_002]));
        assert!(error(&[b"FLUSHALL", b"BAD"]));
        assert!(error(&[b"SCAN", b"x"]));
        assert!(error(&[b"SCAN", b"0", b"COUNT", b"zz"]));
        assert!(error(&[b"OBJECT", b"ENCODING"]));
        assert!(error(&[b"ZINTERCARD", b"0", b"a"]));
    }
}
