//! The way from a disk's records to where an engine begins again.

use ops::Disk;
use paxos::mutation::{self, Mutation};
use paxos::{Checkpoint, PromisedTerm, Recovery, RecoveryError};
use thiserror::Error;

use super::recovery::Refusal;
use super::{RecoverError, RecoveredRecord, RecoveryReport, Store, StoreConfig};

/// Feeds [`paxos::Recovery`] with what [`Store::recover`] finds.
#[derive(Default)]
pub struct Replay {
    /// Begins with the first record, which is always a checkpoint.
    recovery: Option<Recovery>,
    error: Option<RecoveryError>,
}

#[derive(Debug, Error)]
pub enum ReplayError {
    #[error(transparent)]
    Recover(#[from] RecoverError),
    #[error(
        "the records contradict each other ({0:?}): this must not happen; keep the directory for inspection and let the node join as a new one"
    )]
    Contradiction(RecoveryError),
}

impl Store {
    /// [`Store::recover`], and the checkpoint that the engine begins with. [`Store::go_on`] or
    /// [`Store::roll`] comes next, with this very checkpoint.
    pub fn replay(
        config: StoreConfig,
        disk: &mut dyn Disk,
    ) -> Result<(Store, RecoveryReport, Checkpoint), ReplayError> {
        let mut replay = Replay::default();
        let directory = config.directory.clone();
        let (store, mut report, losses) =
            Store::find(config, disk, &mut |record| replay.feed(record))?;
        let checkpoint = replay.finish()?;
        let mut checkpoint = checkpoint.ok_or(RecoverError::Undecided {
            path: directory,
            refusal: Refusal::NoCheckpoint,
        })?;
        report.corruptions = losses.damage(&store, Some(&checkpoint));
        // Every record tells the promise: a later one still does where the promise's own record cannot be
        // read. (I4: a promise is never forgotten.)
        checkpoint.promised = checkpoint.promised.max(report.promised);
        if mutation::is(Mutation::PromiseNotPersisted) {
            let accepted = checkpoint.accepted.iter().map(|run| run.term.0).max();
            checkpoint.promised = PromisedTerm(accepted.unwrap_or_default());
        }
        Ok((store, report, checkpoint))
    }
}

impl Replay {
    pub fn feed(&mut self, record: RecoveredRecord) {
        if self.error.is_some() {
            return;
        }
        if let Err(error) = self.try_feed(record) {
            self.error = Some(error);
        }
    }

    fn try_feed(&mut self, record: RecoveredRecord) -> Result<(), RecoveryError> {
        match (record, &mut self.recovery) {
            (RecoveredRecord::Checkpoint(checkpoint), None) => {
                let mut recovery = Recovery::new(checkpoint.state.clone());
                recovery.on_checkpoint(checkpoint);
                self.recovery = Some(recovery);
                Ok(())
            }
            // Promise and state records carry all that a checkpoint does.
            (
                RecoveredRecord::Checkpoint(checkpoint)
                | RecoveredRecord::Promise(checkpoint)
                | RecoveredRecord::State(checkpoint),
                Some(recovery),
            ) => {
                recovery.on_checkpoint(checkpoint);
                Ok(())
            }
            (RecoveredRecord::Accept { term, slots, value }, Some(recovery)) => {
                recovery.on_accept(term, slots, value)
            }
            (RecoveredRecord::Chosen(slot), Some(recovery)) => recovery.on_chosen(slot),
            // Nothing can be believed before the first checkpoint; a gap is the report's business.
            _ => Ok(()),
        }
    }

    /// `None` if no checkpoint was fed.
    pub fn finish(self) -> Result<Option<Checkpoint>, ReplayError> {
        match self.error {
            Some(error) => Err(ReplayError::Contradiction(error)),
            None => Ok(self.recovery.map(Recovery::finish)),
        }
    }
}
