//! The engines' messages as bytes: a tag, then the fields. A tag is never used again for another
//! message.

use std::sync::Arc;

use paxos::{
    AcceptedTerm, AskNumber, Digest, Era, LogState, Message, Promise, PromisedTerm, Slot,
    SlotRange, Term,
};

use super::codec::{DecodeError, Encode, Reader};

/// The name of messages with that tag, for people.
pub(crate) fn tag_name(tag: u8) -> &'static str {
    match tag {
        1 => "seek votes",
        2 => "offer vote",
        3 => "offer catch-up",
        4 => "request state",
        5 => "state",
        6 => "prepare",
        7 => "promise",
        8 => "refuse",
        10 => "accepted",
        11 => "leader status",
        12 => "follower status",
        13 => "confirm",
        14 => "confirmed",
        15 => "release",
        16 => "released",
        17 => "ask barrier",
        18 => "barrier",
        _ => "unknown",
    }
}

impl Encode for Message {
    const BYTES_MIN: usize = 1;

    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Message::SeekVotes {
                first_unchosen,
                promised,
                missing_bytes,
            } => {
                out.push(1);
                first_unchosen.put(out);
                promised.put(out);
                missing_bytes.put(out);
            }
            Message::OfferVote {
                promised,
                missing_bytes,
            } => {
                out.push(2);
                promised.put(out);
                missing_bytes.put(out);
            }
            Message::OfferCatchUp { first_unchosen } => {
                out.push(3);
                first_unchosen.put(out);
            }
            Message::RequestState {
                first_unchosen,
                streams_known,
            } => {
                out.push(4);
                first_unchosen.put(out);
                streams_known.put(out);
            }
            Message::State(state) => {
                out.push(5);
                state.put(out);
            }
            Message::Prepare { term } => {
                out.push(6);
                term.put(out);
            }
            Message::Promise(promise) => {
                out.push(7);
                promise.put(out);
            }
            Message::Refuse { refused, promised } => {
                out.push(8);
                refused.put(out);
                promised.put(out);
            }
            Message::Propose(_) => panic!("a proposal travels in a data frame"),
            Message::Accepted {
                term,
                slots,
                digest,
            } => {
                out.push(10);
                term.put(out);
                slots.put(out);
                digest.0.put(out);
            }
            Message::LeaderStatus {
                term,
                proposed_up_to,
                chosen_up_to,
                finishing,
            } => {
                out.push(11);
                term.put(out);
                proposed_up_to.put(out);
                chosen_up_to.put(out);
                finishing.put(out);
            }
            Message::FollowerStatus {
                promised,
                accepted_term,
                accepted_up_to,
                first_unchosen,
                missing_bytes,
            } => {
                out.push(12);
                promised.put(out);
                accepted_term.put(out);
                accepted_up_to.put(out);
                first_unchosen.put(out);
                missing_bytes.put(out);
            }
            Message::Confirm { term, round } => {
                out.push(13);
                term.put(out);
                round.put(out);
            }
            Message::Confirmed { term, round } => {
                out.push(14);
                term.put(out);
                round.put(out);
            }
            Message::Release { era, below } => {
                out.push(15);
                era.put(out);
                below.put(out);
            }
            Message::Released { era, below } => {
                out.push(16);
                era.put(out);
                below.put(out);
            }
            Message::AskBarrier { term, number } => {
                out.push(17);
                term.put(out);
                number.put(out);
            }
            Message::Barrier { term, number, slot } => {
                out.push(18);
                term.put(out);
                number.put(out);
                slot.put(out);
            }
        }
    }

    fn parse(from: &mut Reader<'_>) -> Result<Message, DecodeError> {
        Ok(match u8::parse(from)? {
            1 => Message::SeekVotes {
                first_unchosen: Slot::parse(from)?,
                promised: PromisedTerm::parse(from)?,
                missing_bytes: bool::parse(from)?,
            },
            2 => Message::OfferVote {
                promised: PromisedTerm::parse(from)?,
                missing_bytes: bool::parse(from)?,
            },
            3 => Message::OfferCatchUp {
                first_unchosen: Slot::parse(from)?,
            },
            4 => Message::RequestState {
                first_unchosen: Slot::parse(from)?,
                streams_known: u64::parse(from)?,
            },
            5 => Message::State(Arc::new(LogState::parse(from)?)),
            6 => Message::Prepare {
                term: Term::parse(from)?,
            },
            7 => Message::Promise(Promise::parse(from)?),
            8 => Message::Refuse {
                refused: Term::parse(from)?,
                promised: PromisedTerm::parse(from)?,
            },
            10 => Message::Accepted {
                term: Term::parse(from)?,
                slots: SlotRange::parse(from)?,
                digest: Digest(u32::parse(from)?),
            },
            11 => Message::LeaderStatus {
                term: Term::parse(from)?,
                proposed_up_to: Slot::parse(from)?,
                chosen_up_to: Slot::parse(from)?,
                finishing: Option::parse(from)?,
            },
            12 => Message::FollowerStatus {
                promised: PromisedTerm::parse(from)?,
                accepted_term: AcceptedTerm::parse(from)?,
                accepted_up_to: Slot::parse(from)?,
                first_unchosen: Slot::parse(from)?,
                missing_bytes: u64::parse(from)?,
            },
            13 => Message::Confirm {
                term: Term::parse(from)?,
                round: u64::parse(from)?,
            },
            14 => Message::Confirmed {
                term: Term::parse(from)?,
                round: u64::parse(from)?,
            },
            15 => Message::Release {
                era: Era::parse(from)?,
                below: Slot::parse(from)?,
            },
            16 => Message::Released {
                era: Era::parse(from)?,
                below: Slot::parse(from)?,
            },
            17 => Message::AskBarrier {
                term: Term::parse(from)?,
                number: AskNumber::parse(from)?,
            },
            18 => Message::Barrier {
                term: Term::parse(from)?,
                number: AskNumber::parse(from)?,
                slot: Slot::parse(from)?,
            },
            value => {
                return Err(DecodeError::Unknown {
                    what: "message",
                    value,
                });
            }
        })
    }
}

impl Encode for AskNumber {
    const BYTES_MIN: usize = 12;
    fn put(&self, out: &mut Vec<u8>) {
        self.incarnation.put(out);
        self.count.put(out);
    }
    fn parse(from: &mut Reader<'_>) -> Result<AskNumber, DecodeError> {
        Ok(AskNumber {
            incarnation: u32::parse(from)?,
            count: u64::parse(from)?,
        })
    }
}
