//! Sets.

use super::row;
use crate::commands::{scan, set};
use crate::spec::CommandSpec;

pub(super) const COMMANDS: &[CommandSpec] = &[
    row("sadd", -3, &["write", "denyoom", "fast"], [1, 1, 1])
        .about("set", "1.0.0", "O(n), n members given")
        .says("Puts members into a set", &["@write", "@set", "@fast"])
        .on(set::sadd),
    row("scard", 2, &["readonly", "fast"], [1, 1, 1])
        .about("set", "1.0.0", "O(1)")
        .says("Counts the members of a set", &["@read", "@set", "@fast"])
        .on(set::scard),
    row("sdiff", -2, &["readonly"], [1, -1, 1])
        .about("set", "1.0.0", "O(n), n members of all sets")
        .says(
            "Answers what only the first set has",
            &["@read", "@set", "@slow"],
        )
        .on(set::sdiff),
    row("sdiffstore", -3, &["write", "denyoom"], [1, -1, 1])
        .about("set", "1.0.0", "O(n), n members of all sets")
        .says(
            "Stores what only the first set has",
            &["@write", "@set", "@slow"],
        )
        .on(set::sdiffstore),
    row("sinter", -2, &["readonly"], [1, -1, 1])
        .about("set", "1.0.0", "O(n*m), n members of the least set, m sets")
        .says("Answers what all sets share", &["@read", "@set", "@slow"])
        .on(set::sinter),
    row("sintercard", -3, &["readonly", "movablekeys"], [0, 0, 0])
        .about("set", "7.0.0", "O(n*m), n members of the least set, m sets")
        .says("Counts what all sets share", &["@read", "@set", "@slow"])
        .on(set::sintercard),
    row("sinterstore", -3, &["write", "denyoom"], [1, -1, 1])
        .about("set", "1.0.0", "O(n*m), n members of the least set, m sets")
        .says("Stores what all sets share", &["@write", "@set", "@slow"])
        .on(set::sinterstore),
    row("sismember", 3, &["readonly", "fast"], [1, 1, 1])
        .about("set", "1.0.0", "O(1)")
        .says(
            "Tells whether a set has this member",
            &["@read", "@set", "@fast"],
        )
        .on(set::sismember),
    row("smembers", 2, &["readonly"], [1, 1, 1])
        .about("set", "1.0.0", "O(n), n members of the set")
        .says("Lists a whole set", &["@read", "@set", "@slow"])
        .on(set::smembers),
    row("smismember", -3, &["readonly", "fast"], [1, 1, 1])
        .about("set", "6.2.0", "O(n), n members asked for")
        .says(
            "Tells for several members whether a set has them",
            &["@read", "@set", "@fast"],
        )
        .on(set::smismember),
    row("smove", 4, &["write", "fast"], [1, 2, 1])
        .about("set", "1.0.0", "O(1)")
        .says(
            "Takes a member out of one set and puts it into another",
            &["@write", "@set", "@fast"],
        )
        .on(set::smove),
    row("spop", -2, &["write", "fast"], [1, 1, 1])
        .about("set", "1.0.0", "O(n), n members answered")
        .says(
            "Takes members out of a set at random",
            &["@write", "@set", "@fast"],
        )
        .on(set::spop),
    row("srandmember", -2, &["readonly"], [1, 1, 1])
        .about("set", "1.0.0", "O(n), n members answered")
        .says(
            "Draws members of a set at random and leaves them there",
            &["@read", "@set", "@slow"],
        )
        .on(set::srandmember),
    row("srem", -3, &["write", "fast"], [1, 1, 1])
        .about("set", "1.0.0", "O(n), n members named")
        .says("Takes members out of a set", &["@write", "@set", "@fast"])
        .on(set::srem),
    row("sscan", -3, &["readonly"], [1, 1, 1])
        .about("set", "2.8.0", "O(1) a call, O(n) for all n members")
        .says(
            "Walks through a set in small steps",
            &["@read", "@set", "@slow"],
        )
        .on(scan::sscan),
    row("sunion", -2, &["readonly"], [1, -1, 1])
        .about("set", "1.0.0", "O(n), n members of all sets")
        .says(
            "Answers what any of the sets has",
            &["@read", "@set", "@slow"],
        )
        .on(set::sunion),
    row("sunionstore", -3, &["write", "denyoom"], [1, -1, 1])
        .about("set", "1.0.0", "O(n), n members of all sets")
        .says(
            "Stores what any of the sets has",
            &["@write", "@set", "@slow"],
        )
        .on(set::sunionstore),
];
