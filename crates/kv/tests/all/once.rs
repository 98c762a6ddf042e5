//! Sessions: what is sent again is done once, and hears what it heard.

use kv::{SESSIONS_MAX, UNUSED_MS, slot_of};
use proptest::prelude::*;
use resp::{Protocol, Value};

use crate::drawn::{Dice, command};
use crate::memory::Memory;
use crate::rows;
use crate::shown::comparable;

fn open(memory: &mut Memory, key: &str) -> i64 {
    match memory.reply(&format!("ONCE.OPEN {key}")) {
        Value::Integer(session) if session > 0 => session,
        other => panic!("{other:?} is no session"),
    }
}

fn is_error(value: &Value, words: &str) -> bool {
    matches!(value, Value::Error(error) if error.starts_with(words))
}

#[test]
fn what_is_sent_again_hears_its_first_reply() {
    let mut memory = Memory::new(1);
    let session = open(&mut memory, "{a}");
    let once =
        |memory: &mut Memory, rest: &str| memory.reply(&format!("ONCE {{a}} {session} {rest}"));
    assert_eq!(once(&mut memory, "1 INCR {a}n"), Value::Integer(1));
    assert_eq!(once(&mut memory, "1 INCR {a}n"), Value::Integer(1));
    // Whatever came between, and whatever it says now.
    memory.reply("SET {a}n 41");
    assert_eq!(once(&mut memory, "1 DEL {a}n"), Value::Integer(1));
    assert_eq!(once(&mut memory, "7 INCR {a}n"), Value::Integer(42));
    assert!(is_error(&once(&mut memory, "1 INCR {a}n"), "SUPERSEDED "));
    assert!(is_error(&once(&mut memory, "6 INCR {a}n"), "SUPERSEDED "));
    assert_eq!(memory.reply("GET {a}n"), Value::bulk("42"));
    // An error is a reply.
    assert!(is_error(&once(&mut memory, "8 LPUSH {a}n 1"), "WRONGTYPE "));
    memory.reply("DEL {a}n");
    assert!(is_error(&once(&mut memory, "8 LPUSH {a}n 1"), "WRONGTYPE "));
    // All kinds of replies are kept as they are, in both protocols.
    memory.reply("RPUSH {a}l x y");
    memory.reply("HSET {a}h f 1");
    for (at, protocol) in [Protocol::Resp2, Protocol::Resp3].into_iter().enumerate() {
        memory.protocol = protocol;
        for (line, command) in [
            "LRANGE {a}l 0 -1",
            "GET {a}none",
            "HGETALL {a}h",
            "LPOP {a}none 3",
            "SET {a}k 1",
            "TYPE {a}l",
            "ZADD {a}z 1.5 m",
            "ZRANGE {a}z 0 -1 WITHSCORES",
        ]
        .into_iter()
        .enumerate()
        {
            let command = format!("{} {command}", 100 * (at + 1) + line);
            let first = once(&mut memory, &command);
            memory.reply("DEL {a}l {a}h {a}z {a}k");
            let (first, again) = (shown(&first, protocol), once(&mut memory, &command));
            assert_eq!(first, shown(&again, protocol), "{command}");
            memory.reply("RPUSH {a}l x y");
            memory.reply("HSET {a}h f 1");
        }
    }
    rows::check(&memory);
}

fn shown(value: &Value, protocol: Protocol) -> Vec<u8> {
    let mut bytes = Vec::new();
    resp::encode(value, protocol, &mut bytes);
    bytes
}

