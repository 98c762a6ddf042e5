//! Waiting for what was written to be chosen, on any thread.

use std::sync::Arc;

use talk::AppendError;

use super::shared::Shared;

/// The acknowledged part of an [`Appender`](super::Appender)'s chain, for other threads than the one that
/// writes. Cheap to clone; outlives the appender.
#[derive(Clone, Debug)]
pub struct Acknowledgements {
    shared: Arc<Shared>,
}

impl Acknowledgements {
    pub(super) fn of(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Everything below this chain position is chosen.
    pub fn position(&self) -> u64 {
        self.shared.lock().machine.acknowledged()
    }

    /// Has sent what waits for company and returns when everything below `position` is chosen,
    /// also what is not written yet.
    ///
    /// Errors: why it will not be chosen by this appender; [`AppendError::Dropped`] if that is
    /// gone.
    pub fn wait(&self, position: u64) -> Result<(), AppendError> {
        wait(&self.shared, position)
    }
}

pub(super) fn wait(shared: &Shared, position: u64) -> Result<(), AppendError> {
    let mut state = shared.lock();
    shared.flush(&mut state, position.min(shared.stage.pushed()));
    while state.machine.acknowledged() < position {
        if let Some(error) = state.error() {
            return Err(error);
        }
        state = shared.wait(state);
    }
    Ok(())
}
