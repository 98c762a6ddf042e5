//! Slots as a whole: their keys, their ends, walks through them.

use std::collections::BTreeSet;

use kv::{Life, SLOTS, slot_of};
use resp::Value;

use crate::memory::Memory;
use crate::rows;

fn life_of(memory: &Memory, key: &str) -> Life {
    memory.lives[usize::from(slot_of(key.as_bytes()))]
}

#[test]
fn slots_are_those_of_redis_cluster() {
    for (key, slot) in [
        ("", 0),
        ("foo", 12182),
        ("bar", 5061),
        ("{foo}bar", 12182),
        ("foo{", 7673),
        ("{}foo", 9500),
        ("foo{}{bar}", 8363),
    ] {
        assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
    }
    assert!((0..1000_u32).all(|number| slot_of(&number.to_be_bytes()) < SLOTS));
}

#[test]
fn a_pattern_is_no_longer_than_one_is_held_to_names_in_time() {
    let mut memory = Memory::new(1);
    memory.reply("SADD s m");
    let pattern = "b".repeat(1_024);
    for (words, is_taken) in [
        (format!("KEYS {pattern}"), true),
        (format!("KEYS {pattern}b"), false),
        (format!("SCAN 0 MATCH {pattern}b"), false),
        (format!("SSCAN s 0 MATCH {pattern}"), true),
        (format!("SSCAN s 0 MATCH {pattern}b"), false),
    ] {
        let reply = memory.reply(&words);
        let is_error = matches!(&reply, Value::Error(why) if why.contains("at most 1024 bytes"));
        assert_eq!(!is_error, is_taken, "{words}: {reply:?}");
    }
}

#[test]
fn flushall_ends_the_lives_of_slots_with_keys_and_ids_go_on() {
    let mut memory = Memory::new(1).with_small_bounds();
    memory.reply("SADD {a}s 1 2 3 4 5 6");
    memory.reply("SET b 1");
    let (a, b) = (life_of(&memory, "a"), life_of(&memory, "b"));
    let flushed = memory.run(&[b"FLUSHALL"]).flushed;
    let lives: BTreeSet<Life> = flushed.into_iter().collect();
    assert_eq!(lives, BTreeSet::from([a.next(), b.next()]));
    assert_eq!(memory.reply("DBSIZE"), Value::Integer(0));
    rows::check(&memory);
    // The next id is not the first one again.
    let life = life_of(&memory, "a");
    assert_eq!(memory.on_slot(|view| kv::new_id(view, life)), 1);
    let executed = memory.run(&[b"FLUSHDB"]);
    assert_eq!(
        (executed.flushed, executed.wrote),
        (Vec::new(), false),
        "nothing to end"
    );
}

#[test]
fn a_command_tells_what_it_did_beside_its_reply() {
    let mut memory = Memory::new(1);
    let executed = memory.run(&[b"MSET", b"{t}a", b"1", b"{t}b", b"2"]);
    assert_eq!(executed.changed, [b"{t}a".to_vec(), b"{t}b".to_vec()]);
    assert!(executed.wrote && !executed.saw_expired);
    let executed = memory.run(&[b"SETNX", b"{t}a", b"3"]);
    assert!(
        !executed.wrote && executed.changed.is_empty(),
        "it only read"
    );
    memory.reply("PEXPIRE {t}a 10");
    memory.time_ms += 10;
    let executed = memory.run(&[b"GET", b"{t}a"]);
    assert_eq!(executed.reply, Value::Null);
    assert!(
        executed.saw_expired && !executed.wrote,
        "a reader takes nothing away"
    );
    assert_eq!(memory.reply("DBSIZE"), Value::Integer(2));
    let executed = memory.run(&[b"APPEND", b"{t}a", b"x"]);
    assert_eq!(executed.reply, Value::Integer(1));
    assert!(executed.saw_expired && executed.wrote);
    assert_eq!(memory.reply("TTL {t}a"), Value::Integer(-1));
    rows::check(&memory);
}

#[test]
fn what_is_due_is_worked_off_in_the_order_of_deadlines() {
    let mut memory = Memory::new(1).with_small_bounds();
    for number in 0..10 {
        memory.reply(&format!(
            "SET {{t}}{number} a-value-that-has-a-chunk-of-its-own PX {}",
            100 - number
        ));
    }
    let life = life_of(&memory, "{t}");
    memory.time_ms += 95;
    let taken = memory.take_expired(life);
    let names: Vec<String> = (5..10)
        .rev()
        .map(|number| format!("{{t}}{number}"))
        .collect();
    assert_eq!(
        taken,
        names
            .iter()
            .map(|name| name.as_bytes().to_vec())
            .collect::<Vec<_>>()
    );
    assert_eq!(memory.on_slot(|view| kv::count_keys(view, life)), 5);
    let left = memory.on_slot(|view| kv::some_keys(view, life, 3));
    assert_eq!(left.len(), 3);
    rows::check(&memory);
}

