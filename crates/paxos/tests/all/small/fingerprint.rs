//! The difference between two states of a search: everything but moments.
//!
//! A search visits a state once, so states that differ only in when they were reached have to look
//! equal. All of `Timing` is zero in these worlds: every timer that is set may fire at once, and no
//! comparison of moments in the engine has two outcomes. So moments, random draws, counts of
//! attempts and scratch memory decide nothing and are left out. Records are counted from the last
//! one backwards, because the engine only compares their numbers.
//!
//! It reads the `Debug` form, so a field that is added to the engine counts until it is named here.

use std::fmt::{self, Debug, Write};
use std::hash::{DefaultHasher, Hasher};

use paxos::RecordNumber;

const LEFT_OUT: [&str; 7] = [
    "now",
    "random",
    "attempts",
    "patience",
    "last_phase1",
    "last_request",
    "scratch",
];

pub fn of(value: &impl Debug) -> u64 {
    with_records(value, RecordNumber(0), RecordNumber(0))
}

/// The fingerprint of an engine that asked for records up to `last` and knows those up to `durable` to be durable.
pub fn with_records(value: &impl Debug, durable: RecordNumber, last: RecordNumber) -> u64 {
    let mut reader = Reader {
        hasher: DefaultHasher::new(),
        durable,
        last,
        reading: Reading::All,
    };
    write!(reader, "{value:?}").expect("a hasher takes everything");
    reader.hasher.finish()
}

struct Reader {
    hasher: DefaultHasher,
    durable: RecordNumber,
    last: RecordNumber,
    reading: Reading,
}

enum Reading {
    All,
    /// The value of a field that is left out, so many brackets deep.
    LeftOut(usize),
    /// Within `Time(..)`.
    Moment,
    /// Within `RecordNumber(..)`.
    Record,
}

impl Write for Reader {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        match self.reading {
            Reading::LeftOut(0) if piece == ", " || piece == " }" => self.reading = Reading::All,
            Reading::LeftOut(depth) => {
                let opened = piece.matches(['(', '[', '{']).count();
                let closed = piece.matches([')', ']', '}']).count();
                self.reading = Reading::LeftOut(depth + opened - closed);
                return Ok(());
            }
            Reading::Moment | Reading::Record if piece == ")" => self.reading = Reading::All,
            Reading::Moment => return Ok(()),
            Reading::Record => {
                if let Ok(number) = piece.parse::<u64>() {
                    let behind = match number <= self.durable.0 {
                        true => 0,
                        false => 1 + self.last.0 - number,
                    };
                    self.hasher.write_u64(behind);
                }
                return Ok(());
            }
            Reading::All => match piece {
                "Time" => self.reading = Reading::Moment,
                "RecordNumber" => self.reading = Reading::Record,
                name if LEFT_OUT.contains(&name) => self.reading = Reading::LeftOut(0),
                _ => {}
            },
        }
        self.hasher.write(piece.as_bytes());
        self.hasher.write_u8(0xff);
        Ok(())
    }
}
