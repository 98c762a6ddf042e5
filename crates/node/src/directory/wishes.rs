//! The directory's wishes for each log, and their numbers.
//!
//! A log is born with its first wish, as it is with its first configuration: both are what log 0 said when it
//! was created, so every replica begins with the same, and the log need not choose it.
//!
//! A log's number rises with each command that changes its wish, so the longer of two prefixes of log 0 never
//! has the lower number, and equal numbers mean equal wishes. A rescue raises the first part: the survivor
//! may not have known the last wishes of the cluster that is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use formats::LogId;
use formats::version::WISHES;
use paxos::{NodeId, Wish, WishNumber};

use super::{Command, Directory, FirstWish};

/// The logs whose wishes a command may change.
#[derive(Clone, Copy)]
pub(super) enum Touched {
    Nobody,
    One(LogId),
    All,
}

impl Directory {
    /// The wish for this log; none while the cluster speaks no wishes.
    pub fn wish_of(&self, log: LogId) -> Option<Wish> {
        let count = self.logs.get(&log)?.wish;
        let number = WishNumber {
            rescues: self.rescues,
            count,
        };
        (count > 0).then(|| self.wish_numbered(log, number))
    }

    /// The number of [`Directory::wish_of`].
    pub fn wish_number(&self, log: LogId) -> Option<WishNumber> {
        let count = self.logs.get(&log)?.wish;
        let rescues = self.rescues;
        (count > 0).then_some(WishNumber { rescues, count })
    }

    fn wish_numbered(&self, log: LogId, number: WishNumber) -> Wish {
        let entry = self.logs.get(&log);
        let retention = entry.map(|entry| entry.retention).unwrap_or_default();
        let wanted = self.members.wanted.get(&log.0).into_iter();
        let weights = wanted.flat_map(|wanted| &wanted.weights);
        let mut auxiliaries: Vec<NodeId> = self
            .meant_auxiliaries(log)
            .into_iter()
            .map(NodeId)
            .collect();
        auxiliaries.sort_unstable();
        auxiliaries.dedup();
        Wish {
            number,
            max_bytes: retention.max_bytes,
            max_age_s: retention.max_age_s,
            weights: weights.map(|(node, w)| (NodeId(*node), *w)).collect(),
            auxiliaries,
            sealed: entry.is_some_and(|entry| entry.sealing),
            min_copies: entry.map_or(0, |entry| entry.min_copies),
        }
    }

    /// The wish that this log's replicas begin with. A log that has none chooses its first wish like every
    /// later one.
    pub fn first_wish(&self, log: LogId) -> Option<Wish> {
        let entry = self.logs.get(&log)?;
        let first = entry.first_wish?;
        let members = entry.members.iter().filter(|(_, weight)| *weight > 0);
        let weights: BTreeMap<NodeId, u32> = members.map(|(n, w)| (NodeId(*n), *w)).collect();
        let auxiliaries: BTreeSet<NodeId> = entry.auxiliary.iter().map(|n| NodeId(*n)).collect();
        Some(Wish {
            number: WishNumber {
                rescues: self.rescues,
                count: first.count,
            },
            max_bytes: first.retention.max_bytes,
            max_age_s: first.retention.max_age_s,
            weights: weights.into_iter().collect(),
            auxiliaries: auxiliaries.into_iter().collect(),
            sealed: false,
            min_copies: first.min_copies,
        })
    }

    /// Gives a wish to a log that was just created. Where the wish is for more than the first configuration,
    /// as for a log whose members are too few, the log begins with no wish and chooses one.
    pub(super) fn begin_with_wish(&mut self, log: LogId) {
        let wish = self.wish_of(log);
        let Some(entry) = self.logs.get_mut(log) else {
            return;
        };
        entry.first_wish = wish.as_ref().map(|wish| FirstWish {
            count: wish.number.count,
            retention: entry.retention,
            min_copies: entry.min_copies,
        });
        if self.first_wish(log) != wish
            && let Some(entry) = self.logs.get_mut(log)
        {
            entry.first_wish = None;
        }
    }

