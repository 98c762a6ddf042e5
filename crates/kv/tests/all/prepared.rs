//! Values that go ahead of the commands that set them.

use kv::{Executed, Life, Prepared, slot_of};
use resp::Value;

use crate::memory::Memory;
use crate::rows;

const KEY: &str = "{t}k";
const PIECE: usize = 8 << 10;

fn life(memory: &Memory) -> Life {
    memory.lives[usize::from(slot_of(KEY.as_bytes()))]
}

fn value(bytes: usize, salt: u8) -> Vec<u8> {
    (0..bytes)
        .map(|at| (at / 5) as u8 ^ (at >> 9) as u8 ^ salt)
        .collect()
}

/// Sends pieces of a value from a place on; false once one finds that what came before it is gone.
fn send(memory: &mut Memory, ticket: u64, value: &[u8]) -> bool {
    let life = life(memory);
    let mut pieces = (0u64..).step_by(PIECE).zip(value.chunks(PIECE));
    pieces.all(|(at, piece)| memory.on_slot(|view| kv::put_piece(view, life, ticket, at, piece)))
}

/// Executes a command whose value went ahead.
fn named(memory: &mut Memory, ticket: u64, bytes: usize, words: &[&[u8]]) -> Executed {
    let bytes = bytes as u64;
    memory.prepared = Some(Prepared { ticket, bytes });
    let executed = memory.run(words);
    memory.prepared = None;
    rows::check(memory);
    executed
}

fn is_gone(executed: &Executed) -> bool {
    matches!(&executed.reply, Value::Error(why) if why.starts_with("NOTPREPARED"))
}

fn got(memory: &mut Memory) -> Value {
    memory.reply(&format!("GET {KEY}"))
}

#[test]
fn nobody_sees_a_value_before_a_command_names_it() {
    for away in [0, 8] {
        let mut memory = Memory::new(1);
        memory.away = away;
        for (ticket, bytes) in [(1, 1), (2, PIECE), (3, 3 * PIECE + 4097)] {
            let value = value(bytes, ticket as u8);
            let before = got(&mut memory);
            let keys = memory.reply("DBSIZE");
            assert!(send(&mut memory, ticket, &value));
            rows::check(&memory);
            assert_eq!(got(&mut memory), before);
            assert_eq!(memory.reply("DBSIZE"), keys);
            let set = named(&mut memory, ticket, bytes, &[b"SET", KEY.as_bytes(), b""]);
            assert_eq!(set.reply, Value::OK);
            assert_eq!(set.changed, [KEY.as_bytes().to_vec()]);
            assert_eq!(got(&mut memory), Value::Bulk(value));
            // It is named once.
            let again = named(&mut memory, ticket, bytes, &[b"SET", KEY.as_bytes(), b""]);
            assert!(is_gone(&again) && !again.wrote, "{again:?}");
        }
    }
}

#[test]
fn a_named_value_is_a_string_like_any_other() {
    let mut memory = Memory::new(1);
    let key = KEY.as_bytes();
    let bytes = 2 * PIECE + 5;
    let mut ticket = 0;
    let mut set = |memory: &mut Memory, words: &[&[u8]]| {
        ticket += 1;
        assert!(send(memory, ticket, &value(bytes, 0)));
        named(memory, ticket, bytes, words).reply
    };
    assert_eq!(set(&mut memory, &[b"SETEX", key, b"10", b""]), Value::OK);
    assert_eq!(memory.reply(&format!("TTL {KEY}")), Value::Integer(10));
    assert_eq!(
        memory.reply(&format!("APPEND {KEY} xyz")),
        Value::Integer(bytes as i64 + 3)
    );
    let old = [value(bytes, 0), b"xyz".to_vec()].concat();
    assert_eq!(set(&mut memory, &[b"GETSET", key, b""]), Value::Bulk(old));
    assert_eq!(
        set(&mut memory, &[b"SET", key, b"", b"XX", b"PX", b"50"]),
        Value::OK
    );
    memory.time_ms += 50;
    assert_eq!(got(&mut memory), Value::Null);
    assert_eq!(set(&mut memory, &[b"PSETEX", key, b"50", b""]), Value::OK);
    assert_eq!(memory.reply(&format!("DEL {KEY}")), Value::Integer(1));
    rows::check(&memory);
}

