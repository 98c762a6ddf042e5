//! Hashes.

use super::row;
use crate::commands::{hash, scan};
use crate::spec::CommandSpec;

pub(super) const COMMANDS: &[CommandSpec] = &[
    row("hdel", -3, &["write", "fast"], [1, 1, 1])
        .about("hash", "2.0.0", "O(N) where N is the number of fields to be removed.")
        .says("Delete one or more hash fields", &["@write", "@hash", "@fast"])
        .on(hash::hdel),
    row("hexists", 3, &["readonly", "fast"], [1, 1, 1])
        .about("hash", "2.0.0", "O(1)")
        .says("Determine if a hash field exists", &["@read", "@hash", "@fast"])
        .on(hash::hexists),
    row("hget", 3, &["readonly", "fast"], [1, 1, 1])
        .about("hash", "2.0.0", "O(1)")
        .says("Get the value of a hash field", &["@read", "@hash", "@fast"])
        .on(hash::hget),
    row("hgetall", 2, &["readonly"], [1, 1, 1])
        .about("hash", "2.0.0", "O(N) where N is the size of the hash.")
        .says("Get all the fields and values in a hash", &["@read", "@hash", "@slow"])
        .on(hash::hgetall),
    row("hincrby", 4, &["write", "denyoom", "fast"], [1, 1, 1])
        .about("hash", "2.0.0", "O(1)")
        .says("Increment the integer value of a hash field by the given number", &["@write", "@hash", "@fast"])
        .on(hash::hincrby),
    row("hincrbyfloat", 4, &["write", "denyoom", "fast"], [1, 1, 1])
        .about("hash", "2.6.0", "O(1)")
        .says("Increment the float value of a hash field by the given amount", &["@write", "@hash", "@fast"])
        .on(hash::hincrbyfloat),
    row("hkeys", 2, &["readonly"], [1, 1, 1])
        .about("hash", "2.0.0", "O(N) where N is the size of the hash.")
        .says("Get all the fields in a hash", &["@read", "@hash", "@slow"])
        .on(hash::hkeys),
    row("hlen", 2, &["readonly", "fast"], [1, 1, 1])
        .about("hash", "2.0.0", "O(1)")
        .says("Get the number of fields in a hash", &["@read", "@hash", "@fast"])
        .on(hash::hlen),
    row("hmget", -3, &["readonly", "fast"], [1, 1, 1])
        .about("hash", "2.0.0", "O(N) where N is the number of fields being requested.")
        .says("Get the values of all the given hash fields", &["@read", "@hash", "@fast"])
        .on(hash::hmget),
    row("hmset", -4, &["write", "denyoom", "fast"], [1, 1, 1])
        .about("hash", "2.0.0", "O(N) where N is the number of fields being set.")
        .says("Set multiple hash fields to multiple values", &["@write", "@hash", "@fast"])
        .on(hash::hmset),
    row("hrandfield", -2, &["readonly"], [1, 1, 1])
        .about("hash", "6.2.0", "O(N) where N is the number of fields returned")
        .says("Get one or multiple random fields from a hash", &["@read", "@hash", "@slow"])
        .on(hash::hrandfield),
    row("hscan", -3, &["readonly"], [1, 1, 1])
        .about("hash", "2.8.0", "O(1) for every call. O(N) for a complete iteration, including enough command calls for the cursor to return back to 0. N is the number of elements inside the collection..")
        .says("Incrementally iterate hash fields and associated values", &["@read", "@hash", "@slow"])
        .on(scan::hscan),
    row("hset", -4, &["write", "denyoom", "fast"], [1, 1, 1])
        .about("hash", "2.0.0", "O(1) for each field/value pair added, so O(N) to add N field/value pairs when the command is called with multiple field/value pairs.")
        .says("Set the string value of a hash field", &["@write", "@hash", "@fast"])
        .on(hash::hset),
    row("hsetnx", 4, &["write", "denyoom", "fast"], [1, 1, 1])
        .about("hash", "2.0.0", "O(1)")
        .says("Set the value of a hash field, only if the field does not exist", &["@write", "@hash", "@fast"])
        .on(hash::hsetnx),
    row("hstrlen", 3, &["readonly", "fast"], [1, 1, 1])
        .about("hash", "3.2.0", "O(1)")
        .says("Get the length of the value of a hash field", &["@read", "@hash", "@fast"])
        .on(hash::hstrlen),
    row("hvals", 2, &["readonly"], [1, 1, 1])
        .about("hash", "2.0.0", "O(N) where N is the size of the hash.")
        .says("Get all the values in a hash", &["@read", "@hash", "@slow"])
        .on(hash::hvals),
];