#[test]
fn what_is_no_command_of_a_session_is_not_done() {
    let mut memory = Memory::new(1);
    let session = open(&mut memory, "a");
    for (line, words) in [
        (format!("ONCE a {} 1 SET a 1", session + 1), "NOSESSION "),
        ("ONCE a -1 1 SET a 1".to_owned(), "NOSESSION "),
        (
            "ONCE a x 1 SET a 1".to_owned(),
            "ERR value is not an integer",
        ),
        (format!("ONCE a {session} 0 SET a 1"), "ERR the sequence"),
        (format!("ONCE a {session} -3 SET a 1"), "ERR the sequence"),
        (format!("ONCE a {session} 1 SET a"), "ERR wrong number"),
        (
            format!("ONCE a {session} 1 NOSUCH a"),
            "ERR unknown command",
        ),
        (format!("ONCE a {session} 1 PING a"), "ERR ONCE takes"),
        (format!("ONCE a {session} 1 DBSIZE"), "ERR ONCE takes"),
        (format!("ONCE a {session} 1 FLUSHALL"), "ERR ONCE takes"),
        (format!("ONCE a {session} 1 ONCE.OPEN a"), "ERR ONCE takes"),
        (format!("ONCE a {session} 1 SET b 1"), "CROSSSLOT "),
    ] {
        let reply = memory.reply(&line);
        assert!(is_error(&reply, words), "{line}: {reply:?}");
    }
    // None of them used the sequence up, and another slot knows nothing of it.
    assert!(slot_of(b"a") != slot_of(b"b"));
    let elsewhere = memory.reply(&format!("ONCE b {session} 1 SET b 1"));
    assert!(is_error(&elsewhere, "NOSESSION "));
    assert_eq!(memory.reply("DBSIZE"), Value::Integer(0));
    assert_eq!(
        memory.reply(&format!("ONCE a {session} 1 SET a 1")),
        Value::OK
    );
    // A slot that is flushed forgets its sessions, and gives their numbers to nobody.
    memory.reply("FLUSHALL");
    let reply = memory.reply(&format!("ONCE a {session} 2 SET a 1"));
    assert!(is_error(&reply, "NOSESSION "));
    assert!(open(&mut memory, "a") >> 31 > session >> 31);
    rows::check(&memory);
}

#[test]
fn a_session_may_not_read_more_than_it_keeps() {
    let mut memory = Memory::new(1);
    let session = open(&mut memory, "{a}");
    let large = "x".repeat(700_000);
    memory.reply(&format!("RPUSH {{a}}l {large} {large}"));
    let first = memory.reply(&format!("ONCE {{a}} {session} 1 LPOP {{a}}l 2"));
    assert!(is_error(&first, "ERR the command reads more"), "{first:?}");
    assert_eq!(
        memory.reply("LLEN {a}l"),
        Value::Integer(2),
        "it did nothing"
    );
    let one = memory.reply(&format!("ONCE {{a}} {session} 2 LPOP {{a}}l"));
    assert_eq!(one, Value::bulk(large));
}

#[test]
fn sessions_go_that_nobody_uses_and_the_oldest_where_they_are_many() {
    let mut memory = Memory::new(1);
    let used = open(&mut memory, "a");
    let unused = open(&mut memory, "a");
    for hour in 1..=25 {
        memory.time_ms += UNUSED_MS / 24;
        let reply = memory.reply(&format!("ONCE a {used} {hour} INCR a"));
        assert_eq!(reply, Value::Integer(hour));
    }
    let reply = memory.reply(&format!("ONCE a {unused} 1 INCR a"));
    assert!(is_error(&reply, "NOSESSION "), "{reply:?}");
    // Its rows go with the next one that is opened.
    open(&mut memory, "a");
    let sessions = |memory: &Memory| {
        let is_session = |key: &&Vec<u8>| key[kv::Life::BYTES] == b'O';
        memory.rows.keys().filter(is_session).count() as u64
    };
    assert_eq!(sessions(&memory), 2);
    rows::check(&memory);

    let oldest = open(&mut memory, "a");
    let mut last = oldest;
    for _ in 0..SESSIONS_MAX {
        memory.time_ms += 1;
        last = open(&mut memory, "a");
    }
    assert_eq!(sessions(&memory), SESSIONS_MAX);
    let reply = memory.reply(&format!("ONCE a {oldest} 1 INCR a"));
    assert!(is_error(&reply, "NOSESSION "), "{reply:?}");
    let reply = memory.reply(&format!("ONCE a {last} 1 INCR a"));
    assert_eq!(reply, Value::Integer(26));
    rows::check(&memory);
}

