//! How much of everything the door holds.

use std::time::Duration;

use crate::cursor;

#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Requests that are being answered, live reads among them.
    pub requests_max: usize,
    /// Live reads among them.
    pub live_max: usize,
    /// Reads of logs, each on a thread; those that wait for more among them.
    pub log_reads_max: usize,
    /// Appends to logs, each on two threads.
    pub log_writes_max: usize,
    pub connections_max: usize,
    /// Connections of one address of another machine.
    pub connections_of_one_max: usize,
    /// A read that finds nothing waits so long.
    pub long_poll: Duration,
    /// The head of a request is whole after so long; a quiet connection ends as well.
    pub head_within: Duration,
    /// Whoever takes nothing of an answer for so long is disconnected.
    pub stuck_after: Duration,
    /// Requests that are under way when the node stops are given so long.
    pub farewell: Duration,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            requests_max: 30_000,
            live_max: 20_000,
            log_reads_max: 64,
            log_writes_max: 32,
            connections_max: 24_000,
            connections_of_one_max: 1_024,
            long_poll: Duration::from_secs(20),
            head_within: Duration::from_secs(30),
            stuck_after: Duration::from_secs(30),
            farewell: Duration::from_secs(1),
        }
    }
}

impl Bounds {
    /// Takes no more connections than leave half of the process's files, and 1,024 besides, to the node and its other doors.
    pub fn within_files(mut self, files_max: u64) -> Bounds {
        let half = usize::try_from(files_max / 2).unwrap_or(usize::MAX);
        self.connections_max = self.connections_max.min(half.saturating_sub(1_024).max(64));
        self
    }

    /// A connection of events ends after 45 to 75 seconds: not all of a crowd at once.
    pub fn events_for(&self) -> Duration {
        Duration::from_millis(45_000 + cursor::chance() % 30_000)
    }
}

#[cfg(test)]
mod tests {
    use super::Bounds;

    #[test]
    fn connections_leave_files_to_the_node() {
        let within = |files| Bounds::default().within_files(files).connections_max;
        assert_eq!(within(u64::MAX), 24_000);
        assert_eq!(within(20_000), 8_976);
        assert_eq!(within(1_024), 64);
    }
}
