//! Zeros behind small writes: a file grows once for many of them.
//!
//! ```text
//!  write ┐        writes in place, no metadata              ┐ the next that grows
//!  ██████│000000000000000000000000000000000000000000000000000│
//!        └ zeros, of the same durable write ────────────────┘
//! ```
//!
//! A durable write that makes a file longer waits for the file system's own blocks as well (docs/decisions/0058-small-writes-grow-a-file-in-steps.md). Large
//! writes have no zeros: they would write every byte twice.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use ops::{BLOCK, Buffer, Shared, Slice};
use rustix::io::Errno;

/// Writes up to this length are small.
const SMALL_MAX: u64 = 32 << 10;
/// A file grows by half of its length, within these.
const STEP_MIN: u64 = 16 << 10;
const STEP_MAX: u64 = 512 << 10;

/// How far a file has blocks that were written. Only its writer changes it.
#[derive(Debug)]
pub(crate) struct Growth {
    written_to: AtomicU64,
    /// No zeros lie behind this.
    end_max: u64,
}

impl Growth {
    /// `written_to`: its length as it is opened. `end_max`: where the file will probably end.
    pub fn new(written_to: u64, end_max: u64) -> Growth {
        Growth {
            written_to: AtomicU64::new(written_to),
            end_max,
        }
    }

    /// The zeros that go with a write of so many bytes to this place.
    pub fn zeros_behind(&self, offset: u64, length: u64) -> usize {
        let end = offset + length;
        if length > SMALL_MAX || end <= self.written_to.load(Ordering::Relaxed) {
            return 0;
        }
        let step = (end / 2).clamp(STEP_MIN, STEP_MAX);
        let zeros = step.min(self.end_max.saturating_sub(end));
        zeros as usize / BLOCK * BLOCK
    }

    /// All before this place is written.
    pub fn reached(&self, end: u64) {
        self.written_to.fetch_max(end, Ordering::Relaxed);
    }
}

/// So many zeros.
pub(crate) fn zeros(length: usize) -> Slice {
    static ZEROS: OnceLock<Shared> = OnceLock::new();
    let all = ZEROS.get_or_init(|| Buffer::new(STEP_MAX as usize).freeze());
    all.slice(0..length)
}

/// A write failed for want of space, and may succeed without zeros.
pub(crate) fn lacks_room(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_writes_grow_a_file_in_rising_steps_and_never_beyond_its_end() {
        let growth = Growth::new(0, 4 << 20);
        let (mut offset, mut grown) = (0, 0);
        while offset < 4 << 20 {
            let zeros = growth.zeros_behind(offset, 4096);
            grown += usize::from(zeros > 0);
            offset += 4096;
            growth.reached(offset + zeros as u64);
            assert!(offset + zeros as u64 <= 4 << 20);
            assert_eq!(zeros % BLOCK, 0);
        }
        assert!((10..30).contains(&grown), "{grown} of 1,024 writes grew it");
    }

    #[test]
    fn a_large_write_and_one_in_place_have_no_zeros_behind_them() {
        let growth = Growth::new(1 << 20, u64::MAX);
        assert_eq!(growth.zeros_behind(1 << 20, SMALL_MAX + 4096), 0);
        assert_eq!(growth.zeros_behind((1 << 20) - 4096, 4096), 0);
        assert_eq!(growth.zeros_behind(1 << 20, SMALL_MAX), STEP_MAX as usize);
    }
}
