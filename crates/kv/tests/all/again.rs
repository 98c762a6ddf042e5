//! The same commands, where rows are away, and where values lie in rows or in one.

use proptest::prelude::*;

use crate::drawn::{Dice, command};
use crate::memory::Memory;
use crate::rows;
use crate::shown::comparable;

fn run(memory: &mut Memory, words: &[String]) -> resp::Value {
    let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
    memory.run(&words).reply
}

/// A step of a scan may be shorter where pages are.
fn is_scan(words: &[String]) -> bool {
    words[0].ends_with("SCAN")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    /// A command that is executed again and again, until all its rows are here, answers and writes the same.
    #[test]
    fn rows_that_are_away_change_nothing(seed in any::<u64>(), away in 1..=6u64) {
        let mut here = Memory::new(seed).with_small_bounds();
        let mut there = Memory::new(seed).with_small_bounds();
        there.away = away;
        there.page_rows_max = 3;
        let mut dice = Dice(seed);
        for _ in 0..400 {
            let words = command(&mut dice);
            let (one, other) = (run(&mut here, &words), run(&mut there, &words));
            if !is_scan(&words) {
                prop_assert_eq!(one, other, "{:?}", words);
            }
            prop_assert_eq!(&here.rows, &there.rows, "{:?}", words);
        }
        prop_assert!(there.again > 0 && here.again == 0);
    }

    /// Nobody can tell whether a value lies in its key's row or in rows of its own.
    #[test]
    fn both_places_of_a_value_look_alike(seed in any::<u64>()) {
        let mut inline = Memory::new(seed);
        let mut rows = Memory::new(seed).with_small_bounds();
        let mut dice = Dice(seed);
        for step in 0..600 {
            let words = command(&mut dice);
            let one = comparable(&words, &run(&mut inline, &words), inline.protocol);
            let other = comparable(&words, &run(&mut rows, &words), rows.protocol);
            prop_assert_eq!(one, other, "{:?}", words);
            if step % 20 == 0 {
                rows::check(&inline);
                rows::check(&rows);
            }
            inline.time_ms += 1000;
            rows.time_ms += 1000;
        }
    }

    /// A key that went is gone: when all keys are deleted, one row for each slot is left.
    #[test]
    fn nothing_is_left_of_what_went(seed in any::<u64>()) {
        let mut memory = Memory::new(seed).with_small_bounds();
        let mut dice = Dice(seed);
        for _ in 0..300 {
            run(&mut memory, &command(&mut dice));
        }
        rows::check(&memory);
        let resp::Value::Array(keys) = memory.reply("KEYS *") else {
            panic!("an array");
        };
        for key in keys {
            let resp::Value::Bulk(key) = key else {
                panic!("a key");
            };
            memory.run(&[b"DEL", &key]);
        }
        memory.time_ms += 10_000_000_000;
        for life in memory.lives.clone() {
            memory.take_expired(life);
        }
        rows::check(&memory);
        prop_assert!(memory.rows.keys().all(|row| row[kv::Life::BYTES] == b'H'), "{:?}", memory.rows);
    }
}
