use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use resp::Value;

use super::{memory, text};
use crate::rows;

#[derive(Clone, Debug)]
struct Known {
    value: String,
    deadline: Option<u64>,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    /// Time passes now and then, and sometimes what is due is worked off: nobody can tell that from what is only taken for absent.
    #[test]
    fn keys_are_there_until_their_deadline(seed in any::<u64>(), steps in vec((0..9u8, 0..3u8, 1..40u64), 1..100)) {
        let (mut memory, mut model) = (memory(seed), BTreeMap::<u8, Known>::new());
        let life = memory.lives[usize::from(kv::slot_of(b"{t}"))];
        for (kind, key, time) in steps {
            model.retain(|_, known| known.deadline.is_none_or(|deadline| memory.time_ms < deadline));
            let deadline = memory.time_ms + time;
            let is_there = model.contains_key(&key);
            let yes = |is: bool| Value::Integer(i64::from(is));
            let (line, wanted) = match kind {
                0 => {
                    let value = time.to_string();
                    model.insert(key, Known { value: value.clone(), deadline: None });
                    (format!("SET {{t}}{key} {value}"), Value::OK)
                }
                1 => {
                    let value = time.to_string();
                    model.insert(key, Known { value: value.clone(), deadline: Some(deadline) });
                    (format!("SET {{t}}{key} {value} PX {time}"), Value::OK)
                }
                2 => {
                    let reply = yes(is_there);
                    model.entry(key).and_modify(|known| known.deadline = Some(deadline));
                    (format!("PEXPIRE {{t}}{key} {time}"), reply)
                }
                3 => {
                    let had = model.get(&key).is_some_and(|known| known.deadline.is_some());
                    model.entry(key).and_modify(|known| known.deadline = None);
                    (format!("PERSIST {{t}}{key}"), yes(had))
                }
                4 => {
                    let left = model.get(&key).map_or(-2, |known| {
                        known.deadline.map_or(-1, |deadline| (deadline - memory.time_ms) as i64)
                    });
                    (format!("PTTL {{t}}{key}"), Value::Integer(left))
                }
                5 => {
                    let to = (key + 1) % 3;
                    let reply = match model.remove(&key) {
                        Some(known) => {
                            model.insert(to, known);
                            Value::OK
                        }
                        None => Value::error("ERR no such key"),
                    };
                    (format!("RENAME {{t}}{key} {{t}}{to}"), reply)
                }
                6 => (format!("DEL {{t}}{key}"), yes(model.remove(&key).is_some())),
                7 => {
                    memory.take_expired(life);
                    let count = memory.on_slot(|view| kv::count_keys(view, life));
                    prop_assert_eq!(count, model.len() as u64, "all that is due is gone");
                    continue;
                }
                _ => {
                    memory.time_ms += time;
                    continue;
                }
            };
            prop_assert_eq!(memory.reply(&line), wanted, "{}", line);
            for key in 0..3 {
                let value = model.get(&key).map(|known| &known.value);
                prop_assert_eq!(memory.reply(&format!("GET {{t}}{key}")), text(value));
            }
            rows::check(&memory);
        }
    }
}
