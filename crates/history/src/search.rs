//! The general search: whether any order that the times allow explains what clients of an object were answered.
//!
//! ```text
//!  completion of x:   ⟨state, what took effect of all that is under way⟩ ─ calls take effect, x the last ─► the next completion
//!                          ▲                                                                                  │
//!                          └────────── another way, if none leads to the end ◄────────────────────────────────┘
//! ```
//!
//! Source: Wing and Gong, Testing and verifying concurrent objects, 1993; Lowe, Testing for linearizability, 2017: calls take effect
//! just in time, and no ⟨state, what took effect⟩ is tried twice. What completed is not remembered: where nothing is under way a way is a
//! state, so quiet moments cut a history by themselves.
//!
//! A call without an answer is under way for ever. Four things keep such calls from multiplying the ways:
//!
//! - One that would change nothing need not take effect.
//! - Of equal ones the first takes effect first.
//! - Of two ways with the same state and the same answered calls, the one in which fewer of them took effect can do all that the other can.
//! - Ways in which few of them take effect are tried first: mostly they did not, or somebody saw it soon.
//!
//! And a read that could be answered now is answered now.

use std::collections::VecDeque;

use crate::Malformed;
use crate::core;
use crate::model::{Model, Timed};
use crate::moments::{Event, Moment, Table, TooMuch, events};
use crate::ways::{Way, Ways};

/// What the search found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict<S> {
    /// There is an order that explains every answer.
    Linearizable,
    Refused(Contradiction<S>),
    /// The search took more than it was allowed to.
    Undecided,
}

/// Answers that no order explains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction<S> {
    /// The last moment before them at which no call was under way that was answered …
    pub quiet_at: u64,
    /// … and what the object may have been then, by all that was answered before. Calls that were never answered may still change it.
    pub then: Vec<S>,
    /// The numbers of calls, from 0, whose answers contradict each other from then on, whatever else happened. In the order of their
    /// invocations, and few: without any of them the others could be.
    pub calls: Vec<usize>,
}

/// Searches, and takes at most so many steps of the model.
pub fn search<M: Model>(
    model: &M,
    history: &[Timed<M::Call, M::Answer>],
    steps_max: u64,
) -> Result<Verdict<M::State>, Malformed> {
    for (index, timed) in history.iter().enumerate() {
        timed.check_form(index)?;
    }
    let events = events(history);
    let mut search = Search::new(model, history, steps_max);
    let first = Way {
        state: model.first(),
        done: 0,
    };
    Ok(match search.explore(&events, Table::new(), vec![first]) {
        Found::Order => Verdict::Linearizable,
        Found::Undecided => Verdict::Undecided,
        Found::Refused(end) => Verdict::Refused(core::of(&search, &events, end)),
    })
}

pub(crate) enum Found<S> {
    Order,
    Refused(End<S>),
    Undecided,
}

/// Where every way came to its end.
pub(crate) struct End<S> {
    /// The number of the completion that no way came past.
    pub event: usize,
    /// The number of the event before which all was quiet last.
    pub quiet: usize,
    /// The ways there.
    pub then: Vec<Way<S>>,
}

pub(crate) struct Search<'a, M: Model> {
    pub model: &'a M,
    pub history: &'a [Timed<M::Call, M::Answer>],
    /// Calls whose answers are not to be explained.
    pub forgotten: Vec<bool>,
    pub steps_max: u64,
    pub steps_left: u64,
}

/// The ways at one completion.
struct Level<S> {
    /// As they came from the completion before.
    came: Ways<S>,
    /// With calls that took effect since.
    seen: Ways<S>,
    to_try: VecDeque<Way<S>>,
}

impl<'a, M: Model> Search<'a, M> {
    pub fn new(model: &'a M, history: &'a [Timed<M::Call, M::Answer>], steps_max: u64) -> Self {
        Self {
            model,
            history,
            forgotten: vec![false; history.len()],
            steps_max,
            steps_left: steps_max,
        }
    }

