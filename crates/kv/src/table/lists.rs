//! Lists.

use super::row;
use crate::commands::list;
use crate::spec::CommandSpec;

pub(super) const COMMANDS: &[CommandSpec] = &[
    row("lindex", 3, &["readonly"], [1, 1, 1])
        .about("list", "1.0.0", "O(n), n elements up to the place")
        .says(
            "Reads the element at one place of a list",
            &["@read", "@list", "@slow"],
        )
        .on(list::lindex),
    row("linsert", 5, &["write", "denyoom"], [1, 1, 1])
        .about("list", "2.2.0", "O(n), n elements up to the pivot")
        .says(
            "Puts an element next to another one in a list",
            &["@write", "@list", "@slow"],
        )
        .on(list::linsert),
    row("llen", 2, &["readonly", "fast"], [1, 1, 1])
        .about("list", "1.0.0", "O(1)")
        .says(
            "Counts the elements of a list",
            &["@read", "@list", "@fast"],
        )
        .on(list::llen),
    row("lmove", 5, &["write", "denyoom"], [1, 2, 1])
        .about("list", "6.2.0", "O(1)")
        .says(
            "Moves an element from an end of one list to an end of another",
            &["@write", "@list", "@slow"],
        )
        .on(list::lmove),
    row("lmpop", -4, &["write", "movablekeys"], [0, 0, 0])
        .about("list", "7.0.0", "O(n+m), n keys, m elements answered")
        .says(
            "Takes elements from an end of the first list that has any",
            &["@write", "@list", "@slow"],
        )
        .on(list::lmpop),
    row("lpop", -2, &["write", "fast"], [1, 1, 1])
        .about("list", "1.0.0", "O(n), n elements answered")
        .says(
            "Takes elements from the left end of a list",
            &["@write", "@list", "@fast"],
        )
        .on(list::lpop),
    row("lpos", -3, &["readonly"], [1, 1, 1])
        .about("list", "6.0.6", "O(n), n elements of the list")
        .says(
            "Finds the places where a list has this element",
            &["@read", "@list", "@slow"],
        )
        .on(list::lpos),
    row("lpush", -3, &["write", "denyoom", "fast"], [1, 1, 1])
        .about("list", "1.0.0", "O(n), n elements given")
        .says(
            "Puts elements at the left end of a list",
            &["@write", "@list", "@fast"],
        )
        .on(list::lpush),
    row("lpushx", -3, &["write", "denyoom", "fast"], [1, 1, 1])
        .about("list", "2.2.0", "O(n), n elements given")
        .says(
            "Puts elements at the left end of a list that is there",
            &["@write", "@list", "@fast"],
        )
        .on(list::lpushx),
    row("lrange", 4, &["readonly"], [1, 1, 1])
        .about(
            "list",
            "1.0.0",
            "O(n+m), n elements before the range, m in it",
        )
        .says(
            "Reads the elements between two places of a list",
            &["@read", "@list", "@slow"],
        )
        .on(list::lrange),
    row("lrem", 4, &["write"], [1, 1, 1])
        .about("list", "1.0.0", "O(n+m), n elements of the list, m removed")
        .says(
            "Takes equal elements out of a list",
            &["@write", "@list", "@slow"],
        )
        .on(list::lrem),
    row("lset", 4, &["write", "denyoom"], [1, 1, 1])
        .about("list", "1.0.0", "O(n), n elements up to the place")
        .says(
            "Replaces the element at one place of a list",
            &["@write", "@list", "@slow"],
        )
        .on(list::lset),
    row("ltrim", 4, &["write"], [1, 1, 1])
        .about("list", "1.0.0", "O(n), n elements removed")
        .says(
            "Keeps only what stands between two places of a list",
            &["@write", "@list", "@slow"],
        )
        .on(list::ltrim),
    row("rpop", -2, &["write", "fast"], [1, 1, 1])
        .about("list", "1.0.0", "O(n), n elements answered")
        .says(
            "Takes elements from the right end of a list",
            &["@write", "@list", "@fast"],
        )
        .on(list::rpop),
    row("rpoplpush", 3, &["write", "denyoom"], [1, 2, 1])
        .about("list", "1.2.0", "O(1)")
        .says(
            "Moves an element from the right end of one list to the left end of another",
            &["@write", "@list", "@slow"],
        )
        .on(list::rpoplpush),
    row("rpush", -3, &["write", "denyoom", "fast"], [1, 1, 1])
        .about("list", "1.0.0", "O(n), n elements given")
        .says(
            "Puts elements at the right end of a list",
            &["@write", "@list", "@fast"],
        )
        .on(list::rpush),
    row("rpushx", -3, &["write", "denyoom", "fast"], [1, 1, 1])
        .about("list", "2.2.0", "O(n), n elements given")
        .says(
            "Puts elements at the right end of a list that is there",
            &["@write", "@list", "@fast"],
        )
        .on(list::rpushx),
];
