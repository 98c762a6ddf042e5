//! A replica whose lost records hid how eras began.

use paxos::*;

use crate::solo::*;

/// Lost records hid how two eras began, and a record behind them says what was promised in the second.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_promise_of_an_era_that_is_forgotten_is_taken_for_what_it_proves() {
    let config = EngineConfig {
        node: ME,
        incarnation: 1,
        seed: 7,
        unchosen_bytes_max: 1000,
        timing: Timing::default(),
        phase_one: PhaseOne::PerTerm,
    };
    let mut checkpoint = fresh(three());
    checkpoint.promised = PromisedTerm(term(2, 4, 2));
    for forgot_below in [Slot(0), Slot(9)] {
        let mut solo = Solo::new(fresh(three()));
        let now = solo.now;
        solo.engine = Engine::with_gaps(config.clone(), checkpoint.clone(), forgot_below, now);
        solo.drain();
        solo.alive();
        assert_eq!(prepared(&solo.timer()), None, "it does not stand");
        for node in [TWO, THREE] {
            let offer = Message::OfferVote {
                promised: PromisedTerm(term(0, 1, 1)),
                missing_bytes: false,
            };
            let out = solo.from(node, offer);
            assert_eq!(prepared(&out), None, "nor if it is offered votes");
        }
        for t in [term(0, 9, 2), term(2, 5, 2)] {
            let out = solo.from(TWO, Message::Prepare { term: t });
            assert!(promised(&out).is_none(), "{t}");
        }
        let mut state = three();
        state.next = Slot(20);
        state.era = Era(1);
        state.era_start = Slot(15);
        solo.from(TWO, Message::State(std::sync::Arc::new(state.clone())));
        let out = solo.from(
            TWO,
            Message::Prepare {
                term: term(1, 5, 2),
            },
        );
        assert!(promised(&out).is_none(), "one era is still unknown");
        state.next = Slot(30);
        state.era = Era(2);
        state.era_start = Slot(25);
        solo.from(TWO, Message::State(std::sync::Arc::new(state)));
        solo.durable();
        let out = solo.from(
            TWO,
            Message::Prepare {
                term: term(2, 5, 2),
            },
        );
        assert!(
            promised(&out).is_some(),
            "all that the promise proves is known"
        );
    }
}
