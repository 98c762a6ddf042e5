//! One log as somebody knows it who sees every disk and every message: what was promised, proposed,
//! accepted and therefore chosen, by the definitions alone.
//!
//! ```text
//! proposed ⊇ accepted (durable)      chosen = accepted by a quorum of the slot's era in one term,
//!                                             and everything before it is chosen
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use paxos::{
    AcceptedRun, AcceptedTerm, Action, By, Change, Configuration, Era, LogState, NodeId, Slot,
    SlotRange, StreamEnd, StreamName, StreamState, Term, Value, Wish,
};

use super::ranges::Ranges;
use super::replica::Whose;

mod choosing;
mod wanted;

#[derive(Default)]
pub(super) struct History {
    terms: BTreeMap<Term, InTerm>,
    /// After all that is chosen; none before somebody has made the log.
    pub state: Option<LogState>,
    pub chosen: Ranges<Chosen>,
    configurations: BTreeMap<Era, Configuration>,
    /// Slots at which an era began.
    era_starts: BTreeMap<u64, Era>,
    pub streams: BTreeMap<StreamName, StreamInfo>,
    /// By client: how far its chain of streams is chosen.
    pub reach: BTreeMap<u64, u64>,
    /// The stream that continues each stream.
    continued: BTreeMap<StreamName, StreamName>,
    /// Streams that came to be.
    opened: BTreeSet<StreamName>,
    /// The state after each trim.
    trims: Vec<LogState>,
    /// Acts that nobody has judged yet.
    pub acts: Vec<Act>,
    /// Its name is free for another.
    pub is_freed: bool,
    wanted: wanted::Wanted,
    /// The wish that all its replicas begin with.
    first_wish: Option<Arc<Wish>>,
}

/// Took effect, and cannot be undone.
pub(super) enum Act {
    Trimmed {
        forgotten_bytes: u64,
        left_bytes: u64,
        /// The wish that it names.
        by: By,
        /// The places up to which nothing else is forgotten.
        by_hand_from: Box<dyn Fn(&str) -> bool>,
    },
    Stepped {
        from: Era,
        /// ⟨node, weight⟩
        was: Vec<(u32, u32)>,
        change: Change,
    },
    /// The log heard what is wanted of it.
    Wished(Arc<Wish>),
    /// Somebody proposed a step, and it may never come.
    StepProposed { from: Era, change: Change },
}

#[derive(Default)]
struct InTerm {
    proposed: Ranges<Value>,
    /// Durable records only.
    accepted: BTreeMap<NodeId, Ranges<()>>,
    accepted_end: u64,
    promises: BTreeMap<NodeId, Vec<PromiseSeen>>,
    /// From here on every promise of a quorum is free.
    free_from: Option<u64>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct PromiseSeen {
    pub from: Slot,
    pub runs: Vec<AcceptedRun>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Chosen {
    pub term: Term,
    pub value: Value,
    /// The shape that the run leaves: the same however it is cut, but for the length it grows to.
    pub after: Shape,
    /// The length of the last stream is that of the run's end less what is left of the run.
    pub grows: bool,
    /// For `grows`: last stream's length minus slot, which is the same all along the run.
    pub length_offset: i128,
}

/// The part of the state that changes with each choice, cheap to look at in any state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shape {
    pub era: Era,
    pub streams: usize,
    pub current: Option<StreamName>,
    pub last_end: Option<StreamEnd>,
    pub trimmed: Slot,
}

/// The open-stream of a client's stream, and its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StreamInfo {
    /// The client whose content it is; none if it is no client of ours.
    pub client: Option<u64>,
    /// The chain's position at which it begins.
    pub begins: u64,
}

impl Shape {
    pub fn of(state: &LogState) -> Shape {
        Shape {
            era: state.era,
            streams: state.streams.len(),
            current: state.current,
            last_end: state.streams.last().map(|stream| stream.end),
            trimmed: state.trimmed,
        }
    }
}

impl History {
    pub fn next(&self) -> Slot {
        self.state.as_ref().map_or(Slot(0), |state| state.next)
    }

