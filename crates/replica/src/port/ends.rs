//! The state that a log keeps for its guest: where it reads, and what it writes.

use super::reading::Reading;
use super::writing::Writing;

#[derive(Default)]
pub(crate) struct Ends {
    /// `None` where there is no guest.
    pub(super) reading: Option<Reading>,
    pub(crate) writing: Writing,
}

impl Ends {
    /// Whether something is under way that nobody else would wake the log for.
    pub(crate) fn is_busy(&self) -> bool {
        self.reading.as_ref().is_some_and(Reading::is_retrying) || self.writing.is_busy()
    }

    /// Whether a guest takes the output.
    pub(crate) fn is_read(&self) -> bool {
        self.reading.is_some()
    }
}
