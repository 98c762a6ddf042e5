//! The requests of people to the cluster and its answers, in the order in which they happened.
//!
//! Each attempt is an entry of its own: one that was never answered may have been heard all the same,
//! and take effect at any time. The world runs in one thread, so the order of the entries is that of
//! the real world.

use std::cell::RefCell;
use std::rc::Rc;

#[derive(Clone, Debug, Default)]
pub struct Ledger(Rc<RefCell<Entries>>);

#[derive(Debug, Default)]
struct Entries {
    attempts: u64,
    /// Entries that nobody has looked at yet.
    new: Vec<Entry>,
}

/// One request on one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attempt(pub u64);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// The request without version and LF.
    Asked {
        attempt: Attempt,
        request: String,
    },
    Heard {
        attempt: Attempt,
        answer: Answer,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Without its LF.
    Line(String),
    /// So many bytes of this client's stream were acknowledged.
    Acknowledged { client: u64, bytes: u64 },
    /// All of a log's output, to its end.
    Output(Vec<u8>),
}

impl Ledger {
    pub fn ask(&self, request: &str) -> Attempt {
        let entries = &mut *self.0.borrow_mut();
        entries.attempts += 1;
        let attempt = Attempt(entries.attempts);
        let request = request.to_owned();
        entries.new.push(Entry::Asked { attempt, request });
        attempt
    }

    pub fn hear(&self, attempt: Attempt, answer: Answer) {
        let entry = Entry::Heard { attempt, answer };
        self.0.borrow_mut().new.push(entry);
    }

    pub(crate) fn take(&self) -> Vec<Entry> {
        std::mem::take(&mut self.0.borrow_mut().new)
    }
}
