//! The logs that the directory lists: by their ids, and by their names.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use formats::LogId;

use super::LogEntry;

/// ‡ The entries. A name belongs to one log, also while that is to end. It never changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogEntries {
    by_id: BTreeMap<LogId, LogEntry>,
    by_name: BTreeMap<String, LogId>,
    /// The logs that are to end, and have not yet.
    sealing: BTreeSet<LogId>,
}

impl LogEntries {
    pub(super) fn insert(&mut self, id: LogId, entry: LogEntry) {
        self.by_name.entry(entry.name.clone()).or_insert(id);
        if entry.sealing {
            self.sealing.insert(id);
        }
        self.by_id.insert(id, entry);
    }

    pub(super) fn seal(&mut self, id: LogId) {
        if let Some(entry) = self.by_id.get_mut(&id) {
            entry.sealing = true;
            self.sealing.insert(id);
        }
    }

    pub(super) fn remove(&mut self, id: LogId) {
        self.sealing.remove(&id);
        if let Some(entry) = self.by_id.remove(&id)
            && self.by_name.get(&entry.name) == Some(&id)
        {
            self.by_name.remove(&entry.name);
        }
    }

    pub(super) fn retain(&mut self, keeps: impl Fn(LogId) -> bool) {
        self.by_id.retain(|id, _| keeps(*id));
        self.by_name.retain(|_, id| keeps(*id));
        self.sealing.retain(|id| keeps(*id));
    }

    pub(super) fn get_mut(&mut self, id: LogId) -> Option<&mut LogEntry> {
        self.by_id.get_mut(&id)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&LogId, &mut LogEntry)> {
        self.by_id.iter_mut()
    }

    pub fn sealing(&self) -> impl Iterator<Item = LogId> {
        self.sealing.iter().copied()
    }

    pub fn named(&self, name: &str) -> Option<(LogId, &LogEntry)> {
        let id = *self.by_name.get(name)?;
        Some((id, self.by_id.get(&id)?))
    }
}

impl FromIterator<(LogId, LogEntry)> for LogEntries {
    fn from_iter<I: IntoIterator<Item = (LogId, LogEntry)>>(entries: I) -> LogEntries {
        let mut all = LogEntries::default();
        for (id, entry) in entries {
            all.insert(id, entry);
        }
        all
    }
}

impl Deref for LogEntries {
    type Target = BTreeMap<LogId, LogEntry>;

    fn deref(&self) -> &BTreeMap<LogId, LogEntry> {
        &self.by_id
    }
}

impl<'a> IntoIterator for &'a LogEntries {
    type Item = (&'a LogId, &'a LogEntry);
    type IntoIter = std::collections::btree_map::Iter<'a, LogId, LogEntry>;

    fn into_iter(self) -> Self::IntoIter {
        self.by_id.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str) -> LogEntry {
        LogEntry {
            name: name.to_owned(),
            ..LogEntry::default()
        }
    }

    #[test]
    fn names_and_ends_are_looked_up_as_the_entries_are() {
        let entries = [(LogId(1), entry("a")), (LogId(2), entry("b"))];
        let mut logs: LogEntries = entries.into_iter().collect();
        assert_eq!(logs.named("b").map(|(id, _)| id), Some(LogId(2)));
        logs.seal(LogId(2));
        assert!(logs[&LogId(2)].sealing);
        assert_eq!(logs.sealing().collect::<Vec<_>>(), [LogId(2)]);
        let again: LogEntries = logs.iter().map(|(id, e)| (*id, e.clone())).collect();
        assert_eq!(again, logs, "as a snapshot brings it");
        logs.remove(LogId(2));
        assert_eq!(logs.named("b"), None);
        assert_eq!(logs.sealing().count(), 0);
        logs.insert(LogId(3), entry("b"));
        assert_eq!(logs.named("b").map(|(id, _)| id), Some(LogId(3)));
        logs.retain(|id| id == LogId(3));
        assert_eq!(logs.named("a"), None);
        assert_eq!(logs.keys().collect::<Vec<_>>(), [&LogId(3)]);
    }
}
