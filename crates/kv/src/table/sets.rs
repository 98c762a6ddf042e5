//! Sets.

use super::row;
use crate::commands::{scan, set};
use crate::spec::CommandSpec;

pub(super) const COMMANDS: &[CommandSpec] = &[
    row("sadd", -3, &["write", "denyoom", "fast"], [1, 1, 1])
        .about("set", "1.0.0", "O(1) for each element added, so O(N) to add N elements when the command is called with multiple arguments.")
        .says("Add one or more members to a set", &["@write", "@set", "@fast"])
        .on(set::sadd),
    row("scard", 2, &["readonly", "fast"], [1, 1, 1])
        .about("set", "1.0.0", "O(1)")
        .says("Get the number of members in a set", &["@read", "@set", "@fast"])
        .on(set::scard),
    row("sdiff", -2, &["readonly"], [1, -1, 1])
        .about("set", "1.0.0", "O(N) where N is the total number of elements in all given sets.")
        .says("Subtract multiple sets", &["@read", "@set", "@slow"])
        .on(set::sdiff),
    row("sdiffstore", -3, &["write", "denyoom"], [1, -1, 1])
        .about("set", "1.0.0", "O(N) where N is the total number of elements in all given sets.")
        .says("Subtract multiple sets and store the resulting set in a key", &["@write", "@set", "@slow"])
        .on(set::sdiffstore),
    row("sinter", -2, &["readonly"], [1, -1, 1])
        .about("set", "1.0.0", "O(N*M) worst case where N is the cardinality of the smallest set and M is the number of sets.")
        .says("Intersect multiple sets", &["@read", "@set", "@slow"])
        .on(set::sinter),
    row("sintercard", -3, &["readonly", "movablekeys"], [0, 0, 0])
        .about("set", "7.0.0", "O(N*M) worst case where N is the cardinality of the smallest set and M is the number of sets.")
        .says("Intersect multiple sets and return the cardinality of the result", &["@read", "@set", "@slow"])
        .on(set::sintercard),
    row("sinterstore", -3, &["write", "denyoom"], [1, -1, 1])
        .about("set", "1.0.0", "O(N*M) worst case where N is the cardinality of the smallest set and M is the number of sets.")
        .says("Intersect multiple sets and store the resulting set in a key", &["@write", "@set", "@slow"])
        .on(set::sinterstore),
    row("sismember", 3, &["readonly", "fast"], [1, 1, 1])
        .about("set", "1.0.0", "O(1)")
        .says("Determine if a given value is a member of a set", &["@read", "@set", "@fast"])
        .on(set::sismember),
    row("smembers", 2, &["readonly"], [1, 1, 1])
        .about("set", "1.0.0", "O(N) where N is the set cardinality.")
        .says("Get all the members in a set", &["@read", "@set", "@slow"])
        .on(set::smembers),
    row("smismember", -3, &["readonly", "fast"], [1, 1, 1])
        .about("set", "6.2.0", "O(N) where N is the number of elements being checked for membership")
        .says("Returns the membership associated with the given elements for a set", &["@read", "@set", "@fast"])
        .on(set::smismember),
    row("smove", 4, &["write", "fast"], [1, 2, 1])
        .about("set", "1.0.0", "O(1)")
        .says("Move a member from one set to another", &["@write", "@set", "@fast"])
        .on(set::smove),
    row("spop", -2, &["write", "fast"], [1, 1, 1])
        .about("set", "1.0.0", "Without the count argument O(1), otherwise O(N) where N is the value of the passed count.")
        .says("Remove and return one or multiple random members from a set", &["@write", "@set", "@fast"])
        .on(set::spop),
    row("srandmember", -2, &["readonly"], [1, 1, 1])
        .about("set", "1.0.0", "Without the count argument O(1), otherwise O(N) where N is the absolute value of the passed count.")
        .says("Get one or multiple random members from a set", &["@read", "@set", "@slow"])
        .on(set::srandmember),
    row("srem", -3, &["write", "fast"], [1, 1, 1])
        .about("set", "1.0.0", "O(N) where N is the number of members to be removed.")
        .says("Remove one or more members from a set", &["@write", "@set", "@fast"])
        .on(set::srem),
    row("sscan", -3, &["readonly"], [1, 1, 1])
        .about("set", "2.8.0", "O(1) for every call. O(N) for a complete iteration, including enough command calls for the cursor to return back to 0. N is the number of elements inside the collection..")
        .says("Incrementally iterate Set elements", &["@read", "@set", "@slow"])
        .on(scan::sscan),
    row("sunion", -2, &["readonly"], [1, -1, 1])
        .about("set", "1.0.0", "O(N) where N is the total number of elements in all given sets.")
        .says("Add multiple sets", &["@read", "@set", "@slow"])
        .on(set::sunion),
    row("sunionstore", -3, &["write", "denyoom"], [1, -1, 1])
        .about("set", "1.0.0", "O(N) where N is the total number of elements in all given sets.")
        .says("Add multiple sets and store the resulting set in a key", &["@write", "@set", "@slow"])
        .on(set::sunionstore),
];
