//! The ops that a disk was given and has not done yet.

use std::collections::BTreeMap;
use std::io;

use ops::Op;

#[derive(Default)]
pub(super) struct Queue {
    /// With what is wrong with them from the beginning.
    in_flight: BTreeMap<u64, (Op, Option<io::ErrorKind>)>,
    /// Over, but the disk hangs.
    held: Vec<u64>,
    /// The number of the last one.
    last: u64,
}

impl Queue {
    pub fn next_number(&self) -> u64 {
        self.last + 1
    }

    pub fn push(&mut self, op: Op, wrong: Option<io::ErrorKind>) -> u64 {
        self.last += 1;
        self.in_flight.insert(self.last, (op, wrong));
        self.last
    }

    pub fn len(&self) -> usize {
        self.in_flight.len()
    }

    pub fn is_idle(&self) -> bool {
        self.in_flight.is_empty() && self.held.is_empty()
    }

    pub fn has(&self, number: u64) -> bool {
        self.in_flight.contains_key(&number)
    }

    pub fn hold(&mut self, number: u64) {
        self.held.push(number);
    }

    pub fn take_held(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.held)
    }

    pub fn take(&mut self, number: u64) -> Option<(Op, Option<io::ErrorKind>)> {
        self.in_flight.remove(&number)
    }

    /// The ops with which nothing is wrong, oldest first.
    pub fn sound(&self) -> impl Iterator<Item = &Op> {
        let ops = self.in_flight.values();
        ops.filter_map(|(op, wrong)| wrong.is_none().then_some(op))
    }

    /// Forgets the ops of a process that died. Returns those with which nothing is wrong, oldest first.
    pub fn abandon(&mut self) -> Vec<Op> {
        self.held.clear();
        let ops = std::mem::take(&mut self.in_flight).into_values();
        ops.filter_map(|(op, wrong)| wrong.is_none().then_some(op))
            .collect()
    }
}
