//! The durable part of the log, and the facts that wait for their record to be in it.

use std::collections::VecDeque;
use std::ops::Range;

use formats::past::End;
use paxos::{Slot, StreamName};

use super::super::index::Whereabouts;
use super::queue::Carried;

#[derive(Default)]
pub(crate) struct Durable {
    number: u64,
    first_unchosen: Slot,
    end: End,
    waiting: VecDeque<Undurable>,
}

/// A fact about bytes.
pub(crate) struct Undurable {
    pub number: u64,
    pub segment: u64,
    pub stream: StreamName,
    pub bytes: Range<u64>,
    pub place: Whereabouts,
}

impl Durable {
    /// The part that a recovery found.
    pub fn found(number: u64, first_unchosen: Slot, end: End) -> Durable {
        Durable {
            number,
            first_unchosen,
            end,
            waiting: VecDeque::new(),
        }
    }

    pub fn number(&self) -> u64 {
        self.number
    }

    /// The slot below which durable records say that all are chosen.
    pub fn first_unchosen(&self) -> Slot {
        self.first_unchosen
    }

    /// The promise and the acceptances, by the newest durable record.
    pub fn end(&self) -> End {
        self.end
    }

    /// A write is over.
    pub fn grow(&mut self, write: &Carried) {
        self.number = self.number.max(write.last_number);
        self.first_unchosen = self.first_unchosen.max(write.first_unchosen);
        self.end = self.end.and(write.end);
    }

    pub fn push(&mut self, fact: Undurable) {
        self.waiting.push_back(fact);
    }

    pub fn waiting(&self) -> impl Iterator<Item = &Undurable> {
        self.waiting.iter()
    }

    /// The oldest fact, if it is durable by now.
    pub fn take_fact(&mut self) -> Option<Undurable> {
        let number = self.number;
        self.waiting.pop_front_if(|fact| fact.number <= number)
    }

    /// A write has failed: nothing becomes durable any more.
    pub fn give_up(&mut self) {
        self.waiting.clear();
    }
}