#[test]
fn rows_that_are_fetched_are_of_use_at_a_later_time() {
    let mut memory = Memory::new(1);
    memory.reply("SET {t} 1 PX 100");
    memory.time_ms += 100;
    (memory.away, memory.fetch_ms) = (8, 5);
    let life = life_of(&memory, "{t}");
    assert_eq!(memory.take_expired(life), [b"{t}".to_vec()]);
    assert!(memory.again <= 5, "executed anew {} times", memory.again);
    // The times of commands are drawn from the clock, too.
    for command in [
        "SETEX a 1 x",
        "EXPIRE a 100",
        "PTTL a",
        "GETEX a PX 5",
        "GET a",
    ] {
        memory.again = 0;
        memory.reply(command);
        assert!(memory.again <= 5, "{command}: {} times", memory.again);
    }
}

#[test]
fn a_step_of_a_scan_begins_in_the_slot_of_its_cursor() {
    let cursor = ((5_u64 << 48) + 8).to_string();
    let from = |words: &[&str]| {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        kv::scans_from(&words)
    };
    assert_eq!(from(&["scan", "0"]), Some(0));
    assert_eq!(from(&["SCAN", &cursor, "COUNT", "7"]), Some(5));
    assert_eq!(from(&["SCAN", "9223372036854775807"]), Some(32_767));
    for other in [
        &["SCAN"][..],
        &["SCAN", "x"],
        &["SCAN", "-1"],
        &["DBSIZE"],
        &["KEYS", "0"],
    ] {
        assert_eq!(from(other), None, "{other:?}");
    }
    // It is shown the slots from there on, and one more than it looks at: so it knows that it is not over.
    let mut memory = Memory::new(6);
    for number in 0..2000 {
        memory.reply(&format!("SET k{number} 1"));
    }
    let full: Vec<Life> = memory.lives.clone();
    let (mut cursor, mut found) = ("0".to_owned(), BTreeSet::new());
    loop {
        let begin = usize::from(from(&["SCAN", &cursor]).expect("a slot"));
        let shown = full.iter().skip(begin).take(kv::SCANNED_SLOTS_MAX + 1);
        memory.lives = shown.copied().collect();
        let reply = memory.reply(&format!("SCAN {cursor} COUNT 100"));
        let Value::Array(parts) = reply else {
            panic!("{reply:?}");
        };
        let [Value::Bulk(next), Value::Array(names)] = &parts[..] else {
            panic!("{parts:?}");
        };
        found.extend(names.iter().map(|name| format!("{name:?}")));
        cursor = String::from_utf8_lossy(next).into_owned();
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(found.len(), 2000);
}

/// Walks with a command until the cursor is 0 again; between two steps something happens.
fn walk(
    memory: &mut Memory,
    command: &str,
    options: &str,
    mut between: impl FnMut(&mut Memory, usize),
) -> BTreeSet<String> {
    let (mut cursor, mut found, mut steps) = ("0".to_owned(), BTreeSet::new(), 0);
    loop {
        let reply = memory.reply(&format!("{command} {cursor} {options}"));
        let Value::Array(parts) = reply else {
            panic!("{reply:?}");
        };
        let [Value::Bulk(next), Value::Array(names)] = &parts[..] else {
            panic!("{parts:?}");
        };
        for name in names {
            if let Value::Bulk(name) = name {
                found.insert(String::from_utf8_lossy(name).into_owned());
            }
        }
        cursor = String::from_utf8_lossy(next).into_owned();
        if cursor == "0" {
            return found;
        }
        // Signed clients read it, too.
        assert!(cursor.parse::<i64>().expect("a number") > 0);
        steps += 1;
        between(memory, steps);
    }
}

#[test]
fn a_scan_returns_all_that_was_there_all_the_time() {
    for away in [0, 3] {
        let mut memory = Memory::new(3);
        memory.away = away;
        memory.page_rows_max = if away > 0 { 3 } else { usize::MAX };
        for number in 0..300 {
            memory.reply(&format!("SET stays{number} 1"));
            memory.reply(&format!("SET {{one}}goes{number} 1"));
        }
        let found = walk(&mut memory, "SCAN", "COUNT 7", |memory, step| {
            memory.reply(&format!("DEL {{one}}goes{step}"));
            memory.reply(&format!("SET {{one}}comes{step} 1"));
        });
        let stays = found
            .iter()
            .filter(|name| name.starts_with("stays"))
            .count();
        assert_eq!(stays, 300);
        let found = walk(&mut memory, "SCAN", "COUNT 50 MATCH stays1?", |_, _| {});
        assert_eq!(found.len(), 10);
        let found = walk(&mut memory, "SCAN", "TYPE list", |_, _| {});
        assert!(found.is_empty());
    }
}

#[test]
fn members_are_scanned_in_steps_when_they_are_many() {
    let mut memory = Memory::new(4);
    for number in 0..500 {
        memory.reply(&format!("SADD s m{number}"));
        memory.reply(&format!("ZADD z {number} m{number}"));
        memory.reply(&format!("HSET h m{number} ="));
    }
    for command in ["SSCAN s", "ZSCAN z", "HSCAN h"] {
        let mut steps = 0;
        let found = walk(&mut memory, command, "COUNT 20", |memory, step| {
            steps = step;
            memory.reply(&format!("SREM s gone{step}"));
            memory.reply(&format!("SADD s new{step}"));
        });
        assert!(steps > 10);
        assert_eq!(
            found.iter().filter(|name| name.starts_with('m')).count(),
            500,
            "{command}"
        );
    }
}

#[test]
fn random_keys_are_of_all_slots() {
    let mut memory = Memory::new(5);
    for number in 0..20 {
        memory.reply(&format!("SET k{number} 1"));
    }
    let mut seen = BTreeSet::new();
    for _ in 0..400 {
        let Value::Bulk(name) = memory.reply("RANDOMKEY") else {
            panic!("a key");
        };
        seen.insert(name);
    }
    assert_eq!(seen.len(), 20);
}

#[test]
fn drawn_members_of_a_large_set_are_different_and_about_as_likely() {
    let mut memory = Memory::new(6);
    for number in 0..3000 {
        memory.reply(&format!("SADD s {number}"));
    }
    let Value::Array(few) = memory.reply("SRANDMEMBER s 100") else {
        panic!("members");
    };
    let distinct: BTreeSet<String> = few.iter().map(|name| format!("{name:?}")).collect();
    assert_eq!(distinct.len(), 100);
    let Value::Set(popped) = memory.reply("SPOP s 200") else {
        panic!("members");
    };
    assert_eq!(popped.len(), 200);
    assert_eq!(memory.reply("SCARD s"), Value::Integer(2800));
    rows::check(&memory);
}

#[test]
fn a_key_of_a_slot_that_is_not_served_and_keys_of_two_slots_are_refused() {
    let mut memory = Memory::new(7);
    let reply = memory.reply("MGET a b");
    assert_eq!(
        reply,
        Value::error("CROSSSLOT Keys in request don't hash to the same slot")
    );
    let slot = slot_of(b"a");
    memory.lives.retain(|life| life.slot != slot);
    assert_eq!(
        memory.reply("GET a"),
        Value::error("CLUSTERDOWN Hash slot not served")
    );
}

#[test]
fn what_is_too_long_is_refused() {
    let mut memory = Memory::new(8);
    memory.bounds.string_bytes_max = 100;
    memory.bounds.key_bytes_max = 50;
    let long = "x".repeat(60);
    assert_eq!(
        memory.reply(&format!("SET {long} 1")),
        Value::error("ERR the key is too long")
    );
    let words = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
    assert_eq!(memory.reply("SETRANGE s 100 x"), Value::error(words));
    memory.reply(&format!("SET s {long}"));
    assert_eq!(
        memory.reply(&format!("APPEND s {long}")),
        Value::error(words)
    );
    memory.bounds.packed_members_max = 1;
    let reply = memory.reply(&format!("SADD e a {long}"));
    assert_eq!(reply, Value::error("ERR the field or member is too long"));
}

/// However small a request is: what it is answered has a bound.
#[test]
fn a_command_that_reads_too_much_is_refused_before_it_writes() {
    let mut memory = Memory::new(9).with_small_bounds();
    memory.bounds.reply_bytes_max = 1200;
    let words = Value::error("ERR the command reads more than one reply may hold");
    for number in 0..30 {
        memory.reply(&format!("SADD {{t}}s a-member-of-some-length-{number}"));
        memory.reply(&format!("HSET {{t}}h {number} a-value-of-some-length"));
        memory.reply(&format!("ZADD {{t}}z 1 a-member-of-some-length-{number}"));
        memory.reply(&format!("RPUSH {{t}}l an-item-of-some-length-{number}"));
    }
    memory.reply(&format!("SET {{t}}t {}", "x".repeat(500)));
    let before = memory.rows.clone();
    for line in [
        "SRANDMEMBER {t}s -1000000",
        "HRANDFIELD {t}h -1000 WITHVALUES",
        "ZRANDMEMBER {t}z -1000",
        "MGET {t}t {t}t {t}t {t}t {t}t",
        "SMEMBERS {t}s",
        "HGETALL {t}h",
        "ZRANGE {t}z 0 -1",
        "ZREVRANGE {t}z 0 -1",
        "LRANGE {t}l 0 -1",
        "SUNIONSTORE {t}x {t}s {t}s",
        "ZUNIONSTORE {t}t 1 {t}z",
        "COPY {t}z {t}t REPLACE",
        "SORT {t}l ALPHA STORE {t}t",
        "LREM {t}l 0 x",
        "SPOP {t}s 29",
        "ZREMRANGEBYSCORE {t}z 0 2",
        "SSCAN {t}s 0 COUNT 1000",
    ] {
        assert_eq!(memory.reply(line), words, "{line}");
        assert_eq!(memory.rows, before, "{line}");
    }
    assert_eq!(
        memory.reply("ZCOUNT {t}z 0 2"),
        Value::Integer(30),
        "it is not read into the reply"
    );
}

/// A host executes a command anew some hundred times, not as often as there are members.
#[test]
fn no_command_asks_for_its_rows_one_by_one() {
    let mut memory = Memory::new(10);
    let many = |prefix: &str, each: &dyn Fn(usize) -> String| {
        let words: Vec<String> = (0..600).map(each).collect();
        format!("{prefix} {}", words.join(" "))
    };
    let member = |number: usize| format!("m{number}");
    let pair = |number: usize| format!("{number} m{number}");
    let key = |number: usize| format!("{{t}}{number}");
    let key_and_value = |number: usize| format!("{{t}}{number} 1");
    let lines = [
        many("SADD {t}s", &member),
        many("SADD {t}s", &member),
        many("SMISMEMBER {t}s", &member),
        many("HSET {t}h", &pair),
        many("HMGET {t}h", &member),
        many("ZADD {t}z", &pair),
        many("ZADD {t}z XX CH", &pair),
        many("ZMSCORE {t}z", &member),
        many("RPUSH {t}l", &member),
        many("MSET", &key_and_value),
        many("MGET", &key),
        many("EXISTS", &key),
        many("SADD {t}u", &member),
        "SINTER {t}s {t}u".to_owned(),
        "SUNIONSTORE {t}v {t}s {t}u".to_owned(),
        "ZUNIONSTORE {t}w 2 {t}z {t}s".to_owned(),
        "COPY {t}z {t}y".to_owned(),
        "SORT {t}l ALPHA STORE {t}k".to_owned(),
        "LREM {t}l 0 m300".to_owned(),
        "LTRIM {t}l 10 -10".to_owned(),
        "LPOP {t}l 300".to_owned(),
        "ZPOPMAX {t}z 300".to_owned(),
        "ZREMRANGEBYRANK {t}y 0 300".to_owned(),
        "SPOP {t}s 500".to_owned(),
        "SRANDMEMBER {t}u 500".to_owned(),
        many("SREM {t}u", &member),
        many("HDEL {t}h", &member),
        many("ZREM {t}z", &member),
        many("DEL", &key),
        "DBSIZE".to_owned(),
    ];
    memory.away = 8;
    for line in &lines {
        let before = memory.again;
        let reply = memory.reply(line);
        assert!(!matches!(reply, Value::Error(_)), "{line}: {reply:?}");
        assert!(
            memory.again - before <= 8,
            "{} rounds: {line}",
            memory.again - before
        );
    }
    rows::check(&memory);
    memory.away = 0;
    for number in 0..3000 {
        memory.reply(&format!("SET k{number} 1"));
        memory.reply(&format!("SADD {{t}}big {number}"));
    }
    memory.away = 8;
    for line in [
        "SRANDMEMBER {t}big 200",
        "SRANDMEMBER {t}big -200",
        "SPOP {t}big 200",
        "KEYS *",
        "SCAN 0 COUNT 5000",
        "RANDOMKEY",
        "FLUSHALL",
    ] {
        let before = memory.again;
        memory.reply(line);
        assert!(
            memory.again - before <= 40,
            "{} rounds: {line}",
            memory.again - before
        );
    }
}
