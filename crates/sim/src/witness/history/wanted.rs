//! The wishes that a log itself has chosen, and the acts that took effect by them. A wish says nothing of its
//! author: log 0 judges that.

use std::ops::Range;

use paxos::{Action, By, Outcome, Value, WishNumber};

#[derive(Default)]
pub(super) struct Wanted {
    last: Option<WishNumber>,
    sealed: bool,
}

impl Wanted {
    /// Begins with the wish that the log was created with.
    pub fn begin(&mut self, first: Option<WishNumber>) {
        self.last = first;
    }

    /// The value was chosen for these slots, and this came of it.
    pub fn check(
        &mut self,
        value: &Value,
        slots: &Range<u64>,
        outcome: Option<&Outcome>,
        grows: bool,
    ) {
        assert!(
            !self.sealed || !grows && !matches!(outcome, Some(Outcome::Opened(_))),
            "names: {value:?} is chosen for {slots:?} in a log that has ended"
        );
        let Value::Action(action) = value else {
            return;
        };
        match (&**action, outcome) {
            (Action::Wish(wish), Some(Outcome::Wished { number })) => {
                self.last = Some(*number);
                self.sealed |= wish.sealed;
            }
            (Action::Trim { by, .. }, Some(Outcome::Trimmed { .. }))
            | (Action::Reconfigure { by, .. }, Some(Outcome::Reconfigured { .. })) => {
                let is_wanted = match by {
                    By::Hand => true,
                    By::Unsaid => self.last.is_none(),
                    By::Wish(number) => self.last == Some(*number),
                };
                assert!(
                    is_wanted,
                    "intent: {value:?} took effect at {slots:?}, and what is wanted is {:?}",
                    self.last
                );
            }
            _ => {}
        }
    }
}
