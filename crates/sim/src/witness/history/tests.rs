use std::sync::Arc;

use paxos::{Configuration, Offset, StreamSequence};

use super::*;

const STREAM: StreamName = StreamName {
    owner: NodeId(1),
    sequence: StreamSequence {
        incarnation: 1,
        counter: 1,
    },
};

fn term(number: u32, owner: u32) -> Term {
    Term {
        era: Era(0),
        number,
        owner: NodeId(owner),
    }
}

fn slots(start: u64, end: u64) -> SlotRange {
    SlotRange::new(Slot(start), Slot(end))
}

/// Three nodes, of which two promised each of these terms with nothing accepted.
fn history(terms: &[Term]) -> History {
    let mut history = History::default();
    let nodes = [1, 2, 3].map(NodeId);
    let configuration = Configuration::equal(nodes).expect("three are enough");
    history.on_first_state(&LogState::new(configuration));
    for term in terms {
        for node in [term.owner, NodeId(term.owner.0 % 3 + 1)] {
            promise(&mut history, node, *term, Vec::new());
        }
    }
    history
}

fn promise(history: &mut History, node: NodeId, term: Term, runs: Vec<AcceptedRun>) {
    let from = Slot(0);
    history.on_promise(node, term, PromiseSeen { from, runs });
}

fn seen(wrong: impl FnOnce()) -> String {
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(wrong));
    let panic = result.expect_err("it is wrong");
    panic.downcast_ref::<String>().expect("it says why").clone()
}

#[test]
fn chosen_is_what_a_quorum_accepted_in_one_term() {
    let (first, second) = (term(1, 1), term(2, 2));
    let mut history = history(&[first, second]);
    history.on_proposed(NodeId(1), first, slots(0, 4), &Value::NoOp);
    history.on_accepted(NodeId(1), first, slots(0, 4), &Value::NoOp);
    history.on_proposed(NodeId(2), second, slots(0, 4), &Value::NoOp);
    history.on_accepted(NodeId(2), second, slots(0, 3), &Value::NoOp);
    assert_eq!(history.next(), Slot(0), "one node in each of two terms");
    history.on_accepted(NodeId(3), second, slots(1, 4), &Value::NoOp);
    assert_eq!(history.next(), Slot(0), "slot 0 is a hole");
    history.on_accepted(NodeId(3), second, slots(0, 1), &Value::NoOp);
    assert_eq!(history.next(), Slot(3));
}

#[test]
fn a_term_has_one_owner_and_one_value_for_each_slot() {
    let first = term(1, 1);
    let mut history = history(&[first]);
    let action = Value::Action(Arc::new(Action::GenerateNodeId));
    history.on_proposed(NodeId(1), first, slots(0, 2), &Value::NoOp);
    history.on_proposed(NodeId(1), first, slots(1, 3), &Value::NoOp);
    let text = seen(|| history.on_proposed(NodeId(1), first, slots(2, 3), &action));
    assert!(text.starts_with("I3:"), "{text}");
    let text = seen(|| history.on_proposed(NodeId(2), first, slots(9, 10), &action));
    assert!(text.starts_with("I3:"), "{text}");
    let text = seen(|| history.on_accepted(NodeId(2), first, slots(2, 4), &Value::NoOp));
    assert!(text.starts_with("I2:"), "nobody proposed slot 3: {text}");
}

#[test]
fn a_proposal_needs_a_quorum_of_promises_that_allow_it() {
    let (first, second, third) = (term(1, 1), term(2, 2), term(3, 3));
    let action = Value::Action(Arc::new(Action::GenerateNodeId));
    let mut history = history(&[first]);
    let text = seen(|| history.on_proposed(NodeId(2), second, slots(0, 1), &action));
    assert!(text.starts_with("I2:"), "nobody promised: {text}");
    history.on_proposed(NodeId(1), first, slots(0, 1), &action);
    let bound = AcceptedRun {
        slots: slots(0, 1),
        term: paxos::AcceptedTerm(first),
        value: action.clone(),
    };
    promise(&mut history, NodeId(1), second, vec![bound.clone()]);
    promise(&mut history, NodeId(2), second, Vec::new());
    let text = seen(|| history.on_proposed(NodeId(2), second, slots(0, 1), &Value::NoOp));
    assert!(text.starts_with("I2:"), "slot 0 is bound: {text}");
    history.on_proposed(NodeId(2), second, slots(0, 1), &action);
    history.on_proposed(NodeId(2), second, slots(1, 5), &Value::NoOp);
    // A quorum without the node that is bound frees the slot.
    promise(&mut history, NodeId(2), third, Vec::new());
    promise(&mut history, NodeId(3), third, Vec::new());
    history.on_proposed(NodeId(3), third, slots(0, 1), &Value::NoOp);
}

