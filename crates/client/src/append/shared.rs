//! The state that the writer and the driver's thread share, and how they call each other.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use talk::{AppendError, COALESCE_BYTES, Closed};

use crate::line::StreamName;
use crate::stage::{NEVER, OVER, Stage};

/// The state that the writer and the driver's thread share.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    /// Small writes that are not in the ring yet.
    pub stage: Stage,
    /// Something was acknowledged, or given back, or is over.
    pub changed: Condvar,
    /// An eventfd: the driver sleeps in poll, where a condition variable does not reach.
    wake: Arc<OwnedFd>,
    /// The first stream.
    pub first: StreamName,
    /// From when the machine counts time.
    began: Instant,
}

#[derive(Debug)]
pub(super) struct State {
    pub machine: talk::Appender,
    pub abandoned: bool,
    pub outcome: Option<Result<Closed, AppendError>>,
    /// The driver is in poll, or about to be, and wants to be woken by more to send.
    pub driver_sleeps: bool,
    /// Writers in `changed`.
    pub waiters: u32,
}

impl State {
    pub fn has_to_send(&self) -> bool {
        self.machine.sending().is_some()
    }

    pub fn error(&self) -> Option<AppendError> {
        match &self.outcome {
            None => None,
            Some(Ok(_)) => Some(AppendError::Closed),
            Some(Err(error)) => Some(error.clone()),
        }
    }
}

impl Shared {
    pub fn new(
        state: State,
        stage: Stage,
        wake: Arc<OwnedFd>,
        first: StreamName,
        began: Instant,
    ) -> Self {
        Self {
            state: Mutex::new(state),
            stage,
            changed: Condvar::new(),
            wake,
            first,
            began,
        }
    }

    pub fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Locks the state. The holder of the lock sees in the ring all that was written, as far as the ring has room.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        // The state is consistent between any two statements that could panic under the lock.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.stage.drain(state.machine.ring_mut());
        state
    }

    pub fn wait<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.waiters += 1;
        let mut state = self
            .changed
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner);
        state.waiters -= 1;
        self.stage.drain(state.machine.ring_mut());
        state
    }

    /// The driver is about to sleep, because it has nothing to send. False if it has by now.
    pub fn fall_asleep(&self, state: &mut State) -> bool {
        state.driver_sleeps = true;
        if self.ask_attention(state) {
            self.awake(state);
        }
        state.driver_sleeps
    }

    pub fn awake(&self, state: &mut State) {
        state.driver_sleeps = false;
        self.ask_attention(state);
    }

    pub fn wake_driver(&self, state: &mut State) {
        if state.driver_sleeps {
            self.awake(state);
            // Fails only if the counter is about to overflow, and then the driver is awake.
            let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        }
    }

    /// Has everything below `position` sent without waiting for company.
    pub fn flush(&self, state: &mut State, position: u64) {
        state.machine.flush(position);
        if state.has_to_send() {
            self.wake_driver(state);
        }
    }

    /// Says until which position small writes need not call anybody: to be called when anything
    /// below changes. True if that position is reached.
    pub fn ask_attention(&self, state: &State) -> bool {
        if state.outcome.is_some() || state.machine.is_closing() {
            // Every write calls, and hears why it may not. The driver need not hear of any.
            self.stage.ask_attention(OVER);
            return false;
        }
        let ring = state.machine.ring();
        self.stage
            .ask_attention(if !state.driver_sleeps || !state.machine.is_writing() {
                NEVER
            } else if ring.sent() == ring.acknowledged() {
                ring.sent() + 1
            } else {
                ring.sent() + COALESCE_BYTES
            })
    }
}
