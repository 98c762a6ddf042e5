//! The directory's wishes for a log, as that log itself has chosen them.
//!
//! ```text
//!   log 0:   … retain main 1MB (wish 7) … retain main forever (wish 9) …     each node reads a prefix
//!   main:    … Wish 7 … Trim by 7 … Wish 9 … Trim by 7 (no effect) …         all replicas alike
//! ```
//!
//! ‡ A wish takes effect only if its number is above the number of the wish in the state, and an act that
//! is derived from a wish names its number and takes effect only while that is the state's. So a leader that
//! knows an old prefix of the directory may propose what it likes: the log refuses it, on every replica.

use alloc::vec::Vec;

use crate::mutation::{self, Mutation};
use crate::{LogState, NodeId, Outcome};

/// Orders the wishes for one log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WishNumber {
    /// The number of times that the directory went on from one survivor, which may not have known all of it.
    pub rescues: u32,
    /// Counts the wishes of the directory, from 1.
    pub count: u64,
}

/// Everything that the directory wants of one log. A later wish replaces it as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// Its place among the wishes for this log.
    pub number: WishNumber,
    /// The number of chosen bytes that are kept; all if none is said.
    pub max_bytes: Option<u64>,
    /// The age up to which bytes are kept, in seconds.
    pub max_age_s: Option<u64>,
    /// The configuration that the log is to have, in the order of the nodes; every weight is positive.
    pub weights: Vec<(NodeId, u32)>,
    /// The nodes that are to hold bytes only while others cannot, in order.
    pub auxiliaries: Vec<NodeId>,
    /// ‡ The log has ended: no stream is opened any more, and none grows.
    pub sealed: bool,
    /// The number of full members that are to hold what is acknowledged. A majority decides if it is 0.
    pub min_copies: u32,
}

/// The author of an act that cannot be undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Nobody: a program that knows no wishes, or a log that the directory has no wish for.
    Unsaid,
    /// An operator, of this log, or the state machine that owns it.
    Hand,
    /// The directory.
    Wish(WishNumber),
}

impl Wish {
    /// Whether a wish that came from elsewhere can be true at all.
    pub fn is_sound(&self) -> bool {
        self.weights.is_sorted_by(|a, b| a.0 < b.0)
            && self.weights.iter().all(|(_, weight)| *weight > 0)
            && self.auxiliaries.is_sorted_by(|a, b| a < b)
    }
}

impl LogState {
    /// The number of the last wish that was chosen.
    pub fn wish_number(&self) -> Option<WishNumber> {
        self.wish.as_ref().map(|wish| wish.number)
    }

    /// ‡ No output and no stream is chosen in this log any more.
    pub fn is_sealed(&self) -> bool {
        let sealed = self.wish.as_ref().is_some_and(|wish| wish.sealed);
        sealed && !mutation::is(Mutation::SealedLogTakesStreams)
    }

    /// ‡ Whether an act may take effect here and now.
    pub(crate) fn is_wanted(&self, by: By) -> bool {
        match (by, self.wish_number()) {
            (By::Hand, _) | (By::Unsaid, None) => true,
            (By::Unsaid, Some(_)) | (By::Wish(_), None) => false,
            (By::Wish(number), Some(current)) => number == current,
        }
    }