    /// The beginning of the rest of a client's chain; beyond it all, if nothing is left.
    pub fn left_from(&self, client: u64) -> u64 {
        let state = self.state.iter();
        let mut streams = state.flat_map(|state| &state.streams);
        let left = streams.find_map(|stream| {
            let info = self.streams.get(&stream.name)?;
            (info.client == Some(client)).then_some(info.begins + stream.trimmed.0)
        });
        left.unwrap_or(u64::MAX)
    }

    /// A replica was made: all begin alike.
    pub fn on_first_state(&mut self, state: &LogState) {
        match &self.state {
            None => {
                self.configurations
                    .insert(state.era, state.configuration.clone());
                self.era_starts.insert(0, state.era);
                self.first_wish = state.wish.clone();
                self.wanted.begin(state.wish_number());
                self.acts.extend(state.wish.clone().map(Act::Wished));
                self.state = Some(state.clone());
            }
            Some(_) if state.next == Slot(0) => {
                let first = &self.configurations[&Era(0)];
                assert!(
                    *first == state.configuration,
                    "I7: the log began with {first:?}, and elsewhere with {state:?}"
                );
                assert!(
                    self.first_wish == state.wish,
                    "intent: the log began with {:?}, and elsewhere with {:?}",
                    self.first_wish,
                    state.wish
                );
            }
            Some(_) => {}
        }
    }

    pub fn on_promise(&mut self, node: NodeId, term: Term, promise: PromiseSeen) {
        let in_term = self.terms.entry(term).or_default();
        let promises = in_term.promises.entry(node).or_default();
        if !promises.contains(&promise) {
            promises.push(promise);
            in_term.free_from = None;
        }
    }

    /// As its owner accepted it from there on.
    pub fn proposed_in(&self, term: Term, from: Slot) -> Vec<AcceptedRun> {
        let Some(in_term) = self.terms.get(&term) else {
            return Vec::new();
        };
        let proposed = in_term.proposed.over(from.0..u64::MAX);
        let runs = proposed.map(|(range, value)| AcceptedRun {
            slots: SlotRange::new(Slot(range.start), Slot(range.end)),
            term: AcceptedTerm(term),
            value: value.clone(),
        });
        runs.collect()
    }

    /// I2: what a leader finishes in the term before is not proposed otherwise in the one it promised.
    pub fn check_finishing(&self, whose: Whose, term: Term, later: Term, range: Range<u64>) {
        let proposed = |term| self.terms.get(term).map(|in_term| &in_term.proposed);
        let (Some(now), Some(later_on)) = (proposed(&term), proposed(&later)) else {
            return;
        };
        for (part, other) in later_on.over(range) {
            let mut same = now.over(part.clone());
            assert!(
                same.all(|(_, value)| value == other),
                "I2: {whose} finishes {part:?} in {term}, and proposes {other:?} in {later}"
            );
        }
    }

    /// The term took over by a casting vote: those who promised it left a quorum, with its owner, to
    /// the term before.
    pub fn check_split(&self, whose: Whose, term: Term) {
        let promises = self.terms.get(&term).map(|in_term| &in_term.promises);
        let asked = |node| promises.is_some_and(|promises| promises.contains_key(&node));
        let configuration = self.configurations.get(&term.era);
        let split =
            configuration.is_some_and(|c| c.is_quorum(|node| node == term.owner || !asked(node)));
        assert!(
            split,
            "liveness: {whose} lets {term} take over, promised by {:?} of {configuration:?}",
            promises.map(|promises| promises.keys().collect::<Vec<_>>())
        );
    }

    /// A value was given to disk or network under a term by `by`.
    pub fn on_proposed(&mut self, by: NodeId, term: Term, slots: SlotRange, value: &Value) {
        assert!(
            by == term.owner,
            "I3: node {by} proposes in {term}, which is not its own"
        );
        let range = slots.start.0..slots.end.0;
        let in_term = self.terms.entry(term).or_default();
        let mut new = Vec::new();
        let mut at = range.start;
        for (part, before) in in_term.proposed.over(range.clone()) {
            assert!(
                before == value,
                "I3: {before:?} and {value:?} are proposed for {part:?} in {term}"
            );
            if at < part.start {
                new.push(at..part.start);
            }
            at = part.end;
        }
        if at < range.end {
            new.push(at..range.end);
        }
        for part in new {
            self.check_free(term, part.clone(), value);
            self.check_chosen_before(term, part.clone(), value);
            if let Value::Action(action) = value {
                self.on_action(action);
            }
            let in_term = self.terms.entry(term).or_default();
            in_term.proposed.assign(part, value.clone());
        }
    }

