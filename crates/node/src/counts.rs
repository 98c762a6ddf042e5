//! Counts of rare events of a node around its logs, since it started. Every count only grows. Nothing here
//! decides anything.

use std::time::Duration;

use formats::FrameError;
use serde::Serialize;

/// The counts of the node around its logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodeCounts {
    /// Times at which appends began to be refused for want of space, here or at a peer.
    pub disk_full: u64,
    /// Times at which the process did not run for longer than peers wait.
    pub gaps: u64,
    /// The last gap, in microseconds.
    pub gap_us: u64,
    /// Peers that claimed an identity which was not theirs.
    pub peers_refused: u64,
    /// Times at which the disk went on in a newer version.
    pub disk_versions: u64,
    /// Requests that were refused for want of a token that is good.
    pub unauthenticated: u64,
    /// Requests that were refused since no grant allows them.
    pub forbidden: u64,
    /// Frames in a version that this program does not speak.
    pub frames_unspoken: u64,
}

impl NodeCounts {
    /// The reason why a connection is closed over its frame.
    pub(crate) fn refuse_frame(&mut self, why: &FrameError) -> String {
        self.frames_unspoken += u64::from(why.is_of_version());
        why.to_string()
    }
}

/// The microseconds, as figures and lines have them.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
