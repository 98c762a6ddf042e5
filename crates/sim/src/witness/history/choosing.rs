//! The consequences of acceptances: the chosen values, and their sum.

use std::collections::BTreeSet;
use std::ops::{Bound, Range};

use paxos::{
    Action, By, Configuration, Era, LogState, NodeId, Outcome, Slot, SlotRange, StreamPosition,
    Term, Value,
};
use wire::parse_stream;

use super::{Act, Chosen, History, InTerm, Shape, StreamInfo};

impl History {
    /// Something new was accepted in this term: what follows from it.
    pub(super) fn advance(&mut self, term: Term) {
        if !self.advance_in(term) {
            return;
        }
        // These acceptances waited for their turn in other terms.
        loop {
            let next = self.next().0;
            let waiting = |in_term: &InTerm| in_term.accepted_end > next;
            let terms = self.terms.iter().rev();
            let candidates = terms.filter(|(_, in_term)| waiting(in_term));
            let candidates: Vec<Term> = candidates.map(|(term, _)| *term).collect();
            if !candidates.into_iter().any(|term| self.advance_in(term)) {
                return;
            }
        }
    }

    /// Chooses what a quorum accepted in the term. True if anything was.
    fn advance_in(&mut self, term: Term) -> bool {
        let mut any = false;
        while self.choose_some(term) {
            any = true;
        }
        any
    }

    fn choose_some(&mut self, term: Term) -> bool {
        let Some(state) = &self.state else {
            return false;
        };
        let (next, era) = (state.next, state.era);
        if term.era > era || era.0 > term.era.0 + 1 {
            return false;
        }
        let in_term = &self.terms[&term];
        let mut ends: Vec<(u64, u64)> = Vec::new();
        for member in state.configuration.members() {
            let accepted = in_term.accepted.get(&member.node);
            let end = accepted.map_or(next.0, |accepted| accepted.prefix_end(next.0, |()| true));
            ends.push((end, u64::from(member.weight)));
        }
        ends.sort_unstable_by(|a, b| b.cmp(a));
        let mut weight = 0;
        let quorate = ends.iter().find(|(_, more)| {
            weight += more;
            state.configuration.is_majority(weight)
        });
        let end = quorate.map_or(next.0, |(end, _)| *end);
        let runs = in_term.proposed.over(next.0..end);
        let runs: Vec<(Range<u64>, Value)> = runs.map(|(r, v)| (r, v.clone())).collect();
        for (range, value) in &runs {
            // Equal actions in a row are an action for each slot.
            let step = match value {
                Value::Action(_) => 1,
                Value::NoOp | Value::Content { .. } => range.end - range.start,
            };
            for start in range.clone().step_by(step as usize) {
                if self.apply(term, start..start + step, value) {
                    return true; // The slots behind it have other quorums.
                }
            }
        }
        !runs.is_empty()
    }

