//! `retain`, and keeping to what it said.

use crate::directory::Command;
use crate::node::Node;
use crate::retention::Retention;

pub(crate) struct Retain {
    pub log: String,
    pub retention: Retention,
    pub proposed: bool,
}

impl Node {
    pub(super) fn answer_retain(
        &mut self,
        retain: &mut Retain,
        commands: &mut Vec<Command>,
    ) -> Option<Vec<u8>> {
        let Retain { log, retention, .. } = retain;
        let entry = self.directory.log_by_name(log)?;
        let entry = self.directory.logs.get(&entry)?;
        if entry.retention == *retention {
            let line = format!("ok {{\"name\":\"{log}\",\"retention\":\"{retention}\"}}\n");
            return Some(line.into_bytes());
        }
        if !retain.proposed && self.can_direct() {
            retain.proposed = true;
            commands.push(Command::SetRetention {
                log: retain.log.clone(),
                retention: retain.retention,
            });
        }
        None
    }

    /// Each log's leader forgets what its retention says.
    pub(crate) fn keep_to_retention(&mut self) {
        let kept = self.directory.logs.iter();
        for (id, entry) in kept.filter(|(_, entry)| !entry.retention.is_forever()) {
            if let Some(log) = self.logs.get_mut(id)
                && log.keep_to(&mut self.env, entry.retention)
            {
                self.dirty.insert(*id);
            }
        }
    }
}
