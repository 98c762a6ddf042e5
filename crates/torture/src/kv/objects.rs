//! The objects that clients share, as keys: what is asked of each, in which commands, and what the replies say.
//!
//! | object | keys | asked for |
//! |---|---|---|
//! | register | one string | GET, SET, SET GET, SET NX, DEL, and WATCH with EXEC |
//! | pair | two strings with the same value | MSET, MGET, and both as transactions |
//! | counter | one string | INCR, DECR, INCRBY, GET |
//! | accounts | two strings with the sum 0 | transactions of INCRBY and DECRBY, and of GETs |
//! | fields | a hash | HSET, HGET, HINCRBY, HDEL, HGETALL |
//! | lease | one string with a deadline | SET NX PX, GET, DEL |
//! | list | a list | pushes and pops at both ends, LRANGE |
//! | lines | a list that only grows | RPUSH, in pipelines; LRANGE behind what is known |
//! | text | a string that only grows | APPEND, in pipelines; GETRANGE behind what is known |

use history::{counters, fields, lease, list, register};
use resp::Value;

use super::caller::Request;
use super::link::{Words, words};
use super::token::Token;
use crate::schedule::Chance;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Register,
    Pair,
    Counter,
    Accounts,
    Fields,
    List,
    Lease,
    Lines,
    Text,
}

pub const KINDS: [Kind; 9] = [
    Kind::Register,
    Kind::Pair,
    Kind::Counter,
    Kind::Accounts,
    Kind::Fields,
    Kind::List,
    Kind::Lease,
    Kind::Lines,
    Kind::Text,
];

/// The length of a lease.
pub const LEASE_MS: u64 = 300;

/// An object, for some seconds of the time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Object {
    pub era: u64,
    pub kind: Kind,
    /// All its keys are in one slot.
    pub tag: String,
}

/// One call on an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    Register(register::Call),
    /// As two commands of a transaction, or as one.
    Pair {
        call: register::Call,
        is_transaction: bool,
    },
    Counters(counters::Call),
    Fields(fields::Call),
    List(list::Call),
    /// Its times are told when it has them.
    Lease(lease::Ask),
    Push(Token),
    /// What stands there from this many tokens on.
    Look {
        from: u64,
    },
}

/// What a reply says.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Register(register::Answer),
    Counters(counters::Answer),
    Fields(fields::Answer),
    List(list::Answer),
    Lease(lease::Answer),
    /// The number of tokens.
    Pushed(u64),
    Seen {
        length: u64,
        tokens: Vec<Token>,
    },
    /// The transaction was not executed: something that it watches has changed.
    NotExecuted,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Register => "register",
            Self::Pair => "pair",
            Self::Counter => "counter",
            Self::Accounts => "accounts",
            Self::Fields => "fields",
            Self::List => "list",
            Self::Lease => "lease",
            Self::Lines => "lines",
            Self::Text => "text",
        }
    }
}

impl Object {
    pub fn name(&self) -> String {
        format!("{{{}}}{}:{}", self.tag, self.era, self.kind.name())
    }

    fn keys(&self) -> [String; 2] {
        let name = self.name();
        [format!("{name}:a"), format!("{name}:b")]
    }

    /// A call by chance. `unique` is nobody else's; `known`: the tokens that somebody has seen here.
    pub fn draw(&self, chance: &mut Chance, unique: Token, known: u64) -> Call {
        let value = unique.to_string();
        let register = |chance: &mut Chance| match chance.below(8) {
            0..=2 => register::Call::Get,
            3 => register::Call::Set(value.clone()),
            4 => register::Call::Replace(value.clone()),
            5 => register::Call::SetIfNone(value.clone()),
            6 => register::Call::Delete,
            _ => register::Call::Swap {
                from: None,
                to: value.clone(),
            },
        };
        let by = 1 + chance.below(3) as i64;
        match self.kind {
            Kind::Register => Call::Register(register(chance)),
            Kind::Pair => Call::Pair {
                call: match chance.one_in(2) {
                    true => register::Call::Get,
                    false => register::Call::Set(value),
                },
                is_transaction: chance.one_in(2),
            },
            Kind::Counter => {
                let by = [0, 1, 1, -1, by][chance.below(5) as usize];
                Call::Counters(counters::Call(vec![(0, by)]))
            }
            Kind::Accounts => {
                let by = [0, by, -by][chance.below(3) as usize];
                Call::Counters(counters::Call(vec![(0, by), (1, -by)]))
            }
            Kind::Fields => {
                let field = ["a", "b"][chance.below(2) as usize].to_owned();
                Call::Fields(match chance.below(6) {
                    0 => fields::Call::Get(field),
                    1 => fields::Call::All,
                    2..=3 => fields::Call::Set { field, value },
                    4 => fields::Call::Add {
                        field: "n".to_owned(),
                        by,
                    },
                    _ => fields::Call::Delete(field),
                })
            }
            Kind::List => Call::List(match chance.below(8) {
                0..=1 => list::Call::All,
                2..=3 => list::Call::PushBack(value),
                4 => list::Call::PushFront(value),
                5 => list::Call::PopBack,
                _ => list::Call::PopFront,
            }),
            Kind::Lease => Call::Lease(match chance.below(8) {
                0..=2 => lease::Ask::Take {
                    value,
                    gone_from: 0,
                    gone_by: None,
                },
                3..=6 => lease::Ask::Get,
                _ => lease::Ask::Delete,
            }),
            Kind::Lines | Kind::Text => match chance.one_in(3) {
                true => Call::Look { from: known },
                false => Call::Push(unique),
            },
        }
    }

