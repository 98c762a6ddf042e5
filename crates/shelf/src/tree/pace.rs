//! The pace of compactions, and their end. Flat out they would take cores and disk from those whom somebody waits for, and a large state
//! is compacted for minutes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::room::Room;

/// The rows that are counted before the clock is looked at.
const STRIDE: u64 = 64 << 10;
/// The rows that are counted before the disk is looked at.
const WRITTEN_BETWEEN_LOOKS: u64 = 4 << 20;
/// The longest sleep: whatever changes is seen so soon.
const NAP: Duration = Duration::from_millis(20);

pub(super) struct Pace {
    bytes_per_second: u64,
    /// Compaction falls behind: it goes on as fast as it can.
    hurries: AtomicBool,
    /// No compaction goes on any more.
    is_over: AtomicBool,
}

/// One compaction's way at that pace.
pub(super) struct Paced {
    pace: Arc<Pace>,
    room: Arc<Room>,
    since: Instant,
    bytes: u64,
    uncounted: u64,
    unlooked: u64,
}

impl Pace {
    pub fn new(bytes_per_second: u64) -> Pace {
        Pace {
            bytes_per_second: bytes_per_second.max(1),
            hurries: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        }
    }

    pub fn set_hurries(&self, hurries: bool) {
        self.hurries.store(hurries, Ordering::Relaxed);
    }

    pub fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }
}

impl Paced {
    pub fn at(pace: &Arc<Pace>, room: &Arc<Room>) -> Paced {
        Paced {
            pace: pace.clone(),
            room: room.clone(),
            since: Instant::now(),
            bytes: 0,
            uncounted: 0,
            unlooked: 0,
        }
    }

    /// Counts a row of so many bytes, and sleeps if that is too many for the time.
    ///
    /// Errors: no compaction goes on any more, or no room is left for one.
    pub fn count(&mut self, bytes: u64) -> io::Result<()> {
        self.uncounted += bytes;
        if self.uncounted < STRIDE {
            return Ok(());
        }
        self.unlooked += self.uncounted;
        if self.unlooked >= WRITTEN_BETWEEN_LOOKS {
            self.unlooked = 0;
            self.room.check()?;
        }
        self.bytes += std::mem::take(&mut self.uncounted);
        loop {
            if self.pace.is_over() {
                let why = "it is given up, for its shelf is not used any more";
                return Err(io::Error::new(io::ErrorKind::Interrupted, why));
            }
            let micros = self.bytes.saturating_mul(1_000_000) / self.pace.bytes_per_second;
            let ahead = Duration::from_micros(micros).saturating_sub(self.since.elapsed());
            if ahead.is_zero() || self.pace.hurries.load(Ordering::Relaxed) {
                // Time that was lost, or gained, is not made up for.
                self.since = Instant::now();
                self.bytes = 0;
                return Ok(());
            }
            if ahead < Duration::from_millis(1) {
                return Ok(());
            }
            thread::sleep(ahead.min(NAP));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;

    #[test]
    fn a_compaction_sleeps_unless_it_hurries_and_ends_when_it_is_told() {
        let pace = Arc::new(Pace::new(1 << 20));
        let began = Instant::now();
        let settings = Settings {
            free_bytes_min: 0,
            ..Settings::default()
        };
        let room = Arc::new(Room::new(&std::env::temp_dir(), &settings));
        let mut paced = Paced::at(&pace, &room);
        paced.count(128 << 10).unwrap();
        assert!(began.elapsed() >= Duration::from_millis(120));
        pace.set_hurries(true);
        // At its pace that would be a day.
        paced.count(100 << 30).unwrap();
        pace.end();
        let error = paced.count(1 << 20).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Interrupted);
    }
}
