//! The leader's care for its log's retention, now and then.

use std::time::Duration;

use paxos::{Action, By, LogState, Slot, StreamPosition, Time};
use wire::Retention;

use super::ages::Ages;
use crate::env::Env;
use crate::lent::Core;
use crate::trim::output_bytes;

#[derive(Default)]
pub(crate) struct Keeping {
    ages: Ages,
    look_at: Time,
    /// The slot of the last trim that was proposed for it.
    proposed: Option<Slot>,
}

/// The time between two looks at one log.
const RETENTION_EVERY: Duration = Duration::from_millis(500);

/// The part of itself to which a maximal age is kept.
const AGE_PARTS: u64 = 16;

/// The part of its maximal size by which a log may exceed it, and the bytes by which it may do so at most,
/// before it is trimmed back to it.
const SIZE_PARTS: u64 = 16;
const SIZE_SLACK_MAX: u64 = 128 << 20;

/// The slot before which all may be trimmed so that at least `max_bytes` of output are left.
fn size_point(state: &LogState, max_bytes: u64) -> Option<Slot> {
    let mut left = max_bytes;
    for stream in state.streams.iter().rev() {
        let bytes = stream.length.0 - stream.trimmed.0;
        if bytes >= left {
            let position = StreamPosition(stream.length.0 - left);
            return state.trim_point(stream.name, position);
        }
        left -= bytes;
    }
    None
}

/// The slot before which all is to be trimmed, if anything is.
fn point(state: &LogState, ages: &Ages, retention: Retention, second: Option<u64>) -> Option<Slot> {
    let by_size = retention.max_bytes.and_then(|max| {
        let slack = (max / SIZE_PARTS).min(SIZE_SLACK_MAX);
        let exceeds = output_bytes(state) > max.saturating_add(slack);
        exceeds.then(|| size_point(state, max)).flatten()
    });
    let by_age = retention.max_age_s.and_then(|max| {
        let now = second?;
        Some(ages.chosen_by(now.checked_sub(max)?, now))
    });
    let point = by_size.max(by_age)?;
    // A trim takes a slot of its own, so there is always something to forget, if no bytes.
    (point > state.trimmed && state.would_forget(point)).then_some(point)
}

impl Keeping {
    /// Learns the ages of this node's segments.
    pub fn learn(&mut self, core: &Core) {
        for birth in core.store.births() {
            self.ages.note(birth.second, birth.first_unchosen);
        }
    }

