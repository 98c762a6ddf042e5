//! `retain`, and keeping to what it said.

use std::collections::BTreeSet;

use formats::LogId;
use wire::{Refusal, Retention};

use super::deleting::unknown_log;
use super::{Answer, Commands};
use crate::directory::Command;
use crate::node::Node;

pub(crate) struct Retain {
    pub log: String,
    pub retention: Retention,
    pub proposed: bool,
}

impl Node {
    /// Answered once the directory has chosen it, and the log too.
    pub(super) fn answer_retain(&mut self, retain: &mut Retain, commands: &mut Commands) -> Answer {
        let Retain { log, retention, .. } = retain;
        let Some(id) = self.directory.log_by_name(log) else {
            return Answer::Line(unknown_log(log).encode());
        };
        let is_wanted = self.directory.logs[&id].retention == *retention;
        if is_wanted {
            return match self.has_heard(id) {
                true => {
                    let line = format!("ok {{\"name\":\"{log}\",\"retention\":\"{retention}\"}}\n");
                    Answer::Line(line.into_bytes())
                }
                false => Answer::Until(self.agreed_only(&BTreeSet::from([id]))),
            };
        }
        if retain.proposed && self.has_applied_its_own() {
            return Answer::Line(overtaken(log).encode());
        }
        if !retain.proposed && self.can_direct() {
            retain.proposed = true;
            commands.push(Command::SetRetention {
                log: retain.log.clone(),
                retention: retain.retention,
            });
        }
        Answer::Wait
    }

    /// Each log's leader forgets what its retention says.
    pub(crate) fn keep_to_retention(&mut self, logs: &[LogId]) {
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

fn overtaken(log: &str) -> Refusal {
    let sentence = format!(
        "somebody else changed what {log} keeps at the same time: look with `logberg log show {log}`, and ask again"
    );
    Refusal::new("refused", sentence)
}
