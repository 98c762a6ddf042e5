//! Each type beside a naive model of it: plain maps, and nothing clever.

mod expiry;
mod hashes;
mod lists;
mod sets;
mod sorted_sets;
mod strings;

use resp::Value;

use crate::memory::Memory;

/// A server with small bounds or without, and rows away or not.
fn memory(seed: u64) -> Memory {
    let mut memory = Memory::new(seed);
    if seed.is_multiple_of(2) {
        memory = memory.with_small_bounds();
    }
    memory.away = seed / 2 % 3;
    memory.page_rows_max = if (seed / 6).is_multiple_of(2) {
        3
    } else {
        1000
    };
    memory
}

fn text(value: Option<&String>) -> Value {
    value.map_or(Value::Null, |value| Value::bulk(value.as_str()))
}

fn texts<'a>(values: impl IntoIterator<Item = &'a String>) -> Value {
    Value::bulks(values.into_iter().map(|value| value.as_str()))
}
