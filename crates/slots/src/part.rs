//! A part of a map: slots, whose they are, and since when.

use serde::{Deserialize, Serialize};

use crate::span::{SLOTS, Span};

/// Slots that are one group's since one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Numbers", into = "Numbers")]
pub struct Part {
    pub span: Span,
    pub group: u32,
    pub since: u32,
}

/// As it stands in snapshots: first, last, group, since.
type Numbers = (Span, u32, u32);

impl From<Numbers> for Part {
    fn from((span, group, since): Numbers) -> Part {
        Part { span, group, since }
    }
}

impl From<Part> for Numbers {
    fn from(part: Part) -> Numbers {
        (part.span, part.group, part.since)
    }
}

/// The part that has this slot, in parts that stand in the order of their slots.
pub fn at(parts: &[Part], slot: u16) -> Option<&Part> {
    let behind = parts.partition_point(|part| part.span.first() <= slot);
    let part = parts.get(behind.checked_sub(1)?)?;
    part.span.contains(slot).then_some(part)
}

/// A slot's group, and since when; `None`: it is nobody's.
pub type Whose = Option<(u32, u32)>;

/// Slot by slot: for whoever asks for all of them.
pub fn spread(parts: &[Part]) -> Vec<Whose> {
    let mut slots = vec![None; usize::from(SLOTS)];
    for part in parts {
        let range = usize::from(part.span.first())..=usize::from(part.span.last());
        if let Some(slots) = slots.get_mut(range) {
            slots.fill(Some((part.group, part.since)));
        }
    }
    slots
}

/// Neighbours of which the same is said are one part.
pub fn gathered(slots: &[Whose]) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for (slot, whose) in (0..SLOTS).zip(slots) {
        let Some((group, since)) = *whose else {
            continue;
        };
        let longer = parts.last().and_then(|part| {
            let is_next = part.span.last() + 1 == slot;
            let is_same = (part.group, part.since) == (group, since);
            Span::new(part.span.first(), slot).filter(|_| is_next && is_same)
        });
        match (longer, parts.last_mut()) {
            (Some(span), Some(part)) => part.span = span,
            _ => parts.extend(Span::new(slot, slot).map(|span| Part { span, group, since })),
        }
    }
    parts
}
