//! `delete-log`.

use paxos::ReadId;

use crate::LogId;
use crate::directory::Command;
use crate::line::Refusal;
use crate::node::Node;

pub(crate) struct DeleteLog {
    pub name: String,
    /// Passed, this node knows the directory as it was when it was asked.
    pub barrier: ReadId,
    /// What had that name then.
    pub id: Option<LogId>,
    pub proposed: bool,
}

impl Node {
    /// Answered once it is agreed. The nodes free their files by themselves.
    pub(super) fn answer_delete_log(
        &mut self,
        delete: &mut DeleteLog,
        commands: &mut Vec<Command>,
    ) -> Option<Vec<u8>> {
        if let Some(id) = delete.id.filter(|id| self.directory.is_deleted(*id)) {
            let name = &delete.name;
            return Some(format!("ok {{\"id\":{},\"name\":\"{name}\"}}\n", id.0).into_bytes());
        }
        if delete.proposed || !self.directory_is_current(delete.barrier) {
            return None;
        }
        delete.id = self.directory.log_by_name(&delete.name);
        let Some(id) = delete.id else {
            return Some(unknown_log(&delete.name).encode());
        };
        if self.can_direct() {
            delete.proposed = true;
            commands.push(Command::DeleteLog { id: id.0 });
        }
        None
    }
}

pub(crate) fn unknown_log(name: &str) -> Refusal {
    Refusal::new(
        "unknown-log",
        format!("there is no log named {name}; `logberg log list` lists them"),
    )
}
