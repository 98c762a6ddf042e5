//! Answers of the door itself: about the connection, the cluster, the server.

pub mod acl;
pub mod cluster;
pub mod connection;
pub mod info;
pub mod server;

use resp::{Value, integer_of};

/// The version of Redis whose commands these are.
pub const REDIS_VERSION: &str = "7.0.15";

pub fn error(words: impl Into<String>) -> Value {
    Value::error(words.into())
}

pub fn text(text: impl Into<String>) -> Value {
    Value::bulk(text.into())
}

/// Redis' words about a subcommand that is not there.
pub fn no_subcommand(command: &str, subcommand: &[u8]) -> Value {
    let shown: String = String::from_utf8_lossy(subcommand)
        .chars()
        .take(128)
        .collect();
    error(format!(
        "ERR unknown subcommand '{shown}'. Try {command} HELP."
    ))
}

pub fn wrong_count(command: &str, subcommand: &[u8]) -> Value {
    let shown = String::from_utf8_lossy(subcommand).to_lowercase();
    error(format!(
        "ERR wrong number of arguments for '{command}|{shown}' command"
    ))
}

/// Whether a word is this one, however it is written.
pub fn is(word: &[u8], name: &str) -> bool {
    word.eq_ignore_ascii_case(name.as_bytes())
}

pub fn number(word: &[u8]) -> Result<i64, Value> {
    integer_of(word).ok_or_else(|| error("ERR value is not an integer or out of range"))
}
