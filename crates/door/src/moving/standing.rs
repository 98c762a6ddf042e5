//! What a group has, slot by slot, as far as its leader has read or made it; and what follows from the map.

use std::sync::Arc;

use ::slots::{Map, Whose};
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
    /// Slots beside each other of which the same is known, in order; each slot is in one. Empty: nothing is known.
    ///
    /// Few, as the parts of a map are: what follows is worked out at each step of each move, while clients wait.
    runs: Vec<(Span, Slot)>,
    /// It changed since what follows was worked out.
    is_new: bool,
    follows: Follows,
}

/// Slots beside each other of which the group and the map say the same.
struct Stretch {
    span: Span,
    /// What the group has of them: the founder of slots of which its log says nothing has them.
    held: Slot,
    wanted: Whose,
    served: Whose,
    founder: Option<u32>,
}

impl Stretch {
    fn is_served(&self) -> bool {
        matches!(self.held.0, Held::Owned | Held::Leaving { .. })
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
        !self.runs.is_empty()
    }

    pub fn learn(&mut self, runs: &[Run]) {
        let all = Span {
            first: 0,
            last: SLOTS - 1,
        };
        self.runs = vec![(all, (Held::None, 0))];
        for run in runs {
            self.set(run.span, run.token, Some(run.kept));
        }
    }

    /// `kept`: the wish by which it is to have them from now on.
    pub fn set(&mut self, span: Span, held: Held, kept: Option<u32>) {
        let (from, to) = (span.first, span.last.min(SLOTS - 1) + 1);
        if from >= to {
            return;
        }
        let mut runs: Vec<(Span, Slot)> = Vec::with_capacity(self.runs.len() + 2);
        let mut push = |first: u16, end: u16, slot: Slot| {
            if first >= end {
                return;
            }
            match runs.last_mut() {
                Some((before, same)) if *same == slot => before.last = end - 1,
                _ => runs.push((
                    Span {
                        first,
                        last: end - 1,
                    },
                    slot,
                )),
            }
        };
        for (run, slot) in &self.runs {
            let (first, end) = (run.first, run.last + 1);
            push(first, end.min(from), *slot);
            push(first.max(from), end.min(to), (held, kept.unwrap_or(slot.1)));
            push(first.max(to), end, *slot);
        }
        self.runs = runs;
        self.is_new = true;
    }