    /// True if an era began.
    fn apply(&mut self, term: Term, range: Range<u64>, value: &Value) -> bool {
        let later = (Bound::Excluded(term), Bound::Unbounded);
        for (later, in_term) in self.terms.range(later) {
            for (part, other) in in_term.proposed.over(range.clone()) {
                assert!(
                    other == value,
                    "I2: {value:?} is chosen for {part:?} in {term}, and {other:?} proposed in {later}"
                );
            }
        }
        let Some(state) = &mut self.state else {
            return false;
        };
        let before = state.current_stream().map(|stream| stream.length);
        let is_trim =
            matches!(value, Value::Action(action) if matches!(**action, Action::Trim { .. }));
        let untrimmed = is_trim.then(|| state.clone());
        let outcome = state.apply(SlotRange::new(Slot(range.start), Slot(range.end)), value);
        let length = state.current_stream().map(|stream| stream.length);
        let is_content = matches!(value, Value::Content { .. });
        let grows = is_content && length > before;
        let length_offset = match length {
            Some(length) if grows => i128::from(length.0) - i128::from(range.end),
            _ => 0,
        };
        let chosen = Chosen {
            term,
            value: value.clone(),
            after: Shape::of(state),
            grows,
            length_offset,
        };
        if let (Some(stream), true) = (state.current_stream(), grows)
            && let Some(StreamInfo {
                client: Some(client),
                begins,
            }) = self.streams.get(&stream.name)
        {
            self.reach.insert(*client, begins + stream.length.0);
        }
        self.chosen.assign(range.clone(), chosen);
        assert!(
            !self.is_freed || !grows && !matches!(outcome, Some(Outcome::Opened(_))),
            "names: {value:?} is chosen for {range:?} in a log whose name is free for another"
        );
        self.wanted.check(value, &range, outcome.as_ref(), grows);
        if let Some(untrimmed) = untrimmed {
            self.acts.push(trimmed(untrimmed, state, value));
        }
        if let (Some(Outcome::Wished { .. }), Some(wish)) = (&outcome, &state.wish) {
            self.acts.push(Act::Wished(wish.clone()));
        }
        match &outcome {
            Some(Outcome::Trimmed { .. }) => self.trims.push(state.clone()),
            Some(Outcome::Opened(stream)) => drop(self.opened.insert(*stream)),
            _ => {}
        }
        if let (Some(Outcome::Opened(by)), Value::Action(action)) = (&outcome, value)
            && let Action::OpenStream(open) = action.as_ref()
            && let Some((before, _)) = open.continues
        {
            let first = *self.continued.entry(before).or_insert(*by);
            assert!(
                first == *by,
                "I6: stream {before} is continued by {first} and by {by}"
            );
        }
        if let Some(Outcome::Reconfigured { era }) = outcome {
            let from = Era(era.0 - 1);
            assert!(
                matches!(value, Value::Action(action)
                    if matches!(action.as_ref(), Action::Reconfigure { from: asked, .. } if *asked == from)),
                "I7: {value:?} took effect in {from:?}"
            );
            let before = &self.configurations[&from];
            if let Value::Action(action) = value
                && let Action::Reconfigure { change, .. } = **action
            {
                let members = before.members().iter();
                let was = members
                    .map(|member| (member.node.0, member.weight))
                    .collect();
                self.acts.push(Act::Stepped { from, was, change });
            }
            check_quorums_meet(before, &state.configuration);
            self.era_starts.insert(range.end, era);
            self.configurations.insert(era, state.configuration.clone());
            return true;
        }
        false
    }
}

fn trimmed(before: LogState, after: &LogState, value: &Value) -> Act {
    let by = match value {
        Value::Action(action) => match **action {
            Action::Trim { by, .. } => by,
            _ => By::Unsaid,
        },
        _ => By::Unsaid,
    };
    let left = |state: &LogState| -> u64 {
        let streams = state.streams.iter();
        streams.map(|s| s.length.0 - s.trimmed.0).sum()
    };
    let (had_bytes, left_bytes) = (left(&before), left(after));
    let up_to = after.trimmed;
    Act::Trimmed {
        forgotten_bytes: had_bytes - left_bytes,
        left_bytes,
        by,
        by_hand_from: Box::new(move |place| {
            let (name, position) = place.split_once('@').unwrap_or((place, "0"));
            let position = position.parse().map(StreamPosition);
            let (Some(name), Ok(position)) = (parse_stream(name), position) else {
                return false;
            };
            let point = before.trim_point(name, position);
            point.is_some_and(|point| point >= up_to)
        }),
    }
}

/// P1: every quorum of an era meets every quorum of the next.
fn check_quorums_meet(before: &Configuration, after: &Configuration) {
    let members = before.members().iter().chain(after.members());
    let nodes: BTreeSet<NodeId> = members.map(|member| member.node).collect();
    let nodes: Vec<NodeId> = nodes.into_iter().collect();
    let has = |set: u32, node: NodeId| {
        let at = nodes.iter().position(|other| *other == node);
        at.is_some_and(|at| set & (1 << at) != 0)
    };
    for set in 0..1u32 << nodes.len() {
        let apart =
            before.is_quorum(|node| has(set, node)) && after.is_quorum(|node| !has(set, node));
        assert!(
            !apart,
            "I7: quorums of {before:?} and {after:?} do not meet"
        );
    }
}
