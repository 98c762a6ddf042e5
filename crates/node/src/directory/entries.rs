//! The logs that the directory lists: by their ids, and by their names.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use formats::LogId;

use super::LogEntry;

/// ‡ One name is one log's, also while that is to end. It never changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogEntries {
    by_id: BTreeMap<LogId, LogEntry>,
    by_name: BTreeMap<String, LogId>,
    /// They are to end, and have not yet.
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
