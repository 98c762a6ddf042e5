use proptest::collection::vec;
use proptest::prelude::*;
use resp::Value;

use super::{memory, text, texts};
use crate::rows;

/// The places that a start and a stop mean.
fn span(start: i64, stop: i64, length: usize) -> std::ops::Range<usize> {
    let length = length as i64;
    let placed = |at: i64| if at < 0 { at + length } else { at };
    let (start, stop) = (placed(start).max(0), placed(stop).min(length - 1));
    match start <= stop {
        true => start as usize..stop as usize + 1,
        false => 0..0,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn a_list_is_a_vector(seed in any::<u64>(), steps in vec((0..9u8, -6..12i64, -6..12i64, "[a-d]"), 1..100)) {
        let (mut memory, mut model) = (memory(seed), Vec::<String>::new());
        for (kind, one, two, item) in steps {
            let (line, wanted) = match kind {
                0 | 1 => {
                    model.push(item.clone());
                    (format!("RPUSH l {item}"), Value::count(model.len()))
                }
                2 => {
                    model.insert(0, item.clone());
                    (format!("LPUSH l {item}"), Value::count(model.len()))
                }
                3 => {
                    let popped = (!model.is_empty()).then(|| model.remove(0));
                    ("LPOP l".to_owned(), text(popped.as_ref()))
                }
                4 => ("RPOP l".to_owned(), text(model.pop().as_ref())),
                5 => {
                    let at = model.iter().position(|known| *known == item);
                    if let Some(at) = at {
                        model.insert(at, "x".to_owned());
                    }
                    let length = if model.is_empty() { 0 } else { -1 };
                    let reply = at.map_or(Value::Integer(length), |_| Value::count(model.len()));
                    (format!("LINSERT l BEFORE {item} x"), reply)
                }
                6 => {
                    let before = model.len();
                    let mut left = if one == 0 { usize::MAX } else { one.unsigned_abs() as usize };
                    let mut order: Vec<usize> = (0..before).collect();
                    if one < 0 {
                        order.reverse();
                    }
                    let mut gone = Vec::new();
                    for at in order {
                        if left > 0 && model[at] == item {
                            gone.push(at);
                            left -= 1;
                        }
                    }
                    let kept = model.iter().enumerate().filter(|(at, _)| !gone.contains(at));
                    model = kept.map(|(_, item)| item.clone()).collect();
                    (format!("LREM l {one} {item}"), Value::count(gone.len()))
                }
                7 => {
                    // Not too often to nothing.
                    let (start, stop) = (one.min(2), two.max(3));
                    model = model[span(start, stop, model.len())].to_vec();
                    (format!("LTRIM l {start} {stop}"), Value::OK)
                }
                _ => {
                    let places = span(one, two, model.len());
                    (format!("LRANGE l {one} {two}"), texts(&model[places]))
                }
            };
            prop_assert_eq!(memory.reply(&line), wanted, "{}", line);
            prop_assert_eq!(memory.reply("LRANGE l 0 -1"), texts(&model), "{}", line);
            rows::check(&memory);
        }
    }
}
