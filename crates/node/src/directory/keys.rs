//! Log 0's part in the groups of keys: which logs may be groups, and the map of slots.

use std::sync::Arc;

use formats::{LogId, LogKind};
use slots::{Change, Span};

use super::{Directory, LogEntry};

impl Directory {
    /// The name of a group, or the number of one whose log is gone.
    pub fn name_of_group(&self, group: u32) -> String {
        let entry = self.logs.get(&LogId(group));
        entry.map_or_else(|| format!("log {group}"), |entry| entry.name.clone())
    }

    /// The logs that are groups, and do not end.
    pub fn groups(&self) -> impl Iterator<Item = (LogId, &LogEntry)> {
        let logs = self.logs.iter().map(|(id, log)| (*id, log));
        logs.filter(|(_, log)| log.kind == LogKind::Kv && !log.sealing)
    }

    /// Whether a change names only groups that are there. ‡ One that ends gets no slots.
    pub fn may_change_slots(&self, change: &Change) -> bool {
        let is_group = |id: &u32| self.groups().any(|(log, _)| log.0 == *id);
        match change {
            Change::Join { groups } => groups.iter().all(is_group),
            Change::Move { group, .. } => is_group(group),
            Change::Adopt { parts, .. } => parts.iter().all(|part| is_group(&part.group)),
            Change::Leave { .. } | Change::Balance => true,
        }
    }

    pub(super) fn change_slots(&mut self, change: &Change) {
        if let Ok(map) = self.slots.changed(change)
            && map != *self.slots
        {
            self.slots = Arc::new(map);
        }
    }

    /// ‡ All groups end together with the map: one that went on would know of moves that no later map does.
    pub(super) fn drop_slots(&mut self) {
        let groups: Vec<LogId> = self.groups().map(|(id, _)| id).collect();
        groups.into_iter().for_each(|id| self.logs.seal(id));
        self.slots = Arc::default();
    }

    pub(super) fn serve_slots(&mut self, group: u32, parts: &[(u16, u16, u32)]) {
        let spans = parts
            .iter()
            .filter_map(|(first, last, since)| Some((Span::new(*first, *last)?, *since)));
        let news = spans.filter(|(span, since)| self.slots.is_news(*span, *since, group));
        let news: Vec<(Span, u32)> = news.collect();
        for (span, since) in news {
            Arc::make_mut(&mut self.slots).serve(span, since, group);
        }
    }
}