#[test]
fn a_session_that_was_just_used_outlives_those_that_were_not() {
    let mut memory = Memory::new(1);
    let used = open(&mut memory, "a");
    let asked_again = open(&mut memory, "a");
    memory.reply(&format!("ONCE a {asked_again} 1 INCR a"));
    let unused = open(&mut memory, "a");
    memory.time_ms += 2_000;
    let first = memory.reply(&format!("ONCE a {used} 1 INCR a"));
    assert_eq!(first, Value::Integer(2));
    // Who sends a command again uses the session, too.
    let again = memory.reply(&format!("ONCE a {asked_again} 1 INCR a"));
    assert_eq!(again, Value::Integer(1));
    for _ in 3..=SESSIONS_MAX {
        open(&mut memory, "a");
    }
    let reply = memory.reply(&format!("ONCE a {unused} 1 INCR a"));
    assert!(is_error(&reply, "NOSESSION "), "{reply:?}");
    for session in [used, asked_again] {
        let reply = memory.reply(&format!("ONCE a {session} 2 TYPE a"));
        assert_eq!(reply, Value::Simple("string".into()));
    }
    rows::check(&memory);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    /// Commands of sessions that are sent again and again come to what they come to when each is sent once, and each hears what it would hear then.
    #[test]
    fn commands_of_sessions_are_done_once(seed in any::<u64>(), away in 0..=6u64) {
        let mut plain = Memory::new(seed).with_small_bounds();
        let mut memory = Memory::new(seed).with_small_bounds();
        memory.away = away;
        let mut dice = Dice(seed);
        let mut sessions: Vec<(i64, u64)> = Vec::new();
        let mut last: Option<(Vec<String>, Value)> = None;
        for _ in 0..300 {
            let words = command(&mut dice);
            let spec = kv::lookup(words[0].as_bytes()).expect("a command");
            let bytes: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
            let keys = kv::keys_of(spec, &bytes).unwrap_or_default();
            // Drawn members are not the same in both.
            let is_drawn = ["SPOP", "SRANDMEMBER", "HRANDFIELD", "ZRANDMEMBER"]
                .iter()
                .any(|name| words[0].eq_ignore_ascii_case(name));
            let Some(key) = keys.first().filter(|_| !is_drawn) else {
                continue;
            };
            let key = String::from_utf8(key.to_vec()).expect("a text");
            if sessions.is_empty() || dice.one_in(20) {
                sessions.push((open(&mut memory, &key), 0));
            }
            let at = dice.below(sessions.len());
            let (session, sequence) = &mut sessions[at];
            *sequence += 1 + dice.below(3) as u64;
            let head = ["ONCE".to_owned(), key, session.to_string(), sequence.to_string()];
            let once: Vec<String> = head.into_iter().chain(words.clone()).collect();
            let run = |memory: &mut Memory, words: &[String]| {
                let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
                memory.run(&words).reply
            };
            let wanted = run(&mut plain, &words);
            let first = run(&mut memory, &once);
            let shows = |value: &Value| comparable(&words, value, Protocol::Resp2);
            prop_assert_eq!(shows(&first), shows(&wanted), "{:?}", words);
            for _ in 0..dice.below(3) {
                let again = run(&mut memory, &once);
                prop_assert_eq!(shown(&again, Protocol::Resp2), shown(&first, Protocol::Resp2), "{:?}", words);
            }
            // A late copy of an earlier one is never done.
            if let Some((words, reply)) = &last && dice.one_in(3) {
                let again = run(&mut memory, words);
                let same = shown(&again, Protocol::Resp2) == shown(reply, Protocol::Resp2);
                prop_assert!(same || is_error(&again, "SUPERSEDED "), "{words:?}: {again:?}");
            }
            last = Some((once, first));
        }
        rows::check(&memory);
        let is_key = |row: &&Vec<u8>| row[kv::Life::BYTES] == b'M';
        let keys = |memory: &Memory| memory.rows.keys().filter(is_key).cloned().collect::<Vec<_>>();
        prop_assert_eq!(keys(&plain), keys(&memory));
    }
}
