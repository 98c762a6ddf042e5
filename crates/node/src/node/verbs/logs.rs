//! The logs, a list that may be long. A client that wants a part says after which log, and how many (docs/wire.md).

use std::collections::BTreeMap;

use formats::LogId;
use ops::ConnId;
use replica::limit;
use serde::Serialize;
use wire::{Refusal, Request, Retention};

use super::awaiting::{Answer, Commands, Want};
use crate::greeting::Caller;
use crate::node::Node;

/// The logs that a list is to name.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogList {
    after: Option<LogId>,
    limit: usize,
}

impl LogList {
    /// `[after=ID] [limit=N]`
    pub(super) fn asked(request: &Request) -> Result<LogList, Refusal> {
        Ok(LogList {
            after: request.parsed("after")?.map(LogId),
            limit: usize::try_from(limit(request)?).unwrap_or(usize::MAX),
        })
    }

    /// The part of a list in the order of ids.
    pub(super) fn of<T>(
        self,
        all: impl Iterator<Item = T>,
        id: impl Fn(&T) -> LogId,
    ) -> impl Iterator<Item = T> {
        let passed = move |one: &T| self.after.is_some_and(|after| id(one) <= after);
        all.skip_while(passed).take(self.limit)
    }
}

struct FreshLogs(LogList, ConnId);

impl Want for FreshLogs {
    fn answer(&mut self, node: &mut Node, _: &mut Commands) -> Answer {
        Answer::List(node.logs_line(self.0, self.1))
    }
}

impl Node {
    /// `logs [stale] [after=ID] [limit=N]`
    pub(super) fn list_logs(&mut self, caller: &Caller) -> Result<(), Refusal> {
        let Caller { conn, request, .. } = caller;
        request.check()?;
        let list = LogList::asked(request)?;
        if !request.flag("stale")? {
            return self.tell_fresh(caller, FreshLogs(list, *conn));
        }
        let line = self.logs_line(list, *conn);
        self.env.answer(*conn, line);
        Ok(())
    }

    /// Those that the asker may know of.
    fn logs_line(&self, list: LogList, asker: ConnId) -> String {
        let pass = self.pass_of(asker);
        #[derive(Serialize)]
        struct Entry<'a> {
            id: u32,
            name: &'a str,
            retention: String,
            #[serde(skip_serializing_if = "std::ops::Not::not")]
            deleting: bool,
        }
        // The logs hosted here are known even before the directory is read again.
        let hosted = self.logs.values().map(|l| (l.id(), l.name()));
        let hosted = hosted.filter(|(id, _)| !self.cluster.directory.is_deleted(*id));
        let listed = self.cluster.directory.logs.iter();
        let listed = listed.map(|(id, entry)| (*id, entry.name.as_str()));
        let all: BTreeMap<LogId, &str> = hosted.chain(listed).collect();
        let shown = all.iter().filter(|(_, name)| pass.shows_log(name));
        let entries = list.of(shown, |(id, _)| **id).map(|(id, name)| {
            let entry = self.cluster.directory.logs.get(id);
            let retention = entry.map_or(Retention::default(), |entry| entry.retention);
            Entry {
                id: id.0,
                name,
                retention: retention.to_string(),
                deleting: entry.is_some_and(|entry| entry.sealing),
            }
        });
        let logs: Vec<Entry> = entries.collect();
        wire::ok(&logs)
    }
}
