//! Replies, in neither protocol yet.

use std::borrow::Cow;

/// A reply, or a part of one.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `OK`, `QUEUED`, a type's name.
    Simple(Cow<'static, str>),
    /// Its first word is what programs look at: `ERR`, `WRONGTYPE`, `MOVED`.
    Error(Cow<'static, str>),
    Integer(i64),
    Bulk(Vec<u8>),
    /// Where a value would be, and is none.
    Null,
    /// Where an array would be, and is none: in RESP 2 it looks different.
    NullArray,
    Array(Vec<Value>),
    /// RESP 2: an array of keys and values in turns.
    Map(Vec<(Value, Value)>),
    /// RESP 2: an array.
    Set(Vec<Value>),
    /// RESP 2: a bulk.
    Double(f64),
    /// RESP 2: 1 or 0.
    Boolean(bool),
    /// Text and what it is, such as `txt`. RESP 2: a bulk.
    Verbatim([u8; 3], Vec<u8>),
    /// Digits. RESP 2: a bulk.
    BigNumber(Cow<'static, str>),
    /// News that nobody asked for. RESP 2: an array.
    Push(Vec<Value>),
}

impl Value {
    pub const OK: Value = Value::Simple(Cow::Borrowed("OK"));

    pub fn bulk(bytes: impl Into<Vec<u8>>) -> Value {
        Value::Bulk(bytes.into())
    }

    pub fn error(words: impl Into<Cow<'static, str>>) -> Value {
        Value::Error(words.into())
    }

    /// Bulks in an array.
    pub fn bulks<T: Into<Vec<u8>>>(items: impl IntoIterator<Item = T>) -> Value {
        Value::Array(items.into_iter().map(Value::bulk).collect())
    }

    /// How many of something there are.
    pub fn count(count: usize) -> Value {
        Value::Integer(i64::try_from(count).unwrap_or(i64::MAX))
    }
}
