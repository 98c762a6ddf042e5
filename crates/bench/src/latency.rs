//! From the time of a write to the ack of its last byte.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

/// Writes whose latency is wanted are at least so far apart, so that a flood of tiny ones measures
/// the cluster and not this queue.
pub const MARK_BYTES: u64 = 1024;

/// The latencies, shared by the writer and the hearer of acks.
pub struct Latencies(Mutex<State>);

struct State {
    /// The position after a write, and when it was due.
    marks: VecDeque<(u64, Instant)>,
    window: Option<Window>,
    micros: Histogram<u64>,
    /// The latencies of all acks since somebody last took them.
    recent: Histogram<u64>,
    /// The write whose ack ends the round trip that is under way.
    round_trip: Option<(u64, Instant)>,
    /// Round trips that follow each other, one at a time.
    round_trips: Histogram<u64>,
}

#[derive(Clone, Copy)]
struct Window {
    from: Instant,
    to: Instant,
    counts: Counts,
}

/// The rule by which a latency belongs to a window.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counts {
    /// Acks that arrive in the window: for windows that follow each other without a gap.
    Acks,
    /// Writes that are due in the window, however late they are acknowledged: for a window after which nobody
    /// looks, so that a stall at its end is not lost.
    Due,
}

impl State {
    fn is_counted(&self, since: Instant, at: Instant) -> bool {
        self.window.is_some_and(|window| {
            let moment = match window.counts {
                Counts::Acks => at,
                Counts::Due => since,
            };
            window.from <= moment && moment < window.to
        })
    }
}

