//! What the writer and the driver's thread share, and how they call each other.

use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::{AppendError, Closed, Statistics};
use crate::line::StreamName;
use crate::ring::Ring;
use crate::stage::{NEVER, OVER, Stage};

/// This much is sent even while earlier bytes are not acknowledged; less waits for company.
const COALESCE_BYTES: u64 = 64 << 10;

/// What the writer and the driver's thread share.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    /// Small writes that are not in the ring yet.
    pub stage: Stage,
    /// Something was acknowledged, or given back, or is over.
    pub changed: Condvar,
    /// An eventfd: the driver sleeps in poll, where a condition variable does not reach.
    pub wake: OwnedFd,
}

#[derive(Debug)]
pub(super) struct State {
    pub ring: Ring,
    /// A flush asked for everything below to be sent now.
    pub flush_to: u64,
    pub closing_since: Option<Instant>,
    pub abandoned: bool,
    pub outcome: Option<Result<Closed, AppendError>>,
    pub first: StreamName,
    /// The stream being written and the chain position at which it begins.
    pub last: StreamName,
    pub base: u64,
    pub statistics: Statistics,
    /// The driver is in poll, or about to be, and wants to be woken by more to send.
    pub driver_sleeps: bool,
    /// Writers in `changed`.
    pub waiters: u32,
    /// The present connection, to be broken when the appender is dropped.
    pub connection: Option<TcpStream>,
}

impl State {
    pub fn has_to_send(&self) -> bool {
        let unsent = self.ring.unsent();
        unsent > 0
            // (There is nothing to wait for where nothing more fits in.)
            && (unsent >= COALESCE_BYTES
                || self.ring.is_full()
                || self.ring.sent() == self.ring.acknowledged()
                || self.flush_to > self.ring.sent()
                || self.closing_since.is_some())
    }

    pub fn all_acknowledged(&self) -> bool {
        self.ring.acknowledged() == self.ring.written()
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
    pub fn new(state: State, stage: Stage, wake: OwnedFd) -> Self {
        Self {
            state: Mutex::new(state),
            stage,
            changed: Condvar::new(),
            wake,
        }
    }

    /// Whoever holds the lock sees in the ring all that was written, as far as the ring has room.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        // The state is consistent between any two statements that could panic under the lock.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.stage.drain(&mut state.ring);
        state
    }

    pub fn wait<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.waiters += 1;
        let mut state = self
            .changed
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner);
        state.waiters -= 1;
        self.stage.drain(&mut state.ring);
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
        state.flush_to = state.flush_to.max(position);
        if state.has_to_send() {
            self.wake_driver(state);
        }
    }

    /// Says until which position small writes need not call anybody: to be called when anything
    /// below changes. True if that position is reached.
    pub fn ask_attention(&self, state: &State) -> bool {
        if state.outcome.is_some() || state.closing_since.is_some() {
            // Every write calls, and hears why it may not. The driver need not hear of any.
            self.stage.ask_attention(OVER);
            return false;
        }
        self.stage.ask_attention(if !state.driver_sleeps {
            NEVER
        } else if state.ring.sent() == state.ring.acknowledged() {
            state.ring.sent() + 1
        } else {
            state.ring.sent() + COALESCE_BYTES
        })
    }
}
