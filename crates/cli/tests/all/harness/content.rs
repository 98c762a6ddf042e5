//! Bytes that are known without being kept: any part can be made again from a seed.

use std::io::{self, Read, Write};

const PIECE: usize = 64 << 10;

#[derive(Clone, Copy, Debug)]
pub struct Content {
    seed: u64,
    pub length: u64,
}

impl Content {
    pub fn new(seed: u64, length: u64) -> Content {
        Content { seed, length }
    }

    /// The piece of that number. Pieces differ from one another, so that one out of place shows.
    fn piece(&self, number: u64, into: &mut [u8; PIECE]) {
        let mut word = (self.seed << 40 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        for chunk in into.chunks_exact_mut(8) {
            word ^= word << 13;
            word ^= word >> 7;
            word ^= word << 17;
            chunk.copy_from_slice(&word.to_le_bytes());
        }
    }

    fn each(&self, mut take: impl FnMut(u64, &[u8]) -> io::Result<()>) -> io::Result<()> {
        let mut piece = [0; PIECE];
        let mut at = 0;
        while at < self.length {
            self.piece(at / PIECE as u64, &mut piece);
            let count = (self.length - at).min(PIECE as u64);
            take(at, &piece[..count as usize])?;
            at += count;
        }
        Ok(())
    }

    pub fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        self.each(|_, piece| out.write_all(piece))?;
        out.flush()
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.length as usize);
        self.write_to(&mut bytes).expect("memory");
        bytes
    }

    /// Reads exactly this content, or says where what comes is different.
    pub fn compare(&self, from: &mut dyn Read) -> Result<(), String> {
        let mut buffer = [0; PIECE];
        let compared = self.each(|at, piece| {
            let got = &mut buffer[..piece.len()];
            from.read_exact(got)
                .map_err(|e| io::Error::other(format!("after {at}: {e}")))?;
            match got.iter().zip(piece).position(|(a, b)| a != b) {
                Some(offset) => Err(io::Error::other(format!(
                    "differs at {}",
                    at + offset as u64
                ))),
                None => Ok(()),
            }
        });
        compared.map_err(|e| e.to_string())
    }
}
