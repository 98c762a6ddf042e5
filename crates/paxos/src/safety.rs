//! The rules that may never be wrong: what a quorum of promises allows, and what may be chosen.
//!
//! Everything here is a pure function of what was promised and accepted, so that each rule can be
//! read, and tested, alone.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::acceptor::Acceptance;
use crate::runs::RunValue;
use crate::{
    AcceptedRun, AcceptedTerm, Action, Era, LABEL_BYTES_MAX, METADATA_BYTES_MAX, NodeId, Promise,
    Slot, SlotRange, Term, Value,
};

/// Slots beyond this are nobody's: it leaves room to add to any position without overflow.
pub(crate) const SLOT_MAX: u64 = 1 << 62;

/// A term's number beyond this is not credible; it leaves room to prepare above any that is.
pub(crate) const TERM_NUMBER_MAX: u32 = 1 << 30;

/// Part of what a new leader must propose before anything of its own: an earlier term's value, or
/// a no-op where a quorum promised that nothing was.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Piece {
    pub slots: SlotRange,
    pub value: Value,
    /// Who reported the value accepted; each holds its bytes.
    pub holders: Vec<NodeId>,
}

/// Two promises for one term report different values accepted in one slot and term (I3 is broken
/// somewhere else): this node's promise is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Contradiction(pub NodeId);

/// What these promises bind the proposer to, from `first_unchosen` on.
///
/// I2: in each slot the value of the highest accepted term reported, or nothing: then the slot is
/// free and holds a no-op. The caller has counted the promises: they come from a quorum, none of
/// them begins after `first_unchosen`, and more reports than a quorum's do no harm.
pub(crate) fn plan(
    first_unchosen: Slot,
    promises: &[(NodeId, &[AcceptedRun])],
) -> Result<VecDeque<Piece>, Contradiction> {
    let mut cuts: Vec<Slot> = Vec::new();
    for (_, runs) in promises {
        for run in runs.iter() {
            cuts.push(run.slots.start.max(first_unchosen));
            cuts.push(run.slots.end.max(first_unchosen));
        }
    }
    cuts.push(first_unchosen);
    cuts.sort_unstable();
    cuts.dedup();
    let mut pieces: VecDeque<Piece> = VecDeque::new();
    for cut in cuts.windows(2) {
        let slots = SlotRange::new(cut[0], cut[1]);
        let mut bound: Option<&AcceptedRun> = None;
        for (node, runs) in promises {
            let Some(run) = run_at(runs, slots.start) else {
                continue;
            };
            match bound {
                Some(other) if other.term == run.term && other.value != run.value => {
                    return Err(Contradiction(*node));
                }
                Some(other) if other.term >= run.term => {}
                _ => bound = Some(run),
            }
        }
        let piece = match bound {
            None => Piece {
                slots,
                value: Value::NoOp,
                holders: Vec::new(),
            },
            Some(run) => Piece {
                slots,
                value: run.value.clone(),
                holders: promises
                    .iter()
                    .filter(|(_, runs)| {
                        run_at(runs, slots.start).is_some_and(|held| held.value == run.value)
                    })
                    .map(|(node, _)| *node)
                    .collect(),
            },
        };
        match pieces.back_mut() {
            Some(last) if is_one(last, &piece) => last.slots.end = piece.slots.end,
            _ => pieces.push_back(piece),
        }
    }
    Ok(pieces)
}

fn run_at(runs: &[AcceptedRun], slot: Slot) -> Option<&AcceptedRun> {
    let at = runs.partition_point(|run| run.slots.end <= slot);
    runs.get(at).filter(|run| run.slots.contains(slot))
}

fn is_one(before: &Piece, after: &Piece) -> bool {
    let acceptance = |piece: &Piece| Acceptance {
        term: AcceptedTerm::default(),
        value: piece.value.clone(),
    };
    acceptance(after).extends(&acceptance(before))
        && (before.value == Value::NoOp || before.holders == after.holders)
}

/// P7: whether acceptances in `term` can choose a slot of `era`, all earlier slots being chosen.
pub(crate) fn may_choose(term: Term, era: Era) -> bool {
    term.era <= era && era.0 <= term.era.0.saturating_add(1)
}

/// Whether a promise from elsewhere can be true: runs in order, none above its term.
pub(crate) fn is_credible_promise(promise: &Promise) -> bool {
    promise.from.0 <= SLOT_MAX
        && promise
            .runs
            .iter()
            .all(|run| run.term.0 < promise.term && is_credible(run.slots, &run.value))
        && promise
            .runs
            .windows(2)
            .all(|pair| pair[0].slots.end <= pair[1].slots.start)
}

pub(crate) fn is_credible_term(term: Term) -> bool {
    term.owner != NodeId(0) && term.number > 0 && term.number <= TERM_NUMBER_MAX
}

/// Whether a value can fill these slots.
pub(crate) fn is_credible(slots: SlotRange, value: &Value) -> bool {
    !slots.is_empty()
        && slots.end.0 <= SLOT_MAX
        && match value {
            Value::NoOp => true,
            Value::Content { offset, .. } => offset.0 <= slots.start.0,
            Value::Action(action) => slots.len() == 1 && is_credible_action(action),
        }
}

pub(crate) fn is_credible_action(action: &Action) -> bool {
    match action {
        Action::OpenStream(open) => {
            open.label.len() <= LABEL_BYTES_MAX && open.metadata.len() <= METADATA_BYTES_MAX
        }
        _ => true,
    }
}
