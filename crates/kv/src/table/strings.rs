//! Strings.

use super::row;
use crate::commands::string;
use crate::spec::CommandSpec;

pub(super) const COMMANDS: &[CommandSpec] = &[
    row("append", 3, &["write", "denyoom", "fast"], [1, 1, 1])
        .about("string", "2.0.0", "O(n), n bytes given")
        .says(
            "Writes on at the end of a string",
            &["@write", "@string", "@fast"],
        )
        .on(string::append),
    row("decr", 2, &["write", "denyoom", "fast"], [1, 1, 1])
        .about("string", "1.0.0", "O(1)")
        .says("Takes one from a number", &["@write", "@string", "@fast"])
        .on(string::decr),
    row("decrby", 3, &["write", "denyoom", "fast"], [1, 1, 1])
        .about("string", "1.0.0", "O(1)")
        .says(
            "Takes a whole number from a number",
            &["@write", "@string", "@fast"],
        )
        .on(string::decrby),
    row("delifeq", 3, &["write", "fast"], [1, 1, 1])
        .about("string", "1.0.0", "O(n), n bytes of the value")
        .says(
            "Removes a key that holds exactly this string",
            &["@write", "@string", "@fast"],
        )
        .on(string::delifeq),
    row("get", 2, &["readonly", "fast"], [1, 1, 1])
        .about("string", "1.0.0", "O(1)")
        .says("Reads a string", &["@read", "@string", "@fast"])
        .on(string::get),
    row("getdel", 2, &["write", "fast"], [1, 1, 1])
        .about("string", "6.2.0", "O(1)")
        .says(
            "Reads a string and removes its key",
            &["@write", "@string", "@fast"],
        )
        .on(string::getdel),
    row("getex", -2, &["write", "fast"], [1, 1, 1])
        .about("string", "6.2.0", "O(1)")
        .says(
            "Reads a string and may change when it ends",
            &["@write", "@string", "@fast"],
        )
        .on(string::getex),
    row("getrange", 4, &["readonly"], [1, 1, 1])
        .about("string", "2.4.0", "O(n), n bytes answered")
        .says(
            "Reads the part of a string between two places",
            &["@read", "@string", "@slow"],
        )
        .on(string::getrange),
    row("getset", 3, &["write", "denyoom", "fast"], [1, 1, 1])
        .about("string", "1.0.0", "O(1)")
        .says(
            "Writes a string and answers the one before it",
            &["@write", "@string", "@fast"],
        )
        .on(string::getset),
    row("incr", 2, &["write", "denyoom", "fast"], [1, 1, 1])
        .about("string", "1.0.0", "O(1)")
        .says("Adds one to a number", &["@write", "@string", "@fast"])
        .on(string::incr),
    row("incrby", 3, &["write", "denyoom", "fast"], [1, 1, 1])
        .about("string", "1.0.0", "O(1)")
        .says(
            "Adds a whole number to a number",
            &["@write", "@string", "@fast"],
        )
        .on(string::incrby),
    row("incrbyfloat", 3, &["write", "denyoom", "fast"], [1, 1, 1])
        .about("string", "2.6.0", "O(1)")
        .says(
            "Adds a decimal number to a number",
            &["@write", "@string", "@fast"],
        )
        .on(string::incrbyfloat),
    row("lcs", -3, &["readonly"], [1, 2, 1])
        .about("string", "7.0.0", "O(n*m), strings of n and m bytes")
        .says(
            "Finds the longest row of bytes that two strings share, gaps allowed",
            &["@read", "@string", "@slow"],
        )
        .on(string::lcs),
    row("mget", -2, &["readonly", "fast"], [1, -1, 1])
        .about("string", "1.0.0", "O(n), n keys")
        .says("Reads several strings", &["@read", "@string", "@fast"])
        .on(string::mget),
    row("mset", -3, &["write", "denyoom"], [1, -1, 2])
        .about("string", "1.0.1", "O(n), n keys")
        .says(
            "Writes several strings in one step",
            &["@write", "@string", "@slow"],
        )
        .on(string::mset),
    row("msetnx", -3, &["write", "denyoom"], [1, -1, 2])
        .about("string", "1.0.1", "O(n), n keys")
        .says(
            "Writes several strings in one step, or none if any key is there",
            &["@write", "@string", "@slow"],
        )
        .on(string::msetnx),
    row("psetex", 4, &["write", "denyoom"], [1, 1, 1])
        .about("string", "2.6.0", "O(1)")
        .says(
            "Writes a string that ends after some milliseconds",
            &["@write", "@string", "@slow"],
        )
        .on(string::psetex),
    row("set", -3, &["write", "denyoom"], [1, 1, 1])
        .about("string", "1.0.0", "O(1)")
        .says("Writes a string", &["@write", "@string", "@slow"])
        .on(string::set),
    row("setex", 4, &["write", "denyoom"], [1, 1, 1])
        .about("string", "2.0.0", "O(1)")
        .says(
            "Writes a string that ends after some seconds",
            &["@write", "@string", "@slow"],
        )
        .on(string::setex),
    row("setnx", 3, &["write", "denyoom", "fast"], [1, 1, 1])
        .about("string", "1.0.0", "O(1)")
        .says(
            "Writes a string unless its key is there",
            &["@write", "@string", "@fast"],
        )
        .on(string::setnx),
    row("setrange", 4, &["write", "denyoom"], [1, 1, 1])
        .about("string", "2.2.0", "O(n), n bytes given")
        .says(
            "Writes over a part of a string",
            &["@write", "@string", "@slow"],
        )
        .on(string::setrange),
    row("strlen", 2, &["readonly", "fast"], [1, 1, 1])
        .about("string", "2.2.0", "O(1)")
        .says(
            "Counts the bytes of a string",
            &["@read", "@string", "@fast"],
        )
        .on(string::strlen),
    row("substr", 4, &["readonly"], [1, 1, 1])
        .about("string", "1.0.0", "O(n), n bytes answered")
        .says(
            "Reads the part of a string between two places; GETRANGE is its newer name",
            &["@read", "@string", "@slow"],
        )
        .on(string::getrange),
];
