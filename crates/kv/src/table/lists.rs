//! Lists.

use super::row;
use crate::commands::list;
use crate::spec::CommandSpec;

pub(super) const COMMANDS: &[CommandSpec] = &[
    row("lindex", 3, &["readonly"], [1, 1, 1])
        .about("list", "1.0.0", "O(N) where N is the number of elements to traverse to get to the element at index. This makes asking for the first or the last element of the list O(1).")
        .says("Get an element from a list by its index", &["@read", "@list", "@slow"])
        .on(list::lindex),
    row("linsert", 5, &["write", "denyoom"], [1, 1, 1])
        .about("list", "2.2.0", "O(N) where N is the number of elements to traverse before seeing the value pivot. This means that inserting somewhere on the left end on the list (head) can be considered O(1) and inserting somewhere on the right end (tail) is O(N).")
        .says("Insert an element before or after another element in a list", &["@write", "@list", "@slow"])
        .on(list::linsert),
    row("llen", 2, &["readonly", "fast"], [1, 1, 1])
        .about("list", "1.0.0", "O(1)")
        .says("Get the length of a list", &["@read", "@list", "@fast"])
        .on(list::llen),
    row("lmove", 5, &["write", "denyoom"], [1, 2, 1])
        .about("list", "6.2.0", "O(1)")
        .says("Pop an element from a list, push it to another list and return it", &["@write", "@list", "@slow"])
        .on(list::lmove),
    row("lmpop", -4, &["write", "movablekeys"], [0, 0, 0])
        .about("list", "7.0.0", "O(N+M) where N is the number of provided keys and M is the number of elements returned.")
        .says("Pop elements from a list", &["@write", "@list", "@slow"])
        .on(list::lmpop),
    row("lpop", -2, &["write", "fast"], [1, 1, 1])
        .about("list", "1.0.0", "O(N) where N is the number of elements returned")
        .says("Remove and get the first elements in a list", &["@write", "@list", "@fast"])
        .on(list::lpop),
    row("lpos", -3, &["readonly"], [1, 1, 1])
        .about("list", "6.0.6", "O(N) where N is the number of elements in the list, for the average case. When searching for elements near the head or the tail of the list, or when the MAXLEN option is provided, the command may run in constant time.")
        .says("Return the index of matching elements on a list", &["@read", "@list", "@slow"])
        .on(list::lpos),
    row("lpush", -3, &["write", "denyoom", "fast"], [1, 1, 1])
        .about("list", "1.0.0", "O(1) for each element added, so O(N) to add N elements when the command is called with multiple arguments.")
        .says("Prepend one or multiple elements to a list", &["@write", "@list", "@fast"])
        .on(list::lpush),
    row("lpushx", -3, &["write", "denyoom", "fast"], [1, 1, 1])
        .about("list", "2.2.0", "O(1) for each element added, so O(N) to add N elements when the command is called with multiple arguments.")
        .says("Prepend an element to a list, only if the list exists", &["@write", "@list", "@fast"])
        .on(list::lpushx),
    row("lrange", 4, &["readonly"], [1, 1, 1])
        .about("list", "1.0.0", "O(S+N) where S is the distance of start offset from HEAD for small lists, from nearest end (HEAD or TAIL) for large lists; and N is the number of elements in the specified range.")
        .says("Get a range of elements from a list", &["@read", "@list", "@slow"])
        .on(list::lrange),
    row("lrem", 4, &["write"], [1, 1, 1])
        .about("list", "1.0.0", "O(N+M) where N is the length of the list and M is the number of elements removed.")
        .says("Remove elements from a list", &["@write", "@list", "@slow"])
        .on(list::lrem),
    row("lset", 4, &["write", "denyoom"], [1, 1, 1])
        .about("list", "1.0.0", "O(N) where N is the length of the list. Setting either the first or the last element of the list is O(1).")
        .says("Set the value of an element in a list by its index", &["@write", "@list", "@slow"])
        .on(list::lset),
    row("ltrim", 4, &["write"], [1, 1, 1])
        .about("list", "1.0.0", "O(N) where N is the number of elements to be removed by the operation.")
        .says("Trim a list to the specified range", &["@write", "@list", "@slow"])
        .on(list::ltrim),
    row("rpop", -2, &["write", "fast"], [1, 1, 1])
        .about("list", "1.0.0", "O(N) where N is the number of elements returned")
        .says("Remove and get the last elements in a list", &["@write", "@list", "@fast"])
        .on(list::rpop),
    row("rpoplpush", 3, &["write", "denyoom"], [1, 2, 1])
        .about("list", "1.2.0", "O(1)")
        .says("Remove the last element in a list, prepend it to another list and return it", &["@write", "@list", "@slow"])
        .on(list::rpoplpush),
    row("rpush", -3, &["write", "denyoom", "fast"], [1, 1, 1])
        .about("list", "1.0.0", "O(1) for each element added, so O(N) to add N elements when the command is called with multiple arguments.")
        .says("Append one or multiple elements to a list", &["@write", "@list", "@fast"])
        .on(list::rpush),
    row("rpushx", -3, &["write", "denyoom", "fast"], [1, 1, 1])
        .about("list", "2.2.0", "O(1) for each element added, so O(N) to add N elements when the command is called with multiple arguments.")
        .says("Append an element to a list, only if the list exists", &["@write", "@list", "@fast"])
        .on(list::rpushx),
];
