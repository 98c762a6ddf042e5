//! What a group has, slot by slot, as far as its leader has read or made it; and what follows from the map.

use std::sync::Arc;

use ::slots::{Map, Whose, spread};
use kv::SLOTS;

use super::words::{Held, Piece, Run, Span, Step};

/// The slots that are founded or kept by one step.
const STEP_MAX: u16 = 4_096;
/// The slots of a piece.
pub const PIECE_MAX: u16 = 256;

/// What a group knows of a slot, and the latest wish by which it was to have it.
type Slot = (Held, u32);

#[derive(Default)]
pub struct Standing {
    /// Empty: it is not known.
    slots: Vec<Slot>,
    /// It changed since what follows was worked out.
    is_new: bool,
    follows: Follows,
}

/// A map, slot by slot: the group, and since when.
struct All {
    wanted: Vec<Whose>,
    served: Vec<Whose>,
    founders: Vec<Whose>,
}

impl All {
    /// What a group has of a slot: the founder of one of which its log says nothing has it.
    fn as_held(&self, log: u32, slot: u16, held: Slot) -> Slot {
        let is_founder = at(&self.founders, slot).is_some_and(|(group, _)| group == log);
        match held {
            (Held::None, 0) if is_founder => (Held::Owned, 1),
            held => held,
        }
    }
}

/// The slots of these that a group began with.
pub fn founded(map: &Map, log: u32, span: Span) -> Vec<Span> {
    let its = map.founders().iter().filter(|part| part.group == log);
    let its = its.map(|part| Span {
        first: part.span.first().max(span.first),
        last: part.span.last().min(span.last),
    });
    its.filter(|its| its.first <= its.last).collect()
}

fn at(slots: &[Whose], slot: u16) -> Whose {
    slots.get(usize::from(slot)).copied().flatten()
}

/// What follows from the map and from what a group has.
#[derive(Default)]
struct Follows {
    /// The map's number of changes, as it was then.
    map: Option<Arc<Map>>,
    own: Option<Step>,
    news: Vec<(Span, u32)>,
    wanted: Vec<Wanted>,
    left: u64,
}

/// Slots that are to come here, and whence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub piece: Piece,
    pub from: u32,
}

impl Standing {
    pub fn is_known(&self) -> bool {
        !self.slots.is_empty()
    }

    pub fn learn(&mut self, runs: &[Run]) {
        self.slots = vec![(Held::None, 0); usize::from(SLOTS)];
        for run in runs {
            self.set(run.span, run.token, Some(run.kept));
        }
    }

    /// `kept`: the wish by which it is to have them from now on.
    pub fn set(&mut self, span: Span, held: Held, kept: Option<u32>) {
        let range = usize::from(span.first)..=usize::from(span.last);
        for slot in self.slots.get_mut(range).unwrap_or_default() {
            *slot = (held, kept.unwrap_or(slot.1));
        }
        self.is_new = true;
    }

    /// Works out what follows, where something has changed.
    pub fn work_out(&mut self, log: u32, map: &Arc<Map>) {
        let before = self.follows.map.as_ref();
        if !self.is_new && before.is_some_and(|before| Arc::ptr_eq(before, map)) {
            return;
        }
        self.is_new = false;
        let all = All {
            wanted: spread(map.wanted()),
            served: spread(map.served()),
            founders: spread(map.founders()),
        };
        self.follows = Follows {
            own: self.find_own_step(log, &all, map),
            news: self.find_news(log, &all),
            wanted: self.find_wanted(log, &all),
            left: self.count_left(log, &all),
            map: Some(map.clone()),
        };
    }

    /// What the group does by itself: it begins with slots that were never anybody's, and takes note that it keeps some.
    pub fn take_own_step(&mut self) -> Option<Step> {
        self.follows.own.take()
    }

    /// What the directory has not heard yet: served slots, and which wish is noted.
    pub fn news(&self) -> &[(Span, u32)] {
        &self.follows.news
    }

    /// The pieces that are to come here, and do not yet.
    pub fn wanted(&self) -> &[Wanted] {
        &self.follows.wanted
    }

    /// The slots that are to be the group's, and are not.
    pub fn left(&self) -> u64 {
        self.follows.left
    }

    fn at(&self, slot: u16) -> Slot {
        let known = self.slots.get(usize::from(slot));
        known.copied().unwrap_or((Held::None, 0))
    }

    /// Slots beside each other for which this says the same, at most so many.
    fn runs<T: PartialEq>(
        &self,
        slots_max: u16,
        of: impl Fn(u16, Slot) -> Option<T>,
    ) -> Vec<(Span, T)> {
        let mut runs: Vec<(Span, T)> = Vec::new();
        for slot in 0..SLOTS {
            let Some(what) = of(slot, self.at(slot)) else {
                continue;
            };
            match runs.last_mut() {
                Some((span, same))
                    if span.last + 1 == slot
                        && *same == what
                        && span.last - span.first + 1 < slots_max =>
                {
                    span.last = slot;
                }
                _ => runs.push((
                    Span {
                        first: slot,
                        last: slot,
                    },
                    what,
                )),
            }
        }
        runs
    }

    fn find_own_step(&self, log: u32, all: &All, map: &Map) -> Option<Step> {
        let keeps = |slot: u16, held: Slot| {
            let (held, kept) = all.as_held(log, slot, held);
            let (group, since) = at(&all.wanted, slot)?;
            let is_served = matches!(held, Held::Owned | Held::Leaving { .. });
            (is_served && group == log && since > kept).then_some(since)
        };
        let (span, wish) = self.runs(STEP_MAX, keeps).first().copied()?;
        let piece = Piece { span, wish };
        let founds = founded(map, log, span);
        Some(Step::Keep { piece, founds })
    }

    fn find_news(&self, log: u32, map: &All) -> Vec<(Span, u32)> {
        let news = |slot: u16, held: Slot| {
            let (held, kept) = map.as_held(log, slot, held);
            let is_served = matches!(held, Held::Owned | Held::Leaving { .. });
            let known = at(&map.served, slot);
            let (_, wish) = at(&map.wanted, slot)?;
            let since = kept;
            let is_news = known.is_none_or(|(_, known)| known < since);
            (is_served && is_news && since > 0 && since <= wish).then_some(since)
        };
        self.runs(SLOTS, news)
    }

    fn count_left(&self, log: u32, map: &All) -> u64 {
        let is_left = |slot: &u16| {
            let (held, _) = map.as_held(log, *slot, self.at(*slot));
            let is_served = matches!(held, Held::Owned | Held::Leaving { .. });
            let is_wanted = at(&map.wanted, *slot).is_some_and(|(group, _)| group == log);
            is_wanted && !is_served
        };
        (0..SLOTS).filter(is_left).count() as u64
    }

    fn find_wanted(&self, log: u32, map: &All) -> Vec<Wanted> {
        let comes = |slot: u16, held: Slot| {
            let (held, _) = map.as_held(log, slot, held);
            let (_, wish) = at(&map.wanted, slot).filter(|(group, _)| *group == log)?;
            let is_away = matches!(held, Held::None | Held::Gone);
            let (from, _) = at(&map.served, slot).or(at(&map.founders, slot))?;
            (is_away && from != log).then_some((wish, from))
        };
        let pieces = self.runs(PIECE_MAX, comes).into_iter();
        pieces
            .map(|(span, (wish, from))| Wanted {
                piece: Piece { span, wish },
                from,
            })
            .collect()
    }
}
