//! Writes for which a full disk has no room: they wait, and are tried again.
//!
//! ```text
//!  write ─ no room ─ wait ─ the same write again ─ … ─ durable        the file's later writes wait behind it
//! ```
//!
//! To its machine that is a disk which hangs, and then goes on: whoever leads with it hands over, and the others go on without it. A failed write would
//! end the replica until its node is started again, though nothing is wrong with disk or file.
//!
//! ‡ That is for durable writes past the page cache alone (O_DIRECT with RWF_DSYNC). The system looks for room before it takes anything, and says
//! ENOSPC or EDQUOT; no page was dirty, nothing was acknowledged, and the same bytes go to the same place. A failed sync is never tried again: the
//! system may have dropped the pages and call the next one a success. Through the page cache, or where a write is synced by a call of its own, a full
//! disk fails the file as ever.

use std::io;
use std::time::{Duration, Instant};

use rustix::io::Errno;

/// Whether there was no room for it.
pub(crate) fn is_lacking(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::NOSPC | Errno::DQUOT))
}

/// People are told that often that writes wait.
const TOLD_EVERY: Duration = Duration::from_secs(60);

/// Tells people that writes wait for room.
#[derive(Debug, Default)]
pub(crate) struct Told(Option<Instant>);

impl Told {
    pub fn waits(&mut self, error: &io::Error) {
        let now = Instant::now();
        if self.0.is_none_or(|at| now >= at + TOLD_EVERY) {
            self.0 = Some(now);
            tracing::warn!(%error, "the disk is full: what is to be written waits, and is tried again by itself; free space there");
        }
    }
}
