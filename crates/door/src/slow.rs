//! The slow log: the last commands that took long to be answered.

use std::collections::VecDeque;
use std::time::Duration;

use resp::Value;

use crate::answers::{error, is, no_subcommand, number, text, wrong_count};

/// SLOWLOG GET tells so many, if nothing is said.
const TOLD: usize = 10;

pub struct Slow {
    id: i64,
    /// In seconds since the beginning of 1970.
    at_s: u64,
    took: Duration,
    words: Vec<Vec<u8>>,
    peer: String,
    name: Vec<u8>,
}

/// The newest first.
#[derive(Default)]
pub struct SlowLog {
    entries: VecDeque<Slow>,
    next: i64,
}

impl SlowLog {
    /// Takes an entry; the oldest go, so that at most so many are there.
    pub fn push(
        &mut self,
        entries_max: usize,
        (at_s, took): (u64, Duration),
        words: Vec<Vec<u8>>,
        (peer, name): (String, Vec<u8>),
    ) {
        self.entries.push_front(Slow {
            id: self.next,
            at_s,
            took,
            words,
            peer,
            name,
        });
        self.next += 1;
        self.entries.truncate(entries_max);
    }

    /// The answer to SLOWLOG.
    pub fn answer(&mut self, words: &[&[u8]]) -> Value {
        let Some(subcommand) = words.get(1) else {
            return error("ERR wrong number of arguments for 'slowlog' command");
        };
        match (words.get(2..).unwrap_or_default(), subcommand) {
            ([], word) if is(word, "len") => Value::count(self.entries.len()),
            ([], word) if is(word, "reset") => {
                self.entries.clear();
                Value::OK
            }
            ([], word) if is(word, "get") => self.told(TOLD),
            ([count], word) if is(word, "get") => match number(count) {
                Ok(-1) => self.told(usize::MAX),
                Ok(count @ 0..) => self.told(usize::try_from(count).unwrap_or(usize::MAX)),
                Ok(_) => error("ERR count should be greater than or equal to -1"),
                Err(error) => error,
            },
            (_, word) if ["get", "len", "reset"].iter().any(|known| is(word, known)) => {
                wrong_count("slowlog", word)
            }
            _ => no_subcommand("SLOWLOG", subcommand),
        }
    }

    fn told(&self, count: usize) -> Value {
        let entries = self.entries.iter().take(count);
        Value::Array(entries.map(Slow::value).collect())
    }
}

impl Slow {
    fn value(&self) -> Value {
        let took_us = i64::try_from(self.took.as_micros()).unwrap_or(i64::MAX);
        Value::Array(vec![
            Value::Integer(self.id),
            Value::Integer(i64::try_from(self.at_s).unwrap_or(i64::MAX)),
            Value::Integer(took_us),
            Value::bulks(self.words.iter().cloned()),
            text(self.peer.clone()),
            Value::bulk(self.name.clone()),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(log: &mut SlowLog, line: &str) -> Value {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        log.answer(&words)
    }

    fn ids(value: Value) -> Vec<i64> {
        let Value::Array(entries) = value else {
            panic!("{value:?}")
        };
        let entries = entries.into_iter().map(|entry| match entry {
            Value::Array(fields) => match fields[0] {
                Value::Integer(id) => id,
                _ => panic!("{fields:?}"),
            },
            entry => panic!("{entry:?}"),
        });
        entries.collect()
    }

    #[test]
    fn the_newest_are_told_and_the_oldest_go() {
        let mut log = SlowLog::default();
        for number in 0..130u64 {
            let words = vec![b"GET".to_vec(), number.to_string().into_bytes()];
            let took = Duration::from_millis(number);
            let client = ("1.2.3.4:5".to_owned(), b"me".to_vec());
            log.push(128, (1_000 + number, took), words, client);
        }
        assert_eq!(ask(&mut log, "SLOWLOG LEN"), Value::Integer(128));
        assert_eq!(ids(ask(&mut log, "slowlog get 2")), [129, 128]);
        assert_eq!(ids(ask(&mut log, "SLOWLOG GET")).len(), 10);
        assert_eq!(ids(ask(&mut log, "SLOWLOG GET -1")).last(), Some(&2));
        let entry = Value::Array(vec![
            Value::Integer(129),
            Value::Integer(1_129),
            Value::Integer(129_000),
            Value::bulks(["GET", "129"]),
            text("1.2.3.4:5"),
            text("me"),
        ]);
        let one = ask(&mut log, "SLOWLOG GET 1");
        assert_eq!(one, Value::Array(vec![entry]));
        for wrong in [
            "SLOWLOG GET -2",
            "SLOWLOG GET a",
            "SLOWLOG LEN 1",
            "SLOWLOG",
        ] {
            let told = ask(&mut log, wrong);
            assert!(matches!(told, Value::Error(_)), "{wrong}: {told:?}");
        }
        assert_eq!(ask(&mut log, "SLOWLOG RESET"), Value::OK);
        assert_eq!(ask(&mut log, "SLOWLOG LEN"), Value::Integer(0));
        // Ids go on.
        log.push(128, (0, Duration::ZERO), Vec::new(), Default::default());
        assert_eq!(ids(ask(&mut log, "SLOWLOG GET")), [130]);
    }
}
