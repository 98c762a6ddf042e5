//! Hashes.

use super::row;
use crate::commands::{hash, scan};
use crate::spec::CommandSpec;

pub(super) const COMMANDS: &[CommandSpec] = &[
    row("hdel", -3, &["write", "fast"], [1, 1, 1])
        .about("hash", "2.0.0", "O(n), n fields named")
        .says("Takes fields out of a hash", &["@write", "@hash", "@fast"])
        .on(hash::hdel),
    row("hexists", 3, &["readonly", "fast"], [1, 1, 1])
        .about("hash", "2.0.0", "O(1)")
        .says(
            "Tells whether a hash has this field",
            &["@read", "@hash", "@fast"],
        )
        .on(hash::hexists),
    row("hget", 3, &["readonly", "fast"], [1, 1, 1])
        .about("hash", "2.0.0", "O(1)")
        .says("Reads one field of a hash", &["@read", "@hash", "@fast"])
        .on(hash::hget),
    row("hgetall", 2, &["readonly"], [1, 1, 1])
        .about("hash", "2.0.0", "O(n), n fields of the hash")
        .says(
            "Reads a whole hash, fields with values",
            &["@read", "@hash", "@slow"],
        )
        .on(hash::hgetall),
    row("hincrby", 4, &["write", "denyoom", "fast"], [1, 1, 1])
        .about("hash", "2.0.0", "O(1)")
        .says(
            "Adds a whole number to a field of a hash",
            &["@write", "@hash", "@fast"],
        )
        .on(hash::hincrby),
    row("hincrbyfloat", 4, &["write", "denyoom", "fast"], [1, 1, 1])
        .about("hash", "2.6.0", "O(1)")
        .says(
            "Adds a decimal number to a field of a hash",
            &["@write", "@hash", "@fast"],
        )
        .on(hash::hincrbyfloat),
    row("hkeys", 2, &["readonly"], [1, 1, 1])
        .about("hash", "2.0.0", "O(n), n fields of the hash")
        .says(
            "Lists the fields of a hash without values",
            &["@read", "@hash", "@slow"],
        )
        .on(hash::hkeys),
    row("hlen", 2, &["readonly", "fast"], [1, 1, 1])
        .about("hash", "2.0.0", "O(1)")
        .says("Counts the fields of a hash", &["@read", "@hash", "@fast"])
        .on(hash::hlen),
    row("hmget", -3, &["readonly", "fast"], [1, 1, 1])
        .about("hash", "2.0.0", "O(n), n fields named")
        .says(
            "Reads several fields of a hash",
            &["@read", "@hash", "@fast"],
        )
        .on(hash::hmget),
    row("hmset", -4, &["write", "denyoom", "fast"], [1, 1, 1])
        .about("hash", "2.0.0", "O(n), n fields named")
        .says(
            "Writes several fields of a hash; HSET does the same",
            &["@write", "@hash", "@fast"],
        )
        .on(hash::hmset),
    row("hrandfield", -2, &["readonly"], [1, 1, 1])
        .about("hash", "6.2.0", "O(n), n fields answered")
        .says(
            "Draws fields of a hash at random",
            &["@read", "@hash", "@slow"],
        )
        .on(hash::hrandfield),
    row("hscan", -3, &["readonly"], [1, 1, 1])
        .about("hash", "2.8.0", "O(1) a call, O(n) for all n fields")
        .says(
            "Walks through a hash in small steps",
            &["@read", "@hash", "@slow"],
        )
        .on(scan::hscan),
    row("hset", -4, &["write", "denyoom", "fast"], [1, 1, 1])
        .about("hash", "2.0.0", "O(n), n fields named")
        .says("Writes fields of a hash", &["@write", "@hash", "@fast"])
        .on(hash::hset),
    row("hsetnx", 4, &["write", "denyoom", "fast"], [1, 1, 1])
        .about("hash", "2.0.0", "O(1)")
        .says(
            "Writes a field of a hash unless it is there",
            &["@write", "@hash", "@fast"],
        )
        .on(hash::hsetnx),
    row("hstrlen", 3, &["readonly", "fast"], [1, 1, 1])
        .about("hash", "3.2.0", "O(1)")
        .says(
            "Measures the value in a field of a hash",
            &["@read", "@hash", "@fast"],
        )
        .on(hash::hstrlen),
    row("hvals", 2, &["readonly"], [1, 1, 1])
        .about("hash", "2.0.0", "O(n), n fields of the hash")
        .says(
            "Lists the values of a hash without fields",
            &["@read", "@hash", "@slow"],
        )
        .on(hash::hvals),
];