#[test]
fn a_value_that_its_command_does_not_set_is_forgotten_with_it() {
    let mut memory = Memory::new(1);
    let key = KEY.as_bytes();
    memory.reply(&format!("RPUSH {KEY} a"));
    for (ticket, words) in [
        &[&b"SETNX"[..], key, b""][..],
        &[b"SET", key, b"", b"NX"],
        &[b"SET", key, b"", b"GET"],
        &[b"GETSET", key, b""],
        &[b"SETEX", key, b"0", b""],
        &[b"SET", b"{t}other", b"", b"PXAT", b"1"],
        &[b"SET", &[b"{t}", &[b'k'; 40_000][..]].concat(), b""],
    ]
    .into_iter()
    .enumerate()
    {
        assert!(send(&mut memory, ticket as u64, &value(PIECE + 1, 0)));
        let executed = named(&mut memory, ticket as u64, PIECE + 1, words);
        assert!(
            executed.wrote && executed.changed.is_empty(),
            "{executed:?}"
        );
        let left = memory.rows.keys().filter(|row| row[Life::BYTES] == b'S');
        assert_eq!(left.count(), 0, "{executed:?}");
    }
    assert_eq!(memory.reply("DBSIZE"), Value::Integer(1));
}

#[test]
fn all_of_a_value_is_named_or_nothing() {
    let mut memory = Memory::new(1);
    let value = value(3 * PIECE, 0);
    let set: &[&[u8]] = &[b"SET", KEY.as_bytes(), b""];
    assert!(is_gone(&named(&mut memory, 1, value.len(), set)), "none");
    assert!(send(&mut memory, 1, &value[..2 * PIECE]));
    assert!(
        is_gone(&named(&mut memory, 1, value.len(), set)),
        "two thirds"
    );
    // A value that was found to be wanting is gone: it begins anew.
    let life = life(&memory);
    let piece = |memory: &mut Memory, ticket, at| {
        memory.on_slot(|view| kv::put_piece(view, life, ticket, at, &value[..PIECE]))
    };
    assert!(!piece(&mut memory, 1, 2 * PIECE as u64));
    // A piece is neither taken twice nor before another one.
    assert!(piece(&mut memory, 2, 0));
    assert!(!piece(&mut memory, 2, 0));
    assert!(!piece(&mut memory, 2, 2 * PIECE as u64));
    assert_eq!(got(&mut memory), Value::Null);
    rows::check(&memory);
}

#[test]
fn what_nobody_names_is_forgotten_after_a_minute() {
    let mut memory = Memory::new(1);
    let life = life(&memory);
    assert!(send(&mut memory, 1, &value(2 * PIECE, 0)));
    memory.time_ms += 40_000;
    assert!(send(&mut memory, 2, &value(PIECE, 0)));
    memory.reply("SET {t}short v PX 10");
    memory.time_ms += 20_000;
    memory.away = 8;
    assert_eq!(memory.take_expired(life), [b"{t}short".to_vec()]);
    rows::check(&memory);
    let set: &[&[u8]] = &[b"SET", KEY.as_bytes(), b""];
    assert!(is_gone(&named(&mut memory, 1, 2 * PIECE, set)));
    assert_eq!(named(&mut memory, 2, PIECE, set).reply, Value::OK);
    // FLUSHALL takes what was prepared as well.
    assert!(send(&mut memory, 3, &value(PIECE, 0)));
    memory.reply("FLUSHALL");
    assert!(is_gone(&named(&mut memory, 3, PIECE, set)));
}