    pub(super) fn touched_by(&self, command: &Command) -> Touched {
        match command {
            Command::CreateLog { .. } => Touched::One(LogId(self.last_log.0 + 1)),
            Command::SealLog { id } => Touched::One(LogId(*id)),
            Command::SetRetention { log, .. } | Command::SetMinCopies { log, .. } => {
                self.log_by_name(log).map_or(Touched::Nobody, Touched::One)
            }
            Command::SetVoters { .. }
            | Command::AddNode { .. }
            | Command::ChangeMembers(_)
            | Command::DescribeNode { .. }
            | Command::DropSlots { .. }
            | Command::RemoveNode { .. }
            | Command::AgreeOnVersion { .. }
            | Command::GoOnAlone { .. } => Touched::All,
            Command::SetNewest { .. }
            | Command::PrepareVersion { .. }
            | Command::DeleteLog { .. }
            | Command::ServeSlots { .. }
            | Command::ChangeSlots { .. }
            | Command::PutToken { .. }
            | Command::PutIssuer { .. }
            | Command::RemoveIssuer { .. }
            | Command::RevokeToken { .. }
            | Command::SetAuth { .. }
            | Command::Note { .. }
            | Command::NameNodes { .. }
            | Command::SetZone { .. } => Touched::Nobody,
        }
    }

    /// The wishes, before a command, for the logs that it may touch.
    pub(super) fn wanted_of(&self, touched: &Touched) -> Vec<(LogId, Wish)> {
        let logs: Vec<LogId> = match touched {
            _ if self.versions.agreed < WISHES => Vec::new(),
            Touched::Nobody => Vec::new(),
            Touched::One(log) => vec![*log],
            Touched::All => self.logs.keys().copied().collect(),
        };
        let wanted = logs.into_iter().filter(|log| self.logs.contains_key(log));
        wanted
            .map(|log| (log, self.wish_numbered(log, WishNumber::default())))
            .collect()
    }

    /// Gives new numbers, after a command, to logs for which the wish is another one, or the first.
    pub(super) fn number_wishes(
        &mut self,
        touched: &Touched,
        before: &[(LogId, Wish)],
        rescues: u32,
    ) {
        let now = self.wanted_of(touched);
        for (log, wish) in now {
            let was = before.iter().find(|(id, _)| *id == log);
            let is_new = was.is_none_or(|(_, was)| *was != wish) || self.rescues != rescues;
            let Some(entry) = self.logs.get_mut(log) else {
                continue;
            };
            if is_new || entry.wish == 0 {
                self.wishes += 1;
                entry.wish = self.wishes;
            }
        }
    }
}

