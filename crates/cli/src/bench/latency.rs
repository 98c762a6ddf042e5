//! From the time of a write to the ack of its last byte.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

/// Writes whose latency is wanted are at least so far apart, so that a flood of tiny ones measures
/// the cluster and not this queue.
const MARK_BYTES: u64 = 1024;

/// Shared by who writes and who hears the acks.
pub struct Latencies(Mutex<State>);

struct State {
    /// The position after a write, and when it was due.
    marks: VecDeque<(u64, Instant)>,
    marked: u64,
    /// Acks outside of it are not counted.
    window: Option<(Instant, Instant)>,
    micros: Histogram<u64>,
}

impl Latencies {
    pub fn new() -> Latencies {
        let bounds = Histogram::new_with_bounds(1, 1_000_000_000, 3);
        Latencies(Mutex::new(State {
            marks: VecDeque::new(),
            marked: 0,
            window: None,
            micros: bounds.expect("1 µs to 1000 s in three digits is a histogram"),
        }))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts anew, and only what is acknowledged in this window.
    pub fn set_window(&self, from: Instant, to: Instant) {
        let mut state = self.lock();
        state.window = Some((from, to));
        state.micros.reset();
    }

    /// A write that ends at `position` was due at `since`. Called before it is made.
    pub fn on_write(&self, position: u64, since: Instant) {
        let mut state = self.lock();
        if position >= state.marked + MARK_BYTES {
            state.marked = position;
            state.marks.push_back((position, since));
        }
    }

    pub fn on_acknowledged(&self, position: u64, at: Instant) {
        let mut state = self.lock();
        let counts = state.window.is_some_and(|(from, to)| from <= at && at < to);
        while let Some((end, since)) = state.marks.front().copied() {
            if end > position {
                break;
            }
            state.marks.pop_front();
            if counts {
                let micros = at.saturating_duration_since(since).as_micros();
                state.micros.saturating_record(micros.max(1) as u64);
            }
        }
    }

    pub fn micros(&self) -> Histogram<u64> {
        self.lock().micros.clone()
    }
}

/// Of a histogram of microseconds, in milliseconds; 0 if it is empty.
pub fn quantile_ms(micros: &Histogram<u64>, quantile: f64) -> f64 {
    micros.value_at_quantile(quantile) as f64 / 1000.0
}

pub fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

/// The middle one, or the mean of the two in the middle; 0 of nothing.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[middle],
        _ => (values[middle - 1] + values[middle]) / 2.0,
    }
}

/// To so many digits that a reader learns something.
pub fn rounded(value: f64) -> f64 {
    let factor = match value.abs() {
        large if large >= 100.0 => 10.0,
        middle if middle >= 1.0 => 1_000.0,
        _ => 10_000.0,
    };
    (value * factor).round() / factor
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_write_is_counted_from_when_it_was_due() {
        let latencies = Latencies::new();
        let due = Instant::now();
        latencies.set_window(due, due + Duration::from_secs(9));
        latencies.on_write(4096, due);
        latencies.on_write(8192, due + Duration::from_secs(1));
        latencies.on_acknowledged(4095, due + Duration::from_secs(1));
        assert_eq!(latencies.micros().len(), 0, "its last byte is missing");
        latencies.on_acknowledged(8192, due + Duration::from_secs(3));
        let micros = latencies.micros();
        assert_eq!(micros.len(), 2);
        assert!((quantile_ms(&micros, 1.0) - 3000.0).abs() < 5.0);
        assert!((quantile_ms(&micros, 0.1) - 2000.0).abs() < 5.0);
    }

    #[test]
    fn acks_outside_the_window_do_not_count() {
        let latencies = Latencies::new();
        let now = Instant::now();
        latencies.set_window(now + Duration::from_secs(1), now + Duration::from_secs(2));
        latencies.on_write(4096, now);
        latencies.on_acknowledged(4096, now);
        assert_eq!(latencies.micros().len(), 0);
    }

    #[test]
    fn the_median_of_two_lies_between_them() {
        assert_eq!(median([3.0, 1.0]), 2.0);
        assert_eq!(median([9.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([]), 0.0);
    }
}