    /// Works out what follows, where something has changed.
    pub fn work_out(&mut self, log: u32, map: &Arc<Map>) {
        let before = self.follows.map.as_ref();
        if !self.is_new && before.is_some_and(|before| Arc::ptr_eq(before, map)) {
            return;
        }
        self.is_new = false;
        let all = self.stretches(log, map);
        self.follows = Follows {
            own: find_own_step(log, &all, map),
            news: find_news(&all),
            wanted: find_wanted(log, &all),
            left: count_left(log, &all),
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
        let behind = self.runs.partition_point(|(span, _)| span.first <= slot);
        let run = behind.checked_sub(1).and_then(|at| self.runs.get(at));
        run.map_or((Held::None, 0), |(_, slot)| *slot)
    }

    /// All slots. What the group or the map says changes only from one stretch to the next.
    fn stretches(&self, log: u32, map: &Map) -> Vec<Stretch> {
        let parts = [map.wanted(), map.served(), map.founders()];
        let parts = parts.into_iter().flatten().map(|part| part.span);
        let ends = parts.flat_map(|span| [span.first(), span.last() + 1]);
        let mut begins: Vec<u16> = self.runs.iter().map(|(span, _)| span.first).collect();
        begins.extend([0, SLOTS]);
        begins.extend(ends);
        begins.sort_unstable();
        begins.dedup();
        let spans = begins.iter().zip(begins.iter().skip(1));
        spans
            .map(|(first, end)| {
                let whose = |part: &::slots::Part| (part.group, part.since);
                let founder = map.founder_of(*first);
                let held = match self.at(*first) {
                    (Held::None, 0) if founder == Some(log) => (Held::Owned, 1),
                    held => held,
                };
                Stretch {
                    span: Span {
                        first: *first,
                        last: end - 1,
                    },
                    held,
                    wanted: map.wanted_at(*first).map(whose),
                    served: map.served_at(*first).map(whose),
                    founder,
                }
            })
            .collect()
    }
}

/// Slots beside each other for which this says the same, at most so many.
fn runs<T: PartialEq + Copy>(
    all: &[Stretch],
    slots_max: u16,
    of: impl Fn(&Stretch) -> Option<T>,
) -> Vec<(Span, T)> {
    let mut runs: Vec<(Span, T)> = Vec::new();
    for stretch in all {
        let Some(what) = of(stretch) else {
            continue;
        };
        let (mut first, end) = (stretch.span.first, stretch.span.last + 1);
        while first < end {
            let longer = runs.last_mut().filter(|(span, same)| {
                let count = span.last - span.first + 1;
                span.last + 1 == first && *same == what && count < slots_max
            });
            match longer {
                Some((span, _)) => span.last = (end - 1).min(span.first + (slots_max - 1)),
                None => {
                    let last = (end - 1).min(first + (slots_max - 1));
                    runs.push((Span { first, last }, what));
                }
            }
            first = runs.last().map_or(end, |(span, _)| span.last + 1);
        }
    }
    runs
}

fn find_own_step(log: u32, all: &[Stretch], map: &Map) -> Option<Step> {
    let keeps = |stretch: &Stretch| {
        let (group, since) = stretch.wanted?;
        let is_later = since > stretch.held.1;
        (stretch.is_served() && group == log && is_later).then_some(since)
    };
    let (span, wish) = runs(all, STEP_MAX, keeps).first().copied()?;
    let piece = Piece { span, wish };
    let founds = founded(map, log, span);
    Some(Step::Keep { piece, founds })
}

fn find_news(all: &[Stretch]) -> Vec<(Span, u32)> {
    let news = |stretch: &Stretch| {
        let (_, wish) = stretch.wanted?;
        let since = stretch.held.1;
        let is_news = stretch.served.is_none_or(|(_, known)| known < since);
        (stretch.is_served() && is_news && since > 0 && since <= wish).then_some(since)
    };
    runs(all, SLOTS, news)
}

fn count_left(log: u32, all: &[Stretch]) -> u64 {
    let is_left = |stretch: &&Stretch| {
        let is_wanted = stretch.wanted.is_some_and(|(group, _)| group == log);
        is_wanted && !stretch.is_served()
    };
    let left = all.iter().filter(is_left);
    left.map(|stretch| u64::from(stretch.span.last - stretch.span.first) + 1)
        .sum()
}

fn find_wanted(log: u32, all: &[Stretch]) -> Vec<Wanted> {
    let comes = |stretch: &Stretch| {
        let (_, wish) = stretch.wanted.filter(|(group, _)| *group == log)?;
        let is_away = matches!(stretch.held.0, Held::None | Held::Gone);
        let served = stretch.served.map(|(group, _)| group);
        let from = served.or(stretch.founder)?;
        (is_away && from != log).then_some((wish, from))
    };
    let pieces = runs(all, PIECE_MAX, comes).into_iter();
    pieces
        .map(|(span, (wish, from))| Wanted {
            piece: Piece { span, wish },
            from,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn span(first: u16, count: u16) -> Span {
        let last = first.saturating_add(count).min(SLOTS - 1);
        Span { first, last }
    }

    proptest! {
        #[test]
        fn what_is_set_is_what_stands(
            sets in proptest::collection::vec((0..SLOTS, 0..3_000u16, 0..4u32, any::<bool>()), 0..20),
        ) {
            let mut standing = Standing::default();
            standing.learn(&[]);
            let mut model = vec![(Held::None, 0); usize::from(SLOTS)];
            for (first, count, wish, is_kept) in sets {
                let (span, kept) = (span(first, count), is_kept.then_some(wish));
                let held = if wish == 0 { Held::Owned } else { Held::Coming { wish } };
                standing.set(span, held, kept);
                for slot in span.first..=span.last {
                    let was = &mut model[usize::from(slot)];
                    *was = (held, kept.unwrap_or(was.1));
                }
            }
            let stands: Vec<Slot> = (0..SLOTS).map(|slot| standing.at(slot)).collect();
            prop_assert_eq!(stands, model);
            let next = standing.runs.iter().zip(standing.runs.iter().skip(1));
            for ((before, of_before), (behind, of_behind)) in next {
                prop_assert_eq!(before.last + 1, behind.first);
                prop_assert_ne!(of_before, of_behind);
            }
        }

        #[test]
        fn runs_are_as_long_as_they_may_be(
            ends in proptest::collection::btree_set(1..SLOTS, 0..30),
            say in proptest::collection::vec(0..3u32, 31),
            slots_max in 1..5_000u16,
        ) {
            let begins = std::iter::once(0).chain(ends.iter().copied());
            let ends = ends.iter().copied().chain(std::iter::once(SLOTS));
            let all: Vec<Stretch> = begins
                .zip(ends)
                .zip(&say)
                .map(|((first, end), wish)| Stretch {
                    span: Span { first, last: end - 1 },
                    held: (Held::None, *wish),
                    wanted: None,
                    served: None,
                    founder: None,
                })
                .collect();
            let of = |stretch: &Stretch| (stretch.held.1 > 0).then_some(stretch.held.1);
            let slots = all.iter().flat_map(|one| (one.span.first..=one.span.last).map(|slot| (slot, of(one))));
            let mut model: Vec<(Span, u32)> = Vec::new();
            for (slot, what) in slots {
                let Some(what) = what else { continue };
                match model.last_mut() {
                    Some((span, same))
                        if span.last + 1 == slot && *same == what && slot - span.first < slots_max =>
                    {
                        span.last = slot;
                    }
                    _ => model.push((Span { first: slot, last: slot }, what)),
                }
            }
            prop_assert_eq!(runs(&all, slots_max, of), model);
        }
    }
}
