//! `retain`.

use std::collections::BTreeSet;

use wire::{BadRetention, Refusal, Retention};

use super::awaiting::{Answer, Commands, Want};
use super::log_name;
use super::of_one_log::unknown_log;
use crate::directory::{Command, DIRECTORY_NAME};
use crate::greeting::Caller;
use crate::node::Node;

pub(super) struct Retain {
    pub log: String,
    pub retention: Retention,
    pub proposed: bool,
}

impl Want for Retain {
    fn answer(&mut self, node: &mut Node, commands: &mut Commands) -> Answer {
        node.answer_retain(self, commands)
    }
}

impl Node {
    /// `retain NAME retention=…`
    pub(super) fn retain(&mut self, caller: &Caller) -> Result<(), Refusal> {
        let Caller { conn, request, .. } = caller;
        request.check()?;
        let retention = parse_retention(request.require("retention")?)?;
        if log_name(request)? == DIRECTORY_NAME {
            return Err(Refusal::new(
                "bad-request",
                "log 0 is the cluster's directory and keeps everything",
            ));
        }
        let retain = Retain {
            log: log_name(request)?.to_owned(),
            retention,
            proposed: false,
        };
        self.await_directory(*conn, retain)
    }

    /// Answers once the directory has chosen the retention, and the log too.
    fn answer_retain(&mut self, retain: &mut Retain, commands: &mut Commands) -> Answer {
        let Retain { log, retention, .. } = retain;
        let Some(id) = self.cluster.directory.log_by_name(log) else {
            return Answer::Line(unknown_log(log).encode());
        };
        let kind = self.cluster.directory.logs[&id].kind;
        if !kind.is_bytes() {
            let sentence = format!("{log} is of kind {kind}: its machine trims it, by itself");
            return Answer::Line(Refusal::new("bad-request", sentence).encode());
        }
        let is_wanted = self.cluster.directory.logs[&id].retention == *retention;
        if is_wanted {
            return match self.cluster.has_heard(&self.logs, id) {
                true => {
                    let line = format!("ok {{\"name\":\"{log}\",\"retention\":\"{retention}\"}}\n");
                    Answer::Line(line.into_bytes())
                }
                false => Answer::Until(self.cluster.agreed_only(&BTreeSet::from([id]))),
            };
        }
        // A node that no longer leads the directory does not know what became of the command: the next leader does.
        let directs = self.logs.can_direct();
        if retain.proposed && directs && self.cluster.has_applied_its_own(&self.logs) {
            return Answer::Line(overtaken(log).encode());
        }
        if !retain.proposed && directs {
            retain.proposed = true;
            commands.push(Command::SetRetention {
                log: retain.log.clone(),
                retention: retain.retention,
            });
        }
        Answer::Wait
    }
}

fn overtaken(log: &str) -> Refusal {
    let sentence = format!(
        "{log} does not keep what was asked, since another change of that came in between: look with `logberg log show {log}`, and ask again"
    );
    Refusal::new("refused", sentence)
}

pub(super) fn parse_retention(text: &str) -> Result<Retention, Refusal> {
    text.parse()
        .map_err(|e: BadRetention| Refusal::new("bad-request", e.to_string()))
}
