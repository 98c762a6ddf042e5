//! The rows after every command, held to the bytes that the head of the crate tells.

use std::collections::BTreeMap;

use kv::Life;

use crate::memory::Memory;

type Rows<'a> = BTreeMap<&'a [u8], &'a [u8]>;

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes[..8].try_into().expect("eight bytes"))
}

/// Every row belongs to a key, every key to the count, every deadline to its key; and nothing is left of what went.
pub fn check(memory: &Memory) {
    for life in &memory.lives {
        let prefix = life.prefix();
        let mut behind = prefix;
        behind[Life::BYTES - 1] += 1;
        let rows = memory.rows.range(prefix.to_vec()..behind.to_vec());
        let rows: Rows = rows
            .map(|(key, value)| (&key[Life::BYTES..], value.as_slice()))
            .collect();
        if !rows.is_empty() {
            check_life(&rows);
        }
    }
    let lives = memory.lives.iter().map(Life::prefix);
    let lives: std::collections::BTreeSet<_> = lives.collect();
    let is_of_a_life = |key: &Vec<u8>| lives.contains(&key[..Life::BYTES]);
    assert!(
        memory.rows.keys().all(is_of_a_life),
        "rows of a life that ended"
    );
}

fn check_life(rows: &Rows) {
    let header = rows.get(&b"H"[..]).expect("a slot with rows has a header");
    assert_eq!(header[0], 1);
    let (keys, next_id) = (number(&header[1..]), number(&header[9..]));
    let sessions = header.get(17..25).map_or(0, number);
    let mut left: Rows = rows.clone();
    left.remove(&b"H"[..]);
    let metas: Vec<_> = rows.iter().filter(|(key, _)| key[0] == b'M').collect();
    assert_eq!(metas.len() as u64, keys, "the count of keys");
    for (row, meta) in metas {
        left.remove(row);
        let name = &row[7..];
        assert_eq!(meta[0], 1, "the form");
        let deadline = number(&meta[2..]);
        if deadline != u64::MAX {
            let row = [b"X", &deadline.to_be_bytes()[..], name].concat();
            assert_eq!(
                left.remove(row.as_slice()),
                Some(&[][..]),
                "a deadline's row"
            );
        }
        if meta[10] == 1 {
            let (id, count) = (number(&meta[11..]), number(&meta[19..]));
            assert!(id < next_id, "an id that was given out");
            check_value(&mut left, meta[1], id, count, number(&meta[27..]));
        }
    }
    for (row, standing) in rows.iter().filter(|(key, _)| key[0] == b'W') {
        left.remove(row);
        assert_eq!(standing[0], 1, "the form");
        let (id, bytes) = (number(&standing[1..]), number(&standing[9..]));
        assert!(id < next_id, "an id that was given out");
        check_value(&mut left, b's', id, bytes, 0);
    }
    let kept: Vec<_> = rows.iter().filter(|(key, _)| key[0] == b'O').collect();
    assert_eq!(kept.len() as u64, sessions, "the count of sessions");
    for (row, session) in kept {
        left.remove(row);
        assert_eq!(session[0], 1, "the form");
        let (number_of_it, used) = (number(&row[1..]), number(&session[9..]));
        assert!(number_of_it >> 31 <= next_id, "an id that was given out");
        let place = [b"U", &used.to_be_bytes()[..], &row[1..]].concat();
        assert_eq!(
            left.remove(place.as_slice()),
            Some(&[][..]),
            "a session's place"
        );
    }
    assert!(left.is_empty(), "rows of nobody: {left:?}");
}

/// Takes the rows of a value away.
fn check_value(left: &mut Rows, kind: u8, id: u64, count: u64, first: u64) {
    let id = id.to_be_bytes();
    let mut take = |tag: u8| {
        let prefix = [&[tag], &id[..]].concat();
        let found: Vec<_> = left
            .iter()
            .filter(|(key, _)| key.starts_with(&prefix))
            .map(|(key, value)| (key[9..].to_vec(), value.to_vec()))
            .collect();
        left.retain(|key, _| !key.starts_with(&prefix));
        found
    };
    assert!(count > 0, "nothing is no value");
    match kind {
        b's' => {
            let chunks = take(b'S');
            assert_eq!(
                chunks
                    .iter()
                    .map(|(_, chunk)| chunk.len() as u64)
                    .sum::<u64>(),
                count
            );
            let (_, whole) = chunks.split_last().expect("a chunk");
            assert!(whole.iter().all(|(_, chunk)| chunk.len() == 4096));
        }
        b'l' => {
            let items = take(b'E');
            let indexes = items.iter().map(|(index, _)| number(index));
            assert!(
                indexes.eq(first..first + count),
                "indexes follow one another"
            );
        }
        b'h' | b'e' => {
            let members = take(b'E');
            assert_eq!(members.len() as u64, count);
            assert!(kind == b'h' || members.iter().all(|(_, value)| value.is_empty()));
        }
        b'z' => {
            let named = take(b'E')
                .into_iter()
                .map(|(row, score)| (row[6..].to_vec(), score));
            let mut named: Vec<_> = named.collect();
            let sorted = take(b'Z')
                .into_iter()
                .map(|(row, score)| (row[8..].to_vec(), score));
            let mut sorted: Vec<_> = sorted.collect();
            let scores = sorted
                .iter()
                .map(|(_, score)| f64::from_bits(number(score)));
            assert!(scores.is_sorted(), "in the order of scores");
            assert_eq!(named.len() as u64, count);
            named.sort();
            sorted.sort();
            assert_eq!(named, sorted, "two rows for each");
        }
        other => panic!("type {other}"),
    }
}
