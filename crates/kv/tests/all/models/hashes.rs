use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use resp::Value;

use super::{memory, text};
use crate::rows;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_hash_is_a_map(seed in any::<u64>(), steps in vec((0..5u8, "[a-h]{1,2}", "[a-z]{0,9}"), 1..80)) {
        let (mut memory, mut model) = (memory(seed), BTreeMap::<String, String>::new());
        for (kind, field, value) in steps {
            let found = match kind {
                0 | 1 => {
                    let is_new = model.insert(field.clone(), value.clone()).is_none();
                    let reply = memory.run(&[b"HSET", b"h", field.as_bytes(), value.as_bytes()]).reply;
                    (reply, Value::Integer(i64::from(is_new)))
                }
                2 => {
                    let was = model.remove(&field).is_some();
                    (memory.reply(&format!("HDEL h {field}")), Value::Integer(i64::from(was)))
                }
                3 => {
                    let is_new = !model.contains_key(&field);
                    model.entry(field.clone()).or_insert(value.clone());
                    let reply = memory.run(&[b"HSETNX", b"h", field.as_bytes(), value.as_bytes()]).reply;
                    (reply, Value::Integer(i64::from(is_new)))
                }
                _ => (memory.reply(&format!("HGET h {field}")), text(model.get(&field))),
            };
            prop_assert_eq!(found.0, found.1);
            prop_assert_eq!(memory.reply("HLEN h"), Value::count(model.len()));
            prop_assert_eq!(memory.reply("EXISTS h"), Value::Integer(i64::from(!model.is_empty())));
        }
        let Value::Map(pairs) = memory.reply("HGETALL h") else {
            panic!("a map");
        };
        let bytes = |value: Value| match value {
            Value::Bulk(bytes) => String::from_utf8(bytes).expect("text"),
            other => panic!("{other:?}"),
        };
        let found: BTreeMap<String, String> = pairs.into_iter().map(|(key, value)| (bytes(key), bytes(value))).collect();
        prop_assert_eq!(found, model);
        rows::check(&memory);
    }
}
