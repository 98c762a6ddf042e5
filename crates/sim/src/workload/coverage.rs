//! Counts of rare events, as the production code counted them and the clients saw them.

use std::collections::BTreeMap;

use node::{Node, NodeCounts};
use replica::LogCounts;
use serde::Serialize;

use crate::client::{Appender, Mover, Reader, Retainer};
use crate::host::Process;

/// By name. Every name is there from the beginning: what never happened stands at 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Coverage(BTreeMap<&'static str, u64>);

/// The events that a search of some size must have met.
const EVENTS: [&str; 54] = [
    "elections",
    "duels",
    "terms-of-batches",
    "casting-votes",
    "casting-votes-waited-for",
    "deposed-by-a-later-term",
    "deposed-without-quorum",
    "abdications",
    "refusals",
    "ignored-messages",
    "lapsed-permits",
    "bound-batches-proposed-again",
    "bound-bytes-unavailable",
    "states-installed",
    "backfilled-bytes",
    "streams-opened",
    "streams-resumed",
    "streams-not-opened",
    "streams-closed",
    "takeovers",
    "eras",
    "steps-put-off",
    "auxiliaries-engaged",
    "auxiliaries-released",
    "trims",
    "files-reused",
    "received-in-place",
    "places-given-up",
    "scrubs",
    "rot-found-by-scrubs",
    "disk-failures",
    "disk-stalls",
    "disk-full",
    "process-gaps",
    "starts",
    "starts-refused",
    "torn-tails",
    "corrupt-records",
    "corrupt-reads",
    "segments-put-aside",
    "starts-with-gaps",
    "reads",
    "stale-reads",
    "followed-reads",
    "resumed-reads",
    "reads-of-what-was-trimmed",
    "retentions",
    "moved-leaders",
    "refused-moves",
    "busy-writers",
    "superseded-writers",
    "starts-beside-another-version",
    "downgrades",
    "versions-raised",
];

impl Default for Coverage {
    fn default() -> Coverage {
        Coverage(EVENTS.iter().map(|event| (*event, 0)).collect())
    }
}

impl Coverage {
    pub fn get(&self, event: &str) -> u64 {
        self.0.get(event).copied().unwrap_or(0)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.iter().map(|(event, count)| (*event, *count))
    }

    /// The events that did not happen once.
    pub fn never(&self) -> Vec<&'static str> {
        let never = self.0.iter().filter(|(_, count)| **count == 0);
        never.map(|(event, _)| *event).collect()
    }

    pub fn merge(&mut self, other: &Coverage) {
        for (event, count) in &other.0 {
            self.add(event, *count);
        }
    }

    fn add(&mut self, event: &'static str, count: u64) {
        *self.0.entry(event).or_default() += count;
    }

    pub(super) fn on_start(&mut self, well: bool) {
        match well {
            true => self.add("starts", 1),
            false => self.add("starts-refused", 1),
        }
    }

    pub(super) fn on_program(&mut self, beside_another: bool, goes_back: bool) {
        self.add("starts-beside-another-version", u64::from(beside_another));
        self.add("downgrades", u64::from(goes_back));
    }

    /// All that may be proposed before a casting vote is over is proposed.
    pub(super) fn on_casting_vote_waited_for(&mut self) {
        self.add("casting-votes-waited-for", 1);
    }

    /// Takes the counts of a process at the end of its life.
    pub(super) fn take(&mut self, process: &dyn Process) {
        let process: &dyn std::any::Any = process;
        if let Some(node) = process.downcast_ref::<Node>() {
            self.take_node(&node.counts());
            node.log_views()
                .for_each(|view| self.take_log(&view.counts));
        } else if let Some(reader) = process.downcast_ref::<Reader>() {
            let counts = reader.counts();
            self.add("reads", counts.linearizable);
            self.add("stale-reads", counts.stale);
            self.add("followed-reads", counts.followed);
            self.add("resumed-reads", counts.resumed);
            self.add("reads-of-what-was-trimmed", counts.trimmed);
        } else if let Some(mover) = process.downcast_ref::<Mover>() {
            let (moved, refused) = mover.counts();
            self.add("moved-leaders", moved);
            self.add("refused-moves", refused);
        } else if let Some(retainer) = process.downcast_ref::<Retainer>() {
            let (granted, _) = retainer.counts();
            self.add("retentions", granted);
        } else if let Some(appender) = process.downcast_ref::<Appender>() {
            let counts = appender.counts();
            self.add("busy-writers", counts.busy);
            self.add("superseded-writers", counts.superseded);
        }
    }

    fn take_node(&mut self, counts: &NodeCounts) {
        self.add("disk-full", counts.disk_full);
        self.add("process-gaps", counts.gaps);
        self.add("versions-raised", counts.disk_versions);
    }

    fn take_log(&mut self, counts: &LogCounts) {
        self.add("elections", counts.elections_won);
        self.add("duels", counts.phase_one_again);
        self.add("terms-of-batches", counts.batch_terms);
        self.add("casting-votes", counts.casting_votes);
        self.add("steps-put-off", counts.steps_put_off);
        self.add("deposed-by-a-later-term", counts.deposed_by_later_term);
        self.add("deposed-without-quorum", counts.deposed_without_quorum);
        self.add("abdications", counts.stepped_down_when_asked);
        self.add("refusals", counts.refused);
        self.add("ignored-messages", counts.messages_ignored);
        self.add("lapsed-permits", counts.permits_lapsed);
        self.add("bound-batches-proposed-again", counts.bound_batches);
        self.add("bound-bytes-unavailable", counts.bytes_unavailable);
        self.add("states-installed", counts.states_installed);
        self.add("backfilled-bytes", counts.bytes_fetched);
        self.add("streams-opened", counts.streams_opened);
        self.add("streams-resumed", counts.streams_continued);
        self.add("streams-not-opened", counts.streams_not_opened);
        self.add("streams-closed", counts.streams_closed);
        self.add("streams-cut", counts.streams_cut);
        self.add("takeovers", counts.writers_superseded);
        self.add("eras", counts.eras_begun);
        self.add("auxiliaries-engaged", counts.engaged);
        self.add("auxiliaries-released", counts.releases);
        self.add("trims", counts.trims);
        self.add("files-reused", counts.files_reused);
        self.add("received-in-place", counts.landed);
        self.add("places-given-up", counts.places_given_up);
        self.add("scrubs", counts.scrub_passes);
        self.add("rot-found-by-scrubs", counts.scrub_damaged);
        self.add("disk-failures", counts.disk_failures);
        self.add("disk-stalls", counts.disk_stalls);
        self.add("torn-tails", counts.torn_tails);
        self.add("corrupt-records", counts.corrupt_records);
        self.add("corrupt-reads", counts.ranges_lost);
        self.add("segments-put-aside", counts.segments_put_aside);
        self.add("starts-with-gaps", counts.starts_with_gaps);
    }
}
