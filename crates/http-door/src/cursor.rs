//! Cursors: numbers that grow, so that caches between us and live readers do not give the same answer for ever.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The protocol counts from the 9th of October 2024, in intervals of 20 seconds.
const BEGIN: Duration = Duration::from_secs(1_728_432_000);
const INTERVAL: Duration = Duration::from_secs(20);
/// A cursor that a client has seen is passed by 1 to so many intervals.
const JITTER_MAX: u64 = 180;

/// The cursor of an answer to whoever sent this one.
pub fn next(seen: Option<u64>) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    after(now.unwrap_or_default(), seen)
}

/// A number that spreads what would happen at once. Nothing else follows from it.
pub fn chance() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanos = u64::from(now.unwrap_or_default().subsec_nanos());
    nanos.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}

fn after(now: Duration, seen: Option<u64>) -> u64 {
    let interval = now.saturating_sub(BEGIN).as_secs() / INTERVAL.as_secs();
    match seen {
        Some(seen) if seen >= interval => {
            // Chance enough: it is for spreading alone.
            let jitter = 1 + u64::from(now.subsec_nanos()) % JITTER_MAX;
            seen.saturating_add(jitter)
        }
        _ => interval,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_grows() {
        let now = BEGIN + Duration::from_secs(20_001);
        assert_eq!(after(now, None), 1_000);
        assert_eq!(after(now, Some(999)), 1_000);
        for seen in [1_000, 1_001, 5_000] {
            let next = after(now, Some(seen));
            assert!((seen + 1..=seen + JITTER_MAX).contains(&next));
        }
        assert_eq!(after(Duration::ZERO, None), 0);
    }
}
