//! Keys, whatever they hold.

use super::row;
use crate::commands::{keyspace, scan, sort};
use crate::spec::CommandSpec;

pub(super) const COMMANDS: &[CommandSpec] = &[
    row("copy", -3, &["write", "denyoom"], [1, 2, 1])
        .about("generic", "6.2.0", "O(N) worst case for collections, where N is the number of nested items. O(1) for string values.")
        .says("Copy a key", &["@keyspace", "@write", "@slow"])
        .on(keyspace::copy),
    row("dbsize", 1, &["readonly", "fast"], [0, 0, 0])
        .about("server", "1.0.0", "O(1)")
        .says("Return the number of keys in the selected database", &["@keyspace", "@read", "@fast"])
        .on(keyspace::dbsize),
    row("del", -2, &["write"], [1, -1, 1])
        .about("generic", "1.0.0", "O(N) where N is the number of keys that will be removed. When a key to remove holds a value other than a string, the individual complexity for this key is O(M) where M is the number of elements in the list, set, sorted set or hash. Removing a single key that holds a string value is O(1).")
        .says("Delete a key", &["@keyspace", "@write", "@slow"])
        .on(keyspace::del),
    row("exists", -2, &["readonly", "fast"], [1, -1, 1])
        .about("generic", "1.0.0", "O(N) where N is the number of keys to check.")
        .says("Determine if a key exists", &["@keyspace", "@read", "@fast"])
        .on(keyspace::exists),
    row("expire", -3, &["write", "fast"], [1, 1, 1])
        .about("generic", "1.0.0", "O(1)")
        .says("Set a key's time to live in seconds", &["@keyspace", "@write", "@fast"])
        .on(keyspace::expire),
    row("expireat", -3, &["write", "fast"], [1, 1, 1])
        .about("generic", "1.2.0", "O(1)")
        .says("Set the expiration for a key as a UNIX timestamp", &["@keyspace", "@write", "@fast"])
        .on(keyspace::expireat),
    row("expiretime", 2, &["readonly", "fast"], [1, 1, 1])
        .about("generic", "7.0.0", "O(1)")
        .says("Get the expiration Unix timestamp for a key", &["@keyspace", "@read", "@fast"])
        .on(keyspace::expiretime),
    row("flushall", -1, &["write"], [0, 0, 0])
        .about("server", "1.0.0", "O(N) where N is the total number of keys in all databases")
        .says("Remove all keys from all databases", &["@keyspace", "@write", "@slow", "@dangerous"])
        .on(keyspace::flush),
    row("flushdb", -1, &["write"], [0, 0, 0])
        .about("server", "1.0.0", "O(N) where N is the number of keys in the selected database")
        .says("Remove all keys from the current database", &["@keyspace", "@write", "@slow", "@dangerous"])
        .on(keyspace::flush),
    row("keys", 2, &["readonly"], [0, 0, 0])
        .about("generic", "1.0.0", "O(N) with N being the number of keys in the database, under the assumption that the key names in the database and the given pattern have limited length.")
        .says("Find all keys matching the given pattern", &["@keyspace", "@read", "@slow", "@dangerous"])
        .on(keyspace::keys),
    row("object", -2, &[], [0, 0, 0])
        .about("generic", "2.2.3", "Depends on subcommand.")
        .says("A container for object introspection commands", &["@slow"])
        .on(keyspace::object),
    row("persist", 2, &["write", "fast"], [1, 1, 1])
        .about("generic", "2.2.0", "O(1)")
        .says("Remove the expiration from a key", &["@keyspace", "@write", "@fast"])
        .on(keyspace::persist),
    row("pexpire", -3, &["write", "fast"], [1, 1, 1])
        .about("generic", "2.6.0", "O(1)")
        .says("Set a key's time to live in milliseconds", &["@keyspace", "@write", "@fast"])
        .on(keyspace::pexpire),
    row("pexpireat", -3, &["write", "fast"], [1, 1, 1])
        .about("generic", "2.6.0", "O(1)")
        .says("Set the expiration for a key as a UNIX timestamp specified in milliseconds", &["@keyspace", "@write", "@fast"])
        .on(keyspace::pexpireat),
    row("pexpiretime", 2, &["readonly", "fast"], [1, 1, 1])
        .about("generic", "7.0.0", "O(1)")
        .says("Get the expiration Unix timestamp for a key in milliseconds", &["@keyspace", "@read", "@fast"])
        .on(keyspace::pexpiretime),
    row("pttl", 2, &["readonly", "fast"], [1, 1, 1])
        .about("generic", "2.6.0", "O(1)")
        .says("Get the time to live for a key in milliseconds", &["@keyspace", "@read", "@fast"])
        .on(keyspace::pttl),
    row("randomkey", 1, &["readonly"], [0, 0, 0])
        .about("generic", "1.0.0", "O(1)")
        .says("Return a random key from the keyspace", &["@keyspace", "@read", "@slow"])
        .on(keyspace::randomkey),
    row("rename", 3, &["write"], [1, 2, 1])
        .about("generic", "1.0.0", "O(1)")
        .says("Rename a key", &["@keyspace", "@write", "@slow"])
        .on(keyspace::rename),
    row("renamenx", 3, &["write", "fast"], [1, 2, 1])
        .about("generic", "1.0.0", "O(1)")
        .says("Rename a key, only if the new key does not exist", &["@keyspace", "@write", "@fast"])
        .on(keyspace::renamenx),
    row("scan", -2, &["readonly"], [0, 0, 0])
        .about("generic", "2.8.0", "O(1) for every call. O(N) for a complete iteration, including enough command calls for the cursor to return back to 0. N is the number of elements inside the collection.")
        .says("Incrementally iterate the keys space", &["@keyspace", "@read", "@slow"])
        .on(scan::scan),
    row("sort", -2, &["write", "denyoom", "movablekeys"], [1, 1, 1])
        .about("generic", "1.0.0", "O(N+M*log(M)) where N is the number of elements in the list or set to sort, and M the number of returned elements. When the elements are not sorted, complexity is O(N).")
        .says("Sort the elements in a list, set or sorted set", &["@write", "@set", "@sortedset", "@list", "@slow", "@dangerous"])
        .on(sort::sort),
    row("sort_ro", -2, &["readonly", "movablekeys"], [1, 1, 1])
        .about("generic", "7.0.0", "O(N+M*log(M)) where N is the number of elements in the list or set to sort, and M the number of returned elements. When the elements are not sorted, complexity is O(N).")
        .says("Sort the elements in a list, set or sorted set. Read-only variant of SORT.", &["@read", "@set", "@sortedset", "@list", "@slow", "@dangerous"])
        .on(sort::sort_ro),
    row("touch", -2, &["readonly", "fast"], [1, -1, 1])
        .about("generic", "3.2.1", "O(N) where N is the number of keys that will be touched.")
        .says("Alters the last access time of a key(s). Returns the number of existing keys specified.", &["@keyspace", "@read", "@fast"])
        .on(keyspace::exists),
    row("ttl", 2, &["readonly", "fast"], [1, 1, 1])
        .about("generic", "1.0.0", "O(1)")
        .says("Get the time to live for a key in seconds", &["@keyspace", "@read", "@fast"])
        .on(keyspace::ttl),
    row("type", 2, &["readonly", "fast"], [1, 1, 1])
        .about("generic", "1.0.0", "O(1)")
        .says("Determine the type stored at key", &["@keyspace", "@read", "@fast"])
        .on(keyspace::type_of),
    row("unlink", -2, &["write", "fast"], [1, -1, 1])
        .about("generic", "4.0.0", "O(1) for each key removed regardless of its size. Then the command does O(N) work in a different thread in order to reclaim memory, where N is the number of allocations the deleted objects where composed of.")
        .says("Delete a key asynchronously in another thread. Otherwise it is just as DEL, but non blocking.", &["@keyspace", "@write", "@fast"])
        .on(keyspace::del),
];
