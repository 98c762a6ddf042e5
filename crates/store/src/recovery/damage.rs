//! Which losses are still damage, and which are repaired: one judgement for all that ask.
//!
//! ```text
//!   the loss                        is repaired once
//!   a stream's bytes                nobody needs them, or a later record holds them
//!   anything else, newest segment   never: the next start seals the segment, and later records say what it said
//!   anything else, sealed segment   no byte that is needed is missing, and nothing is in doubt
//! ```
//!
//! The bytes that are needed are those that are chosen and not trimmed, and those that are accepted and not known
//! chosen. An auxiliary lets go of chosen bytes on purpose: that some are missing there tells nothing of a loss.

use std::ops::Range;

use paxos::{Checkpoint, NodeId, Slot, StreamName, StreamPosition, Value};

use super::verdict::{Lost, Verdict};
use crate::Holdings;

/// The losses of a verdict.
#[derive(Debug, Default)]
pub struct Damage<'v> {
    pub damaged: Vec<&'v Lost>,
    /// The number of places that are repaired.
    pub repaired: u64,
}

/// Consecutive bytes of a stream.
type Bytes = (StreamName, Range<StreamPosition>);

/// What a directory was found to hold.
#[derive(Clone, Copy)]
pub struct Inventory<'a> {
    pub node: NodeId,
    /// The engine's beginning; `None` if it is not known.
    pub checkpoint: Option<&'a Checkpoint>,
    pub holdings: &'a Holdings,
}

impl Verdict {
    pub fn damage(&self, inventory: Inventory<'_>) -> Damage<'_> {
        let newest = self.segments.len().saturating_sub(1);
        let in_doubt = self.learn_past > self.first_unchosen;
        let all_there = !in_doubt && inventory.has_all();
        let mut damage = Damage::default();
        for lost in &self.lost {
            let is_repaired = match &lost.bytes {
                Some((stream, bytes)) => {
                    let bytes = StreamPosition(bytes.start)..StreamPosition(bytes.end);
                    inventory.has(*stream, bytes)
                }
                None => lost.at < newest && all_there,
            };
            match is_repaired {
                true => damage.repaired += 1,
                false => damage.damaged.push(lost),
            }
        }
        damage
    }
}

impl Inventory<'_> {
    /// Whether every needed byte is held.
    fn has_all(&self) -> bool {
        let Some(checkpoint) = self.checkpoint else {
            return false;
        };
        let spared = checkpoint.state.configuration.is_auxiliary(self.node);
        let has_chosen = spared || chosen_bytes(checkpoint).all(|bytes| self.holds(bytes));
        has_chosen && accepted_bytes(checkpoint).all(|bytes| self.holds(bytes))
    }

    /// Whether those of the bytes that are needed are held.
    fn has(&self, stream: StreamName, bytes: Range<StreamPosition>) -> bool {
        let Some(checkpoint) = self.checkpoint else {
            return self.holds((stream, bytes));
        };
        let needed = chosen_bytes(checkpoint).chain(accepted_bytes(checkpoint));
        let mut needed = needed.filter(|(of, _)| *of == stream);
        needed.all(|(_, needed)| {
            let start = needed.start.max(bytes.start);
            let end = needed.end.min(bytes.end);
            start >= end || self.holds((stream, start..end))
        })
    }

    fn holds(&self, (stream, bytes): Bytes) -> bool {
        self.holdings.missing(stream, bytes).next().is_none()
    }
}

/// The bytes that are chosen and not trimmed.
fn chosen_bytes(checkpoint: &Checkpoint) -> impl Iterator<Item = Bytes> + use<'_> {
    let streams = checkpoint.state.streams.iter();
    streams.map(|stream| (stream.name, stream.trimmed..stream.length))
}

/// The bytes that are accepted and not known chosen.
fn accepted_bytes(checkpoint: &Checkpoint) -> impl Iterator<Item = Bytes> + use<'_> {
    checkpoint.accepted.iter().filter_map(|run| {
        let Value::Content { stream, offset } = run.value else {
            return None;
        };
        let at = |slot: Slot| StreamPosition(slot.0.saturating_sub(offset.0));
        Some((stream, at(run.slots.start)..at(run.slots.end)))
    })
}