    /// Tries the ways that begin with these, through all of these events. `table`: what is under way before.
    pub fn explore(
        &mut self,
        events: &[(u64, Event)],
        table: Table,
        first: Vec<Way<M::State>>,
    ) -> Found<M::State> {
        let Ok(moments) = self.moments(events, table) else {
            return Found::Undecided;
        };
        let mut levels = Vec::new();
        for moment in &moments {
            levels.push(Level {
                came: Ways::new(moment.open),
                seen: Ways::new(moment.open),
                to_try: VecDeque::new(),
            });
        }
        let mut at = 0;
        let mut furthest = 0;
        let mut coming = first;
        while let (Some(moment), Some(level)) = (moments.get(at), levels.get_mut(at)) {
            for way in coming.drain(..) {
                if level.came.add(&way) && self.begin(moment, level, way).is_none() {
                    return Found::Undecided;
                }
            }
            furthest = furthest.max(at);
            match self.next(moment, level) {
                None => return Found::Undecided,
                Some(Some(way)) => {
                    coming.push(way);
                    at += 1;
                }
                Some(None) if at == 0 => {
                    return Found::Refused(end(&moments, &levels, furthest));
                }
                Some(None) => at -= 1,
            }
        }
        Found::Order
    }

    pub fn moments(
        &self,
        events: &[(u64, Event)],
        mut table: Table,
    ) -> Result<Vec<Moment>, TooMuch> {
        let answered = |index| self.answer(index).is_some();
        let looks = |index: usize| self.model.is_read(&self.history[index].call);
        table.moments(events, &answered, &looks)
    }

    fn answer(&self, index: usize) -> Option<&'a M::Answer> {
        let answer = self.history[index].answer.as_ref();
        answer.filter(|_| !self.forgotten[index])
    }

    fn begin(
        &mut self,
        moment: &Moment,
        level: &mut Level<M::State>,
        way: Way<M::State>,
    ) -> Option<()> {
        let way = self.read(moment, way)?;
        if level.seen.add(&way) {
            level.to_try.push_back(way);
        }
        Some(())
    }

    /// The next way in which the call that completes here took effect. `None`: too many steps; `Some(None)`: there is no further one.
    fn next(
        &mut self,
        moment: &Moment,
        level: &mut Level<M::State>,
    ) -> Option<Option<Way<M::State>>> {
        while let Some(way) = level.to_try.pop_front() {
            if !level.seen.has(&way) {
                continue;
            }
            if way.done & moment.own != 0 {
                let done = way.done & !moment.own;
                return Some(Some(Way { done, ..way }));
            }
            for (bit, index) in &moment.under_way {
                if way.done & bit != 0 {
                    continue;
                }
                let is_open = moment.open & bit != 0;
                if is_open && self.has_earlier_twin(moment, &way, *index) {
                    continue;
                }
                let Some(state) = self.step(&way.state, *index)? else {
                    continue;
                };
                if is_open && state == way.state {
                    continue;
                }
                let done = way.done | bit;
                let after = self.read(moment, Way { state, done })?;
                if level.seen.add(&after) {
                    match is_open {
                        true => level.to_try.push_back(after),
                        false => level.to_try.push_front(after),
                    }
                }
            }
        }
        Some(None)
    }

    /// Whether an equal call without an answer is to take effect first.
    fn has_earlier_twin(&self, moment: &Moment, way: &Way<M::State>, index: usize) -> bool {
        let call = &self.history[index].call;
        let mut others = moment.under_way.iter();
        others.any(|(bit, twin)| {
            *twin < index && moment.open & !way.done & bit != 0 && self.history[*twin].call == *call
        })
    }

    /// Answers every read that can be answered in this state.
    fn read(&mut self, moment: &Moment, mut way: Way<M::State>) -> Option<Way<M::State>> {
        for (bit, index) in &moment.under_way {
            if way.done & bit == 0
                && self.model.is_read(&self.history[*index].call)
                && self.step(&way.state, *index)?.is_some()
            {
                way.done |= bit;
            }
        }
        Some(way)
    }

    /// `None`: that was too many.
    fn step(&mut self, state: &M::State, index: usize) -> Option<Option<M::State>> {
        self.steps_left = self.steps_left.checked_sub(1)?;
        let call = &self.history[index].call;
        Some(self.model.step(state, call, self.answer(index)))
    }
}

/// `furthest`: the number of the completion that no way came past.
fn end<S: Clone + Eq + std::hash::Hash>(
    moments: &[Moment],
    levels: &[Level<S>],
    furthest: usize,
) -> End<S> {
    let upto = moments.iter().zip(levels).take(furthest + 1);
    let mut quiet = upto.filter_map(|(moment, level)| Some((moment.quiet?, level)));
    let (quiet, then) = quiet
        .next_back()
        .map_or((0, Vec::new()), |(quiet, level)| (quiet, level.came.all()));
    End {
        event: moments.get(furthest).map_or(0, |moment| moment.event),
        quiet,
        then,
    }
}