    /// The call that sees all of it.
    pub fn look(&self) -> Call {
        match self.kind {
            Kind::Register => Call::Register(register::Call::Get),
            Kind::Pair => Call::Pair {
                call: register::Call::Get,
                is_transaction: true,
            },
            Kind::Counter => Call::Counters(counters::Call(vec![(0, 0)])),
            Kind::Accounts => Call::Counters(counters::Call(vec![(0, 0), (1, 0)])),
            Kind::Fields => Call::Fields(fields::Call::All),
            Kind::List => Call::List(list::Call::All),
            Kind::Lease => Call::Lease(lease::Ask::Get),
            Kind::Lines | Kind::Text => Call::Look { from: 0 },
        }
    }

    /// The commands that ask for it. A swap is only its last part, behind WATCH and GET.
    pub fn request(&self, call: &Call) -> Request {
        let key = self.name();
        let one = |all: &[&str]| Request(vec![words(all)]);
        match call {
            Call::Register(call) => match call {
                register::Call::Get => one(&["GET", &key]),
                register::Call::Set(value) => one(&["SET", &key, value]),
                register::Call::Replace(value) => one(&["SET", &key, value, "GET"]),
                register::Call::SetIfNone(value) => one(&["SETNX", &key, value]),
                register::Call::Swap { to, .. } => transaction(vec![words(["SET", &key, to])]),
                register::Call::Delete => one(&["DEL", &key]),
            },
            Call::Pair {
                call,
                is_transaction,
            } => {
                let [a, b] = &self.keys();
                match (call, is_transaction) {
                    (register::Call::Set(value), true) => {
                        transaction(vec![words(["SET", a, value]), words(["SET", b, value])])
                    }
                    (register::Call::Set(value), false) => one(&["MSET", a, value, b, value]),
                    (_, true) => transaction(vec![words(["GET", a]), words(["GET", b])]),
                    (_, false) => one(&["MGET", a, b]),
                }
            }
            Call::Counters(counters::Call(all)) => match all.as_slice() {
                [(_, by)] => Request(vec![add(&key, *by)]),
                [(_, a), (_, b)] => {
                    let keys = self.keys();
                    transaction(vec![add(&keys[0], *a), add(&keys[1], *b)])
                }
                _ => Request(Vec::new()),
            },
            Call::Fields(call) => match call {
                fields::Call::Get(field) => one(&["HGET", &key, field]),
                fields::Call::All => one(&["HGETALL", &key]),
                fields::Call::Set { field, value } => one(&["HSET", &key, field, value]),
                fields::Call::Add { field, by } => one(&["HINCRBY", &key, field, &by.to_string()]),
                fields::Call::Delete(field) => one(&["HDEL", &key, field]),
            },
            Call::List(call) => match call {
                list::Call::All => one(&["LRANGE", &key, "0", "-1"]),
                list::Call::PushBack(item) => one(&["RPUSH", &key, item]),
                list::Call::PushFront(item) => one(&["LPUSH", &key, item]),
                list::Call::PopBack => one(&["RPOP", &key]),
                list::Call::PopFront => one(&["LPOP", &key]),
            },
            Call::Lease(ask) => match ask {
                lease::Ask::Take { value, .. } => {
                    one(&["SET", &key, value, "NX", "PX", &LEASE_MS.to_string()])
                }
                lease::Ask::Get => one(&["GET", &key]),
                lease::Ask::Delete => one(&["DEL", &key]),
            },
            Call::Push(token) => match self.kind {
                Kind::Text => one(&["APPEND", &key, &token.to_string()]),
                _ => one(&["RPUSH", &key, &token.to_string()]),
            },
            Call::Look { from } => match self.kind {
                Kind::Text => {
                    let from = (from * Token::BYTES).to_string();
                    transaction(vec![
                        words(["STRLEN", &key]),
                        words(["GETRANGE", &key, &from, "-1"]),
                    ])
                }
                _ => transaction(vec![
                    words(["LLEN", &key]),
                    words(["LRANGE", &key, &from.to_string(), "-1"]),
                ]),
            },
        }
    }

