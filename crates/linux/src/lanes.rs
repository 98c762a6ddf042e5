//! Lanes: threads for work that a machine gives away, one for each lane that was ever used.

use std::collections::BTreeMap;
use std::sync::Arc;

use ops::{Completion, Lane, Token, Work};

use crate::disk_thread::Worker;
use crate::inbox::{Inbox, Reply};

/// Dropping them waits for the work that each has begun. The rest is dropped undone: who needs it done waits for its `Ran`.
pub(crate) struct Lanes {
    inbox: Arc<Inbox>,
    workers: BTreeMap<Lane, Worker>,
}

impl Lanes {
    pub fn new(inbox: Arc<Inbox>) -> Lanes {
        Lanes {
            inbox,
            workers: BTreeMap::new(),
        }
    }

    pub fn run(&mut self, token: Token, lane: Lane, work: Work, completions: &mut Vec<Completion>) {
        if !self.workers.contains_key(&lane) {
            match Worker::start(format!("lane-{}", lane.0), self.inbox.clone()) {
                Ok(worker) => _ = self.workers.insert(lane, worker),
                Err(error) => {
                    let result = Err(format!("there is no thread for it: {error}"));
                    return completions.push(Completion::Ran { token, result });
                }
            }
        }
        if let Some(worker) = self.workers.get(&lane) {
            worker.put(move || {
                let result = work.perform();
                Some(Reply::Completed(Completion::Ran { token, result }))
            });
        }
    }
}

impl Drop for Lanes {
    /// All are told before one is waited for.
    fn drop(&mut self) {
        self.workers.values().for_each(Worker::abandon);
    }
}
