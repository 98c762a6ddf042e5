//! Writes the rest of a store, and closes it.

use std::io;

use ops::{Completion, Machine, Op, Time};
use store::{Store, StoreEvent};

/// A machine for any kernel; it finishes when all is durable, or a write failed.
pub struct Seal {
    store: Store,
    failed: Option<io::Error>,
    closing: bool,
    closed: bool,
}

impl Seal {
    pub(super) fn new(store: Store) -> Seal {
        Seal {
            store,
            failed: None,
            closing: false,
            closed: false,
        }
    }

    pub fn outcome(self) -> io::Result<()> {
        self.failed.map_or(Ok(()), Err)
    }

    fn go_on(&mut self) {
        while let Some(event) = self.store.poll_event() {
            if let StoreEvent::Failed(error) = event {
                self.failed.get_or_insert(error);
            }
        }
        if self.store.queued_bytes() == 0 && !self.closing {
            self.closing = true;
            self.store.close();
        }
        self.closed = self.closing && self.store.is_closed();
    }
}

impl Machine for Seal {
    fn handle(&mut self, now: Time, completion: Completion) {
        self.store.on_completion(now, completion);
        self.go_on();
    }

    fn on_time(&mut self, now: Time) {
        self.store.on_time(now);
        self.go_on();
    }

    fn poll_op(&mut self) -> Option<Op> {
        self.store.poll_op()
    }

    fn deadline(&self) -> Option<Time> {
        self.store.deadline()
    }

    fn is_finished(&self) -> bool {
        self.closed || self.failed.is_some()
    }
}
