//! A history as its completions, in the order of their times, and what is under way at each.

use crate::model::Timed;

/// Calls that are under way at one moment, those without an answer among them.
pub const UNDER_WAY_MAX: usize = 128;

/// In the order of times; what touches is concurrent, so invocations come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    Invoked(usize),
    Completed(usize),
}

pub(crate) fn events<C, A>(history: &[Timed<C, A>]) -> Vec<(u64, Event)> {
    let mut events = Vec::with_capacity(2 * history.len());
    for (index, timed) in history.iter().enumerate() {
        events.push((timed.invoked, Event::Invoked(index)));
        events.extend(timed.completed.map(|at| (at, Event::Completed(index))));
    }
    events.sort_unstable();
    events
}

/// A completion.
pub(crate) struct Moment {
    /// The bit of the call that completes: by now it took effect.
    pub own: u128,
    /// The calls under way, each with its bit, which it has until it completes.
    pub under_way: Vec<(u128, usize)>,
    /// The bits of those that have no answer.
    pub open: u128,
    /// The number of its event.
    pub event: usize,
    /// The number of the event before which nothing was under way that is answered, if that is so since the completion before.
    pub quiet: Option<usize>,
}

/// The calls that are under way, each at a place of its own.
#[derive(Clone)]
pub(crate) struct Table {
    places: [Option<usize>; UNDER_WAY_MAX],
    open: u128,
}

/// More is under way than there are places.
pub(crate) struct TooMuch;

impl Table {
    pub fn new() -> Table {
        Table {
            places: [None; UNDER_WAY_MAX],
            open: 0,
        }
    }

    /// The completions among these events, of calls that are `answered`. Of the others those that are `looks` need no explanation.
    pub fn moments(
        &mut self,
        events: &[(u64, Event)],
        answered: &dyn Fn(usize) -> bool,
        looks: &dyn Fn(usize) -> bool,
    ) -> Result<Vec<Moment>, TooMuch> {
        let mut moments = Vec::new();
        let mut quiet = Some(0);
        for (number, (_, event)) in events.iter().enumerate() {
            match *event {
                Event::Invoked(index) if answered(index) || !looks(index) => {
                    let place = self.places.iter().position(Option::is_none);
                    let place = place.ok_or(TooMuch)?;
                    self.places[place] = Some(index);
                    if !answered(index) {
                        self.open |= 1 << place;
                    }
                }
                Event::Completed(index) if answered(index) => {
                    let place = self.places.iter().position(|at| *at == Some(index));
                    let Some(place) = place else { continue };
                    moments.push(Moment {
                        own: 1 << place,
                        under_way: self.under_way().collect(),
                        open: self.open,
                        event: number,
                        quiet: quiet.take(),
                    });
                    self.places[place] = None;
                    let is_quiet = self.under_way().all(|(bit, _)| self.open & bit != 0);
                    quiet = is_quiet.then_some(number + 1);
                }
                _ => {}
            }
        }
        Ok(moments)
    }

    fn under_way(&self) -> impl Iterator<Item = (u128, usize)> {
        let places = self.places.iter().enumerate();
        places.filter_map(|(place, index)| Some((1 << place, (*index)?)))
    }
}
