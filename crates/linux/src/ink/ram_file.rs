//! A file in memory, in pieces, so that one that grows is never copied.

use std::io::{self, IoSlice};
use std::sync::{OnceLock, RwLock};

use memmap2::{Advice, MmapMut};

use crate::errors::copy_of;
use crate::ink_file::InkFile;

const PIECE: usize = 1 << 20;
/// New memory is asked for so many bytes at a time. Page by page each costs a fault as it is first written: of 0.44 s of processor time
/// for a GiB these are 0.06. (What is left is that the kernel clears each page; memory that was written before costs 0.04.)
const ASKED: usize = 64 << 10;

#[derive(Default)]
pub(super) struct RamFile {
    contents: RwLock<Contents>,
    failure: OnceLock<io::Error>,
}

#[derive(Default)]
struct Contents {
    /// Of `PIECE` bytes each; what was never written is zeros.
    pieces: Vec<MmapMut>,
    length: usize,
    /// Memory was asked for up to here.
    asked: usize,
}

impl RamFile {
    pub fn holding(bytes: &[u8]) -> io::Result<RamFile> {
        let file = RamFile::default();
        file.contents
            .write()
            .unwrap_or_else(|e| e.into_inner())
            .write(0, bytes)?;
        Ok(file)
    }

    pub fn length(&self) -> u64 {
        let contents = self.contents.read().unwrap_or_else(|e| e.into_inner());
        contents.length as u64
    }
}

impl InkFile for RamFile {
    fn write(&self, offset: u64, slices: &mut [IoSlice<'_>], _refuse: bool) -> io::Result<()> {
        if let Some(first) = self.failure.get() {
            return Err(io::Error::other(format!(
                "an earlier write to this file failed: {first}"
            )));
        }
        let mut at = offset as usize;
        for slice in slices {
            // Let go between slices: a large write holds up no reader for long.
            let mut contents = self.contents.write().unwrap_or_else(|e| e.into_inner());
            contents.write(at, slice)?;
            at += slice.len();
        }
        Ok(())
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let contents = self.contents.read().unwrap_or_else(|e| e.into_inner());
        Ok(contents.read(offset as usize, into))
    }

    fn fail(&self, error: &io::Error) {
        let _ = self.failure.set(copy_of(error));
    }
}

impl Contents {
    fn write(&mut self, mut at: usize, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            while self.pieces.len() <= at / PIECE {
                self.pieces.push(MmapMut::map_anon(PIECE)?);
            }
            let within = at % PIECE;
            let count = bytes.len().min(PIECE - within);
            self.ask(at, at + count);
            self.pieces[at / PIECE][within..within + count].copy_from_slice(&bytes[..count]);
            bytes = &bytes[count..];
            at += count;
            self.length = self.length.max(at);
        }
        Ok(())
    }

    /// Asks for the memory of bytes that are written next, in one piece.
    fn ask(&mut self, from: usize, to: usize) {
        self.asked = self.asked.max(from / ASKED * ASKED);
        while self.asked < to {
            let within = self.asked % PIECE;
            let piece = &self.pieces[self.asked / PIECE];
            // A kernel that does not know how gives pages as they are written.
            let _ = piece.advise_range(Advice::PopulateWrite, within, ASKED);
            self.asked += ASKED;
        }
    }

    fn read(&self, at: usize, into: &mut [u8]) -> usize {
        let count = into.len().min(self.length.saturating_sub(at));
        let mut done = 0;
        while done < count {
            let within = (at + done) % PIECE;
            let step = (count - done).min(PIECE - within);
            let piece = &self.pieces[(at + done) / PIECE];
            into[done..done + step].copy_from_slice(&piece[within..within + step]);
            done += step;
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_found_across_pieces_and_holes_are_zeros() {
        let file = RamFile::default();
        let bytes: Vec<u8> = (0..3 * PIECE).map(|at| (at % 251) as u8).collect();
        let offset = 2 * PIECE - 77;
        let (first, second) = bytes.split_at(PIECE + 5);
        let mut slices = [IoSlice::new(first), IoSlice::new(second)];
        file.write(offset as u64, &mut slices, false).unwrap();
        assert_eq!(file.length(), (offset + bytes.len()) as u64);
        let mut into = vec![1; offset + bytes.len() + 10];
        let count = file.read(0, &mut into).unwrap();
        assert_eq!(count, offset + bytes.len());
        assert!(into[..offset].iter().all(|byte| *byte == 0));
        assert!(into[offset..count] == bytes);
        assert_eq!(file.read(count as u64 + 5, &mut into).unwrap(), 0);
    }

    #[test]
    fn after_a_failure_nothing_is_written() {
        let file = RamFile::holding(b"old").unwrap();
        file.fail(&io::Error::other("first"));
        let mut slices = [IoSlice::new(b"new")];
        let error = file.write(0, &mut slices, false).unwrap_err();
        assert!(error.to_string().contains("first"), "{error}");
        let mut into = [0; 3];
        file.read(0, &mut into).unwrap();
        assert_eq!(&into, b"old");
    }
}
