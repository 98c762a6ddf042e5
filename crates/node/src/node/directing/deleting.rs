//! `delete-log`.
//!
//! ```text
//!   SealLog ─▶ requests by the name find no log ─▶ the log chooses that it is sealed ─▶ DeleteLog
//!   log 0                                          (wishing: its leader says so)         the name is free
//! ```
//!
//! ‡ A name ends in its log first. Else the old log's leader, which has not heard, goes on acknowledging
//! what nobody will ever find, under a name that is another log's by then.

use std::collections::BTreeSet;

use formats::LogId;
use formats::version::WISHES;
use wire::Refusal;

use super::{Answer, Commands};
use crate::directory::Command;
use crate::node::Node;

pub(crate) struct DeleteLog {
    pub name: String,
    /// Not waiting for the log to end: it may not be able to.
    pub abandon: bool,
    /// What had that name when it was asked.
    pub id: Option<LogId>,
    pub proposed: bool,
}

impl Node {
    /// Answered once it is agreed, and the log has ended. The nodes free their files by themselves.
    pub(super) fn answer_delete_log(
        &mut self,
        delete: &mut DeleteLog,
        commands: &mut Commands,
    ) -> Answer {
        let DeleteLog { name, abandon, .. } = delete;
        let named = || {
            let current = self.directory.log_by_name(name);
            current.or_else(|| self.directory.sealing_by_name(name))
        };
        let Some(id) = delete.id.or_else(named) else {
            return Answer::Line(unknown_log(name).encode());
        };
        delete.id = Some(id);
        if self.directory.is_deleted(id) {
            let line = format!("ok {{\"id\":{},\"name\":\"{name}\"}}\n", id.0);
            return Answer::Line(line.into_bytes());
        }
        let sealing = self.directory.logs.get(&id).is_some_and(|e| e.sealing);
        if !delete.proposed && self.can_direct() {
            let seals = self.env.version >= WISHES && !*abandon;
            delete.proposed = true;
            match seals {
                true if sealing => {}
                true => commands.push(Command::SealLog { id: id.0 }),
                false => commands.push(Command::DeleteLog { id: id.0 }),
            }
        }
        match sealing {
            true => Answer::Until(self.agreed_only(&BTreeSet::from([id]))),
            false => Answer::Wait,
        }
    }

    /// The directory's leader: names of logs that have ended are free.
    pub(super) fn free_names(&mut self) {
        let sealing = self.directory.logs.iter().filter(|(_, e)| e.sealing);
        let ended = sealing.filter(|(id, _)| self.has_ended(**id));
        let commands: Vec<Command> = ended
            .map(|(id, _)| Command::DeleteLog { id: id.0 })
            .collect();
        self.propose_commands(&commands);
    }
}

pub(crate) fn unknown_log(name: &str) -> Refusal {
    Refusal::new(
        "unknown-log",
        format!("there is no log named {name}; `logberg log list` lists them"),
    )
}
