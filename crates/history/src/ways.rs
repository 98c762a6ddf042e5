//! The ways in which all could have gone so far.

use std::collections::HashMap;
use std::hash::Hash;

/// One of them.
#[derive(Clone)]
pub(crate) struct Way<S> {
    pub state: S,
    /// A bit for each call under way that took effect.
    pub done: u128,
}

/// Ways of which none can do all that another can: of two with the same state and the same answered calls, the one in which fewer of the calls
/// without an answer took effect can.
pub(crate) struct Ways<S> {
    open: u128,
    /// By the state and the answered calls that took effect: the calls without an answer that did.
    least: HashMap<(S, u128), Vec<u128>>,
}

impl<S: Clone + Eq + Hash> Ways<S> {
    /// `open`: the bits of calls without an answer.
    pub fn new(open: u128) -> Self {
        let least = HashMap::new();
        Self { open, least }
    }

    /// False if one that is there can do all that this one can.
    pub fn add(&mut self, way: &Way<S>) -> bool {
        let key = (way.state.clone(), way.done & !self.open);
        let took = way.done & self.open;
        let least = self.least.entry(key).or_default();
        if least.iter().any(|fewer| fewer & !took == 0) {
            return false;
        }
        least.retain(|more| took & !more != 0);
        least.push(took);
        true
    }

    /// Whether it is there still, and not one that can do more in its place.
    pub fn has(&self, way: &Way<S>) -> bool {
        let key = (way.state.clone(), way.done & !self.open);
        let least = self.least.get(&key);
        least.is_some_and(|least| least.contains(&(way.done & self.open)))
    }

    pub fn all(&self) -> Vec<Way<S>> {
        let all = self.least.iter().flat_map(|((state, done), least)| {
            least.iter().map(move |took| Way {
                state: state.clone(),
                done: done | took,
            })
        });
        all.collect()
    }
}
