//! The few calls whose answers contradict each other, of a history that no order explains.
//!
//! Whoever forgets an answer allows more. So, from the last quiet moment on, one answer after the other is forgotten as long as what is left is
//! refused still. What cannot be forgotten is the contradiction.

use crate::model::Model;
use crate::moments::{Event, Table};
use crate::search::{Contradiction, End, Found, Search};

/// All attempts together take no more than this part of what the search was allowed, and one no more than this part of that.
const SHARE: u64 = 10;

/// `end`: where every way of the whole search came to its end.
pub(crate) fn of<M: Model>(
    whole: &Search<'_, M>,
    events: &[(u64, Event)],
    end: End<M::State>,
) -> Contradiction<M::State> {
    let history = whole.history;
    let (before, since) = events.split_at(end.quiet.min(events.len()));
    let mut table = Table::new();
    let answered = |index: usize| history[index].answer.is_some();
    let looks = |index: usize| whole.model.is_read(&history[index].call);
    let mut calls = Vec::new();
    // It had room in the search before.
    let has_room = table.moments(before, &answered, &looks).is_ok();
    let now = events.get(end.event).map_or(0, |(at, _)| *at);
    // Until the calls that are under way then come to their ends. What begins later has no part in it.
    let is_earlier = |event: &(u64, Event)| matches!(event.1, Event::Completed(index) if history[index].invoked <= now);
    let last = since.iter().rposition(is_earlier).unwrap_or(0);
    let since = since.get(..=last).unwrap_or_default();
    let mut attempt = Search::new(whole.model, history, 0);
    for (_, event) in since {
        if let Event::Invoked(index) = *event {
            attempt.forgotten[index] = history[index].invoked > now;
        }
    }
    let mut left = whole.steps_max / SHARE;
    for (_, event) in since {
        let Event::Invoked(index) = *event else {
            continue;
        };
        if !answered(index) || attempt.forgotten[index] {
            continue;
        }
        attempt.forgotten[index] = true;
        let allowed = (whole.steps_max / SHARE / SHARE).min(left);
        attempt.steps_left = allowed;
        let found = attempt.explore(since, table.clone(), end.then.clone());
        left -= allowed - attempt.steps_left;
        if !has_room || !matches!(found, Found::Refused(_)) {
            attempt.forgotten[index] = false;
            calls.push(index);
        }
    }
    Contradiction {
        quiet_at: since.first().map_or(0, |(at, _)| *at),
        then: states(&end),
        calls,
    }
}

fn states<S: Clone + PartialEq>(end: &End<S>) -> Vec<S> {
    let mut states: Vec<S> = Vec::new();
    for way in &end.then {
        if !states.contains(&way.state) {
            states.push(way.state.clone());
        }
    }
    states
}
