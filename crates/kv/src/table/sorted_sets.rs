//! Sorted sets.

use super::row;
use crate::commands::{scan, zset};
use crate::spec::CommandSpec;

pub(super) const COMMANDS: &[CommandSpec] = &[
    row("zadd", -4, &["write", "denyoom", "fast"], [1, 1, 1])
        .about(
            "sorted-set",
            "1.2.0",
            "O(m*log(n)), n members of the set, m given",
        )
        .says(
            "Puts members with scores into a sorted set or moves them",
            &["@write", "@sortedset", "@fast"],
        )
        .on(zset::zadd),
    row("zcard", 2, &["readonly", "fast"], [1, 1, 1])
        .about("sorted-set", "1.2.0", "O(1)")
        .says(
            "Counts the members of a sorted set",
            &["@read", "@sortedset", "@fast"],
        )
        .on(zset::zcard),
    row("zcount", 4, &["readonly", "fast"], [1, 1, 1])
        .about("sorted-set", "2.0.0", "O(log(n)), n members of the set")
        .says(
            "Counts the members whose scores lie between two bounds",
            &["@read", "@sortedset", "@fast"],
        )
        .on(zset::zcount),
    row("zdiff", -3, &["readonly", "movablekeys"], [0, 0, 0])
        .about("sorted-set", "6.2.0", "O(n*log(n)), n members of all sets")
        .says(
            "Answers what only the first sorted set has",
            &["@read", "@sortedset", "@slow"],
        )
        .on(zset::zdiff),
    row(
        "zdiffstore",
        -4,
        &["write", "denyoom", "movablekeys"],
        [1, 1, 1],
    )
    .about("sorted-set", "6.2.0", "O(n*log(n)), n members of all sets")
    .says(
        "Stores what only the first sorted set has",
        &["@write", "@sortedset", "@slow"],
    )
    .on(zset::zdiffstore),
    row("zincrby", 4, &["write", "denyoom", "fast"], [1, 1, 1])
        .about("sorted-set", "1.2.0", "O(log(n)), n members of the set")
        .says(
            "Adds a number to the score of a member",
            &["@write", "@sortedset", "@fast"],
        )
        .on(zset::zincrby),
    row("zinter", -3, &["readonly", "movablekeys"], [0, 0, 0])
        .about(
            "sorted-set",
            "6.2.0",
            "O(n*k+m*log(m)), n members of the least of k sets, m answered",
        )
        .says(
            "Answers what all sorted sets share, scores put together",
            &["@read", "@sortedset", "@slow"],
        )
        .on(zset::zinter),
    row("zintercard", -3, &["readonly", "movablekeys"], [0, 0, 0])
        .about(
            "sorted-set",
            "7.0.0",
            "O(n*k), n members of the least of k sets",
        )
        .says(
            "Counts what all sorted sets share",
            &["@read", "@sortedset", "@slow"],
        )
        .on(zset::zintercard),
    row(
        "zinterstore",
        -4,
        &["write", "denyoom", "movablekeys"],
        [1, 1, 1],
    )
    .about(
        "sorted-set",
        "2.0.0",
        "O(n*k+m*log(m)), n members of the least of k sets, m stored",
    )
    .says(
        "Stores what all sorted sets share, scores put together",
        &["@write", "@sortedset", "@slow"],
    )
    .on(zset::zinterstore),
    row("zlexcount", 4, &["readonly", "fast"], [1, 1, 1])
        .about("sorted-set", "2.8.9", "O(log(n)), n members of the set")
        .says(
            "Counts the members whose names lie between two bounds",
            &["@read", "@sortedset", "@fast"],
        )
        .on(zset::zlexcount),
    row("zmpop", -4, &["write", "movablekeys"], [0, 0, 0])
        .about(
            "sorted-set",
            "7.0.0",
            "O(k+m*log(n)), k keys, n members of the set, m answered",
        )
        .says(
            "Takes the least or greatest from the first sorted set that has any",
            &["@write", "@sortedset", "@slow"],
        )
        .on(zset::zmpop),
    row("zmscore", -3, &["readonly", "fast"], [1, 1, 1])
        .about("sorted-set", "6.2.0", "O(n), n members asked for")
        .says(
            "Reads the scores of several members",
            &["@read", "@sortedset", "@fast"],
        )
        .on(zset::zmscore),
    row("zpopmax", -2, &["write", "fast"], [1, 1, 1])
        .about(
            "sorted-set",
            "5.0.0",
            "O(m*log(n)), n members of the set, m answered",
        )
        .says(
            "Takes the members with the greatest scores out",
            &["@write", "@sortedset", "@fast"],
        )
        .on(zset::zpopmax),
    row("zpopmin", -2, &["write", "fast"], [1, 1, 1])
        .about(
            "sorted-set",
            "5.0.0",
            "O(m*log(n)), n members of the set, m answered",
        )
        .says(
            "Takes the members with the least scores out",
            &["@write", "@sortedset", "@fast"],
        )
        .on(zset::zpopmin),
    row("zrandmember", -2, &["readonly"], [1, 1, 1])
        .about("sorted-set", "6.2.0", "O(n), n members answered")
        .says(
            "Draws members of a sorted set at random",
            &["@read", "@sortedset", "@slow"],
        )
        .on(zset::zrandmember),
    row("zrange", -4, &["readonly"], [1, 1, 1])
        .about(
            "sorted-set",
            "1.2.0",
            "O(log(n)+m), n members of the set, m answered",
        )
        .says(
            "Reads members between two places, scores or names",
            &["@read", "@sortedset", "@slow"],
        )
        .on(zset::zrange),
    row("zrangebylex", -4, &["readonly"], [1, 1, 1])
        .about(
            "sorted-set",
            "2.8.9",
            "O(log(n)+m), n members of the set, m answered",
        )
        .says(
            "Reads the members whose names lie between two bounds",
            &["@read", "@sortedset", "@slow"],
        )
        .on(zset::zrangebylex),
    row("zrangebyscore", -4, &["readonly"], [1, 1, 1])
        .about(
            "sorted-set",
            "1.0.5",
            "O(log(n)+m), n members of the set, m answered",
        )
        .says(
            "Reads the members whose scores lie between two bounds",
            &["@read", "@sortedset", "@slow"],
        )
        .on(zset::zrangebyscore),
    row("zrangestore", -5, &["write", "denyoom"], [1, 2, 1])
        .about(
            "sorted-set",
            "6.2.0",
            "O(log(n)+m), n members of the set, m stored",
        )
        .says(
            "Stores what ZRANGE would answer",
            &["@write", "@sortedset", "@slow"],
        )
        .on(zset::zrangestore),
    row("zrank", 3, &["readonly", "fast"], [1, 1, 1])
        .about("sorted-set", "2.0.0", "O(log(n))")
        .says(
            "Tells how many members come before this one",
            &["@read", "@sortedset", "@fast"],
        )
        .on(zset::zrank),
    row("zrem", -3, &["write", "fast"], [1, 1, 1])
        .about(
            "sorted-set",
            "1.2.0",
            "O(m*log(n)), n members of the set, m named",
        )
        .says(
            "Takes members out of a sorted set",
            &["@write", "@sortedset", "@fast"],
        )
        .on(zset::zrem),
    row("zremrangebylex", 4, &["write"], [1, 1, 1])
        .about(
            "sorted-set",
            "2.8.9",
            "O(log(n)+m), n members of the set, m removed",
        )
        .says(
            "Takes out the members whose names lie between two bounds",
            &["@write", "@sortedset", "@slow"],
        )
        .on(zset::zremrangebylex),
    row("zremrangebyrank", 4, &["write"], [1, 1, 1])
        .about(
            "sorted-set",
            "2.0.0",
            "O(log(n)+m), n members of the set, m removed",
        )
        .says(
            "Takes out the members between two places",
            &["@write", "@sortedset", "@slow"],
        )
        .on(zset::zremrangebyrank),
    row("zremrangebyscore", 4, &["write"], [1, 1, 1])
        .about(
            "sorted-set",
            "1.2.0",
            "O(log(n)+m), n members of the set, m removed",
        )
        .says(
            "Takes out the members whose scores lie between two bounds",
            &["@write", "@sortedset", "@slow"],
        )
        .on(zset::zremrangebyscore),
    row("zrevrange", -4, &["readonly"], [1, 1, 1])
        .about(
            "sorted-set",
            "1.2.0",
            "O(log(n)+m), n members of the set, m answered",
        )
        .says(
            "Reads members between two places counted from the greatest",
            &["@read", "@sortedset", "@slow"],
        )
        .on(zset::zrevrange),
    row("zrevrangebylex", -4, &["readonly"], [1, 1, 1])
        .about(
            "sorted-set",
            "2.8.9",
            "O(log(n)+m), n members of the set, m answered",
        )
        .says(
            "Reads the members whose names lie between two bounds, backwards",
            &["@read", "@sortedset", "@slow"],
        )
        .on(zset::zrevrangebylex),
    row("zrevrangebyscore", -4, &["readonly"], [1, 1, 1])
        .about(
            "sorted-set",
            "2.2.0",
            "O(log(n)+m), n members of the set, m answered",
        )
        .says(
            "Reads the members whose scores lie between two bounds, greatest first",
            &["@read", "@sortedset", "@slow"],
        )
        .on(zset::zrevrangebyscore),
    row("zrevrank", 3, &["readonly", "fast"], [1, 1, 1])
        .about("sorted-set", "2.0.0", "O(log(n))")
        .says(
            "Tells how many members come after this one",
            &["@read", "@sortedset", "@fast"],
        )
        .on(zset::zrevrank),
    row("zscan", -3, &["readonly"], [1, 1, 1])
        .about("sorted-set", "2.8.0", "O(1) a call, O(n) for all n members")
        .says(
            "Walks through a sorted set in small steps",
            &["@read", "@sortedset", "@slow"],
        )
        .on(scan::zscan),
    row("zscore", 3, &["readonly", "fast"], [1, 1, 1])
        .about("sorted-set", "1.2.0", "O(1)")
        .says(
            "Reads the score of a member",
            &["@read", "@sortedset", "@fast"],
        )
        .on(zset::zscore),
    row("zunion", -3, &["readonly", "movablekeys"], [0, 0, 0])
        .about(
            "sorted-set",
            "6.2.0",
            "O(n+m*log(m)), n members of all sets, m answered",
        )
        .says(
            "Answers what any of the sorted sets has, scores put together",
            &["@read", "@sortedset", "@slow"],
        )
        .on(zset::zunion),
    row(
        "zunionstore",
        -4,
        &["write", "denyoom", "movablekeys"],
        [1, 1, 1],
    )
    .about(
        "sorted-set",
        "2.0.0",
        "O(n+m*log(m)), n members of all sets, m stored",
    )
    .says(
        "Stores what any of the sorted sets has, scores put together",
        &["@write", "@sortedset", "@slow"],
    )
    .on(zset::zunionstore),
];
