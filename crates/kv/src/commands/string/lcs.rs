//! The longest common subsequence of two strings.

use std::ops::RangeInclusive;

use resp::Value;

use crate::args::{Args, keyword};
use crate::commands::Done;
use crate::fail::{Fail, fail, words};
use crate::rows::{Db, Kind, Text};

#[derive(Default)]
struct Options {
    is_length: bool,
    is_places: bool,
    length_min: i64,
    has_lengths: bool,
}

fn options(args: &Args) -> Result<Options, Fail> {
    let (mut options, mut rest) = (Options::default(), args.rest(3));
    while let Some(word) = rest.next() {
        match keyword(word).as_slice() {
            b"LEN" => options.is_length = true,
            b"IDX" => options.is_places = true,
            b"WITHMATCHLEN" => options.has_lengths = true,
            b"MINMATCHLEN" => options.length_min = rest.need_integer()?.max(0),
            _ => return fail(words::SYNTAX),
        }
    }
    if options.is_length && options.is_places {
        return fail("ERR If you want both the length and indexes, please just use IDX.");
    }
    Ok(options)
}

pub(crate) fn lcs(db: &mut Db, args: &Args) -> Done {
    let (a, b) = (string(db, args.at(1))?, string(db, args.at(2))?);
    let options = options(args)?;
    let cells = (a.len() + 1).saturating_mul(b.len() + 1);
    if cells.saturating_mul(4) > db.context.bounds.string_bytes_max {
        return fail(
            "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len",
        );
    }
    let table = Table::of(&a, &b);
    let length = table.at(a.len(), b.len());
    if options.is_length {
        return Ok(Value::Integer(i64::from(length)));
    }
    let (common, matches) = table.walk(&a, &b);
    if !options.is_places {
        return Ok(Value::Bulk(common));
    }
    let matches = matches
        .iter()
        .filter(|(a, _)| length_of(a) >= options.length_min);
    let matches = matches.map(|(a, b)| shown(a, b, options.has_lengths));
    Ok(Value::Map(vec![
        (Value::bulk("matches"), Value::Array(matches.collect())),
        (Value::bulk("len"), Value::Integer(i64::from(length))),
    ]))
}

fn string(db: &mut Db, key: &[u8]) -> Result<Vec<u8>, Fail> {
    match db.peek(key)? {
        None => Ok(Vec::new()),
        Some(meta) if meta.kind == Kind::String => Text::of(key, meta).bytes(db),
        Some(_) => fail("ERR The specified keys must contain string values"),
    }
}

type Places = RangeInclusive<usize>;

fn length_of(places: &Places) -> i64 {
    i64::try_from(places.end() + 1 - places.start()).unwrap_or(i64::MAX)
}

fn shown(a: &Places, b: &Places, has_length: bool) -> Value {
    let pair = |places: &Places| {
        Value::Array(vec![
            Value::count(*places.start()),
            Value::count(*places.end()),
        ])
    };
    let mut parts = vec![pair(a), pair(b)];
    if has_length {
        parts.push(Value::Integer(length_of(a)));
    }
    Value::Array(parts)
}

/// For each pair of beginnings, the length of what they have in common.
struct Table {
    lengths: Vec<u32>,
    width: usize,
}

impl Table {
    fn of(a: &[u8], b: &[u8]) -> Table {
        let width = b.len() + 1;
        let lengths = vec![0; (a.len() + 1) * width];
        let mut table = Table { lengths, width };
        for (i, left) in a.iter().enumerate() {
            for (j, right) in b.iter().enumerate() {
                let length = match left == right {
                    true => table.at(i, j) + 1,
                    false => table.at(i, j + 1).max(table.at(i + 1, j)),
                };
                if let Some(cell) = table.lengths.get_mut((i + 1) * width + j + 1) {
                    *cell = length;
                }
            }
        }
        table
    }

    fn at(&self, a: usize, b: usize) -> u32 {
        let cell = self.lengths.get(a * self.width + b);
        cell.copied().unwrap_or(0)
    }

    /// The bytes that both have in common, and where, from the end.
    fn walk(&self, a: &[u8], b: &[u8]) -> (Vec<u8>, Vec<(Places, Places)>) {
        let (mut i, mut j) = (a.len(), b.len());
        let mut common = Vec::new();
        let mut matches: Vec<(Places, Places)> = Vec::new();
        while let (Some(left), Some(right)) = (last(a, i), last(b, j)) {
            if left == right {
                (i, j) = (i - 1, j - 1);
                common.push(left);
                match matches.last_mut() {
                    Some((a, b)) if *a.start() == i + 1 && *b.start() == j + 1 => {
                        *a = i..=*a.end();
                        *b = j..=*b.end();
                    }
                    _ => matches.push((i..=i, j..=j)),
                }
            } else if self.at(i - 1, j) > self.at(i, j - 1) {
                i -= 1;
            } else {
                j -= 1;
            }
        }
        common.reverse();
        (common, matches)
    }
}

/// The last byte of a beginning.
fn last(bytes: &[u8], length: usize) -> Option<u8> {
    bytes.get(length.checked_sub(1)?).copied()
}
