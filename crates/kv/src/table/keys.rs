//! Keys, whatever they hold.

use super::row;
use crate::commands::{keyspace, scan, sort};
use crate::spec::CommandSpec;

pub(super) const COMMANDS: &[CommandSpec] = &[
    row("copy", -3, &["write", "denyoom"], [1, 2, 1])
        .about("generic", "6.2.0", "O(n), n elements of the value")
        .says(
            "Writes the value of one key under another",
            &["@keyspace", "@write", "@slow"],
        )
        .on(keyspace::copy),
    row("dbsize", 1, &["readonly", "fast"], [0, 0, 0])
        .about("server", "1.0.0", "O(1)")
        .says("Counts the keys", &["@keyspace", "@read", "@fast"])
        .on(keyspace::dbsize),
    row("del", -2, &["write"], [1, -1, 1])
        .about("generic", "1.0.0", "O(n), n keys and their elements")
        .says(
            "Removes keys and what they hold",
            &["@keyspace", "@write", "@slow"],
        )
        .on(keyspace::del),
    row("exists", -2, &["readonly", "fast"], [1, -1, 1])
        .about("generic", "1.0.0", "O(n), n keys")
        .says(
            "Counts how many of these keys are there",
            &["@keyspace", "@read", "@fast"],
        )
        .on(keyspace::exists),
    row("expire", -3, &["write", "fast"], [1, 1, 1])
        .about("generic", "1.0.0", "O(1)")
        .says(
            "Lets a key end after some seconds",
            &["@keyspace", "@write", "@fast"],
        )
        .on(keyspace::expire),
    row("expireat", -3, &["write", "fast"], [1, 1, 1])
        .about("generic", "1.2.0", "O(1)")
        .says(
            "Lets a key end at a time given in Unix seconds",
            &["@keyspace", "@write", "@fast"],
        )
        .on(keyspace::expireat),
    row("expiretime", 2, &["readonly", "fast"], [1, 1, 1])
        .about("generic", "7.0.0", "O(1)")
        .says(
            "Tells when a key ends, in Unix seconds",
            &["@keyspace", "@read", "@fast"],
        )
        .on(keyspace::expiretime),
    row("flushall", -1, &["write"], [0, 0, 0])
        .about("server", "1.0.0", "O(n), n keys")
        .says(
            "Removes every key of every database",
            &["@keyspace", "@write", "@slow", "@dangerous"],
        )
        .on(keyspace::flush),
    row("flushdb", -1, &["write"], [0, 0, 0])
        .about("server", "1.0.0", "O(n), n keys")
        .says(
            "Removes every key of this database",
            &["@keyspace", "@write", "@slow", "@dangerous"],
        )
        .on(keyspace::flush),
    row("keys", 2, &["readonly"], [0, 0, 0])
        .about("generic", "1.0.0", "O(n), n keys in the database")
        .says(
            "Lists the keys that fit a pattern",
            &["@keyspace", "@read", "@slow", "@dangerous"],
        )
        .on(keyspace::keys),
    row("object", -2, &[], [0, 0, 0])
        .about("generic", "2.2.3", "That of the subcommand")
        .says("Tells how the value of a key is kept", &["@slow"])
        .on(keyspace::object),
    row("persist", 2, &["write", "fast"], [1, 1, 1])
        .about("generic", "2.2.0", "O(1)")
        .says(
            "Lets a key stay that was about to end",
            &["@keyspace", "@write", "@fast"],
        )
        .on(keyspace::persist),
    row("pexpire", -3, &["write", "fast"], [1, 1, 1])
        .about("generic", "2.6.0", "O(1)")
        .says(
            "Lets a key end after some milliseconds",
            &["@keyspace", "@write", "@fast"],
        )
        .on(keyspace::pexpire),
    row("pexpireat", -3, &["write", "fast"], [1, 1, 1])
        .about("generic", "2.6.0", "O(1)")
        .says(
            "Lets a key end at a time given in Unix milliseconds",
            &["@keyspace", "@write", "@fast"],
        )
        .on(keyspace::pexpireat),
    row("pexpiretime", 2, &["readonly", "fast"], [1, 1, 1])
        .about("generic", "7.0.0", "O(1)")
        .says(
            "Tells when a key ends, in Unix milliseconds",
            &["@keyspace", "@read", "@fast"],
        )
        .on(keyspace::pexpiretime),
    row("pttl", 2, &["readonly", "fast"], [1, 1, 1])
        .about("generic", "2.6.0", "O(1)")
        .says(
            "Tells how many milliseconds a key still has",
            &["@keyspace", "@read", "@fast"],
        )
        .on(keyspace::pttl),
    row("randomkey", 1, &["readonly"], [0, 0, 0])
        .about("generic", "1.0.0", "O(1)")
        .says("Draws one key at random", &["@keyspace", "@read", "@slow"])
        .on(keyspace::randomkey),
    row("rename", 3, &["write"], [1, 2, 1])
        .about("generic", "1.0.0", "O(1)")
        .says(
            "Gives a key another name, over whatever had that name",
            &["@keyspace", "@write", "@slow"],
        )
        .on(keyspace::rename),
    row("renamenx", 3, &["write", "fast"], [1, 2, 1])
        .about("generic", "1.0.0", "O(1)")
        .says(
            "Gives a key another name unless that name is taken",
            &["@keyspace", "@write", "@fast"],
        )
        .on(keyspace::renamenx),
    row("scan", -2, &["readonly"], [0, 0, 0])
        .about("generic", "2.8.0", "O(1) a call, O(n) for all n keys")
        .says(
            "Walks through the keys in small steps",
            &["@keyspace", "@read", "@slow"],
        )
        .on(scan::scan),
    row("sort", -2, &["write", "denyoom", "movablekeys"], [1, 1, 1])
        .about("generic", "1.0.0", "O(n+m*log(m)), n elements, m answered")
        .says(
            "Answers or stores the elements of a key in order",
            &[
                "@write",
                "@set",
                "@sortedset",
                "@list",
                "@slow",
                "@dangerous",
            ],
        )
        .on(sort::sort),
    row("sort_ro", -2, &["readonly", "movablekeys"], [1, 1, 1])
        .about("generic", "7.0.0", "O(n+m*log(m)), n elements, m answered")
        .says(
            "Answers the elements of a key in order and stores nothing",
            &[
                "@read",
                "@set",
                "@sortedset",
                "@list",
                "@slow",
                "@dangerous",
            ],
        )
        .on(sort::sort_ro),
    row("touch", -2, &["readonly", "fast"], [1, -1, 1])
        .about("generic", "3.2.1", "O(n), n keys")
        .says(
            "Counts how many of these keys are there, as EXISTS does",
            &["@keyspace", "@read", "@fast"],
        )
        .on(keyspace::exists),
    row("ttl", 2, &["readonly", "fast"], [1, 1, 1])
        .about("generic", "1.0.0", "O(1)")
        .says(
            "Tells how many seconds a key still has",
            &["@keyspace", "@read", "@fast"],
        )
        .on(keyspace::ttl),
    row("type", 2, &["readonly", "fast"], [1, 1, 1])
        .about("generic", "1.0.0", "O(1)")
        .says(
            "Names the kind of value a key holds",
            &["@keyspace", "@read", "@fast"],
        )
        .on(keyspace::type_of),
    row("unlink", -2, &["write", "fast"], [1, -1, 1])
        .about("generic", "4.0.0", "O(n), n keys")
        .says(
            "Removes keys, as DEL does",
            &["@keyspace", "@write", "@fast"],
        )
        .on(keyspace::del),
];
