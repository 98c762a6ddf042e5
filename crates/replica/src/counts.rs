//! Counts of rare events in one log since this node started. Every count only grows.
//!
//! Nothing here decides anything: it is for people who ask how a node has fared, and for tests that
//! must know that they met what they are about.

use paxos::{Note, StepDownReason};
use serde::Serialize;

/// The counts of one log's replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LogCounts {
    /// Phase 1 begun without being leader.
    pub candidacies: u64,
    /// Leaders that handed over, as they said.
    pub handed_over: u64,
    /// Phase 1 done: this replica led.
    pub elections_won: u64,
    /// Phase 1 begun again above a later term, or without nodes whose bytes cannot be had.
    pub phase_one_again: u64,
    /// Phase 1 done for a batch, by a leader that does so.
    pub batch_terms: u64,
    /// New eras whose term this leader prepared beside the one that went on.
    pub casting_votes: u64,
    /// Steps towards the wanted members that had to wait because another era was just beginning.
    pub steps_put_off: u64,
    /// Wishes of the directory that were chosen here.
    pub wishes_chosen: u64,
    /// Wishes, and acts derived from one, that a later wish left without effect.
    pub wishes_overtaken: u64,
    pub deposed_by_later_term: u64,
    pub deposed_without_quorum: u64,
    pub stepped_down_when_asked: u64,
    /// Prepares and proposals of ours below somebody's promise.
    pub refused: u64,
    pub messages_ignored: u64,
    pub digest_mismatches: u64,
    /// Permits that ended with the term instead of being filled.
    pub permits_lapsed: u64,
    /// Batches of an earlier term proposed again in ours.
    pub bound_batches: u64,
    /// Bound runs whose bytes none of their holders sent in time.
    pub bytes_unavailable: u64,
    pub states_installed: u64,
    /// Missing bytes that were fetched.
    pub bytes_fetched: u64,
    /// Streams opened, of those that this replica's clients asked for while it led.
    pub streams_opened: u64,
    pub streams_continued: u64,
    pub streams_not_opened: u64,
    pub streams_closed: u64,
    pub streams_not_closed: u64,
    /// Streams that this leader cut, for their writers were gone.
    pub streams_cut: u64,
    /// Writers that had to go because another came.
    pub writers_superseded: u64,
    pub eras_begun: u64,
    /// Bytes sent with proposals, headers included, to all followers together.
    pub proposal_bytes_sent: u64,
    /// Times at which auxiliaries began to get this leader's proposals.
    pub engaged: u64,
    /// Times at which this auxiliary was told that it may drop bytes.
    pub releases: u64,
    /// Proposals that this auxiliary did not take because its disk was almost full.
    pub proposals_declined: u64,
    /// Trims that were chosen, and applied here one by one.
    pub trims: u64,
    /// Segments that were written into the file of one that was trimmed.
    pub files_reused: u64,
    /// Records received where they stand in their file, and places that something else had to have.
    pub landed: u64,
    pub places_given_up: u64,
    /// Ranges of streams that could not be read any more while running; at the start see below.
    pub ranges_lost: u64,
    /// Passes of the scrubber that this replica led to their end, and the bytes that they looked at.
    pub scrub_passes: u64,
    pub scrub_bytes: u64,
    /// Records that a scrub found damaged on this node's disk, and those that are whole again.
    pub scrub_damaged: u64,
    pub scrub_repaired: u64,
    /// Pieces of which replicas hold different bytes, each time that a scrub met one.
    pub scrub_differences: u64,
    pub disk_failures: u64,
    pub disk_stalls: u64,
    /// Rounds in which received bytes were not proposed: too much waits for a quorum, …
    pub held_by_quorum: u64,
    /// … too much is in memory for slow followers, …
    pub held_by_followers: u64,
    /// … or too much waits for this node's disk.
    pub held_by_disk: u64,
    /// Torn tails found at the start.
    pub torn_tails: u64,
    pub corrupt_records: u64,
    pub segments_put_aside: u64,
    /// Starts after which acceptances may have been forgotten.
    pub starts_with_gaps: u64,
    /// Frames, and actions in them, in a version that this program does not speak.
    pub frames_unspoken: u64,
}

impl LogCounts {
    pub(crate) fn note(&mut self, note: &Note) {
        match note {
            Note::StandingForElection { .. } => self.candidacies += 1,
            Note::HandsOver { .. } => self.handed_over += 1,
            Note::PhaseOneAgain { .. } => self.phase_one_again += 1,
            Note::CastingVote { .. } => self.casting_votes += 1,
            Note::Refused { .. } => self.refused += 1,
            Note::DigestMismatch { .. } => self.digest_mismatches += 1,
            Note::Ignored { .. } => self.messages_ignored += 1,
            Note::SteppedDown { reason, .. } => match reason {
                StepDownReason::LaterTerm => self.deposed_by_later_term += 1,
                StepDownReason::NoQuorum => self.deposed_without_quorum += 1,
                StepDownReason::Asked => self.stepped_down_when_asked += 1,
            },
        }
    }
}