    /// I2 and P5: a quorum promised the slots free, or the value is that of the highest accepted
    /// term that it reported.
    fn check_free(&mut self, term: Term, range: Range<u64>, value: &Value) {
        let Some(configuration) = self.configurations.get(&term.era) else {
            panic!("I7: something is proposed in {term}, and nobody knows its era");
        };
        let Some(in_term) = self.terms.get_mut(&term) else {
            return;
        };
        let free_from = *in_term.free_from.get_or_insert_with(|| {
            let promises = &in_term.promises;
            if !configuration.is_quorum(|node| promises.contains_key(&node)) {
                return u64::MAX;
            }
            let all = promises.values().flatten();
            let ends = all.map(|promise| {
                let ends = promise.runs.iter().map(|run| run.slots.end.0);
                ends.max().unwrap_or(0).max(promise.from.0)
            });
            ends.max().unwrap_or(0)
        });
        if range.start >= free_from {
            return;
        }
        // The slots between two ends of any run are all alike.
        let mut cuts = vec![range.start, range.end];
        for promise in in_term.promises.values().flatten() {
            cuts.push(promise.from.0);
            cuts.extend(
                promise
                    .runs
                    .iter()
                    .flat_map(|run| [run.slots.start.0, run.slots.end.0]),
            );
        }
        cuts.retain(|cut| range.contains(cut) || *cut == range.end);
        cuts.sort_unstable();
        cuts.dedup();
        for at in cuts.windows(2).map(|pair| pair[0]) {
            assert!(
                may_propose(configuration, &in_term.promises, at, value),
                "I2: {value:?} is proposed for {at} of {range:?} in {term}, promised {:?}",
                in_term.promises
            );
        }
    }

    /// P5 in its consequence: nothing but the chosen value is proposed in a later term.
    fn check_chosen_before(&self, term: Term, range: Range<u64>, value: &Value) {
        for (part, chosen) in self.chosen.over(range) {
            assert!(
                chosen.term >= term || chosen.value == *value,
                "I2: {value:?} is proposed for {part:?} in {term}, where {chosen:?} is chosen"
            );
        }
    }

    fn on_action(&mut self, action: &Action) {
        if let Action::Reconfigure { from, change, .. } = *action {
            self.acts.push(Act::StepProposed { from, change });
        }
        let Action::OpenStream(open) = action else {
            return;
        };
        let info = match open.continues {
            None => {
                let client = open.label.strip_prefix("client-");
                StreamInfo {
                    client: client.and_then(|client| client.parse().ok()),
                    begins: 0,
                }
            }
            Some((before, at)) => {
                let before = self.streams.get(&before);
                StreamInfo {
                    client: before.and_then(|before| before.client),
                    begins: before.map_or(0, |before| before.begins) + at.0,
                }
            }
        };
        let first = self.streams.entry(open.stream).or_insert(info);
        assert!(
            *first == info,
            "I6: the name {} was given twice: {first:?}, {info:?}",
            open.stream
        );
    }

    /// A record of `node` is durable.
    pub fn on_accepted(&mut self, node: NodeId, term: Term, slots: SlotRange, value: &Value) {
        let range = slots.start.0..slots.end.0;
        let in_term = self.terms.entry(term).or_default();
        let proposed = in_term.proposed.over(range.clone());
        let count: u64 = proposed
            .map(|(part, proposed)| {
                assert!(
                    proposed == value,
                    "I3: node {node} accepted {value:?} for {part:?} in {term}; proposed is {proposed:?}"
                );
                part.end - part.start
            })
            .sum();
        assert!(
            count == slots.len(),
            "I2: node {node} accepted {value:?} for {slots} in {term}, and nobody proposed it"
        );
        let accepted = in_term.accepted.entry(node).or_default();
        accepted.assign(range.clone(), ());
        in_term.accepted_end = in_term.accepted_end.max(range.end);
        self.check_late_choice(term, range, value);
        self.advance(term);
    }

