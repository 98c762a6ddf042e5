//! More copies than a majority's: a leader waits for them before it takes a slot for chosen.
//!
//! ```text
//!   a quorum accepted ──┬─ and so many full members too ──────────────▶ chosen
//!                       ├─ they are alive: wait for them, a while ────▶ chosen, counted in `uncopied`
//!                       └─ fewer are alive ───────────────────────────▶ chosen, counted in `uncopied`
//! ```
//!
//! To take a slot for chosen later than a quorum allows is always safe, so no rule of Paxos changes. A slot is let
//! through in the end, for the log must be able to choose other wishes and other members while copies lack.
//! Whoever acknowledges compares `uncopied` with what it was when the bytes were taken: if it rose, copies may lack.

use core::time::Duration;

use crate::engine::Engine;
use crate::leadership::Stage;
use crate::mutation::{self, Mutation};
use crate::{Member, Slot, Term, Time};

/// Slots that a quorum accepted wait for the other copies at most so long, while enough members are alive.
const COPIES_WAIT: Duration = Duration::from_secs(2);

#[derive(Clone, Debug, Default)]
pub(crate) struct Copies {
    /// The first unchosen slot, while it waits, and since when.
    waits: Option<(Slot, Time)>,
    /// Members that are alive did not accept in time: nothing waits for them until then.
    late_until: Option<Time>,
    /// The number of times that slots were let through with too few copies.
    uncopied: u64,
}

impl Engine {
    /// The number of full members that are to hold what is acknowledged; none if a majority is enough.
    pub fn copies_wanted(&self) -> Option<usize> {
        let wanted = self.state.wish.as_ref()?.min_copies;
        // Whatever is chosen has one copy.
        (wanted > 1).then_some(wanted as usize)
    }

    /// Rises whenever a leader takes slots for chosen that have fewer copies than are wanted.
    pub fn uncopied(&self) -> u64 {
        self.copies.uncopied
    }

    /// Whether so many full members are alive, and lack no chosen byte by their last word in this term. A log without
    /// such a wish has copies enough.
    pub fn has_copies(&self) -> bool {
        self.copies_wanted()
            .is_none_or(|wanted| self.whole_copies() >= wanted)
    }

    /// The number of full members that are alive and lack no chosen byte, as far as this leader knows.
    ///
    /// A member's own count of missing bytes is about what it knows to be chosen: one that was away knows less than
    /// this leader, and lacks nothing of that. So it must have accepted, in this term, all that is chosen here, too.
    pub fn whole_copies(&self) -> usize {
        self.full_members(|engine, node| {
            let own = node == engine.config.node;
            let told = engine.peers.get(node).is_some_and(|peer| {
                peer.alive && peer.status.is_some() && peer.missing_bytes == Some(0)
            });
            let is_level = mutation::is(Mutation::BehindCountsAsCopy)
                || engine
                    .peer_accepted_up_to(node)
                    .is_some_and(|up_to| up_to >= engine.state.next);
            own && engine.missing_bytes == 0 || told && is_level
        })
    }

    fn full_members(&self, is_counted: impl Fn(&Engine, crate::NodeId) -> bool) -> usize {
        let members = self.state.configuration.members().iter();
        let full = members.filter(|member: &&Member| is_full(member));
        full.filter(|member| is_counted(self, member.node)).count()
    }

    /// The end of what is chosen, where a quorum accepted up to `quorum_end`.
    pub(crate) fn copied_end(&mut self, term: Term, first: Slot, quorum_end: Slot) -> Slot {
        let Some(wanted) = self.copies_wanted().filter(|_| quorum_end > first) else {
            return quorum_end;
        };
        if mutation::is(Mutation::CopiesNotAwaited) {
            return quorum_end;
        }
        let copied = self.nth_end(wanted, term, first).min(quorum_end);
        if copied == quorum_end {
            self.copies.waits = None;
            return quorum_end;
        }
        let node = self.config.node;
        let alive = self.full_members(|engine, peer| peer == node || engine.peers.is_alive(peer));
        let since = match self.copies.waits {
            Some((slot, since)) if slot == first => since,
            _ => self.now,
        };
        let is_late = self.now >= since + COPIES_WAIT;
        if is_late {
            self.copies.late_until = Some(self.now + COPIES_WAIT);
        }
        let waits_for_nobody = self.copies.late_until.is_some_and(|until| self.now < until);
        if alive < wanted || waits_for_nobody {
            self.copies.waits = None;
            self.copies.uncopied += 1;
            return quorum_end;
        }
        self.copies.waits = match copied > first {
            true => Some((copied, self.now)),
            false => Some((first, since)),
        };
        copied
    }

    /// The end of the slots from `first` on that so many full members accepted without a hole.
    fn nth_end(&mut self, wanted: usize, term: Term, first: Slot) -> Slot {
        self.scratch.clear();
        for member in self.state.configuration.members() {
            let end = match self.peers.get(member.node) {
                _ if !is_full(member) => continue,
                _ if member.node == self.config.node => self.acceptor.durable_end(term, first),
                Some(peer) => peer.accepted.prefix_end(first, |()| true),
                None => first,
            };
            self.scratch.push((end, 0));
        }
        self.scratch.sort_unstable_by(|a, b| b.cmp(a));
        let nth = self.scratch.get(wanted - 1);
        nth.map_or(first, |(end, _)| (*end).max(first))
    }

    pub(crate) fn copies_deadline(&self) -> Option<Time> {
        let (_, since) = self.copies.waits?;
        matches!(self.stage, Stage::Leading(_)).then_some(since + COPIES_WAIT)
    }

    /// Lets slots through that waited long enough.
    pub(crate) fn on_copies_timer(&mut self) {
        if self.copies_deadline().is_some_and(|due| due <= self.now) {
            self.choose();
            // They are chosen by now, or others are to be waited for.
            if self.copies_deadline().is_some_and(|due| due <= self.now) {
                self.copies.waits = None;
            }
        }
    }
}

/// Whether it is a voter that is to hold all bytes.
fn is_full(member: &Member) -> bool {
    member.weight > 0 && !member.auxiliary
}