#[test]
fn two_values_chosen_for_one_slot_are_seen_from_either_side() {
    let (first, second) = (term(1, 1), term(2, 2));
    let action = Value::Action(Arc::new(Action::GenerateNodeId));
    // Both were free, which no two quorums can say after a choice.
    let mut early = history(&[first, second]);
    early.on_proposed(NodeId(2), second, slots(0, 1), &Value::NoOp);
    early.on_proposed(NodeId(1), first, slots(0, 1), &action);
    early.on_accepted(NodeId(1), first, slots(0, 1), &action);
    let text = seen(|| early.on_accepted(NodeId(3), first, slots(0, 1), &action));
    assert!(text.starts_with("I2:"), "{text}");

    let mut late = history(&[first, second]);
    late.on_proposed(NodeId(1), first, slots(0, 1), &action);
    late.on_proposed(NodeId(2), second, slots(0, 1), &Value::NoOp);
    late.on_accepted(NodeId(1), first, slots(0, 1), &action);
    late.on_accepted(NodeId(2), second, slots(0, 1), &Value::NoOp);
    late.on_accepted(NodeId(3), second, slots(0, 1), &Value::NoOp);
    let text = seen(|| late.on_accepted(NodeId(2), first, slots(0, 1), &action));
    assert!(text.starts_with("I1:"), "{text}");
}

#[test]
fn a_state_is_compared_wherever_in_a_run_it_stands() {
    let first = term(1, 1);
    let mut history = history(&[first]);
    let open = Value::Action(Arc::new(Action::OpenStream(paxos::OpenStream {
        stream: STREAM,
        label: "client-5".to_owned(),
        metadata: Vec::new(),
        continues: None,
    })));
    let content = Value::Content {
        stream: STREAM,
        offset: Offset(1),
    };
    let mut state = history.state.clone().expect("it was made");
    for (range, value) in [(slots(0, 1), &open), (slots(1, 11), &content)] {
        history.on_proposed(NodeId(1), first, range, value);
        for node in [1, 3] {
            history.on_accepted(NodeId(node), first, range, value);
        }
    }
    assert_eq!(history.reach.get(&5), Some(&10));
    let whose = Whose {
        node: NodeId(3),
        log: formats::LogId(1),
    };
    state.apply(slots(0, 1), &open);
    state.apply(slots(1, 4), &content);
    history.check_state(whose, &state);
    let mut wrong = state.clone();
    wrong.streams[0].length.0 += 1;
    let text = seen(|| history.check_state(whose, &wrong));
    assert!(text.starts_with("I6:"), "{text}");
    state.apply(slots(4, 12), &content);
    let text = seen(|| history.check_state(whose, &state));
    assert!(text.starts_with("I1:"), "slot 11 is not chosen: {text}");
}
#[test]
fn a_trim_counts_for_whoever_knows_that_it_is_chosen() {
    let first = term(1, 1);
    let mut history = history(&[first]);
    let open = Value::Action(Arc::new(Action::OpenStream(paxos::OpenStream {
        stream: STREAM,
        label: "client-5".to_owned(),
        metadata: Vec::new(),
        continues: None,
    })));
    let content = Value::Content {
        stream: STREAM,
        offset: Offset(1),
    };
    let trim = Value::Action(Arc::new(Action::Trim {
        before: Slot(8),
        by: paxos::By::Unsaid,
    }));
    let values = [
        (slots(0, 1), &open),
        (slots(1, 11), &content),
        (slots(11, 12), &trim),
    ];
    for (range, value) in values {
        history.on_proposed(NodeId(1), first, range, value);
        for node in [1, 3] {
            history.on_accepted(NodeId(node), first, range, value);
        }
    }
    assert_eq!(history.trimmed_below(STREAM, Slot(11)), 0);
    assert_eq!(history.trimmed_below(STREAM, Slot(12)), 7);
    let never_opened = StreamName {
        owner: NodeId(2),
        ..STREAM
    };
    assert_eq!(history.trimmed_below(never_opened, Slot(12)), 0);
}