/// The retention, as a log's state holds it.
pub fn retention_of(wish: &Arc<Wish>) -> wire::Retention {
    wire::Retention {
        max_bytes: wish.max_bytes,
        max_age_s: wish.max_age_s,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create(name: &str) -> Command {
        Command::CreateLog {
            name: name.into(),
            members: vec![(1, 1)],
            auxiliary: Vec::new(),
            hosts: Vec::new(),
            retention: Default::default(),
            min_copies: 0,
            kind: Default::default(),
        }
    }

    fn add(id: u32) -> Command {
        Command::AddNode {
            id,
            address: format!("a:{id}"),
            disk: format!("d{id}"),
            newest: WISHES,
            by_hand: false,
            token: None,
            certificate: None,
            replaces: None,
        }
    }

    fn retain(log: &str, retention: &str) -> Command {
        Command::SetRetention {
            log: log.into(),
            retention: retention.parse().unwrap(),
        }
    }

    fn agreed() -> Directory {
        let mut directory = Directory::default();
        for command in [
            add(1),
            Command::PrepareVersion { version: WISHES },
            Command::AgreeOnVersion { version: WISHES },
            Command::SetVoters { voters: 3 },
            create("a"),
            create("b"),
        ] {
            directory.apply(&command);
        }
        directory
    }

    fn numbers(directory: &Directory) -> Vec<u64> {
        let logs = directory.logs.keys();
        let number = |log: &LogId| directory.wish_number(*log).map_or(0, |n| n.count);
        logs.map(number).collect()
    }

    #[test]
    fn a_log_gets_a_new_number_when_something_else_is_wanted_of_it() {
        let mut directory = agreed();
        assert_eq!(numbers(&directory), [1, 2]);
        directory.apply(&retain("a", "1MB"));
        assert_eq!(numbers(&directory), [3, 2]);
        directory.apply(&retain("a", "1MB"));
        assert_eq!(numbers(&directory), [3, 2], "the same wish");
        directory.apply(&add(2));
        assert_eq!(numbers(&directory), [4, 5], "both get a voter");
        directory.apply(&Command::SetMinCopies {
            log: "b".into(),
            min_copies: 2,
        });
        assert_eq!(numbers(&directory), [4, 6]);
        assert_eq!(directory.wish_of(LogId(2)).unwrap().min_copies, 2);
        directory.apply(&Command::SealLog { id: 1 });
        assert_eq!(numbers(&directory), [7, 6]);
        assert!(directory.wish_of(LogId(1)).unwrap().sealed);
        directory.apply(&retain("a", "7d"));
        assert_eq!(numbers(&directory), [7, 6], "the name is no log's any more");
    }

    #[test]
    fn nothing_is_numbered_before_the_cluster_speaks_wishes() {
        let mut directory = Directory::default();
        for command in [add(1), create("a"), retain("a", "1MB")] {
            directory.apply(&command);
        }
        assert_eq!(directory.wish_of(LogId(1)), None);
        directory.apply(&Command::PrepareVersion { version: WISHES });
        assert_eq!(directory.wish_of(LogId(1)), None);
        directory.apply(&Command::AgreeOnVersion { version: WISHES });
        let wish = directory.wish_of(LogId(1)).unwrap();
        assert_eq!((wish.number.count, wish.max_bytes), (1, Some(1_000_000)));
    }

    #[test]
    fn a_log_begins_with_what_was_wanted_when_it_was_created_whatever_is_wanted_since() {
        let mut directory = agreed();
        let born = directory.first_wish(LogId(1)).unwrap();
        assert_eq!(Some(born.clone()), directory.wish_of(LogId(1)));
        directory.apply(&retain("a", "1MB"));
        directory.apply(&add(2));
        assert_eq!(directory.first_wish(LogId(1)), Some(born));
        assert_ne!(directory.first_wish(LogId(1)), directory.wish_of(LogId(1)));
        directory.apply(&Command::CreateLog {
            name: "a".into(),
            members: vec![(2, 1)],
            auxiliary: Vec::new(),
            hosts: Vec::new(),
            retention: Default::default(),
            min_copies: 0,
            kind: Default::default(),
        });
        assert_eq!(
            directory.last_log,
            LogId(2),
            "the name is taken: the first log stays as it was"
        );
        assert_eq!(directory.first_wish(LogId(1)).unwrap().weights.len(), 1);
        directory.apply(&create("c"));
        assert_eq!(
            directory.first_wish(LogId(3)),
            None,
            "it gets a second voter, which it has to choose"
        );
        assert_eq!(directory.wish_of(LogId(3)).unwrap().weights.len(), 2);
        directory.apply(&Command::GoOnAlone {
            id: 1,
            address: "b:1".into(),
            disk: "new".into(),
            logs: vec![1, 2],
        });
        assert_eq!(
            directory.first_wish(LogId(1)),
            None,
            "the survivor says what it begins with"
        );
    }

    #[test]
    fn a_rescue_numbers_everything_anew_and_above_whatever_was_lost() {
        let mut directory = agreed();
        let lost = directory.wish_number(LogId(2)).unwrap();
        directory.apply(&Command::GoOnAlone {
            id: 1,
            address: "b:1".into(),
            disk: "new".into(),
            logs: vec![1, 2],
        });
        assert!(directory.wish_number(LogId(1)).unwrap() > lost);
        assert!(directory.wish_number(LogId(2)).unwrap() > lost);
    }

    #[test]
    fn a_name_is_taken_until_its_log_is_deleted() {
        let mut directory = agreed();
        directory.apply(&Command::SealLog { id: 1 });
        assert_eq!(directory.log_by_name("a"), None);
        directory.apply(&create("a"));
        assert_eq!(directory.last_log, LogId(2), "the old one has not ended");
        directory.apply(&Command::DeleteLog { id: 1 });
        directory.apply(&create("a"));
        assert_eq!(directory.log_by_name("a"), Some(LogId(3)));
    }
}
