//! Strings.

use super::row;
use crate::commands::string;
use crate::spec::CommandSpec;

pub(super) const COMMANDS: &[CommandSpec] = &[
    row("append", 3, &["write", "denyoom", "fast"], [1, 1, 1])
        .about("string", "2.0.0", "O(1). The amortized time complexity is O(1) assuming the appended value is small and the already present value is of any size, since the dynamic string library used by Redis will double the free space available on every reallocation.")
        .says("Append a value to a key", &["@write", "@string", "@fast"])
        .on(string::append),
    row("decr", 2, &["write", "denyoom", "fast"], [1, 1, 1])
        .about("string", "1.0.0", "O(1)")
        .says("Decrement the integer value of a key by one", &["@write", "@string", "@fast"])
        .on(string::decr),
    row("decrby", 3, &["write", "denyoom", "fast"], [1, 1, 1])
        .about("string", "1.0.0", "O(1)")
        .says("Decrement the integer value of a key by the given number", &["@write", "@string", "@fast"])
        .on(string::decrby),
    row("delifeq", 3, &["write", "fast"], [1, 1, 1])
        .about("string", "1.0.0", "O(N) where N is the length of the value")
        .says("Delete a key if it has this string as its value", &["@write", "@string", "@fast"])
        .on(string::delifeq),
    row("get", 2, &["readonly", "fast"], [1, 1, 1])
        .about("string", "1.0.0", "O(1)")
        .says("Get the value of a key", &["@read", "@string", "@fast"])
        .on(string::get),
    row("getdel", 2, &["write", "fast"], [1, 1, 1])
        .about("string", "6.2.0", "O(1)")
        .says("Get the value of a key and delete the key", &["@write", "@string", "@fast"])
        .on(string::getdel),
    row("getex", -2, &["write", "fast"], [1, 1, 1])
        .about("string", "6.2.0", "O(1)")
        .says("Get the value of a key and optionally set its expiration", &["@write", "@string", "@fast"])
        .on(string::getex),
    row("getrange", 4, &["readonly"], [1, 1, 1])
        .about("string", "2.4.0", "O(N) where N is the length of the returned string. The complexity is ultimately determined by the returned length, but because creating a substring from an existing string is very cheap, it can be considered O(1) for small strings.")
        .says("Get a substring of the string stored at a key", &["@read", "@string", "@slow"])
        .on(string::getrange),
    row("getset", 3, &["write", "denyoom", "fast"], [1, 1, 1])
        .about("string", "1.0.0", "O(1)")
        .says("Set the string value of a key and return its old value", &["@write", "@string", "@fast"])
        .on(string::getset),
    row("incr", 2, &["write", "denyoom", "fast"], [1, 1, 1])
        .about("string", "1.0.0", "O(1)")
        .says("Increment the integer value of a key by one", &["@write", "@string", "@fast"])
        .on(string::incr),
    row("incrby", 3, &["write", "denyoom", "fast"], [1, 1, 1])
        .about("string", "1.0.0", "O(1)")
        .says("Increment the integer value of a key by the given amount", &["@write", "@string", "@fast"])
        .on(string::incrby),
    row("incrbyfloat", 3, &["write", "denyoom", "fast"], [1, 1, 1])
        .about("string", "2.6.0", "O(1)")
        .says("Increment the float value of a key by the given amount", &["@write", "@string", "@fast"])
        .on(string::incrbyfloat),
    row("lcs", -3, &["readonly"], [1, 2, 1])
        .about("string", "7.0.0", "O(N*M) where N and M are the lengths of s1 and s2, respectively")
        .says("Find longest common substring", &["@read", "@string", "@slow"])
        .on(string::lcs),
    row("mget", -2, &["readonly", "fast"], [1, -1, 1])
        .about("string", "1.0.0", "O(N) where N is the number of keys to retrieve.")
        .says("Get the values of all the given keys", &["@read", "@string", "@fast"])
        .on(string::mget),
    row("mset", -3, &["write", "denyoom"], [1, -1, 2])
        .about("string", "1.0.1", "O(N) where N is the number of keys to set.")
        .says("Set multiple keys to multiple values", &["@write", "@string", "@slow"])
        .on(string::mset),
    row("msetnx", -3, &["write", "denyoom"], [1, -1, 2])
        .about("string", "1.0.1", "O(N) where N is the number of keys to set.")
        .says("Set multiple keys to multiple values, only if none of the keys exist", &["@write", "@string", "@slow"])
        .on(string::msetnx),
    row("psetex", 4, &["write", "denyoom"], [1, 1, 1])
        .about("string", "2.6.0", "O(1)")
        .says("Set the value and expiration in milliseconds of a key", &["@write", "@string", "@slow"])
        .on(string::psetex),
    row("set", -3, &["write", "denyoom"], [1, 1, 1])
        .about("string", "1.0.0", "O(1)")
        .says("Set the string value of a key", &["@write", "@string", "@slow"])
        .on(string::set),
    row("setex", 4, &["write", "denyoom"], [1, 1, 1])
        .about("string", "2.0.0", "O(1)")
        .says("Set the value and expiration of a key", &["@write", "@string", "@slow"])
        .on(string::setex),
    row("setnx", 3, &["write", "denyoom", "fast"], [1, 1, 1])
        .about("string", "1.0.0", "O(1)")
        .says("Set the value of a key, only if the key does not exist", &["@write", "@string", "@fast"])
        .on(string::setnx),
    row("setrange", 4, &["write", "denyoom"], [1, 1, 1])
        .about("string", "2.2.0", "O(1), not counting the time taken to copy the new string in place. Usually, this string is very small so the amortized complexity is O(1). Otherwise, complexity is O(M) with M being the length of the value argument.")
        .says("Overwrite part of a string at key starting at the specified offset", &["@write", "@string", "@slow"])
        .on(string::setrange),
    row("strlen", 2, &["readonly", "fast"], [1, 1, 1])
        .about("string", "2.2.0", "O(1)")
        .says("Get the length of the value stored in a key", &["@read", "@string", "@fast"])
        .on(string::strlen),
    row("substr", 4, &["readonly"], [1, 1, 1])
        .about("string", "1.0.0", "O(N) where N is the length of the returned string. The complexity is ultimately determined by the returned length, but because creating a substring from an existing string is very cheap, it can be considered O(1) for small strings.")
        .says("Get a substring of the string stored at a key", &["@read", "@string", "@slow"])
        .on(string::getrange),
];