    /// What this reply to the call says; a sentence if it is none that it may have.
    pub fn answer(&self, call: &Call, value: &Value) -> Result<Answer, String> {
        let read = match call {
            Call::Register(call) => register_answer(call, value).map(Answer::Register),
            Call::Pair { call, .. } => pair_answer(call, value).map(Answer::Register),
            Call::Counters(counters::Call(all)) => counters_answer(all, value),
            Call::Fields(call) => fields_answer(call, value).map(Answer::Fields),
            Call::List(call) => list_answer(call, value).map(Answer::List),
            Call::Lease(ask) => lease_answer(ask, value).map(Answer::Lease),
            Call::Push(_) => self.tokens(value).map(Answer::Pushed),
            Call::Look { .. } => self.seen(value),
        };
        let swaps = matches!(call, Call::Register(register::Call::Swap { .. }));
        match (read, value) {
            (None, Value::NullArray) if swaps => Ok(Answer::NotExecuted),
            (Some(answer), _) => Ok(answer),
            (None, value) => Err(format!("{} answers {call:?} with {value:?}", self.name())),
        }
    }

    fn tokens(&self, value: &Value) -> Option<u64> {
        let length = u64::try_from(integer(value)?).ok()?;
        match self.kind {
            Kind::Text => length
                .is_multiple_of(Token::BYTES)
                .then_some(length / Token::BYTES),
            _ => Some(length),
        }
    }

    fn seen(&self, value: &Value) -> Option<Answer> {
        let Value::Array(parts) = value else {
            return None;
        };
        let [length, tokens] = parts.as_slice() else {
            return None;
        };
        let tokens: Option<Vec<Token>> = match tokens {
            Value::Array(items) => items
                .iter()
                .map(|item| Token::read(text(item)?.as_bytes()))
                .collect(),
            Value::Bulk(bytes) => bytes
                .chunks(Token::BYTES as usize)
                .map(Token::read)
                .collect(),
            _ => None,
        };
        Some(Answer::Seen {
            length: self.tokens(length)?,
            tokens: tokens?,
        })
    }
}

fn transaction(commands: Vec<Words>) -> Request {
    let mut all = vec![words(["MULTI"])];
    all.extend(commands);
    all.push(words(["EXEC"]));
    Request(all)
}

fn add(key: &str, by: i64) -> Words {
    match by {
        0 => words(["GET", key]),
        1 => words(["INCR", key]),
        -1 => words(["DECR", key]),
        by if by < 0 => words(["DECRBY", key, &by.unsigned_abs().to_string()]),
        by => words(["INCRBY", key, &by.to_string()]),
    }
}

fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Integer(number) => Some(*number),
        _ => None,
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Bulk(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    }
}

/// Text, or that there is none.
fn text_or_none(value: &Value) -> Option<Option<String>> {
    match value {
        Value::Null => Some(None),
        value => text(value).map(Some),
    }
}

fn did(value: &Value) -> Option<bool> {
    match value {
        Value::Integer(0) => Some(false),
        Value::Integer(1) => Some(true),
        _ => None,
    }
}

fn register_answer(call: &register::Call, value: &Value) -> Option<register::Answer> {
    use register::{Answer, Call};
    match (call, value) {
        (Call::Get | Call::Replace(_), value) => text_or_none(value).map(Answer::Value),
        (Call::Set(_), Value::Simple(ok)) if ok == "OK" => Some(Answer::Done),
        (Call::Swap { .. }, Value::Array(all)) if *all == [Value::OK] => Some(Answer::Done),
        (Call::SetIfNone(_) | Call::Delete, value) => did(value).map(Answer::Did),
        _ => None,
    }
}

fn pair_answer(call: &register::Call, value: &Value) -> Option<register::Answer> {
    use register::{Answer, Call};
    match (call, value) {
        (Call::Set(_), Value::Simple(ok)) if ok == "OK" => Some(Answer::Done),
        (Call::Set(_), Value::Array(all)) if *all == [Value::OK, Value::OK] => Some(Answer::Done),
        (Call::Get, Value::Array(all)) => {
            let [a, b] = all.as_slice() else {
                return None;
            };
            let (a, b) = (text_or_none(a)?, text_or_none(b)?);
            // Two values are one that nobody wrote.
            let seen = match a == b {
                true => a,
                false => Some(format!("{a:?} and {b:?}")),
            };
            Some(Answer::Value(seen))
        }
        _ => None,
    }
}

fn counters_answer(all: &[(usize, i64)], value: &Value) -> Option<Answer> {
    let number = |value: &Value| match value {
        Value::Null => Some(0),
        Value::Integer(number) => Some(*number),
        value => text(value)?.parse().ok(),
    };
    let numbers: Option<Vec<i64>> = match (all.len(), value) {
        (1, value) => Some(vec![number(value)?]),
        (count, Value::Array(values)) if values.len() == count => {
            values.iter().map(number).collect()
        }
        _ => None,
    };
    numbers.map(|numbers| Answer::Counters(counters::Answer(numbers)))
}

