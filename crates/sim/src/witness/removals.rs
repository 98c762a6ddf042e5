//! A log that a node gave up is gone for good: it is never served there again.

use std::path::Path;

use formats::LogId;
use formats::segment::log_of;

use super::Witness;
use super::replica::Whose;
use crate::host::HostId;

impl Witness {
    /// A node removes a log's directory.
    pub(super) fn on_removal(&mut self, host: HostId, path: &Path) {
        let name = path.file_name().and_then(|name| name.to_str());
        let log = name.and_then(log_of).expect("only logs are removed");
        let Some(seen) = self.hosts.get(&host) else {
            return;
        };
        let whose = Whose {
            node: seen.node,
            log,
        };
        let history = self.logs.get(&log);
        let is_written = history.is_some_and(|history| !history.reach.is_empty());
        assert!(
            log != LogId(0) && (!is_written || self.said.is_deleted(log)),
            "I5: {whose} is removed, and clients use the log, which nobody deleted"
        );
        self.removed.insert((log, whose.node));
    }

    pub(super) fn check_not_removed(&self, whose: Whose) {
        assert!(
            !self.removed.contains(&(whose.log, whose.node)),
            "I4: {whose} is back after it was removed, with none of its promises"
        );
    }
}
