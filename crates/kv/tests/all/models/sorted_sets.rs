use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use resp::Value;

use super::{memory, texts};
use crate::rows;

type Model = BTreeMap<String, i64>;

/// Members from the lowest score up.
fn sorted(model: &Model) -> Vec<(i64, String)> {
    let mut all: Vec<_> = model
        .iter()
        .map(|(name, score)| (*score, name.clone()))
        .collect();
    all.sort();
    all
}

fn names(all: &[(i64, String)]) -> Value {
    texts(all.iter().map(|(_, name)| name))
}

fn flat(all: &[(i64, String)]) -> Value {
    let pair =
        |(score, name): &(i64, String)| [Value::bulk(name.as_str()), Value::Double(*score as f64)];
    Value::Array(all.iter().flat_map(pair).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_sorted_set_is_sorted(seed in any::<u64>(), steps in vec((0..7u8, "[a-h]{1,2}", -5..6i64, -5..6i64), 1..80)) {
        let (mut memory, mut model) = (memory(seed), Model::new());
        for (kind, name, one, two) in steps {
            let (line, wanted) = match kind {
                0..=2 => {
                    let is_new = model.insert(name.clone(), one).is_none();
                    (format!("ZADD z {one} {name}"), Value::Integer(i64::from(is_new)))
                }
                3 => {
                    let score = model.entry(name.clone()).or_insert(0);
                    *score += one;
                    (format!("ZINCRBY z {one} {name}"), Value::Double(*score as f64))
                }
                4 => {
                    let was = model.remove(&name).is_some();
                    (format!("ZREM z {name}"), Value::Integer(i64::from(was)))
                }
                5 => {
                    let popped = match one >= 0 {
                        true => sorted(&model).into_iter().next(),
                        false => sorted(&model).into_iter().next_back(),
                    };
                    let popped = Vec::from_iter(popped);
                    model.retain(|name, _| popped.iter().all(|(_, gone)| gone != name));
                    let command = if one >= 0 { "ZPOPMIN" } else { "ZPOPMAX" };
                    (format!("{command} z"), flat(&popped))
                }
                _ => {
                    let gone = model.iter().filter(|(_, score)| **score >= one && **score <= two);
                    let gone: Vec<String> = gone.map(|(name, _)| name.clone()).collect();
                    model.retain(|name, _| !gone.contains(name));
                    (format!("ZREMRANGEBYSCORE z {one} {two}"), Value::count(gone.len()))
                }
            };
            prop_assert_eq!(memory.reply(&line), wanted, "{}", line);
            let mut all = sorted(&model);
            prop_assert_eq!(memory.reply("ZRANGE z 0 -1"), names(&all));
            let rank = all.iter().position(|(_, known)| *known == name);
            let rank = rank.map_or(Value::Null, Value::count);
            prop_assert_eq!(memory.reply(&format!("ZRANK z {name}")), rank);
            let above = all.partition_point(|(score, _)| *score <= one);
            let held = &all[above..];
            prop_assert_eq!(memory.reply(&format!("ZRANGEBYSCORE z ({one} +inf")), names(held));
            prop_assert_eq!(memory.reply(&format!("ZCOUNT z ({one} +inf")), Value::count(held.len()));
            all.reverse();
            let two = &all[..all.len().min(2)];
            prop_assert_eq!(memory.reply("ZREVRANGE z 0 1 WITHSCORES"), flat(two));
            rows::check(&memory);
        }
    }
}