    /// I1 for slots that are chosen already: an earlier term's quorum may be complete only now.
    fn check_late_choice(&self, term: Term, range: Range<u64>, value: &Value) {
        for (part, chosen) in self.chosen.over(range) {
            if chosen.value == *value {
                continue;
            }
            let era = self.era_at(part.start);
            let accepted = &self.terms[&term].accepted;
            let has = |node| {
                accepted
                    .get(&node)
                    .is_some_and(|r| r.get(part.start).is_some())
            };
            let quorum = self.configurations[&era].is_quorum(has);
            assert!(
                !(quorum && term.era <= era && era.0 <= term.era.0 + 1),
                "I1: {value:?} is chosen for {part:?} in {term}, and so is {chosen:?}"
            );
        }
    }

    pub fn configuration(&self, era: Era) -> Option<&Configuration> {
        self.configurations.get(&era)
    }

    pub fn last_era(&self) -> Era {
        self.configurations
            .keys()
            .next_back()
            .copied()
            .unwrap_or_default()
    }

    /// Its first slot.
    pub fn era_start(&self, era: Era) -> Option<Slot> {
        let mut starts = self.era_starts.iter();
        let start = starts.find(|(_, of)| **of == era);
        start
            .map(|(slot, _)| Slot(*slot))
            .or((era == Era(0)).then_some(Slot(0)))
    }

    /// The bytes of each stream in chosen slots below `below` that are not trimmed.
    pub fn bytes_below(&self, below: Slot) -> impl Iterator<Item = (StreamName, Range<u64>)> + '_ {
        self.output_below(below).filter_map(|(stream, end)| {
            let bytes = stream.trimmed.0..end;
            (!bytes.is_empty()).then_some((stream.name, bytes))
        })
    }

    /// The end of each stream's output below that slot, whatever of it is trimmed.
    pub fn output_below(&self, below: Slot) -> impl Iterator<Item = (&StreamState, u64)> + '_ {
        let streams = self.state.iter().flat_map(|state| state.streams.iter());
        streams.filter_map(move |stream| {
            // Output is cut at its first gap, so its bytes' slots are those from its first one on.
            let runs = self.chosen.over(stream.opened.0..below.0);
            let of_stream = runs.filter_map(|(range, chosen)| match &chosen.value {
                Value::Content { stream: of, offset } if *of == stream.name => {
                    Some(range.end - offset.0)
                }
                _ => None,
            });
            Some((stream, of_stream.max()?.min(stream.length.0)))
        })
    }

    /// The ends, below that slot, of the streams that a trim has since taken out of the table.
    pub fn forgotten_below(&self, below: Slot) -> BTreeMap<StreamName, u64> {
        let mut ends = BTreeMap::new();
        let Some(state) = &self.state else {
            return ends;
        };
        let streams = self.trims.iter().flat_map(|then| &then.streams);
        for stream in streams.filter(|stream| state.is_forgotten(stream.name)) {
            if ends.contains_key(&stream.name) {
                continue;
            }
            let runs = self.chosen.over(stream.opened.0..below.0);
            let ended = runs.filter_map(|(range, chosen)| match &chosen.value {
                Value::Content { stream: of, offset } if *of == stream.name => {
                    Some(range.end - offset.0)
                }
                _ => None,
            });
            ends.insert(stream.name, ended.max().unwrap_or(0));
        }
        ends
    }

    /// The final end of a stream's output, if it has ended: bytes proposed behind that, to a stream that
    /// another one superseded meanwhile, are nobody's.
    pub fn output_end(&self, stream: StreamName) -> u64 {
        let state = self.state.as_ref().and_then(|state| state.stream(stream));
        match state {
            Some(stream) if stream.end != StreamEnd::Open => stream.length.0,
            _ => u64::MAX,
        }
    }

    /// The position below which a stream is trimmed for a node that knows all below `known` for chosen. A
    /// stream that never came to be is nobody's output once its number is used up.
    pub fn trimmed_below(&self, stream: StreamName, known: Slot) -> u64 {
        let by_then = match self.opened.contains(&stream) {
            true => self.trims.iter().rev().find(|state| state.next <= known),
            false => self.state.as_ref(),
        };
        by_then.map_or(0, |state| match state.stream(stream) {
            Some(stream) => stream.trimmed.0,
            None if state.is_forgotten(stream) => u64::MAX,
            None => 0,
        })
    }

    fn era_at(&self, slot: u64) -> Era {
        let begun = self.era_starts.range(..=slot).next_back();
        begun.map_or(Era(0), |(_, era)| *era)
    }

    pub fn has_accepted(&self, node: NodeId, term: Term, range: Range<u64>) -> bool {
        if range.is_empty() {
            return true;
        }
        let in_term = self.terms.get(&term);
        let accepted = in_term.and_then(|in_term| in_term.accepted.get(&node));
        accepted.is_some_and(|accepted| accepted.covers(range))
    }

    /// Compares a replica's state with what is chosen.
    pub fn check_state(&self, whose: Whose, state: &LogState) {
        let next = state.next;
        assert!(
            next <= self.next(),
            "I1: {whose} takes all below {next} for chosen, and no quorum accepted beyond {}",
            self.next()
        );
        let Some(last) = next.0.checked_sub(1) else {
            return;
        };
        let Some(chosen) = self.chosen.get(last) else {
            return;
        };
        let shape = Shape::of(state);
        assert!(
            shape == chosen.after,
            "I1: {whose} knows another history: {shape:?} at {next} after {chosen:?}"
        );
        if chosen.grows {
            let length = state.streams.last().map_or(0, |stream| stream.length.0);
            let expected = chosen.length_offset + i128::from(next.0);
            assert!(
                i128::from(length) == expected,
                "I6: {whose} takes {length} bytes of a stream for chosen at {next}, not {expected}"
            );
        }
    }
}