    /// Proposes, on the leader, to trim bytes that are too many or too old; every node remembers what was
    /// chosen when. True if it did.
    pub fn keep_to(
        &mut self,
        core: &mut Core,
        env: &mut Env,
        retention: Retention,
        by: By,
    ) -> bool {
        if env.now < self.look_at || core.stopped.is_some() || !core.kind.is_bytes() {
            return false;
        }
        self.look_at = env.now + RETENTION_EVERY;
        let second = env.moments.calendar.second(env.now);
        let state = core.engine.state();
        if let (Some(second), Some(max_age)) = (second, retention.max_age_s) {
            let due = |last: u64| second >= last.saturating_add((max_age / AGE_PARTS).max(1));
            if self.ages.last(second).is_none_or(due) {
                self.ages.note(second, state.next);
            }
        }
        // Without a clock there are no marks of this start.
        let now = second.unwrap_or(u64::MAX);
        self.ages.forget_below(state.trimmed, now);
        if !core.can_propose() {
            return false;
        }
        // The last trim is not known chosen yet.
        if self.proposed.is_some_and(|slot| slot >= state.next) {
            return false;
        }
        let Some(before) = point(state, &self.ages, retention, second) else {
            return false;
        };
        let trim = Action::Trim { before, by };
        let proposed = core.engine.propose(env.now, trim);
        self.proposed = proposed.ok();
        if self.proposed.is_some() {
            tracing::debug!(
                log = core.id.0,
                name = core.name,
                before = before.0,
                "retention"
            );
        }
        self.proposed.is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use paxos::{
        Configuration, NodeId, Offset, OpenStream, SlotRange, StreamName, StreamSequence, Value,
    };

    use super::*;
    use crate::trim::forgotten_bytes;

    fn apply(state: &mut LogState, count: u64, value: Value) {
        let slots = SlotRange::new(state.next, Slot(state.next.0 + count));
        state.apply(slots, &value);
    }

    fn act(state: &mut LogState, action: Action) {
        apply(state, 1, Value::Action(Arc::new(action)));
    }

    fn write(state: &mut LogState, count: u64) {
        let stream = state.streams.last().unwrap();
        let (stream, length) = (stream.name, stream.length.0);
        let offset = Offset(state.next.0 - length);
        apply(state, count, Value::Content { stream, offset });
    }

    /// Streams of 100, 200 and 50 bytes.
    fn state() -> LogState {
        let mut state = LogState::new(Configuration::equal([NodeId(1)]).unwrap());
        for (counter, bytes) in [(1, 100), (2, 200), (3, 50)] {
            let owner = NodeId(1);
            let sequence = StreamSequence {
                incarnation: 1,
                counter,
            };
            act(
                &mut state,
                Action::OpenStream(OpenStream {
                    stream: StreamName { owner, sequence },
                    label: String::new(),
                    metadata: Vec::new(),
                    continues: None,
                }),
            );
            write(&mut state, bytes);
        }
        state
    }

    fn of(max_bytes: Option<u64>, max_age_s: Option<u64>) -> Retention {
        Retention {
            max_bytes,
            max_age_s,
        }
    }

    #[test]
    fn a_size_leaves_exactly_so_many_of_the_newest_bytes() {
        for max in [0, 1, 49, 50, 51, 249, 250, 251, 349, 350] {
            let mut state = state();
            let before = size_point(&state, max).unwrap();
            act(
                &mut state,
                Action::Trim {
                    before,
                    by: By::Unsaid,
                },
            );
            assert_eq!(output_bytes(&state), max);
            assert_eq!(forgotten_bytes(&state), 350 - max);
        }
        assert_eq!(size_point(&state(), 351), None);
    }

    #[test]
    fn a_log_is_trimmed_when_it_exceeds_its_size_by_a_sixteenth() {
        let ages = Ages::default();
        let mut state = state();
        let due = |state: &LogState, max| point(state, &ages, of(Some(max), None), None).is_some();
        assert!(!due(&state, 350) && !due(&state, 330));
        assert!(due(&state, 320));
        let mut trims = 0;
        for _ in 0..1000 {
            write(&mut state, 7);
            if let Some(before) = point(&state, &ages, of(Some(160), None), None) {
                act(
                    &mut state,
                    Action::Trim {
                        before,
                        by: By::Unsaid,
                    },
                );
                trims += 1;
            }
            assert!((160..=170 + 7).contains(&output_bytes(&state)) || trims == 0);
        }
        assert!((450..=510).contains(&trims), "7000 bytes, 14 each: {trims}");
    }

    #[test]
    fn an_idle_log_is_not_trimmed_for_ever() {
        let mut ages = Ages::default();
        let mut state = state();
        let mut trims = 0;
        for second in 1..1000 {
            ages.note(second, state.next);
            if let Some(before) = point(&state, &ages, of(None, Some(60)), Some(second)) {
                act(
                    &mut state,
                    Action::Trim {
                        before,
                        by: By::Unsaid,
                    },
                );
                trims += 1;
            }
        }
        assert_eq!(output_bytes(&state), 0);
        assert!((1..=3).contains(&trims), "{trims}");
    }

    #[test]
    fn an_age_forgets_what_was_chosen_before_it() {
        let mut ages = Ages::default();
        let state = state();
        ages.note(1000, Slot(40));
        ages.note(1600, Slot(90));
        let at = |second| point(&state, &ages, of(None, Some(600)), Some(second));
        assert_eq!(at(1599), None);
        assert_eq!(at(1600), Some(Slot(40)));
        assert_eq!(at(2200), Some(Slot(90)));
        assert_eq!(
            point(&state, &ages, of(None, Some(600)), None),
            None,
            "no clock, no age"
        );
        let both = point(&state, &ages, of(Some(100), Some(600)), Some(2200));
        assert_eq!(both, size_point(&state, 100), "whatever forgets more");
    }
}