    /// Takes a wish. The caller ends the current stream if the wish seals the log.
    pub(crate) fn wish_for(&mut self, wish: &Wish) -> Outcome {
        let number = wish.number;
        let newer = self.wish_number() < Some(number);
        // Only a rescue, outside of agreement, opens a log again.
        let reopens = self.wish.as_ref().is_some_and(|now| now.sealed) && !wish.sealed;
        if !newer && !mutation::is(Mutation::OlderWishTakesEffect) || reopens || !wish.is_sound() {
            return Outcome::NotWished { number };
        }
        self.wish = Some(alloc::sync::Arc::new(wish.clone()));
        Outcome::Wished { number }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use alloc::sync::Arc;

    use super::*;
    use crate::{
        Action, Change, ChangeRefused, Configuration, Era, NotOpened, Offset, OpenStream, Slot,
        SlotRange, StreamEnd, StreamName, StreamPosition, StreamSequence, Value,
    };

    fn name(counter: u32) -> StreamName {
        StreamName {
            owner: NodeId(1),
            sequence: StreamSequence {
                incarnation: 1,
                counter,
            },
        }
    }

    fn act(state: &mut LogState, action: Action) -> Outcome {
        let slots = SlotRange::new(state.next, Slot(state.next.0 + 1));
        let outcome = state.apply(slots, &Value::Action(Arc::new(action)));
        outcome.expect("an action has an outcome")
    }

    fn open(state: &mut LogState, counter: u32) -> Outcome {
        act(
            state,
            Action::OpenStream(OpenStream {
                stream: name(counter),
                label: String::new(),
                metadata: Vec::new(),
                continues: None,
            }),
        )
    }

    fn write(state: &mut LogState, counter: u32, count: u64) {
        let length = state.stream(name(counter)).map_or(0, |s| s.length.0);
        let slots = SlotRange::new(state.next, Slot(state.next.0 + count));
        let offset = Offset(state.next.0 - length);
        let stream = name(counter);
        state.apply(slots, &Value::Content { stream, offset });
    }

    fn number(rescues: u32, count: u64) -> WishNumber {
        WishNumber { rescues, count }
    }

    fn wish(state: &mut LogState, number: WishNumber, sealed: bool) -> Outcome {
        let wish = Wish {
            number,
            sealed,
            ..Wish::default()
        };
        act(state, Action::Wish(Arc::new(wish)))
    }

    /// One stream of 100 bytes.
    fn written() -> LogState {
        let mut state = LogState::new(Configuration::equal([NodeId(1), NodeId(2)]).unwrap());
        open(&mut state, 1);
        write(&mut state, 1, 100);
        state
    }

    fn trim(state: &mut LogState, by: By) -> Outcome {
        let before = state.next;
        act(state, Action::Trim { before, by })
    }

    fn left(state: &LogState) -> u64 {
        let streams = state.streams.iter();
        streams.map(|s| s.length.0 - s.trimmed.0).sum()
    }

    #[test]
    fn a_wish_takes_effect_only_above_the_last_one() {
        let mut state = written();
        let first = number(0, 7);
        assert_eq!(
            wish(&mut state, first, false),
            Outcome::Wished { number: first }
        );
        for older in [number(0, 0), number(0, 6), first] {
            let outcome = wish(&mut state, older, true);
            assert_eq!(outcome, Outcome::NotWished { number: older });
            assert_eq!(state.wish_number(), Some(first));
        }
        let rescued = number(1, 1);
        let outcome = wish(&mut state, rescued, false);
        assert_eq!(outcome, Outcome::Wished { number: rescued });
    }

    #[test]
    fn a_trim_takes_effect_only_while_its_wish_is_the_last_one() {
        let mut state = written();
        assert_eq!(
            trim(&mut state, By::Wish(number(0, 1))),
            Outcome::NotTrimmed
        );
        wish(&mut state, number(0, 1), false);
        wish(&mut state, number(0, 2), false);
        assert_eq!(
            trim(&mut state, By::Wish(number(0, 1))),
            Outcome::NotTrimmed
        );
        assert_eq!(
            trim(&mut state, By::Wish(number(0, 3))),
            Outcome::NotTrimmed
        );
        assert_eq!(trim(&mut state, By::Unsaid), Outcome::NotTrimmed);
        assert_eq!((state.trimmed, left(&state)), (Slot(0), 100));
        let outcome = trim(&mut state, By::Wish(number(0, 2)));
        assert!(matches!(outcome, Outcome::Trimmed { .. }));
        assert!(left(&state) < 10, "no more than there are actions since");
    }

    #[test]
    fn an_operators_own_trim_needs_no_wish() {
        let mut state = written();
        wish(&mut state, number(0, 1), false);
        assert!(matches!(
            trim(&mut state, By::Hand),
            Outcome::Trimmed { .. }
        ));
        let mut state = written();
        assert!(matches!(
            trim(&mut state, By::Unsaid),
            Outcome::Trimmed { .. }
        ));
    }

    #[test]
    fn a_step_of_weights_takes_effect_only_while_its_wish_is_the_last_one() {
        let mut state = written();
        wish(&mut state, number(0, 5), false);
        let step = |by| Action::Reconfigure {
            from: Era(0),
            change: Change::Increment(NodeId(3)),
            by,
        };
        let stale = Outcome::NotReconfigured(ChangeRefused::StaleWish);
        for by in [By::Wish(number(0, 4)), By::Wish(number(0, 6)), By::Unsaid] {
            assert_eq!(act(&mut state, step(by)), stale);
        }
        let taken = act(&mut state, step(By::Wish(number(0, 5))));
        assert_eq!(taken, Outcome::Reconfigured { era: Era(1) });
    }

    #[test]
    fn a_sealed_log_keeps_what_it_has_and_takes_nothing_more() {
        let mut state = written();
        wish(&mut state, number(0, 1), true);
        assert!(state.is_sound() && state.is_sealed());
        assert_eq!(state.streams[0].end, StreamEnd::Cut);
        write(&mut state, 1, 10);
        assert_eq!(state.stream(name(1)).unwrap().length, StreamPosition(100));
        let refused = Outcome::NotOpened {
            stream: name(2),
            reason: NotOpened::Sealed,
        };
        assert_eq!(open(&mut state, 2), refused);
        assert_eq!(
            wish(&mut state, number(0, 2), false),
            Outcome::NotWished {
                number: number(0, 2)
            }
        );
        assert!(
            state.is_sealed(),
            "a log that has ended does not begin again"
        );
    }
}