/// The word of a promise on a slot: free, or the value accepted there and its term.
type Answer<'a> = Option<(Term, &'a Value)>;

/// Whether a quorum's promises allow the value in the slot.
fn may_propose(
    configuration: &Configuration,
    promises: &BTreeMap<NodeId, Vec<PromiseSeen>>,
    at: u64,
    value: &Value,
) -> bool {
    // The words of each node on the slot, where they may be counted.
    let mut said: Vec<(NodeId, Vec<Answer>)> = Vec::new();
    for (node, promises) in promises {
        let counted = promises.iter().filter(|promise| promise.from.0 <= at);
        let answers = counted.map(|promise| {
            let mut runs = promise.runs.iter();
            let run = runs.find(|run| run.slots.contains(Slot(at)));
            run.map(|run| (run.term.0, &run.value))
        });
        let answers: Vec<_> = answers.collect();
        if !answers.is_empty() {
            said.push((*node, answers));
        }
    }
    // The value is allowed by the answers up to the highest term under which it was reported. The
    // more of them count, the better for the quorum.
    let all = said.iter().flat_map(|(_, answers)| answers).flatten();
    let of_value = all
        .filter(|(_, other)| *other == value)
        .map(|(term, _)| *term);
    let highest_of_value = of_value.max();
    let allowed = |node: NodeId, bound: Option<Term>| {
        let of_node = said.iter().filter(|(other, _)| *other == node);
        let mut answers = of_node.flat_map(|(_, answers)| answers);
        answers.any(|answer| match (answer, bound) {
            (None, _) => true,
            (Some((term, other)), Some(bound)) => {
                *term < bound || (*term == bound && *other == value)
            }
            (Some(_), None) => false,
        })
    };
    let bounds = [None, highest_of_value];
    bounds
        .into_iter()
        .any(|bound| configuration.is_quorum(|node| allowed(node, bound)))
}

#[cfg(test)]
mod tests;
