//! Memory for bytes on their way, divided among the logs that hold much of it.

use crate::limits::Limits;

/// The bytes that one log may hold now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The bytes of a leader's proposals: the unchosen, and the chosen for slower followers.
    pub ring_bytes: u64,
    /// The part of that for chosen bytes that every follower was sent: for readers at the tail.
    pub tail_bytes: u64,
    /// The bytes that wait for our own disk.
    pub queue_bytes: u64,
}

/// The least share, as a part of a log's bounds: some batches.
const PARTS: u64 = 16;

impl Share {
    /// The share of one among so many logs.
    pub fn of(limits: &Limits, logs: u64) -> Share {
        let part = |bound: u64, of_all: u64| (of_all / logs.max(1)).clamp(bound / PARTS, bound);
        let ring_bytes = part(limits.ring_bytes_max, limits.all_rings_bytes_max);
        let queues_max = limits.all_rings_bytes_max / limits.ring_bytes_max.max(1);
        Share {
            ring_bytes,
            tail_bytes: ring_bytes / 3,
            queue_bytes: part(
                limits.store_queue_bytes_max,
                limits.store_queue_bytes_max * queues_max,
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_logs_have_all_they_want_and_many_have_the_node_s_bound_together() {
        let limits = Limits::default();
        let alone = Share::of(&limits, 1);
        assert_eq!(alone.ring_bytes, limits.ring_bytes_max);
        assert_eq!(alone.queue_bytes, limits.store_queue_bytes_max);
        assert_eq!(Share::of(&limits, 0), alone);
        assert_eq!(Share::of(&limits, 20), alone);
        let crowded = Share::of(&limits, 256);
        assert_eq!(crowded.ring_bytes * 256, limits.all_rings_bytes_max);
        assert!(crowded.queue_bytes * 256 <= limits.all_rings_bytes_max);
    }

    #[test]
    fn the_least_share_holds_more_than_a_batch() {
        let least = Share::of(&Limits::default(), u64::MAX);
        assert!(least.ring_bytes > formats::BATCH_BUFFER as u64);
        assert!(least.queue_bytes > formats::BATCH_BUFFER as u64);
        assert!(least.tail_bytes > formats::BATCH_BUFFER as u64);
    }
}
