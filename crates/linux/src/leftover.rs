//! The blocks of a large file that was removed are given back in pieces.
//!
//! A file system frees all blocks of a file at once, and where it tells the device so (`discard`) the
//! device writes nothing else meanwhile: some 25 ms for 128 MiB on the disk of decision 0023, in which
//! no durable write of any log ends. So a large file loses its name at once, and its length
//! bit by bit.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const PIECE_BYTES: u64 = 4 << 20;
/// Others have the disk so many times as long as a piece takes.
const PAUSE: u32 = 4;
const PAUSE_LEAST: Duration = Duration::from_micros(500);
/// If more wait to be removed, nobody makes pauses.
const WAITING_MOST: usize = 4;

/// A file without a name, whose bytes nobody reads any more.
pub(crate) struct Leftover {
    file: File,
    bytes: u64,
}

#[derive(Default)]
pub(crate) struct Pace {
    waiting: AtomicUsize,
    /// The process ends, which frees the rest.
    ending: AtomicBool,
}

impl Leftover {
    /// The leftover of a file that is to be removed; `None` if it is small, or if others may see it shrink.
    pub fn of(path: &Path) -> Option<Leftover> {
        let about = path.symlink_metadata().ok()?;
        if !about.is_file() || about.len() <= 2 * PIECE_BYTES || about.nlink() > 1 {
            return None;
        }
        let file = File::options().write(true).open(path).ok()?;
        let bytes = about.len();
        Some(Leftover { file, bytes })
    }

    /// An error leaves the rest to the closing of the file.
    pub fn let_go(self, pace: &Pace, urgent: bool) {
        // Somebody may have given it another name since.
        let nameless = self.file.metadata().is_ok_and(|about| about.nlink() == 0);
        let mut bytes = self.bytes;
        while nameless && bytes > 0 && !pace.is_ending() {
            bytes = bytes.saturating_sub(PIECE_BYTES);
            let begun = Instant::now();
            if self.file.set_len(bytes).is_err() {
                return;
            }
            if !urgent {
                pace.pause(begun.elapsed());
            }
        }
    }
}

impl Pace {
    /// The process ends, and the next one goes on with what has a name still.
    pub fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }

    pub fn end(&self) {
        self.ending.store(true, Ordering::Relaxed);
    }

    /// One more is to be removed.
    pub fn add_waiting(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
    }

    /// The removal of one begins.
    pub fn take_waiting(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    fn pause(&self, worked: Duration) {
        if self.waiting.load(Ordering::Relaxed) <= WAITING_MOST {
            std::thread::sleep((worked * PAUSE).max(PAUSE_LEAST));
        }
    }
}
