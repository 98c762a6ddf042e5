//! Why a command has no result.

use std::borrow::Cow;

use crate::rows::Stopped;

/// A command ended without a result: its rows are not here, or its client is told what is wrong.
#[derive(Debug)]
pub(crate) enum Fail {
    Stopped,
    Error(Cow<'static, str>),
}

impl From<Stopped> for Fail {
    fn from(_: Stopped) -> Fail {
        Fail::Stopped
    }
}

impl From<&'static str> for Fail {
    fn from(words: &'static str) -> Fail {
        Fail::Error(words.into())
    }
}

impl From<String> for Fail {
    fn from(words: String) -> Fail {
        Fail::Error(words.into())
    }
}

pub(crate) fn fail<T>(words: impl Into<Cow<'static, str>>) -> Result<T, Fail> {
    Err(Fail::Error(words.into()))
}

/// Redis' words, which programs compare.
pub(crate) mod words {
    pub const SYNTAX: &str = "ERR syntax error";
    pub const WRONG_TYPE: &str =
        "WRONGTYPE Operation against a key holding the wrong kind of value";
    pub const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";
    pub const NOT_A_FLOAT: &str = "ERR value is not a valid float";
    pub const NO_KEY: &str = "ERR no such key";
    pub const OVERFLOW: &str = "ERR increment or decrement would overflow";
    pub const OUT_OF_RANGE: &str = "ERR value is out of range";
    pub const INDEX_RANGE: &str = "ERR index out of range";
    pub const NOT_POSITIVE: &str = "ERR value is out of range, must be positive";
    pub const SAME_OBJECT: &str = "ERR source and destination objects are the same";
    pub const NAN_SCORE: &str = "ERR resulting score is not a number (NaN)";
    pub const CROSS_SLOT: &str = "CROSSSLOT Keys in request don't hash to the same slot";
    pub const TOO_LONG: &str = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
    pub const ANY_COUNT: &str = "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807";
    pub const NOT_PREPARED: &str = "NOTPREPARED the value that was sent ahead is gone";
    pub const NO_NUMBER: &str = "ERR increment would produce NaN or Infinity";
}
