//! Sorted sets.

use super::row;
use crate::commands::{scan, zset};
use crate::spec::CommandSpec;

pub(super) const COMMANDS: &[CommandSpec] = &[
    row("zadd", -4, &["write", "denyoom", "fast"], [1, 1, 1])
        .about("sorted-set", "1.2.0", "O(log(N)) for each item added, where N is the number of elements in the sorted set.")
        .says("Add one or more members to a sorted set, or update its score if it already exists", &["@write", "@sortedset", "@fast"])
        .on(zset::zadd),
    row("zcard", 2, &["readonly", "fast"], [1, 1, 1])
        .about("sorted-set", "1.2.0", "O(1)")
        .says("Get the number of members in a sorted set", &["@read", "@sortedset", "@fast"])
        .on(zset::zcard),
    row("zcount", 4, &["readonly", "fast"], [1, 1, 1])
        .about("sorted-set", "2.0.0", "O(log(N)) with N being the number of elements in the sorted set.")
        .says("Count the members in a sorted set with scores within the given values", &["@read", "@sortedset", "@fast"])
        .on(zset::zcount),
    row("zdiff", -3, &["readonly", "movablekeys"], [0, 0, 0])
        .about("sorted-set", "6.2.0", "O(L + (N-K)log(N)) worst case where L is the total number of elements in all the sets, N is the size of the first set, and K is the size of the result set.")
        .says("Subtract multiple sorted sets", &["@read", "@sortedset", "@slow"])
        .on(zset::zdiff),
    row("zdiffstore", -4, &["write", "denyoom", "movablekeys"], [1, 1, 1])
        .about("sorted-set", "6.2.0", "O(L + (N-K)log(N)) worst case where L is the total number of elements in all the sets, N is the size of the first set, and K is the size of the result set.")
        .says("Subtract multiple sorted sets and store the resulting sorted set in a new key", &["@write", "@sortedset", "@slow"])
        .on(zset::zdiffstore),
    row("zincrby", 4, &["write", "denyoom", "fast"], [1, 1, 1])
        .about("sorted-set", "1.2.0", "O(log(N)) where N is the number of elements in the sorted set.")
        .says("Increment the score of a member in a sorted set", &["@write", "@sortedset", "@fast"])
        .on(zset::zincrby),
    row("zinter", -3, &["readonly", "movablekeys"], [0, 0, 0])
        .about("sorted-set", "6.2.0", "O(N*K)+O(M*log(M)) worst case with N being the smallest input sorted set, K being the number of input sorted sets and M being the number of elements in the resulting sorted set.")
        .says("Intersect multiple sorted sets", &["@read", "@sortedset", "@slow"])
        .on(zset::zinter),
    row("zintercard", -3, &["readonly", "movablekeys"], [0, 0, 0])
        .about("sorted-set", "7.0.0", "O(N*K) worst case with N being the smallest input sorted set, K being the number of input sorted sets.")
        .says("Intersect multiple sorted sets and return the cardinality of the result", &["@read", "@sortedset", "@slow"])
        .on(zset::zintercard),
    row("zinterstore", -4, &["write", "denyoom", "movablekeys"], [1, 1, 1])
        .about("sorted-set", "2.0.0", "O(N*K)+O(M*log(M)) worst case with N being the smallest input sorted set, K being the number of input sorted sets and M being the number of elements in the resulting sorted set.")
        .says("Intersect multiple sorted sets and store the resulting sorted set in a new key", &["@write", "@sortedset", "@slow"])
        .on(zset::zinterstore),
    row("zlexcount", 4, &["readonly", "fast"], [1, 1, 1])
        .about("sorted-set", "2.8.9", "O(log(N)) with N being the number of elements in the sorted set.")
        .says("Count the number of members in a sorted set between a given lexicographical range", &["@read", "@sortedset", "@fast"])
        .on(zset::zlexcount),
    row("zmpop", -4, &["write", "movablekeys"], [0, 0, 0])
        .about("sorted-set", "7.0.0", "O(K) + O(M*log(N)) where K is the number of provided keys, N being the number of elements in the sorted set, and M being the number of elements popped.")
        .says("Remove and return members with scores in a sorted set", &["@write", "@sortedset", "@slow"])
        .on(zset::zmpop),
    row("zmscore", -3, &["readonly", "fast"], [1, 1, 1])
        .about("sorted-set", "6.2.0", "O(N) where N is the number of members being requested.")
        .says("Get the score associated with the given members in a sorted set", &["@read", "@sortedset", "@fast"])
        .on(zset::zmscore),
    row("zpopmax", -2, &["write", "fast"], [1, 1, 1])
        .about("sorted-set", "5.0.0", "O(log(N)*M) with N being the number of elements in the sorted set, and M being the number of elements popped.")
        .says("Remove and return members with the highest scores in a sorted set", &["@write", "@sortedset", "@fast"])
        .on(zset::zpopmax),
    row("zpopmin", -2, &["write", "fast"], [1, 1, 1])
        .about("sorted-set", "5.0.0", "O(log(N)*M) with N being the number of elements in the sorted set, and M being the number of elements popped.")
        .says("Remove and return members with the lowest scores in a sorted set", &["@write", "@sortedset", "@fast"])
        .on(zset::zpopmin),
    row("zrandmember", -2, &["readonly"], [1, 1, 1])
        .about("sorted-set", "6.2.0", "O(N) where N is the number of elements returned")
        .says("Get one or multiple random elements from a sorted set", &["@read", "@sortedset", "@slow"])
        .on(zset::zrandmember),
    row("zrange", -4, &["readonly"], [1, 1, 1])
        .about("sorted-set", "1.2.0", "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements returned.")
        .says("Return a range of members in a sorted set", &["@read", "@sortedset", "@slow"])
        .on(zset::zrange),
    row("zrangebylex", -4, &["readonly"], [1, 1, 1])
        .about("sorted-set", "2.8.9", "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements being returned. If M is constant (e.g. always asking for the first 10 elements with LIMIT), you can consider it O(log(N)).")
        .says("Return a range of members in a sorted set, by lexicographical range", &["@read", "@sortedset", "@slow"])
        .on(zset::zrangebylex),
    row("zrangebyscore", -4, &["readonly"], [1, 1, 1])
        .about("sorted-set", "1.0.5", "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements being returned. If M is constant (e.g. always asking for the first 10 elements with LIMIT), you can consider it O(log(N)).")
        .says("Return a range of members in a sorted set, by score", &["@read", "@sortedset", "@slow"])
        .on(zset::zrangebyscore),
    row("zrangestore", -5, &["write", "denyoom"], [1, 2, 1])
        .about("sorted-set", "6.2.0", "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements stored into the destination key.")
        .says("Store a range of members from sorted set into another key", &["@write", "@sortedset", "@slow"])
        .on(zset::zrangestore),
    row("zrank", 3, &["readonly", "fast"], [1, 1, 1])
        .about("sorted-set", "2.0.0", "O(log(N))")
        .says("Determine the index of a member in a sorted set", &["@read", "@sortedset", "@fast"])
        .on(zset::zrank),
    row("zrem", -3, &["write", "fast"], [1, 1, 1])
        .about("sorted-set", "1.2.0", "O(M*log(N)) with N being the number of elements in the sorted set and M the number of elements to be removed.")
        .says("Remove one or more members from a sorted set", &["@write", "@sortedset", "@fast"])
        .on(zset::zrem),
    row("zremrangebylex", 4, &["write"], [1, 1, 1])
        .about("sorted-set", "2.8.9", "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements removed by the operation.")
        .says("Remove all members in a sorted set between the given lexicographical range", &["@write", "@sortedset", "@slow"])
        .on(zset::zremrangebylex),
    row("zremrangebyrank", 4, &["write"], [1, 1, 1])
        .about("sorted-set", "2.0.0", "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements removed by the operation.")
        .says("Remove all members in a sorted set within the given indexes", &["@write", "@sortedset", "@slow"])
        .on(zset::zremrangebyrank),
    row("zremrangebyscore", 4, &["write"], [1, 1, 1])
        .about("sorted-set", "1.2.0", "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements removed by the operation.")
        .says("Remove all members in a sorted set within the given scores", &["@write", "@sortedset", "@slow"])
        .on(zset::zremrangebyscore),
    row("zrevrange", -4, &["readonly"], [1, 1, 1])
        .about("sorted-set", "1.2.0", "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements returned.")
        .says("Return a range of members in a sorted set, by index, with scores ordered from high to low", &["@read", "@sortedset", "@slow"])
        .on(zset::zrevrange),
    row("zrevrangebylex", -4, &["readonly"], [1, 1, 1])
        .about("sorted-set", "2.8.9", "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements being returned. If M is constant (e.g. always asking for the first 10 elements with LIMIT), you can consider it O(log(N)).")
        .says("Return a range of members in a sorted set, by lexicographical range, ordered from higher to lower strings.", &["@read", "@sortedset", "@slow"])
        .on(zset::zrevrangebylex),
    row("zrevrangebyscore", -4, &["readonly"], [1, 1, 1])
        .about("sorted-set", "2.2.0", "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements being returned. If M is constant (e.g. always asking for the first 10 elements with LIMIT), you can consider it O(log(N)).")
        .says("Return a range of members in a sorted set, by score, with scores ordered from high to low", &["@read", "@sortedset", "@slow"])
        .on(zset::zrevrangebyscore),
    row("zrevrank", 3, &["readonly", "fast"], [1, 1, 1])
        .about("sorted-set", "2.0.0", "O(log(N))")
        .says("Determine the index of a member in a sorted set, with scores ordered from high to low", &["@read", "@sortedset", "@fast"])
        .on(zset::zrevrank),
    row("zscan", -3, &["readonly"], [1, 1, 1])
        .about("sorted-set", "2.8.0", "O(1) for every call. O(N) for a complete iteration, including enough command calls for the cursor to return back to 0. N is the number of elements inside the collection..")
        .says("Incrementally iterate sorted sets elements and associated scores", &["@read", "@sortedset", "@slow"])
        .on(scan::zscan),
    row("zscore", 3, &["readonly", "fast"], [1, 1, 1])
        .about("sorted-set", "1.2.0", "O(1)")
        .says("Get the score associated with the given member in a sorted set", &["@read", "@sortedset", "@fast"])
        .on(zset::zscore),
    row("zunion", -3, &["readonly", "movablekeys"], [0, 0, 0])
        .about("sorted-set", "6.2.0", "O(N)+O(M*log(M)) with N being the sum of the sizes of the input sorted sets, and M being the number of elements in the resulting sorted set.")
        .says("Add multiple sorted sets", &["@read", "@sortedset", "@slow"])
        .on(zset::zunion),
    row("zunionstore", -4, &["write", "denyoom", "movablekeys"], [1, 1, 1])
        .about("sorted-set", "2.0.0", "O(N)+O(M log(M)) with N being the sum of the sizes of the input sorted sets, and M being the number of elements in the resulting sorted set.")
        .says("Add multiple sorted sets and store the resulting sorted set in a new key", &["@write", "@sortedset", "@slow"])
        .on(zset::zunionstore),
];
