//! Drawn requests on named streams, beside a model of them: on rows in memory, one after the other; and at the spaces of three nodes, whatever fails.
//!
//! ```text
//!  clients ─ request ─▶ spaces ─▶ Numbered: each request that wrote has the next number of its log, and stands in a row with it
//!  judge:  the rows, in their order, on the model: each answer is the model's at its number; each look shows the model at the number that it saw;
//!          no number is below one that was answered before it was asked for
//! ```
//!
//! So every answer is explained by one order, that of the log.

mod draws;
mod model;
pub mod numbered;
pub mod retained;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ops::Bound;

use streams::{Answer, Page, Request, Rows, View};

use self::draws::{IDLE, Known, NAMES, limit, path};
use self::model::{Model, shown};

/// Rows in memory.
#[derive(Clone, Default)]
struct Memory {
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
    forgotten: Vec<Vec<u8>>,
    time_ms: u64,
}

impl Memory {
    fn below(&self, prefix: u8) -> impl Iterator<Item = &Vec<u8>> {
        let rows = self.rows.range(vec![prefix]..vec![prefix + 1]);
        rows.map(|(_, value)| value)
    }
}

impl View for Memory {
    type Stop = Infallible;

    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Infallible> {
        Ok(self.rows.get(key).cloned())
    }

    fn range(&mut self, from: &[u8], to: &[u8], rows_max: usize) -> Result<Page, Infallible> {
        let mut page = Page {
            rows: Vec::new(),
            is_last: true,
        };
        if from >= to {
            return Ok(page);
        }
        let bounds = (Bound::Included(from), Bound::Excluded(to));
        for (key, value) in self.rows.range::<[u8], _>(bounds) {
            // Pages are short, so that everybody has to read on.
            if page.rows.len() == rows_max.min(3) {
                page.is_last = false;
                break;
            }
            page.rows.push((key.clone(), value.clone()));
        }
        Ok(page)
    }
}

impl Rows for Memory {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Infallible> {
        let mut forgotten = self.forgotten.iter();
        assert!(
            !forgotten.any(|prefix| key.starts_with(prefix)),
            "a row is written below a prefix that was forgotten"
        );
        self.rows.insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), Infallible> {
        self.rows.remove(key);
        Ok(())
    }

    fn forget(&mut self, prefix: &[u8]) -> Result<(), Infallible> {
        self.rows.retain(|key, _| !key.starts_with(prefix));
        self.forgotten.push(prefix.to_vec());
        Ok(())
    }

    fn time_ms(&self) -> u64 {
        self.time_ms
    }
}

/// One request after the other, on rows in memory: each answer, each read and what is left of all rows is the model's.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn drawn_requests_are_answered_as_the_rules_say() {
    let (mut wrote, mut refused, mut read) = (0, BTreeMap::<String, u64>::new(), 0);
    for seed in 1..=80u64 {
        let mut draws = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut below = move |end: u64| {
            draws ^= draws << 13;
            draws ^= draws >> 7;
            draws ^= draws << 17;
            draws % end
        };
        let mut rows = Memory::default();
        let (mut model, mut known) = (Model::default(), Known::default());
        for step in 0..500 {
            rows.time_ms += below(60) * below(12);
            let request = match step % 50 {
                49 => Request::Sweep { streams_max: 1_000 },
                // Half of the worlds have limits.
                9 | 29 if seed % 2 == 0 => limit(&mut below),
                _ => known.request(&mut below),
            };
            let Ok(answer) = streams::execute(&mut rows, &request);
            let expected = model.execute(&request, rows.time_ms);
            assert_eq!(
                answer, expected,
                "seed {seed}, step {step}, at {}: {request:?}",
                rows.time_ms
            );
            known.on_answer(&request, &answer);
            match &answer {
                Answer::Refused(refusal) => {
                    let name = format!("{refusal:?}");
                    let end = name.find([' ', '(']).unwrap_or(name.len());
                    *refused.entry(name[..end].to_owned()).or_default() += 1;
                }
                _ => wrote += 1,
            }
            if step % 50 == 49 {
                // Nothing is over that is still there: the rows are those of the model's streams, and no more.
                let bytes: usize = rows.below(b'd').map(|row| row.len() - 1).sum();
                assert_eq!(bytes, model.own_bytes(), "seed {seed}, step {step}: bytes");
                let usage = streams::usage(&mut rows).expect("memory does not fail");
                let kept = (usage.streams, usage.bytes);
                let expected = (model.streams() as u64, model.kept_bytes());
                assert_eq!(kept, expected, "seed {seed}, step {step}: counted");
                let streams = (rows.below(b's').count(), rows.below(b'n').count());
                let expected = (model.streams(), model.streams());
                assert_eq!(streams, expected, "seed {seed}, step {step}: streams");
            }
            let (name, from, bytes_max) = known.read(&mut below, NAMES.len());
            if name == NAMES[IDLE] {
                // As the door does: a stream whose time may be over is asked for first.
                let touch = Request::Touch {
                    path: path(name),
                    uses: false,
                };
                let Ok(answer) = streams::execute(&mut rows, &touch);
                assert_eq!(answer, model.execute(&touch, rows.time_ms), "seed {seed}");
            }
            let found = streams::read(&mut rows, &path(name), from, bytes_max);
            let found = shown(found.expect("memory does not fail"));
            let expected = model.read(&path(name), from, bytes_max);
            assert_eq!(
                found, expected,
                "seed {seed}, step {step}: {name} from {from:?}"
            );
            read += 1;
        }
    }
    println!("{wrote} requests done, {read} reads; refused: {refused:?}");
    let kinds = [
        "NotFound",
        "Deleted",
        "Differs",
        "Exists",
        "Closed",
        "Media",
        "StaleEpoch",
        "EpochBegins",
        "Gap",
        "Unexpected",
        "Sequence",
        "ForkOffset",
        "ForkSub",
        "SourceDeleted",
        "SourceNotFound",
        "StreamsLimit",
        "ManyBytes",
    ];
    for kind in kinds {
        assert!(refused.contains_key(kind), "nothing was refused as {kind}");
    }
    assert!(wrote > 10_000);
}