fn fields_answer(call: &fields::Call, value: &Value) -> Option<fields::Answer> {
    use fields::{Answer, Call};
    match (call, value) {
        (Call::Get(_), value) => text_or_none(value).map(Answer::Value),
        (Call::All, Value::Array(items)) => {
            let pairs = items.chunks(2).map(|pair| match pair {
                [field, value] => Some((text(field)?, text(value)?)),
                _ => None,
            });
            pairs.collect::<Option<_>>().map(Answer::All)
        }
        (Call::Set { .. } | Call::Delete(_), value) => did(value).map(Answer::Did),
        (Call::Add { .. }, value) => integer(value).map(Answer::Number),
        _ => None,
    }
}

fn lease_answer(ask: &lease::Ask, value: &Value) -> Option<lease::Answer> {
    use lease::{Answer, Ask};
    match (ask, value) {
        (Ask::Take { .. }, Value::Simple(ok)) if ok == "OK" => Some(Answer::Did(true)),
        (Ask::Take { .. }, Value::Null) => Some(Answer::Did(false)),
        (Ask::Take { .. }, _) => None,
        (Ask::Get, value) => text_or_none(value).map(Answer::Value),
        (Ask::Delete, value) => did(value).map(Answer::Did),
    }
}

fn list_answer(call: &list::Call, value: &Value) -> Option<list::Answer> {
    use list::{Answer, Call};
    match (call, value) {
        (Call::All, Value::Array(items)) => {
            let items: Option<Vec<String>> = items.iter().map(text).collect();
            items.map(Answer::All)
        }
        (Call::PushBack(_) | Call::PushFront(_), value) => {
            let length = usize::try_from(integer(value)?).ok()?;
            Some(Answer::Length(length))
        }
        (Call::PopBack | Call::PopFront, value) => text_or_none(value).map(Answer::Value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(kind: Kind) -> Object {
        Object {
            era: 3,
            kind,
            tag: "t1".to_owned(),
        }
    }

    fn texts(items: &[&str]) -> Value {
        Value::bulks(items.iter().copied())
    }

    #[test]
    fn values_that_must_agree_and_do_not_are_one_that_nobody_wrote() {
        let object = object(Kind::Pair);
        let look = object.look();
        let answer = |value| match object.answer(&look, &value) {
            Ok(Answer::Register(register::Answer::Value(value))) => value,
            other => panic!("{other:?}"),
        };
        assert_eq!(answer(texts(&["a", "a"])), Some("a".to_owned()));
        assert_eq!(answer(Value::Array(vec![Value::Null, Value::Null])), None);
        let torn = answer(texts(&["a", "b"]));
        assert!(torn.is_some_and(|value| value != "a" && value != "b"));
    }

    #[test]
    fn a_transaction_that_was_not_executed_is_told_from_one_that_was() {
        let object = object(Kind::Register);
        let swap = Call::Register(register::Call::Swap {
            from: None,
            to: "b".to_owned(),
        });
        assert_eq!(
            object.answer(&swap, &Value::NullArray),
            Ok(Answer::NotExecuted)
        );
        let done = Answer::Register(register::Answer::Done);
        assert_eq!(
            object.answer(&swap, &Value::Array(vec![Value::OK])),
            Ok(done)
        );
        assert!(object.answer(&swap, &Value::Null).is_err());
    }

    #[test]
    fn every_call_that_is_drawn_is_of_one_slot() {
        for kind in KINDS {
            let object = object(kind);
            let mut chance = Chance::new(1, 1);
            for number in 0..200 {
                let unique = Token { client: 1, number };
                let call = object.draw(&mut chance, unique, 5);
                let commands = object.request(&call).0;
                assert!(!commands.is_empty());
                let keys = commands.iter().filter_map(|words| words.get(1));
                for key in keys {
                    assert!(key.starts_with(b"{t1}3:"), "{call:?}");
                }
            }
        }
    }

    #[test]
    fn a_text_that_ends_within_a_token_is_no_answer() {
        let object = object(Kind::Text);
        let look = Call::Look { from: 0 };
        let token = Token {
            client: 1,
            number: 2,
        };
        let value = |text: String| {
            let length = Value::Integer(text.len() as i64);
            Value::Array(vec![length, Value::bulk(text)])
        };
        let whole = value(format!("{token}{token}"));
        let tokens = vec![token; 2];
        assert_eq!(
            object.answer(&look, &whole),
            Ok(Answer::Seen { length: 2, tokens })
        );
        assert!(object.answer(&look, &value(format!("{token}0"))).is_err());
    }
}
