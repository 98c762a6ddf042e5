//! Commands without a key (DBSIZE, KEYS, SCAN, RANDOMKEY, FLUSHALL): they are about a node, so about all groups that it leads. Each is asked, and
//! the replies become one.

use paxos::mutation::{self, Mutation};
use resp::{Decoder, Protocol, Value};

use crate::client::BULK_BYTES_MAX;
use crate::rooms::Hold;

/// How the replies become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joins {
    /// The sum of integers.
    Sum,
    /// All items of arrays.
    Items,
    /// The first that is something.
    First,
    /// SCAN: one group after the other.
    Scan,
}

impl Joins {
    pub fn of(name: &str) -> Joins {
        match name {
            "dbsize" => Joins::Sum,
            "keys" => Joins::Items,
            "scan" => Joins::Scan,
            _ => Joins::First,
        }
    }
}

/// A command that several groups execute.
pub struct Spread {
    left: usize,
    joins: Joins,
    /// That of its client when it asked.
    pub protocol: Protocol,
    /// Where SCAN goes on once this group has no more.
    pub then: Option<u64>,
    /// … which it is asked for up to this slot: it may have others behind those of the next group.
    pub until: u16,
    replies: Vec<Value>,
    has_none: bool,
    /// Room for what the groups tell, until that is one reply.
    _hold: Option<Hold>,
}

/// The cursor at which a scan of this slot begins.
pub fn cursor_at(slot: u16) -> u64 {
    (u64::from(slot) << 48) + 1
}

/// The slot in which a scan goes on.
pub fn slot_at(cursor: u64) -> u16 {
    (cursor.saturating_sub(1) >> 48) as u16
}

impl Spread {
    pub fn new(left: usize, joins: Joins, protocol: Protocol, hold: Option<Hold>) -> Spread {
        Spread {
            left,
            joins,
            protocol,
            then: None,
            until: kv::SLOTS - 1,
            replies: Vec::new(),
            has_none: false,
            _hold: hold,
        }
    }

    /// Whether so many groups tell much for a reply.
    pub fn is_large(groups: usize, joins: Joins) -> bool {
        groups > 1 && joins == Joins::Items
    }

    /// Takes a group's reply; `None` if nobody knows it. True once all are here.
    pub fn take(&mut self, bytes: Option<&[u8]>) -> bool {
        let value = bytes.and_then(|bytes| Decoder::new(BULK_BYTES_MAX).next(bytes).ok().flatten());
        match value {
            Some((value, _)) => self.replies.push(value),
            None => self.has_none = true,
        }
        self.left = self.left.saturating_sub(1);
        self.left == 0 || mutation::is(Mutation::SpreadAnsweredHalf)
    }

    /// The reply; `None` if nobody knows it.
    pub fn join(self) -> Option<Value> {
        if self.has_none {
            return None;
        }
        let is_error = |value: &&Value| matches!(value, Value::Error(_));
        if let Some(error) = self.replies.iter().find(is_error) {
            return Some(error.clone());
        }
        let mut replies = self.replies.into_iter();
        Some(match self.joins {
            Joins::Sum => Value::Integer(
                replies
                    .map(|value| match value {
                        Value::Integer(count) => count,
                        _ => 0,
                    })
                    .sum(),
            ),
            Joins::Items => Value::Array(
                replies
                    .flat_map(|value| match value {
                        Value::Array(items) => items,
                        _ => Vec::new(),
                    })
                    .collect(),
            ),
            Joins::First => {
                let first = replies.find(|value| *value != Value::Null);
                first.unwrap_or(Value::Null)
            }
            Joins::Scan => match (replies.next(), self.then) {
                (Some(Value::Array(mut parts)), then) => {
                    if let Some(cursor) = parts.first_mut()
                        && ends_part(cursor, self.until)
                    {
                        *cursor = Value::bulk(then.unwrap_or(0).to_string());
                    }
                    Value::Array(parts)
                }
                (reply, _) => reply.unwrap_or(Value::Null),
            },
        })
    }
}

/// Whether a scan that goes on at this cursor has all of the slots up to this one.
fn ends_part(cursor: &Value, until: u16) -> bool {
    let Value::Bulk(text) = cursor else {
        return false;
    };
    let at = resp::integer_of(text).and_then(|at| u64::try_from(at).ok());
    at.is_some_and(|at| at == 0 || slot_at(at) > until)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(joins: Joins, replies: &[&[u8]]) -> Option<Value> {
        let mut spread = Spread::new(replies.len(), joins, Protocol::Resp2, None);
        spread.then = Some(cursor_at(9));
        for reply in replies {
            spread.take(Some(reply));
        }
        spread.join()
    }

    #[test]
    fn replies_of_groups_become_one() {
        assert_eq!(
            joined(Joins::Sum, &[b":2\r\n", b":3\r\n"]),
            Some(Value::Integer(5))
        );
        let keys = joined(Joins::Items, &[b"*1\r\n$1\r\na\r\n", b"*0\r\n"]);
        assert_eq!(keys, Some(Value::bulks(["a"])));
        assert_eq!(
            joined(Joins::First, &[b"$-1\r\n", b"$1\r\na\r\n"]),
            Some(Value::bulk("a"))
        );
        assert_eq!(
            joined(Joins::First, &[b"-ERR no\r\n"]),
            Some(Value::error("ERR no"))
        );
    }

    #[test]
    fn a_scan_goes_on_in_the_next_group() {
        let reply = joined(Joins::Scan, &[b"*2\r\n$1\r\n0\r\n*0\r\n"]);
        let next = Value::bulk(cursor_at(9).to_string());
        assert_eq!(reply, Some(Value::Array(vec![next, Value::Array(vec![])])));
        assert_eq!(slot_at(cursor_at(9)), 9);
        assert_eq!(slot_at(0), 0);
    }
}
