//! `retain`.

use std::collections::BTreeSet;

use formats::version::WISHES;
use wire::told::Retained;
use wire::{BadRetention, Refusal, Retention};

use super::awaiting::{Answer, Commands, Want};
use super::create_log::{check_copies, copies_too_old};
use super::log_name;
use super::of_one_log::unknown_log;
use crate::directory::{Command, DIRECTORY_NAME};
use crate::greeting::Caller;
use crate::node::Node;

pub(super) struct Retain {
    pub log: String,
    /// As it is, if there is none.
    pub retention: Option<Retention>,
    /// As it is, if there is none.
    pub min_copies: Option<u32>,
    pub proposed: bool,
}

impl Want for Retain {
    fn answer(&mut self, node: &mut Node, commands: &mut Commands) -> Answer {
        node.answer_retain(self, commands)
    }
}

impl Node {
    /// `retain NAME [retention=…] [min_copies=N]`
    pub(super) fn retain(&mut self, caller: &Caller) -> Result<(), Refusal> {
        let Caller { request, .. } = caller;
        request.check()?;
        let retention = request.get("retention").map(parse_retention).transpose()?;
        let min_copies = request.parsed("min_copies")?;
        if retention.is_none() && min_copies.is_none() {
            request.require("retention")?;
        }
        if log_name(request)? == DIRECTORY_NAME {
            return Err(Refusal::new(
                "bad-request",
                "log 0 is the cluster's directory and keeps everything",
            ));
        }
        let retain = Retain {
            log: log_name(request)?.to_owned(),
            retention,
            min_copies,
            proposed: false,
        };
        self.await_directory(caller, retain)
    }

    /// Answers once the directory has chosen the retention, and the log too.
    fn answer_retain(&mut self, retain: &mut Retain, commands: &mut Commands) -> Answer {
        let Retain {
            log,
            retention,
            min_copies,
            ..
        } = retain;
        let Some(id) = self.cluster.directory.log_by_name(log) else {
            return Answer::Line(unknown_log(log).encode());
        };
        let entry = &self.cluster.directory.logs[&id];
        let kind = entry.kind;
        if !kind.is_bytes() {
            let sentence = format!("{log} is of kind {kind}: its machine trims it, by itself");
            return Answer::Line(Refusal::new("bad-request", sentence).encode());
        }
        let retention = retention.unwrap_or(entry.retention);
        let copies = min_copies.unwrap_or(entry.min_copies);
        let is_kept = entry.retention == retention;
        let is_copied = entry.min_copies == copies;
        if is_kept && is_copied {
            return match self.cluster.has_heard(&self.logs, id) {
                true => {
                    let told = Retained {
                        name: log.clone(),
                        retention: retention.to_string(),
                        min_copies: copies,
                    };
                    Answer::Line(wire::ok(&told).into_bytes())
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
            if !is_copied && self.cluster.directory.versions.agreed < WISHES {
                return Answer::Line(copies_too_old().encode());
            }
            let full = self.cluster.directory.full_voters(id);
            if let (false, Err(why)) = (is_copied, check_copies(copies, full)) {
                return Answer::Line(why.encode());
            }
            retain.proposed = true;
            if !is_kept {
                commands.push(Command::SetRetention {
                    log: retain.log.clone(),
                    retention,
                });
            }
            if !is_copied {
                commands.push(Command::SetMinCopies {
                    log: retain.log.clone(),
                    min_copies: copies,
                });
            }
        }
        Answer::Wait
    }
}

fn overtaken(log: &str) -> Refusal {
    let sentence = format!(
        "the settings of {log} are not what was asked, since another change came in between: look with `logberg log show {log}`, and ask again"
    );
    Refusal::new("refused", sentence)
}

pub(super) fn parse_retention(text: &str) -> Result<Retention, Refusal> {
    text.parse()
        .map_err(|e: BadRetention| Refusal::new("bad-request", e.to_string()))
}
