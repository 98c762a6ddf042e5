//! How much of everything a group holds.

use std::time::Duration;

/// The bounds of each group. All are of memory, and none of what a shelf keeps.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The commands of a round share frames of about so many bytes.
    pub frame_bytes: usize,
    /// Frames that are not chosen. With more no command is executed.
    pub unchosen_bytes_max: u64,
    /// Rows that the shelf does not have, or that a read may need. With more, beside those that are kept, no command is executed.
    pub overlay_bytes_max: usize,
    /// Rows that are kept although the shelf has them: they were read or written lately. The groups that a node leads share it.
    pub kept_bytes_max: usize,
    /// Commands that wait, in bytes, and how many: more are turned away. ‡ Those that are put aside, and the most that a door has under way, are fewer.
    pub waiting_bytes_max: usize,
    pub waiting_max: usize,
    /// The answers that the groups of a node have made and not given, and those that clients have not read: one has room within these bytes before its
    /// command is done. First those that are not large, then the large ones.
    pub answers_bytes_max: [usize; 2],
    /// The commands of all groups of a node that are put aside until others have read their answers, in bytes. Those beyond it wait as well, but whoever asked
    /// counts them.
    pub aside_bytes_max: usize,
    /// An answer of fewer bytes waits for no room: it is less than a connection's own buffers take.
    pub counted_answer_bytes: usize,
    /// An answer of so many bytes is a large one. Others do not wait for those.
    pub large_answer_bytes: usize,
    /// Bytes that are applied, in the log or in memory, before they are flushed. With twice as much nothing more is applied.
    pub flush_bytes: u64,
    /// The bytes of all groups of a node that are not flushed: each flushes at its share of half of it, or at the bytes above if these are fewer.
    pub unflushed_bytes_max: u64,
    /// A state is flushed so long after something was applied, also where it is few bytes.
    pub flush_after: Duration,
    /// The rows that are read at a time, when another node copies the state or states are compared; one row may be longer.
    pub piece_bytes: usize,
    /// The pace at which a state is copied while its log goes on; else as fast as nodes can.
    pub copy_bytes_per_second: u64,
    /// How often states are compared, by their log's time; zero: never. Replicas with different values are not compared.
    pub compare_every: Duration,
    /// The pace at which each node reads its state for that.
    pub compare_bytes_per_second: u64,
}

/// An answer of so many bytes is a large one.
pub const LARGE_ANSWER_BYTES: usize = 1 << 20;

/// The least that is worth a file.
const FLUSH_BYTES_MIN: u64 = 4 << 20;

impl Bounds {
    /// The bytes that one of so many groups flushes at a time.
    pub fn flush_share(&self, groups: usize) -> u64 {
        let share = self.unflushed_bytes_max / 2 / (groups.max(1) as u64);
        share.max(FLUSH_BYTES_MIN).min(self.flush_bytes)
    }
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            frame_bytes: 64 << 10,
            unchosen_bytes_max: 16 << 20,
            overlay_bytes_max: 32 << 20,
            kept_bytes_max: 48 << 20,
            waiting_bytes_max: 128 << 20,
            waiting_max: 65_536,
            // Three of the longest values.
            answers_bytes_max: [40 << 20, 193 << 20],
            aside_bytes_max: 32 << 20,
            counted_answer_bytes: 64 << 10,
            large_answer_bytes: LARGE_ANSWER_BYTES,
            flush_bytes: 64 << 20,
            unflushed_bytes_max: 384 << 20,
            flush_after: Duration::from_secs(30),
            piece_bytes: 1 << 20,
            copy_bytes_per_second: 32_000_000,
            compare_every: Duration::from_secs(24 * 60 * 60),
            compare_bytes_per_second: 16_000_000,
        }
    }
}