impl Latencies {
    pub(crate) fn new() -> Latencies {
        Latencies(Mutex::new(State {
            marks: VecDeque::new(),
            window: None,
            micros: histogram(),
            recent: histogram(),
            round_trip: None,
            round_trips: histogram(),
        }))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts anew, and only what is acknowledged in this window.
    pub fn set_window(&self, from: Instant, to: Instant) {
        self.count_in(Window {
            from,
            to,
            counts: Counts::Acks,
        });
    }

    /// Counts anew, and only what is due in this window. To be read once everything is acknowledged.
    pub fn set_due_window(&self, from: Instant, to: Instant) {
        self.count_in(Window {
            from,
            to,
            counts: Counts::Due,
        });
    }

    fn count_in(&self, window: Window) {
        let mut state = self.lock();
        state.window = Some(window);
        state.micros.reset();
        state.round_trips.reset();
    }

    /// A write that ends at `position` was due at `since`. Called before it is made, for writes that
    /// are [`MARK_BYTES`] or more apart.
    pub fn on_write(&self, position: u64, since: Instant) {
        let mut state = self.lock();
        state.marks.push_back((position, since));
        state.round_trip.get_or_insert((position, since));
    }

    pub fn on_acknowledged(&self, position: u64, at: Instant) {
        let mut state = self.lock();
        let state = &mut *state;
        let over = state.round_trip.take_if(|(end, _)| *end <= position);
        if let Some((_, since)) = over
            && state.is_counted(since, at)
        {
            let micros = micros_between(since, at);
            state.round_trips.saturating_record(micros);
        }
        while let Some((end, since)) = state.marks.front().copied() {
            if end > position {
                break;
            }
            state.marks.pop_front();
            let micros = micros_between(since, at);
            state.recent.saturating_record(micros);
            if state.is_counted(since, at) {
                state.micros.saturating_record(micros);
            }
        }
    }

    /// The end of a window that counts what is due in it.
    pub fn due_until(&self) -> Option<Instant> {
        let window = self.lock().window?;
        (window.counts == Counts::Due).then_some(window.to)
    }

    /// A write was due in the window and was not even made when it ended: it has waited until then
    /// at least.
    pub fn on_never_written(&self, since: Instant) {
        let mut state = self.lock();
        if let Some(window) = state.window
            && window.from <= since
            && since < window.to
        {
            let micros = micros_between(since, window.to);
            state.micros.saturating_record(micros);
        }
    }

    pub fn micros(&self) -> Histogram<u64> {
        self.lock().micros.clone()
    }

    /// The latencies of round trips one after the other: the next begins with the first write after an ack of the last. So slow ones
    /// are seldom, as in measurements of one request at a time.
    pub fn round_trips(&self) -> Histogram<u64> {
        self.lock().round_trips.clone()
    }

    /// Adds what was acknowledged since the last call.
    pub fn take_recent(&self, into: &mut Histogram<u64>) {
        let mut state = self.lock();
        // The same bounds everywhere, so it cannot fail.
        let _ = into.add(&state.recent);
        state.recent.reset();
    }
}

/// An empty histogram of microseconds, from 1 µs to 1000 s in three digits.
pub fn histogram() -> Histogram<u64> {
    let bounds = Histogram::new_with_bounds(1, 1_000_000_000, 3);
    bounds.expect("1 µs to 1000 s in three digits is a histogram")
}

fn micros_between(since: Instant, at: Instant) -> u64 {
    (at.saturating_duration_since(since).as_micros() as u64).max(1)
}

/// A quantile of a histogram of microseconds, in milliseconds; 0 if the histogram is empty.
pub fn quantile_ms(micros: &Histogram<u64>, quantile: f64) -> f64 {
    micros.value_at_quantile(quantile) as f64 / 1000.0
}

/// The part of all latencies that exceeds so many milliseconds: points of a falling curve, ten for each
/// factor of ten, down to the slowest one.
pub fn slower_than(micros: &Histogram<u64>) -> Vec<(f64, f64)> {
    let least = 1.0 / micros.len().max(1) as f64;
    let parts = (0..).map(|step| 10f64.powf(-f64::from(step) / 10.0));
    let parts = parts.take_while(|part| *part >= least * 0.99);
    let point = |part: f64| (quantile_ms(micros, 1.0 - part), part);
    match micros.is_empty() {
        true => Vec::new(),
        false => parts.map(point).collect(),
    }
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
    fn a_round_trip_begins_when_the_one_before_is_over() {
        let latencies = Latencies::new();
        let now = Instant::now();
        let ms = |ms| now + Duration::from_millis(ms);
        latencies.set_due_window(now, now + Duration::from_secs(9));
        for (position, due) in [(1024, 0), (2048, 1), (3072, 2)] {
            latencies.on_write(position, ms(due));
        }
        latencies.on_acknowledged(2048, ms(100));
        latencies.on_write(4096, ms(101));
        latencies.on_acknowledged(3072, ms(102));
        assert_eq!(latencies.round_trips().len(), 1);
        latencies.on_acknowledged(4096, ms(111));
        let trips = latencies.round_trips();
        assert_eq!((trips.len(), latencies.micros().len()), (2, 4));
        assert!((quantile_ms(&trips, 0.5) - 10.0).abs() < 0.1);
        assert!((quantile_ms(&trips, 1.0) - 100.0).abs() < 0.2);
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
    fn what_was_due_in_the_window_counts_however_late_its_ack() {
        let latencies = Latencies::new();
        let now = Instant::now();
        let second = Duration::from_secs(1);
        latencies.set_due_window(now, now + second);
        latencies.on_write(1024, now);
        latencies.on_write(2048, now + 2 * second);
        latencies.on_acknowledged(2048, now + 5 * second);
        latencies.on_never_written(now + second / 2);
        latencies.on_never_written(now + 2 * second);
        let micros = latencies.micros();
        assert_eq!(micros.len(), 2, "two were due in it");
        assert!((quantile_ms(&micros, 1.0) - 5000.0).abs() < 10.0);
        assert!((quantile_ms(&micros, 0.1) - 500.0).abs() < 1.0);
    }

    #[test]
    fn the_curve_falls_from_all_to_the_slowest() {
        let mut micros = histogram();
        (1..=1000).for_each(|value| micros.saturating_record(value));
        let curve = slower_than(&micros);
        assert!((curve[0].1, curve[0].0) == (1.0, 0.001), "{curve:?}");
        let (slowest, part) = curve[curve.len() - 1];
        assert!(
            (slowest - 0.999).abs() < 0.002 && part < 0.0011,
            "{curve:?}"
        );
        assert!(curve.windows(2).all(|pair| pair[0].0 <= pair[1].0));
        assert!(slower_than(&histogram()).is_empty());
    }

    #[test]
    fn the_median_of_two_lies_between_them() {
        assert_eq!(median([3.0, 1.0]), 2.0);
        assert_eq!(median([9.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([]), 0.0);
    }
}
