//! When each write of a paced writer is due.

use std::time::{Duration, Instant};

/// Writes of one size at a constant rate from a moment on. Nothing is ever late in here: a delayed writer
/// asks for the same times afterwards, and counts from them.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    began: Instant,
    write_bytes: u64,
    /// Bytes per second.
    rate: u64,
}

const NANOS: u128 = 1_000_000_000;

impl Pace {
    pub fn new(began: Instant, write_bytes: usize, rate: u64) -> Pace {
        Pace {
            began,
            write_bytes: write_bytes as u64,
            rate,
        }
    }

    /// The moment at which this write is due, counted from 0. It is not summed up of intervals: at 220 MB/s
    /// one byte is 4.5 ns, and whole nanoseconds would make that 5.
    pub fn due(&self, number: u64) -> Instant {
        let bytes = (u128::from(number) + 1) * u128::from(self.write_bytes);
        let nanos = bytes * NANOS / u128::from(self.rate);
        self.began + Duration::from_nanos(nanos as u64)
    }

    /// The number of writes that are due by then.
    pub fn due_by(&self, now: Instant) -> u64 {
        let nanos = now.saturating_duration_since(self.began).as_nanos();
        (nanos * u128::from(self.rate) / (u128::from(self.write_bytes) * NANOS)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_bytes_at_220_mb_per_s_are_due_at_that_rate() {
        let began = Instant::now();
        let pace = Pace::new(began, 1, 220_000_000);
        assert_eq!(pace.due_by(began + Duration::from_secs(1)), 220_000_000);
        assert_eq!(pace.due(219_999_999), began + Duration::from_secs(1));
    }

    #[test]
    fn a_write_is_due_exactly_when_it_counts_as_due() {
        let began = Instant::now();
        let pace = Pace::new(began, 1024, 20_000_000);
        for number in [0, 1, 77, 1_000_003] {
            let due = pace.due(number) + Duration::from_nanos(1);
            assert_eq!(pace.due_by(due), number + 1);
            assert_eq!(pace.due_by(due - Duration::from_nanos(2)), number);
        }
    }
}
