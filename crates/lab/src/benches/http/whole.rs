//! A stream that is read from its beginning to its tail, and compared.

use std::time::Instant;

use anyhow::{Result, bail};

use super::report::WholeRead;
use super::target::Target;
use bench::latency::rounded;
use testbed::scratch::go_on;

const NAME: &str = "whole";
/// An append.
const PIECE_BYTES: usize = 1 << 20;

pub struct Whole {
    bytes: u64,
    /// The bytes that stand there, over and over. A prime: a byte that is missing moves all behind it.
    content: Vec<u8>,
}

const PERIOD: usize = 65_521;

impl Whole {
    pub fn write(target: &Target, bytes: u64) -> Result<Whole> {
        target.make(NAME, 1, |_| {})?;
        let all = (0..PERIOD + PIECE_BYTES).map(|at| (at % PERIOD * 7 % 251) as u8);
        let whole = Whole {
            bytes,
            content: all.collect(),
        };
        let mut written = 0;
        while written < bytes {
            go_on()?;
            let piece = whole.at(written, PIECE_BYTES.min((bytes - written) as usize));
            target.append(NAME, 0, piece)?;
            written += piece.len() as u64;
        }
        Ok(whole)
    }

    fn at(&self, position: u64, count: usize) -> &[u8] {
        let from = (position % PERIOD as u64) as usize;
        &self.content[from..from + count]
    }

    pub fn read(&self, target: &Target, place: &'static str) -> Result<WholeRead> {
        let since = Instant::now();
        let (mut position, mut offset, mut answers) = (0_u64, "-1".to_owned(), 0);
        loop {
            go_on()?;
            let piece = target.read(NAME, 0, &offset)?;
            for part in piece.bytes.chunks(PIECE_BYTES) {
                if self.at(position, part.len()) != part {
                    bail!(
                        "the {} bytes at {position} are not those that were written",
                        part.len()
                    );
                }
                position += part.len() as u64;
            }
            answers += 1;
            offset = piece.next;
            if piece.is_all {
                break;
            }
        }
        if position != self.bytes {
            bail!(
                "{position} bytes are there of {} that were written",
                self.bytes
            );
        }
        let seconds = since.elapsed().as_secs_f64();
        Ok(WholeRead {
            place,
            answers,
            seconds: rounded(seconds),
            mb_per_s: rounded(self.bytes as f64 / 1e6 / seconds),
        })
    }
}
