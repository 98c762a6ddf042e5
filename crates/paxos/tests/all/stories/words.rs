//! Values and messages, in the words of the field. The stories of one log use them too.

use paxos::*;

pub fn left_open(finishing: Finishing) -> String {
    format!("finishing {} below {}", finishing.term, finishing.below)
}

pub fn bytes(stream: StreamName, position: u64, count: u64) -> String {
    format!("bytes {position}..{} of {stream}", position + count)
}

pub fn valued(value: &Value, slots: SlotRange) -> String {
    match value {
        Value::NoOp => String::from("no-op"),
        Value::Content { stream, offset } => bytes(*stream, slots.start.0 - offset.0, slots.len()),
        Value::Action(action) => match &**action {
            Action::GenerateNodeId => String::from("generate-node-id"),
            Action::Reconfigure { change, .. } => format!("reconfigure {}", changed(*change)),
            Action::OpenStream(open) => match open.continues {
                Some((name, at)) => format!("open {} behind {name} at {at}", open.stream),
                None => format!("open {}", open.stream),
            },
            Action::CloseStream { stream, at } => format!("close {stream} at {at}"),
            Action::CutStream { stream, at } => format!("cut {stream} at {at}"),
            Action::Trim { before, .. } => format!("trim below {before}"),
            Action::Wish(_) => String::from("wish"),
        },
    }
}

fn changed(change: Change) -> String {
    match change {
        Change::Increment(node) => format!("increment {node}"),
        Change::Decrement(node) => format!("decrement {node}"),
        Change::Multiply(by) => format!("multiply {by}"),
        Change::Divide(by) => format!("divide {by}"),
        Change::MarkAuxiliary(node) => format!("mark {node}"),
        Change::UnmarkAuxiliary(node) => format!("unmark {node}"),
    }
}

pub fn said(message: &Message) -> String {
    match message {
        Message::SeekVotes {
            first_unchosen,
            promised,
            ..
        } => format!(
            "seek-votes: chosen below {first_unchosen}, promised {}",
            promised.0
        ),
        Message::OfferVote { promised, .. } => format!("offer-vote: promised {}", promised.0),
        Message::OfferCatchUp { first_unchosen } => {
            format!("offer-catch-up: chosen below {first_unchosen}")
        }
        Message::RequestState { first_unchosen, .. } => {
            format!("request-state: chosen below {first_unchosen}")
        }
        Message::State(state) => format!(
            "state: chosen below {}, trimmed below {}, era {}",
            state.next, state.trimmed, state.era.0
        ),
        Message::Prepare { term } => format!("prepare {term}"),
        Message::Promise(promise) => {
            let runs = promise.runs.iter().map(|run| {
                let value = valued(&run.value, run.slots);
                format!("; accepted {} in {}: {value}", run.slots, run.term.0)
            });
            let runs: String = runs.collect();
            let free = if runs.is_empty() { "free" } else { "" };
            let (term, from) = (promise.term, promise.from);
            format!("promise {term}: from {from} {free}")
                .trim_end()
                .to_string()
                + &runs
        }
        Message::Refuse { refused, promised } => {
            format!("refuse {refused}: promised {}", promised.0)
        }
        Message::Propose(proposal) => format!(
            "propose {} in {}: {}; chosen below {}",
            proposal.slots,
            proposal.term,
            valued(&proposal.value, proposal.slots),
            proposal.chosen_up_to
        ),
        Message::Accepted { term, slots, .. } => format!("accepted {slots} in {term}"),
        Message::LeaderStatus {
            term,
            proposed_up_to,
            chosen_up_to,
            finishing,
        } => {
            let open = finishing.map(|f| format!(", {}", left_open(f)));
            let open = open.unwrap_or_default();
            format!(
                "leader {term}: proposed below {proposed_up_to}, chosen below {chosen_up_to}{open}"
            )
        }
        Message::FollowerStatus {
            promised,
            accepted_term,
            accepted_up_to,
            first_unchosen,
            missing_bytes,
        } => {
            let missing = match missing_bytes {
                0 => String::new(),
                &u64::MAX => String::from(", bytes not counted"),
                count => format!(", {count} bytes missing"),
            };
            format!(
                "follower: promised {}, chosen below {first_unchosen}, accepted below {accepted_up_to} in {}{missing}",
                promised.0, accepted_term.0
            )
        }
        Message::Confirm { term, round } => format!("confirm {term}, round {round}"),
        Message::Confirmed { term, round } => format!("confirmed {term}, round {round}"),
        Message::AskBarrier { term, number } => {
            format!("ask-barrier {term}, number {}", number.count)
        }
        Message::Barrier { term, number, slot } => {
            format!("barrier {term}, number {}: below {slot}", number.count)
        }
        Message::Release { era, below } => format!("release below {below} in era {}", era.0),
        Message::Released { era, below } => format!("released below {below} in era {}", era.0),
    }
}
