//! `delete-log`.
//!
//! ```text
//!   SealLog ─▶ requests by the name find no log ─▶ the log chooses that it is sealed ─▶ DeleteLog
//!   log 0                                          (wishing: its leader says so)         the name is free
//! ```
//!
//! ‡ A name ends in its log first. Else the old log's leader, which has not heard, goes on acknowledging
//! bytes that nobody will ever find, under a name that is another log's by then; and a node that lags
//! answers, from the old log, a client that was told that it is deleted. So a log that is abandoned gets a
//! moment to end too. Only a log that cannot end, as too few of its nodes are there, goes on until it hears.

use std::collections::BTreeSet;
use std::time::Duration;

use formats::LogId;
use formats::version::WISHES;
use paxos::Time;
use paxos::mutation::{self, Mutation};
use wire::Refusal;

use super::awaiting::{Answer, Commands, Want};
use super::log_name;
use super::of_one_log::unknown_log;
use crate::directory::{Command, DIRECTORY_NAME};
use crate::greeting::Caller;
use crate::node::Node;

pub(super) struct DeleteLog {
    pub name: String,
    /// The client does not wait for long until the log ends: it may not be able to.
    pub abandon: bool,
    /// The log that had that name when it was asked.
    pub id: Option<LogId>,
    pub proposed: bool,
    /// The time when the node that can free an abandoned log's name first looked at this.
    pub since: Option<Time>,
    /// The log has not ended, and its name is to be free.
    pub freed: bool,
}

/// The time that an abandoned log may take to end; one that has a quorum takes a hundredth of it.
const ABANDONED_ENDS: Duration = Duration::from_secs(1);

impl Want for DeleteLog {
    fn answer(&mut self, node: &mut Node, commands: &mut Commands) -> Answer {
        node.answer_delete_log(self, commands)
    }

    fn on_deposed(&self, _: &Node, refusal: Refusal) -> Refusal {
        match self.proposed {
            true => refusal.key("log", &self.name),
            false => refusal,
        }
    }
}

impl Node {
    /// `delete-log NAME [abandon=1]`
    pub(super) fn delete_named_log(&mut self, caller: &Caller) -> Result<(), Refusal> {
        let Caller { request, .. } = caller;
        request.check()?;
        let name = log_name(request)?.to_owned();
        if name == DIRECTORY_NAME {
            return Err(Refusal::new(
                "bad-request",
                "log 0 is the cluster's directory and cannot be deleted",
            ));
        }
        let delete = DeleteLog {
            name,
            abandon: request.flag("abandon")?,
            id: None,
            proposed: false,
            since: None,
            freed: false,
        };
        self.await_directory(caller, delete)
    }

    /// Answers once the deletion is agreed, and the log has ended. The nodes free their files by themselves.
    fn answer_delete_log(&mut self, delete: &mut DeleteLog, commands: &mut Commands) -> Answer {
        let DeleteLog { name, .. } = delete;
        let named = || {
            let current = self.cluster.directory.log_by_name(name);
            current.or_else(|| self.cluster.directory.sealing_by_name(name))
        };
        let Some(id) = delete.id.or_else(named) else {
            return Answer::Line(unknown_log(name).encode());
        };
        delete.id = Some(id);
        if self.cluster.directory.is_deleted(id) {
            let line = format!("ok {{\"id\":{},\"name\":\"{name}\"}}\n", id.0);
            return Answer::Line(line.into_bytes());
        }
        let sealing = self
            .cluster
            .directory
            .logs
            .get(&id)
            .is_some_and(|e| e.sealing);
        let may_go = self.cluster.directory.slots.may_go(id.0);
        if let Err(why) = may_go
            && !sealing
        {
            let sentence = format!("{name} cannot be deleted: {why}");
            return Answer::Line(Refusal::new("refused", sentence).encode());
        }
        if !self.logs.can_direct() {
            // The next leader of log 0 is asked again.
        } else if !delete.proposed {
            delete.proposed = true;
            match self.env.version.logs >= WISHES {
                true if sealing => {}
                true => {
                    let logs = self.cluster.directory.logs.keys();
                    let other = logs.copied().find(|other| *other != id);
                    let other = other.filter(|_| mutation::is(Mutation::EndsAnotherName));
                    commands.push(Command::SealLog {
                        id: other.unwrap_or(id).0,
                    });
                }
                false => commands.push(Command::DeleteLog { id: id.0 }),
            }
        } else if delete.abandon && sealing && !delete.freed {
            let now = self.env.now;
            delete.freed = now >= *delete.since.get_or_insert(now) + ABANDONED_ENDS;
            if delete.freed {
                commands.push(Command::DeleteLog { id: id.0 });
            }
        }
        match sealing {
            true => Answer::Until(self.cluster.agreed_only(&BTreeSet::from([id]))),
            false => Answer::Wait,
        }
    }
}
