//! Where this node leads: what its logs' retention says is forgotten.

use formats::LogId;

use super::Node;

impl Node {
    /// Each log's leader forgets what its retention says.
    pub(super) fn keep_to_retention(&mut self, logs: &[LogId]) {
        for id in logs {
            let Some(basis) = self.basis_of(*id) else {
                continue;
            };
            let retention = self.wanted_retention(*id, &basis);
            let log = self.logs.get_mut(id).filter(|_| !retention.is_forever());
            if let Some(log) = log
                && log.keep_to(&mut self.env, retention, basis.by())
            {
                self.due.touch(*id);
            }
        }
    }
}
