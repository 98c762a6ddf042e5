use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use resp::Value;

use super::memory;
use crate::rows;

#[derive(Clone, Debug)]
enum Step {
    Set(u8, Vec<u8>),
    Append(u8, Vec<u8>),
    SetRange(u8, u16, Vec<u8>),
    GetRange(u8, i64, i64),
    Rename(u8, u8),
    Del(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = || 0..3u8;
    // Around the borders of chunks, too.
    let bytes = || prop_oneof![vec(any::<u8>(), 0..60), vec(any::<u8>(), 4000..9000)];
    let place = || prop_oneof![0..100u16, 4000..4200u16, any::<u16>()];
    let step = prop_oneof![
        (key(), bytes()).prop_map(|(key, bytes)| Step::Set(key, bytes)),
        (key(), bytes()).prop_map(|(key, bytes)| Step::Append(key, bytes)),
        (key(), place(), bytes()).prop_map(|(key, at, bytes)| Step::SetRange(key, at, bytes)),
        (key(), -9000..9000i64, -9000..9000i64).prop_map(|(key, a, b)| Step::GetRange(key, a, b)),
        (key(), key()).prop_map(|(from, to)| Step::Rename(from, to)),
        key().prop_map(Step::Del),
    ];
    vec(step, 1..40)
}

type Model = BTreeMap<u8, Vec<u8>>;

fn range(bytes: &[u8], start: i64, stop: i64) -> Vec<u8> {
    let length = bytes.len() as i64;
    let placed = |at: i64| if at < 0 { (at + length).max(0) } else { at };
    let (start, stop) = (placed(start), placed(stop).min(length - 1));
    let places = 0..length;
    let within = places.filter(|at| *at >= start && *at <= stop);
    within.map(|at| bytes[at as usize]).collect()
}

fn write(bytes: &mut Vec<u8>, at: usize, new: &[u8]) {
    if !new.is_empty() {
        let length = bytes.len().max(at + new.len());
        bytes.resize(length, 0);
        bytes[at..at + new.len()].copy_from_slice(new);
    }
}

fn length(model: &Model, key: u8) -> Value {
    Value::count(model.get(&key).map_or(0, Vec::len))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn strings_are_bytes_by_name(seed in any::<u64>(), steps in steps()) {
        let (mut memory, mut model) = (memory(seed), Model::new());
        let name = |key: u8| format!("{{t}}{key}").into_bytes();
        for step in steps {
            let (words, wanted): (Vec<Vec<u8>>, Value) = match step.clone() {
                Step::Set(key, bytes) => {
                    model.insert(key, bytes.clone());
                    (vec![b"SET".to_vec(), name(key), bytes], Value::OK)
                }
                Step::Append(key, bytes) => {
                    model.entry(key).or_default().extend_from_slice(&bytes);
                    (vec![b"APPEND".to_vec(), name(key), bytes], length(&model, key))
                }
                Step::SetRange(key, at, bytes) => {
                    if !bytes.is_empty() {
                        write(model.entry(key).or_default(), usize::from(at), &bytes);
                    }
                    let words = vec![b"SETRANGE".to_vec(), name(key), at.to_string().into_bytes(), bytes];
                    (words, length(&model, key))
                }
                Step::GetRange(key, start, stop) => {
                    let empty = start < 0 && stop < 0 && start > stop;
                    let bytes = model.get(&key).filter(|_| !empty);
                    let bytes = bytes.map_or(Vec::new(), |bytes| range(bytes, start, stop));
                    let ends = [start, stop].map(|end| end.to_string().into_bytes());
                    let words = [vec![b"GETRANGE".to_vec(), name(key)], ends.to_vec()].concat();
                    (words, Value::Bulk(bytes))
                }
                Step::Rename(from, to) => {
                    let reply = match model.remove(&from) {
                        Some(bytes) => {
                            model.insert(to, bytes);
                            Value::OK
                        }
                        None => Value::error("ERR no such key"),
                    };
                    (vec![b"RENAME".to_vec(), name(from), name(to)], reply)
                }
                Step::Del(key) => {
                    let was = model.remove(&key).is_some();
                    (vec![b"DEL".to_vec(), name(key)], Value::Integer(i64::from(was)))
                }
            };
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            prop_assert_eq!(memory.run(&words).reply, wanted);
            for key in 0..3 {
                let found = memory.run(&[b"GET", &name(key)]).reply;
                let wanted = model.get(&key).map_or(Value::Null, |bytes| Value::bulk(bytes.clone()));
                prop_assert_eq!(found, wanted);
            }
        }
        rows::check(&memory);
    }
}
