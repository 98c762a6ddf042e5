use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;
use resp::Value;

use super::memory;
use crate::rows;

type Names = BTreeSet<String>;

fn names(value: Value) -> Names {
    let (Value::Set(items) | Value::Array(items)) = value else {
        panic!("{value:?}");
    };
    let name = |item: Value| match item {
        Value::Bulk(bytes) => String::from_utf8(bytes).expect("text"),
        other => panic!("{other:?}"),
    };
    let count = items.len();
    let names: Names = items.into_iter().map(name).collect();
    assert_eq!(names.len(), count, "each once");
    names
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_set_is_a_set(seed in any::<u64>(), steps in vec((0..6u8, 0..2usize, "[a-h]{1,2}"), 1..80)) {
        let (mut memory, mut model) = (memory(seed), [Names::new(), Names::new()]);
        for (kind, key, member) in steps {
            let other = 1 - key;
            match kind {
                0 | 1 => {
                    let is_new = model[key].insert(member.clone());
                    let reply = memory.reply(&format!("SADD {{t}}{key} {member}"));
                    prop_assert_eq!(reply, Value::Integer(i64::from(is_new)));
                }
                2 => {
                    let was = model[key].remove(&member);
                    let reply = memory.reply(&format!("SREM {{t}}{key} {member}"));
                    prop_assert_eq!(reply, Value::Integer(i64::from(was)));
                }
                3 => {
                    let was = model[key].remove(&member);
                    if was {
                        model[other].insert(member.clone());
                    }
                    let reply = memory.reply(&format!("SMOVE {{t}}{key} {{t}}{other} {member}"));
                    prop_assert_eq!(reply, Value::Integer(i64::from(was)));
                }
                4 => {
                    // Some member, whichever.
                    match memory.reply(&format!("SPOP {{t}}{key}")) {
                        Value::Bulk(bytes) => {
                            let name = String::from_utf8(bytes).expect("text");
                            prop_assert!(model[key].remove(&name));
                        }
                        reply => prop_assert!(reply == Value::Null && model[key].is_empty()),
                    }
                }
                _ => {
                    let drawn = names(memory.reply(&format!("SRANDMEMBER {{t}}{key} 3")));
                    prop_assert_eq!(drawn.len(), model[key].len().min(3));
                    prop_assert!(drawn.is_subset(&model[key]));
                }
            }
            for (key, members) in model.iter().enumerate() {
                let found = names(memory.reply(&format!("SMEMBERS {{t}}{key}")));
                prop_assert_eq!(&found, members);
            }
            let [a, b] = &model;
            prop_assert_eq!(names(memory.reply("SINTER {t}0 {t}1")), a.intersection(b).cloned().collect());
            prop_assert_eq!(names(memory.reply("SUNION {t}0 {t}1")), a.union(b).cloned().collect());
            prop_assert_eq!(names(memory.reply("SDIFF {t}0 {t}1")), a.difference(b).cloned().collect());
        }
        rows::check(&memory);
    }
}
