//! Which commands there are, and which of their words are keys.

use kv::{NoKeys, check_words, commands, keys_of, lookup};
use proptest::collection::vec;
use proptest::prelude::*;
use resp::Value;

use crate::memory::Memory;

fn keys(line: &str) -> Result<Vec<String>, NoKeys> {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    let spec = lookup(words[0]).expect("a command");
    let text = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
    Ok(keys_of(spec, &words)?.into_iter().map(text).collect())
}

#[test]
fn commands_stand_in_order_and_are_found_by_their_names() {
    let all = commands();
    assert!(all.is_sorted_by(|a, b| a.name < b.name));
    for spec in all {
        assert_eq!(
            lookup(spec.name.to_ascii_uppercase().as_bytes()).map(|found| found.name),
            Some(spec.name)
        );
        assert!(!spec.summary.is_empty() && !spec.group.is_empty() && !spec.since.is_empty());
        assert!(spec.arity != 0 && spec.name.len() <= 24);
        let kinds = ["write", "readonly"]
            .iter()
            .filter(|flag| spec.has(flag))
            .count();
        assert!(kinds <= 1, "{}", spec.name);
        if spec.is_on_rows() && !["object", "command", "memory"].contains(&spec.name) {
            assert_eq!(kinds, 1, "{}", spec.name);
        }
    }
    assert!(
        lookup(b"nosuch").is_none() && lookup(&[b'x'; 1000]).is_none() && lookup(b"").is_none()
    );
    assert!(all.len() > 150);
}

#[test]
fn keys_are_found_where_they_are() {
    for (line, found) in [
        ("get a", vec!["a"]),
        ("mset a 1 b 2", vec!["a", "b"]),
        ("del a b c", vec!["a", "b", "c"]),
        ("lmove a b left right", vec!["a", "b"]),
        ("zunionstore d 2 a b weights 1 2", vec!["d", "a", "b"]),
        ("zinter 2 a b", vec!["a", "b"]),
        ("sintercard 1 a limit 2", vec!["a"]),
        ("lmpop 2 a b left", vec!["a", "b"]),
        ("sort a by b* store d", vec!["a", "d"]),
        ("sort a store x store d", vec!["a", "d"]),
        ("sort a get store", vec!["a"]),
        ("object encoding a", vec!["a"]),
        ("once a 1 2 mset a 1 b 2", vec!["a", "a", "b"]),
        ("once a 1 2 ping", vec!["a"]),
        // The node that serves that key says what is wrong.
        ("once a 1 2 once b 1 2 get c", vec!["a"]),
        ("once a 1 2 nosuch", vec!["a"]),
    ] {
        assert_eq!(
            keys(line),
            Ok(found.into_iter().map(str::to_owned).collect()),
            "{line}"
        );
    }
    assert_eq!(keys("ping"), Err(NoKeys::None));
    assert_eq!(keys("dbsize"), Err(NoKeys::None));
    for line in [
        "zunion 3 a b",
        "zunion x a",
        "zunion 0 a",
        "lmpop 9223372036854775807 a",
    ] {
        assert_eq!(keys(line), Err(NoKeys::Invalid), "{line}");
    }
}

#[test]
fn what_is_no_command_is_said_in_redis_words() {
    let said = |line: &str| {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        check_words(&words).map(|spec| spec.name)
    };
    assert_eq!(said("GET a"), Ok("get"));
    assert_eq!(
        said("foo"),
        Err("ERR unknown command 'foo', with args beginning with: ".into())
    );
    assert_eq!(
        said("foo a b"),
        Err("ERR unknown command 'foo', with args beginning with: 'a' 'b' ".into())
    );
    assert_eq!(
        said("get"),
        Err("ERR wrong number of arguments for 'get' command".into())
    );
    let long = said(&format!("{} {} b", "x".repeat(500), "y".repeat(500))).expect_err("no command");
    assert!(long.len() < 400, "a stranger's words are cut");
    assert_eq!(
        check_words(&[]).map(|spec| spec.name),
        Err("ERR unknown command '', with args beginning with: ".into())
    );
}

#[test]
fn what_the_door_answers_is_not_executed_here() {
    let mut memory = Memory::new(1);
    for name in ["ping", "multi", "cluster info", "config get a"] {
        assert_eq!(
            memory.reply(name),
            Value::error("ERR this command is not executed on rows"),
            "{name}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Any words behind any command's name: a reply, and a sound store.
    #[test]
    fn no_words_make_a_command_panic(
        at in any::<prop::sample::Index>(),
        words in vec(prop_oneof![
            "[a-c]",
            "-?[0-9]{1,20}",
            "(EX|PX|NX|XX|GET|COUNT|LIMIT|MATCH|STORE|BY|WITHSCORES|WEIGHTS|AGGREGATE|LEFT|RIGHT|BEFORE|REV|BYLEX|BYSCORE|INCR|IDX|LEN)",
            "[\\[(*?\\\\^-]{0,4}",
            "[0-9.e-]{0,30}",
            ".{0,10}",
        ].prop_map(|word: String| word.into_bytes()), 0..10),
    ) {
        let spec = at.get(commands());
        let mut memory = Memory::new(9).with_small_bounds();
        for line in ["SET a 1", "RPUSH {a}l 1 2 3 4 5 6", "ZADD b 1 a 2 b 3 c 4 d 5 e 6 f", "HSET c a 1 b 2 c 3 d 4 e 5 f 6"] {
            memory.reply(line);
        }
        let mut all: Vec<&[u8]> = vec![spec.name.as_bytes()];
        all.extend(words.iter().map(Vec::as_slice));
        let executed = memory.run(&all);
        let is_read = !spec.writes();
        prop_assert!(!(is_read && executed.wrote), "{} wrote", spec.name);
        let is_error = matches!(executed.reply, Value::Error(_));
        prop_assert!(!(is_error && executed.wrote), "{:?} wrote and failed", all);
        crate::rows::check(&memory);
    }
}
